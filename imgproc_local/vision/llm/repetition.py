"""Whether a text repeats itself, as the answers of broken or too small models do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from imgproc_local.vision.text.language import UNSPACED
from imgproc_local.vision.text.words import casefolded_words

REPEATED_WORDS = 6
_REPEATED_LETTERS = {"zh": 10, "ja": 14, "th": 30}
"""A text repeats itself if a sequence of this many words (letters in languages without spaces) occurs twice, or a
sequence of half this length occurs four times."""


def repeats_itself(text: str, language: str) -> bool:
    """Whether words, sentences or sequences of characters are repeated more often than in good texts."""
    lower = text.casefold()
    words = casefolded_words(text)
    letters = [char for char in lower if char.isalnum()]
    return (
        _stutters(lower, language)
        or any(first == second == third for first, second, third in zip(words, words[1:], words[2:], strict=False))
        or _repeats_sequence(letters if language in UNSPACED else words, language)
        or (len(words) >= 12 and len(set(words)) < 0.45 * len(words))
        or (len(letters) >= 40 and len(set(pairwise(letters))) < 0.4 * len(letters))
        or _repeats_sentence(lower, language)
    )


def _stutters(lower: str, language: str) -> bool:
    """Whether a sequence of characters with a letter occurs three times in a row, or a letter five times.

    The sequence has at least three characters, in languages without spaces two: elsewhere two may occur three times in
    a row in a word, as in Danish "genererer".
    """
    min_chars = 2 if language in UNSPACED else 3
    sequences = (match[1] for match in re.finditer(rf"(.{{{min_chars},60}}?)\1\1", lower))
    has_letters = any(re.search(r"[^\W\d_]", sequence) for sequence in sequences)
    return has_letters or re.search(r"([^\W\d_])\1{4}", lower) is not None


def _repeats_sequence(units: Sequence[str], language: str) -> bool:
    length = _REPEATED_LETTERS.get(language, REPEATED_WORDS)
    return _max_occurrences(units, length) >= 2 or _max_occurrences(units, length // 2) >= 4


def _max_occurrences(units: Sequence[str], length: int) -> int:
    """The number of occurrences of the most frequent sequence of `length` units."""
    ngrams = Counter(tuple(units[start : start + length]) for start in range(len(units) - length + 1))
    return max(ngrams.values(), default=0)


def _repeats_sentence(lower: str, language: str) -> bool:
    """Whether two sentences of three words or more have at least 80 % of their words in common; see `_units`."""
    sentences = [set(_units(part, language)) for part in re.split(r"[.!?。！？।;]\s*", lower)]
    return any(
        min(len(one), len(other)) > 2 and len(one & other) >= 0.8 * len(one | other)
        for index, one in enumerate(sentences)
        for other in sentences[:index]
    )


def _units(sentence: str, language: str) -> list[str]:
    """The words of a sentence, or pairs of characters in languages without spaces."""
    if language in UNSPACED:
        return [sentence[start : start + 2] for start in range(len(sentence) - 1)]
    return casefolded_words(sentence)
