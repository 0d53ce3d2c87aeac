"""Descriptions that need no model. Their sources are the embedded metadata, the file name and the pixels.

An alt text or caption that a person wrote in the requested language is used, and shortened if it is long. A text in
another language is never translated: it is quoted in a sentence that is generated from facts, in which the names of
persons, events and places are unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta

from msgspec.structs import replace

from imgproc_local.domain.alt_text import MAX_ALT_CHARS, PREFERRED_ALT_CHARS
from imgproc_local.domain.filename import FALLBACK_STEM, MAX_SLUG_WORDS, make_slug
from imgproc_local.domain.plan import DEFAULT_PROJECT_NAME
from imgproc_local.domain.privacy import clean_text
from imgproc_local.domain.result import NeedsTextReason, TextSource, Translation
from imgproc_local.vision.describer import Hints, TextInPicture
from imgproc_local.vision.facts.texts import LocalizedText, PictureTexts, collect_texts, first_in, with_languages
from imgproc_local.vision.languages import MAX_QUOTE_CHARS, Mentions, capitalized, country_name, sentence, slug_kind
from imgproc_local.vision.text.human_words import filename_number, human_text, without_markup
from imgproc_local.vision.text.language import detect_language, is_name, is_readable, may_be_in
from imgproc_local.vision.text.slug_words import content_words, slug_words
from imgproc_local.vision.text.words import shorten

_PREFERRED_QUOTE_CHARS = 100
"""A quotation is shortened to this length if whole sentences can be omitted, and always if names follow it."""

_UNSET_CLOCK_DATES = frozenset(("1904-01-01", "1970-01-01", "1980-01-01", "2000-01-01"))
"""The dates at which the clocks of cameras start. A picture has one of them if the clock was never set."""


_Month = tuple[int, int]
"""Year and month."""


def describe_from_facts(
    languages: Sequence[str], hints: Hints, today: Callable[[], date] = date.today
) -> tuple[Translation, ...]:
    """One translation per language, in their order, for a picture whose content no model has seen.

    `today` returns the current date: a capture date more than one day later is ignored, as wrong.
    """
    texts = collect_texts(hints.embedded, hints.original_filename, languages)
    month = _capture_month(hints.embedded.created, today())
    return tuple(_describe_in_language(language, hints, texts, month) for language in languages)


def _image_of_text(hints: Hints, language: str) -> tuple[str, NeedsTextReason | None]:
    """The alt text in `language` of an image of text, "" for other pictures; and why a person has to write another.

    The alt text is the text in the picture, never translated. If readers of `language` can't read it, or it is only a
    part of what the picture shows, the alt text is a sentence in `language` that quotes it.
    """
    text = hints.text_in_picture.text
    if not hints.text_in_picture.is_image_of_text or is_image_of_readable_text(hints, language):
        return (text if hints.text_in_picture.is_image_of_text else ""), None
    read = LocalizedText(text, detect_language(text))
    quote = shorten(text, PREFERRED_ALT_CHARS, MAX_QUOTE_CHARS)
    is_in_language = _is_in(read, language)
    quote_language = "" if is_in_language else read.language or ""
    alt = sentence(language, hints.facts, Mentions(quote=quote, quote_language=quote_language))
    return alt, None if is_in_language else NeedsTextReason.OTHER_LANGUAGE


def is_image_of_readable_text(hints: Hints, language: str) -> bool:
    """Whether the text in the picture is its alt text in `language`, so that no model has to describe it.

    It is an image of text, readers of `language` can read the text, and as a whole it is short enough. Screenshots show
    more than their text: a program, a conversation. The language of a few words, such as a name on a sign, is usually
    unknown; then their letters decide.
    """
    text = hints.text_in_picture.text
    is_complete = hints.text_in_picture.is_image_of_text and len(text) <= MAX_ALT_CHARS
    if hints.facts.kind == "screenshot" or not is_complete:
        return False
    return may_be_in(text, language) and is_readable(text, language)


def _capture_month(created: str | None, today: date) -> _Month | None:
    """Year and month of `created` (`YYYY-MM-DD`); None if it is missing, in the future or from a clock never set."""
    if not created or created in _UNSET_CLOCK_DATES or created > (today + timedelta(days=1)).isoformat():
        return None
    return int(created[:4]), int(created[5:7])


def _describe_in_language(language: str, hints: Hints, texts: PictureTexts, month: _Month | None) -> Translation:
    """The alt text is an embedded text in `language`, else the text of an image of text, else the file name if it reads
    as a caption in `language`, else made from facts."""
    own_alt = next((entry for entry in texts.alt_texts if entry.language == language), None)
    if hints.is_translation and not own_alt:
        own_alt = next((entry for entry in texts.alt_texts if is_name(entry.text, entry.language, language)), None)
    model_alt = first_in(texts.model_alt_texts, language)
    caption = first_in(texts.alt_text_candidates, language)
    typed = first_in(texts.filename_captions, language)
    texts = replace(
        texts,
        places=tuple(country_name(each, language) if each == texts.country else each for each in texts.places),
        filename_captions=() if hints.text_in_picture.is_image_of_text else texts.filename_captions,
    )
    reason = None
    if own_alt or model_alt or caption:
        source = TextSource.EMBEDDED if own_alt or not model_alt else TextSource.VISION
        alt = shorten(own_alt.text if own_alt else model_alt, MAX_ALT_CHARS) or shorten(caption)
        if own_alt and own_alt.is_in_another_language:
            reason = NeedsTextReason.OTHER_LANGUAGE
    else:
        mentions, content = _mentions(language, texts, month)
        image_text, image_reason = _image_of_text(hints, language)
        source = TextSource.FACTS if mentions.has_content or image_text or typed else TextSource.PIXELS
        # a text that a person wrote about the picture is preferred to the text in it, and this to a file name
        if image_text and not mentions.quote:
            alt, reason = image_text, image_reason
        elif typed:
            alt = capitalized(shorten(typed), language)
        else:
            alt = sentence(language, hints.facts, mentions)
            reason = _needs_text_reason(language, content, texts, hints.text_in_picture)
    in_full = first_in([*texts.extended, *texts.model_extended], language)
    return Translation(language, _file_name(language, hints, texts, month), alt, source, reason, in_full)


def _needs_text_reason(
    language: str, content: Sequence[LocalizedText], texts: PictureTexts, text_in_picture: TextInPicture
) -> NeedsTextReason | None:
    """Why a sentence with `content` and the names of `texts` does not describe the picture for readers of `language`.

    A person's name does: it says who is shown. A place does not.
    """
    if any(_is_in(entry, language) for entry in content):
        return None
    if content or not all(is_readable(person, language) for person in texts.persons):
        return NeedsTextReason.OTHER_LANGUAGE
    if texts.persons:
        return None
    if texts.places:
        return NeedsTextReason.PLACE_OR_DATE_ONLY
    return NeedsTextReason.UNREAD_TEXT if text_in_picture.unread_lines else NeedsTextReason.NOTHING_KNOWN


def _is_in(entry: LocalizedText, language: str) -> bool:
    """Whether a text is in `language`, or probably so if its language is unknown."""
    return entry.language == language or (not entry.language and may_be_in(entry.text, language, is_likely=True))


def _mentions(language: str, texts: PictureTexts, month: _Month | None) -> tuple[Mentions, list[LocalizedText]]:
    """What a sentence in `language` may mention: quotations, keywords and names, none of them translated. Also those
    texts among them that are words of a language: the quotation, the keywords and the event.

    Titles and captions in a script that `language` does not use, file names that read as captions, and keywords in
    another language are mentioned only if nothing else is known. An alt text is always quoted.
    """
    # events in the requested language first
    events = sorted(texts.events, key=lambda entry: entry.language != language)[:1]
    has_names = bool(events or texts.persons or texts.places)
    quoted = [*texts.alt_texts, *_readable(texts.titles, language), *_readable(texts.captions, language)][:1]
    leading_keywords = () if quoted else texts.keywords_in(language)
    labelled_keywords: Sequence[str] = ()
    keyword_language = language if texts.keywords_in(language) else None
    if not leading_keywords and (not quoted or quoted[0] in texts.titles):
        # keywords add information to a title, but hardly to an alt text or a caption
        matching = texts.keywords_in(keyword_language)
        known = quoted[0].text.casefold() if quoted else ""
        labelled_keywords = [word for word in matching if is_readable(word, language) and word.casefold() not in known]
    if not (has_names or quoted or leading_keywords or labelled_keywords):
        quoted = [*texts.titles, *texts.captions, *texts.filename_captions][:1]
        if not quoted and texts.keywords:
            keyword_language = texts.keywords[0].language
            labelled_keywords = texts.keywords_in(keyword_language)
    content = [*quoted, *events]
    if keywords := ", ".join((*leading_keywords, *labelled_keywords)):
        content.append(LocalizedText(keywords, keyword_language))
    # the first keyword begins the sentence; the others keep their case
    leading_keywords = (*(capitalized(word, language) for word in leading_keywords[:1]), *leading_keywords[1:])
    max_chars = _PREFERRED_QUOTE_CHARS if has_names else MAX_QUOTE_CHARS
    quote = quoted[0] if quoted else LocalizedText("", None)
    mentions = Mentions(
        quote=shorten(quote.text, _PREFERRED_QUOTE_CHARS, max_chars).rstrip(".。 "),
        quote_language="" if _is_in(quote, language) else quote.language or "",
        verbatim=(*leading_keywords, *(entry.text for entry in events)),
        persons=texts.persons,
        places=texts.places,
        keywords=", ".join(labelled_keywords),
        capture_month=month,
    )
    return mentions, content


def _readable(texts: Sequence[LocalizedText], language: str) -> list[LocalizedText]:
    """The texts that readers of `language` can read: those in it first, then those of unknown language (names)."""
    matching = [entry for entry in texts if is_readable(entry.text, language)]
    return sorted(matching, key=lambda entry: (not _is_in(entry, language), entry.language is not None))


# ---- links and buttons

_ADDRESS = re.compile(r"^/|://|^\S+\w\.[a-z]\S*$", re.IGNORECASE)
"""An address or a file, which says to nobody where a link leads."""


def function_text(hints: Hints, languages: Sequence[str]) -> LocalizedText | None:
    """What a link or button leads to or does, in the words of the client; None without them, and for other pictures.

    If their language is unknown, it is one of `languages`, as that of an alt text.
    """
    text = shorten(" ".join(clean_text(without_markup(hints.context)).text.split()))
    if not hints.has_function or not text or _ADDRESS.search(text):
        return None
    return with_languages([LocalizedText(text, detect_language(text))], languages)[0]


def with_function(texts: Sequence[Translation], hints: Hints) -> tuple[Translation, ...]:
    """The texts from facts of a link or button: that of the client in its language. The others describe the picture
    instead, so a person has to write them, unless the file has an alt text, or the picture shows the words of the
    button. Those of other pictures are unchanged.
    """
    if not hints.has_function:
        return tuple(texts)
    function = function_text(hints, [text.language_code for text in texts])
    reason = NeedsTextReason.OTHER_LANGUAGE if function else NeedsTextReason.NOTHING_KNOWN

    def of_link(text: Translation) -> Translation:
        code = text.language_code
        if function and function.language == code:
            return replace(text, seo_alt_text=function.text, source=TextSource.FACTS, needs_text_reason=None)
        names_itself = not function and is_image_of_readable_text(hints, code)
        has_alt_text = text.source is TextSource.EMBEDDED and hints.embedded.alt_text
        return text if names_itself or has_alt_text else replace(text, needs_text_reason=reason)

    return tuple(map(of_link, texts))


# ---- file names


def _file_name(language: str, hints: Hints, texts: PictureTexts, month: _Month | None) -> str:
    """The slug for the new file name, with the most informative words first. It is never empty.

    Keywords are added to a name of fewer than five words; the kind of picture, the year and the project, in this order,
    to one of fewer than three. A name without texts has the project and the date, or the number in the original name.
    `month` is the year and month in which the picture was taken.
    """
    names = [*texts.persons, *(entry.text for entry in texts.events[:1]), *texts.places]
    candidates = (content_words(each.text, language, each.language) for each in _content_texts(language, hints, texts))
    words = next(filter(None, candidates), [])
    for name in names:
        _append_words(words, name, language)
    for keyword in texts.keywords_in(language) or texts.keywords_in(None):
        if words and len(words) < 5:
            _append_words(words, keyword, language)
    kind = slug_kind(language, hints.facts)
    project = hints.project_name if hints.project_name != DEFAULT_PROJECT_NAME else ""
    project_words = content_words(human_text(project), language, None)
    if words:
        for addition in (kind, str(month[0]) if month else "", " ".join(project_words)):
            if len(words) < 3:
                _append_words(words, addition, language, language)
        return make_slug(" ".join(words), language)
    words = project_words
    number = f"{month[0]}-{month[1]:02}" if month else ""
    if not words or not number:
        number = number or filename_number(hints.original_filename)
        _append_words(words, kind, language, language)
    _append_words(words, number, language)
    return make_slug(" ".join(words), language) or FALLBACK_STEM


def slug_of_alt_text(alt_text: str, language: str) -> str:
    """The slug for the file name that follows an alt text in `language`; "" if none of its words can be romanised."""
    return make_slug(" ".join(content_words(alt_text, language, language)), language)


def _append_words(words: list[str], addition: str, language: str, text_language: str | None = None) -> None:
    """Append the words of `addition`, unless `words` has them already or would have more than `MAX_SLUG_WORDS`."""
    added = slug_words(addition, language, text_language)
    if added and len(words) + len(added) <= MAX_SLUG_WORDS and f"-{'-'.join(added)}-" not in f"-{'-'.join(words)}-":
        words += added


def _content_texts(language: str, hints: Hints, texts: PictureTexts) -> Iterator[LocalizedText]:
    """The texts that may name the file, the best first. Those in another language are last."""
    keywords, untagged_keywords = (LocalizedText(" ".join(texts.keywords_in(code)), code) for code in (language, None))
    best_texts = [*texts.titles, *texts.alt_texts, *texts.model_alt_texts, *texts.alt_text_candidates]
    yield from (entry for entry in best_texts if entry.language == language)
    yield keywords
    yield from (entry for entry in texts.titles if entry.language is None)
    yield untagged_keywords
    if hints.text_in_picture.is_image_of_text:
        yield LocalizedText(hints.text_in_picture.text, detect_language(hints.text_in_picture.text))
    untagged = (entry for entry in texts.captions if entry.language is None)
    others = [*untagged, *texts.alt_texts, *texts.titles, *texts.captions]
    words = " ".join(texts.filename)
    typed = LocalizedText(words, None if words.isascii() else detect_language(words))  # it decides how ö is written
    # one word says less than a caption in another language
    yield from (typed, *others) if len(content_words(words, language, typed.language)) > 1 else (*others, typed)
    yield LocalizedText(" ".join(texts.keywords_in(texts.keywords[0].language) if texts.keywords else ()), None)
