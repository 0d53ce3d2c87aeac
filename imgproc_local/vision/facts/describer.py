"""The describer that needs no model: it says what a picture's words, its file's name and its pixels prove, and no more.

A person's words come first. Text in the requested language is used as it stands; text in another language is never
translated nor passed off as a translation: then the sentence is built from what can be said for certain, names kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from itertools import groupby

from imgproc_local.domain.image import Pixels
from imgproc_local.domain.result import Source, Translation
from imgproc_local.domain.slug import MAX_WORDS, make_slug
from imgproc_local.vision.describer import Hints
from imgproc_local.vision.facts.phrases import Mentions, sentence, slug_words
from imgproc_local.vision.facts.pixels import PixelFacts, look
from imgproc_local.vision.text.embedded_text import Text, Words, collect_texts, first_in_language
from imgproc_local.vision.text.human_words import MAX_CHARS, is_screenshot_name, shortened
from imgproc_local.vision.text.language import function_words, readable

MIN_SLUG_WORDS = 3
MAX_TITLE_CHARS = 80
MAX_CAPTION_CHARS = 100
MAX_KEYWORDS = 5
_RESET_CLOCKS = frozenset(("1904-01-01", "1970-01-01", "1980-01-01", "2000-01-01"))
"""Where a camera's clock stands that was never set: no date of a picture."""


class FactsDescriber:
    """A `Describer` that keeps nothing. GPS it tells only where a setting allows it, and never in a file name."""

    def __init__(self, today: Callable[[], date] = date.today) -> None:
        self._today = today

    def describe(
        self, image: Pixels, languages: Sequence[str], hints: Hints, check_stop: Callable[[], None]
    ) -> tuple[Translation, ...]:
        embedded = hints.embedded
        check_stop()
        looks = look(
            image,
            hints.info,
            # a date alone proves no camera: systems write it into screenshots too
            from_camera=embedded.camera is not None,
            is_screenshot_name=is_screenshot_name(hints.original_filename),
        )
        words = collect_texts(embedded, hints.original_filename, embedded.gps if hints.may_use_gps else None)
        taken = _taken(embedded.created, self._today()) if looks.kind == "photograph" else None
        translations = []
        for language in languages:
            check_stop()
            translations.append(_translate(language, looks, words, taken))
        return tuple(translations)

    def close(self) -> None:
        """Nothing is held."""


def _taken(created: str | None, today: date) -> tuple[int, int] | None:
    """Year and month of EXIF's `YYYY-MM-DD`, None where the clock was never set or lies ahead."""
    if not created or created in _RESET_CLOCKS or created > (today + timedelta(days=1)).isoformat():
        return None
    return int(created[:4]), int(created[5:7])


def _translate(language: str, looks: PixelFacts, words: Words, taken: tuple[int, int] | None) -> Translation:
    own_alt = first_in_language(words.alt_text, language)
    own = own_alt or first_in_language(words.sentences, language)
    if own_alt and len(own_alt) <= MAX_CHARS:
        alt = own_alt
    else:
        alt = shortened(own) if own else sentence(language, looks, _said(language, words, taken))
    source = Source.EMBEDDED if own else Source.FACTS
    return Translation(language, _slug(language, looks, words, own, taken), alt, source)


def _said(language: str, words: Words, taken: tuple[int, int] | None) -> Mentions:
    """What may be said of a person's words in a sentence of `language`: quotations, names, nothing translated."""
    quote = _quotable(language, words.titles, MAX_TITLE_CHARS) or _quotable(language, words.captions, MAX_CAPTION_CHARS)
    own_keywords: list[str] = []
    keywords: list[str] = []
    if not quote:
        own_keywords = _listed(words.keywords, language)
        # they open the sentence; names after them keep their small letters
        own_keywords[:1] = [word[:1].upper() + word[1:] for word in own_keywords[:1]]
    if not quote and not own_keywords:
        keywords = [word for word in _listed(words.keywords, None) if readable(word, language)]
    event = sorted(words.event, key=lambda entry: entry.language != language)
    # one word may be anything; two or more that a person typed are worth hearing, told as what they are
    of_file = " ".join(words.file)
    tell_file = not (quote or own_keywords or keywords) and len(words.file) >= 2 and readable(of_file, language)
    return Mentions(
        quote=quote,
        plain=(*own_keywords, *(entry.text for entry in event[:1])),
        persons=words.persons,
        places=(*words.places, *words.position),
        keywords=", ".join(keywords),
        filename_words=of_file if tell_file and len(of_file) <= MAX_TITLE_CHARS else "",
        taken=taken,
    )


def _listed(keywords: Sequence[Text], language: str | None) -> list[str]:
    """The first keywords in `language`, None for those that say none."""
    return [entry.text for entry in keywords if entry.language == language and len(entry.text) <= 30][:MAX_KEYWORDS]


def _quotable(language: str, texts: Sequence[Text], limit: int) -> str:
    """The first text short enough, best one of unknown language: it may be a name."""
    fitting = [entry for entry in texts if len(entry.text) <= limit and readable(entry.text, language)]
    fitting.sort(key=lambda entry: entry.language is not None)
    return fitting[0].text.rstrip(".。 ") if fitting else ""


def _slug(language: str, looks: PixelFacts, words: Words, human_text: str, taken: tuple[int, int] | None) -> str:
    """Words of the picture, the most telling first; never empty."""
    named = [*words.persons, *words.places]
    content = _content_words(language, words, human_text)
    parts = _slug_words_of(content, language)
    for more in (*named, *slug_words(language, looks, taken)):
        # what the looks give only fills up where people's words are few
        if parts and len(parts) >= MIN_SLUG_WORDS and (content or named) and more not in named:
            break
        added = _slug_words_of(more, language)
        if len(parts) + len(added) <= MAX_WORDS and f"-{'-'.join(added)}-" not in f"-{'-'.join(parts)}-":
            parts += added
    return make_slug(" ".join(parts), language)


def _content_words(language: str, words: Words, human_text: str) -> str:
    """The text that names the content best: in the language asked for, else of no known language."""
    return (
        first_in_language(words.titles, language)
        or human_text
        or " ".join(_listed(words.keywords, language))
        or first_in_language(words.titles, None)
        or " ".join(_listed(words.keywords, None))
        or " ".join(words.file)
        or first_in_language(words.captions, None)
    )


def _slug_words_of(text: str, language: str) -> list[str]:
    parts = [word for word, _ in groupby(make_slug(text, language).split("-")) if word]
    if len(parts) == MAX_WORDS:
        while len(parts) > MIN_SLUG_WORDS and parts[-1] in function_words(language):
            parts.pop()
    return parts
