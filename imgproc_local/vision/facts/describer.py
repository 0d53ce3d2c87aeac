"""The describer that needs no model. Its sources are the embedded metadata, the file name and the pixels.

A title or caption that a person wrote in the requested language is used unchanged. Text in another language is never
translated: the sentence is then generated from facts, and the names of persons and places are copied into it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from itertools import groupby

from imgproc_local.domain.image import Pixels
from imgproc_local.domain.result import TextSource, Translation
from imgproc_local.domain.slug import MAX_WORDS, make_slug
from imgproc_local.vision.describer import Hints, PixelFacts
from imgproc_local.vision.facts.phrases import Mentions, sentence, slug_words
from imgproc_local.vision.text.embedded_text import LocalizedText, PictureTexts, collect_texts, first_in_language
from imgproc_local.vision.text.human_words import MAX_ALT_CHARS, shorten
from imgproc_local.vision.text.language import function_words, is_readable

MIN_SLUG_WORDS = 3
"""A slug with fewer words is extended by the kind of picture, its colours and the year."""
MAX_TITLE_CHARS, MAX_CAPTION_CHARS = 80, 100
"""Longer titles and captions are not quoted in a sentence."""
MAX_KEYWORDS, MAX_KEYWORD_CHARS = 5, 30
"""The number of keywords that a sentence mentions, and the length above which a keyword is ignored."""
_UNSET_CLOCK_DATES = frozenset(("1904-01-01", "1970-01-01", "1980-01-01", "2000-01-01"))
"""Dates that a camera writes when its clock was never set."""


class FactsDescriber:
    """A `Describer` without state, for pictures whose content no model has seen.

    A GPS position is mentioned only with `Hints.may_use_gps`, and never in a file name. `today` returns the date after
    which capture dates count as wrong.
    """

    def __init__(self, today: Callable[[], date] = date.today) -> None:
        self._today = today

    def describe(
        self, image: Pixels, languages: Sequence[str], hints: Hints, check_stop: Callable[[], None]
    ) -> tuple[Translation, ...]:
        embedded = hints.embedded
        check_stop()
        facts = hints.facts
        texts = collect_texts(embedded, hints.original_filename, embedded.gps if hints.may_use_gps else None)
        capture_month = _capture_month(embedded.created, self._today()) if facts.kind == "photograph" else None
        translations = []
        for language in languages:
            check_stop()
            translations.append(_describe_in_language(language, facts, texts, capture_month))
        return tuple(translations)

    def close(self) -> None:
        """Does nothing, because there is no memory to free."""


def _capture_month(created: str | None, today: date) -> tuple[int, int] | None:
    """Year and month of `created` (`YYYY-MM-DD`); None without it, with an unset clock, or with a future date."""
    if not created or created in _UNSET_CLOCK_DATES or created > (today + timedelta(days=1)).isoformat():
        return None
    return int(created[:4]), int(created[5:7])


def _describe_in_language(
    language: str, facts: PixelFacts, texts: PictureTexts, capture_month: tuple[int, int] | None
) -> Translation:
    """The embedded text in `language` that is most suitable as an alt text, else a sentence generated from facts."""
    embedded_alt = first_in_language(texts.alt_texts, language)
    embedded_text = embedded_alt or first_in_language(texts.alt_text_candidates, language)
    if embedded_text:
        source = TextSource.EMBEDDED
        alt = embedded_alt if embedded_alt and len(embedded_alt) <= MAX_ALT_CHARS else shorten(embedded_text)
    else:
        mentions = _mentions(language, texts, capture_month)
        source = TextSource.FACTS if _say_content(mentions) else TextSource.PIXELS
        alt = sentence(language, facts, mentions)
    return Translation(language, _slug(language, facts, texts, embedded_text, capture_month), alt, source)


def _say_content(mentions: Mentions) -> bool:
    """Whether the mentions say what the picture shows. A date and the words of a file name do not."""
    return bool(mentions.quote or mentions.verbatim or mentions.persons or mentions.places or mentions.keywords)


def _mentions(language: str, texts: PictureTexts, capture_month: tuple[int, int] | None) -> Mentions:
    """What a sentence in `language` may mention: quotations, keywords and names, none of them translated."""
    quote = _quotation(language, texts.titles, MAX_TITLE_CHARS) or _quotation(
        language, texts.captions, MAX_CAPTION_CHARS
    )
    keywords: list[str] = []
    keywords_of_unknown_language: list[str] = []
    if not quote:
        keywords = _keywords(texts, language)
        # the first keyword begins the sentence; the others keep their case
        keywords[:1] = [word[:1].upper() + word[1:] for word in keywords[:1]]
    if not quote and not keywords:
        keywords_of_unknown_language = [word for word in _keywords(texts, None) if is_readable(word, language)]
    # events in the requested language first
    events = sorted(texts.events, key=lambda entry: entry.language != language)
    # one word may be a code or a number; two or more words that a person typed are likely a description
    filename = " ".join(texts.filename)
    use_filename = (
        not (quote or keywords or keywords_of_unknown_language)
        and len(texts.filename) >= 2
        and len(filename) <= MAX_TITLE_CHARS
        and is_readable(filename, language)
    )
    return Mentions(
        quote=quote,
        verbatim=(*keywords, *(entry.text for entry in events[:1])),
        persons=texts.persons,
        places=(*texts.places, *texts.position),
        keywords=", ".join(keywords_of_unknown_language),
        filename=filename if use_filename else "",
        capture_month=capture_month,
    )


def _keywords(texts: PictureTexts, language: str | None) -> list[str]:
    """The first keywords in `language` that are short enough; None stands for keywords of unknown language."""
    matching = [entry.text for entry in texts.keywords if entry.language == language]
    return [text for text in matching if len(text) <= MAX_KEYWORD_CHARS][:MAX_KEYWORDS]


def _quotation(language: str, texts: Sequence[LocalizedText], max_chars: int) -> str:
    """The first short text in a script of `language`, preferably one of unknown language, because it may be a name."""
    matching = [entry for entry in texts if len(entry.text) <= max_chars and is_readable(entry.text, language)]
    matching.sort(key=lambda entry: entry.language is not None)
    return matching[0].text.rstrip(".。 ") if matching else ""


def _slug(
    language: str, facts: PixelFacts, texts: PictureTexts, embedded_text: str, capture_month: tuple[int, int] | None
) -> str:
    """The slug for the new file name, with the most informative words first. It is never empty."""
    names = [*texts.persons, *texts.places]
    content = _content_text(language, texts, embedded_text)
    words = _split_slug(content, language)
    for addition in (*names, *slug_words(language, facts, capture_month)):
        # if there is a text or a name, words for pixel facts and the date are added only up to MIN_SLUG_WORDS
        if words and len(words) >= MIN_SLUG_WORDS and (content or names) and addition not in names:
            break
        added = _split_slug(addition, language)
        if len(words) + len(added) <= MAX_WORDS and f"-{'-'.join(added)}-" not in f"-{'-'.join(words)}-":
            words += added
    return make_slug(" ".join(words), language)


def _content_text(language: str, texts: PictureTexts, embedded_text: str) -> str:
    """The text that says most about the content: one in the requested language, else one of unknown language."""
    return (
        first_in_language(texts.titles, language)
        or embedded_text
        or " ".join(_keywords(texts, language))
        or first_in_language(texts.titles, None)
        or " ".join(_keywords(texts, None))
        or " ".join(texts.filename)
        or first_in_language(texts.captions, None)
    )


def _split_slug(text: str, language: str) -> list[str]:
    """The words of the slug of `text` without immediate repetitions; a truncated slug ends in no function word."""
    words = [word for word, _ in groupby(make_slug(text, language).split("-")) if word]
    if len(words) == MAX_WORDS:
        while len(words) > MIN_SLUG_WORDS and words[-1] in function_words(language):
            words.pop()
    return words
