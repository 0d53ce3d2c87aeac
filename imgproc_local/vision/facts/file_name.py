"""Makes the new file name of a picture from texts that people wrote, else from its project, date and original name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from itertools import groupby

from imgproc_local.domain.filename import FALLBACK_STEM
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.plan import DEFAULT_PROJECT_NAME
from imgproc_local.domain.slug import MAX_WORDS, make_slug
from imgproc_local.vision.describer import Hints
from imgproc_local.vision.facts.phrases import slug_kind
from imgproc_local.vision.languages import language_table
from imgproc_local.vision.text.embedded_text import (
    LocalizedText,
    PictureTexts,
    keywords_in,
    keywords_of_any_language,
)
from imgproc_local.vision.text.filename_words import filename_number
from imgproc_local.vision.text.human_words import human_text
from imgproc_local.vision.text.language import detect_language, function_words

_PREFERRED_WORDS = 5
"""Keywords, if there are any, are added to a name with fewer words."""
MIN_WORDS = 3
"""A name with fewer words is extended by the kind of picture, the year and the project, in this order."""


def file_name(language: str, hints: Hints, texts: PictureTexts, month: tuple[int, int] | None) -> str:
    """The slug for the new file name, with the most informative words first. It is never empty.

    `month` is the year and month in which the picture was taken.
    """
    names = [*texts.persons, *(entry.text for entry in texts.events[:1]), *texts.places]
    candidates = (_content_words(entry, language) for entry in _content_texts(language, hints, texts))
    words = next(filter(None, candidates), [])
    for name in names:
        _append_words(words, name, language)
    for keyword in keywords_in(texts, language) or keywords_in(texts, None):
        if words and len(words) < _PREFERRED_WORDS:
            _append_words(words, keyword, language)
    kind = slug_kind(language, hints.facts)
    project = hints.project_name if hints.project_name != DEFAULT_PROJECT_NAME else ""
    project_words = _content_words(LocalizedText(human_text(project), None), language)
    if words:
        for addition in (kind, str(month[0]) if month else "", " ".join(project_words)):
            if len(words) < MIN_WORDS:
                _append_words(words, addition, language, language)
        return make_slug(" ".join(words), language)
    words = project_words
    number = f"{month[0]}-{month[1]:02}" if month else ""
    if not words or not number:
        number = number or filename_number(hints.original_filename)
        _append_words(words, kind, language, language)
    _append_words(words, number, language)
    return make_slug(" ".join(words), language) or FALLBACK_STEM


def _append_words(words: list[str], addition: str, language: str, text_language: str | None = None) -> None:
    """Append the words of `addition`, unless `words` has them already or would have more than `MAX_WORDS`."""
    added = _slug_words_of(addition, language, text_language)
    if added and len(words) + len(added) <= MAX_WORDS and f"-{'-'.join(added)}-" not in f"-{'-'.join(words)}-":
        words += added


def _content_texts(language: str, hints: Hints, texts: PictureTexts) -> Iterator[LocalizedText]:
    """The texts that may name the file, the best first. Those of the metadata in another language are last."""
    keywords, untagged_keywords = (LocalizedText(" ".join(keywords_in(texts, code)), code) for code in (language, None))
    best_texts = [*texts.titles, *texts.alt_texts, *texts.model_alt_texts, *texts.alt_text_candidates]
    yield from (entry for entry in best_texts if entry.language == language)
    yield keywords
    yield from (entry for entry in texts.titles if entry.language is None)
    yield untagged_keywords
    if hints.text_in_picture and hints.text_in_picture.is_image_of_text:
        yield LocalizedText(hints.text_in_picture.text, detect_language(hints.text_in_picture.text))
    yield LocalizedText(" ".join(texts.filename), None)
    yield from (entry for entry in texts.captions if entry.language is None)
    yield from (*texts.alt_texts, *texts.titles, *texts.captions)
    yield LocalizedText(" ".join(keywords_of_any_language(texts)), None)


def _content_words(text: LocalizedText, language: str) -> list[str]:
    """The words of the slug of `text`, without function words of its language and of `language`."""
    stop_words = _stop_words(language) | _stop_words(text.language or language)
    content = re.sub(
        r"(?<!\w)[^\W\d_]+(?!\w)", lambda word: "" if _is_stop_word(word, stop_words) else word[0], text.text
    )
    words = _slug_words_of(content, language, text.language)
    if len(words) == 1 and not content.strip()[:1].islower():
        # an article may be part of a name: La Boca, Le Mans
        return _slug_words_of(text.text, language, text.language)
    return words or _slug_words_of(text.text, language, text.language)


def _is_stop_word(word: re.Match[str], stop_words: Collection[str]) -> bool:
    """Whether `word` is one of `stop_words`, and neither an abbreviation in capitals (IT) nor a letter (Vitamin A)."""
    is_abbreviation_or_letter = word[0].isupper() and (len(word[0]) > 1 or word.start() > 0)
    return word[0].lower() in stop_words and not is_abbreviation_or_letter


def _slug_words_of(text: str, language: str, text_language: str | None) -> list[str]:
    """The words of the slug of `text`, without immediate repetitions. `text_language` is None if unknown."""
    return [word for word, _ in groupby(make_slug(text, language, text_language).split("-")) if word]


@cache
def _stop_words(language: str) -> frozenset[str]:
    """The words of `language` that file names omit; empty for languages that the service does not support."""
    if language not in LANGUAGES:
        return frozenset()
    return function_words(language) | frozenset(language_table(language).stop_words.split())
