"""The words of a text that a file name uses: in Latin letters, without articles, prepositions and similar words."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from itertools import groupby

from imgproc_local.domain.filename import make_slug
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.vision.languages import language_table
from imgproc_local.vision.text.language import function_words
from imgproc_local.vision.text.words import letters_by_script

_OPEN = "".join(map(chr, range(0xAC00, 0xD7A4, 28)))
"""The Hangul syllables without a final consonant."""
_PARTICLE = re.compile(
    rf"(?:(?<=[가-힣]{{2}})(?:(?<=[{_OPEN}])[를가와]|(?<![{_OPEN}])(?:[을과]|으로)|(?<=들)이|의|에)"
    r"|(?<=[가-힣])(?:에서|에게|까지|부터)[는도]?)(?![가-힣])"
)
"""A Korean particle after the word that it is written together with. Those that are endings of verbs, too, or often the
end of a noun ("고양이", a cat), are not among them."""


def content_words(text: str, language: str, text_language: str | None) -> list[str]:
    """The words of the slug of `text`, without function words of its language and of `language`."""
    omitted = _stop_words(language) | _stop_words(text_language or language)
    content = _PARTICLE.sub("", text)
    content = re.sub(r"(?<!\w)[^\W\d_]+(?!\w)", lambda word: "" if _is_stop_word(word, omitted) else word[0], content)
    words = slug_words(content, language, text_language, _romanised_stop_words(text, text_language or language))
    # an article may be part of a name: La Boca, Le Mans
    may_be_name = len(words) == 1 and not content.strip()[:1].islower()
    return words if words and not may_be_name else slug_words(text, language, text_language)


def _is_stop_word(word: re.Match[str], stop_words: Collection[str]) -> bool:
    """Whether `word` is one of `stop_words`, and neither an abbreviation in capitals (IT) nor a letter (Vitamin A)."""
    is_abbreviation_or_letter = word[0].isupper() and (len(word[0]) > 1 or word.start() > 0)
    return word[0].lower() in stop_words and not is_abbreviation_or_letter


def slug_words(text: str, language: str, text_language: str | None, omitted: Collection[str] = ()) -> list[str]:
    """The words of the slug of `text`, without immediate repetitions. `text_language` is None if unknown."""
    return [word for word, _ in groupby(make_slug(text, language, text_language, omitted).split("-")) if word]


def _romanised_stop_words(text: str, language: str) -> Collection[str]:
    """The romanised words that the name of a picture omits if `text` is in another script than Latin."""
    letters = letters_by_script(text)
    is_latin = 2 * letters["latin"] > sum(letters.values())
    return () if is_latin or language not in LANGUAGES else language_table(language).romanised_stop_words.split()


@cache
def _stop_words(language: str) -> frozenset[str]:
    """The words of `language` that file names omit; empty for languages that the service does not support."""
    if language not in LANGUAGES:
        return frozenset()
    return function_words(language) | frozenset(language_table(language).stop_words.split())
