"""Scores the languages of a short text by its words and n-grams, with a table of weights.

`models/language/README.md` says how the table, `ngrams.bin`, was made, and names its sources and their licences. It
holds one linear classifier for each script. A feature is a word or an n-gram of up to five letters, where a space marks
either end of a word, and has one weight for each language. All languages that the table does not distinguish are one
further class, which also contains names. The table is loaded for the first text, in about 5 ms, and occupies 3 MB.
"""

from __future__ import annotations

import math
import re
import unicodedata
import zlib
from binascii import hexlify
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import resources

import msgspec
from msgspec import Struct

MAX_CHARS = 400
"""The number of characters of a text that are scored. A longer text is judged by its beginning."""

_HEX_VALUES = bytes.maketrans(b"0123456789abcdef", bytes(range(16)))
_APOSTROPHES = str.maketrans({"’": "'", "ʼ": "'"})
_WORD = re.compile(r"[^\W\d_]+(?:['ʻ·][^\W\d_]+)*")


class _Classifier(Struct, frozen=True):
    """The classifier of one script, as views of the file.

    `hashes` are the CRC-32 sums of the features in ascending order, `factors` one byte per feature, and `weights` four
    bits per feature and language. `biases` are the scores before any feature; those of rare languages are lower.
    """

    languages: tuple[str, ...]
    biases: tuple[float, ...]
    hashes: memoryview
    factors: memoryview
    weights: memoryview


class _Header(Struct, frozen=True):
    """The head of one classifier in the file; `features` is the number of its features."""

    script: str
    languages: tuple[str, ...]
    biases: tuple[float, ...]
    features: int


@lru_cache(maxsize=16)
def probabilities(text: str, script: str) -> dict[str, float]:
    """The probability of each language that is written in `script`, "latin" or "cyrillic"; "" stands for all others.

    The result is cached and must not be changed.
    """
    classifier = _classifiers()[script]
    scores: Sequence[float] = classifier.biases
    row_bytes = (len(scores) + 1) // 2
    for feature, value in _features_of(text).items():
        checksum = zlib.crc32(feature.encode())
        index = bisect_left(classifier.hashes, checksum)
        if index == len(classifier.hashes) or classifier.hashes[index] != checksum:
            continue
        # a factor is stored times 40, and a weight as an integer from 0 to 15
        step = value * classifier.factors[index] / 40
        row = hexlify(classifier.weights[index * row_bytes : (index + 1) * row_bytes]).translate(_HEX_VALUES)
        scores = [score - step * weight for score, weight in zip(scores, row, strict=False)]
    largest = max(scores)
    exponentials = [math.exp(score - largest) for score in scores]
    total = sum(exponentials)
    return {code: value / total for code, value in zip(classifier.languages, exponentials, strict=True)}


def _features_of(text: str) -> dict[str, float]:
    """The features of `text` with their values. The n-grams of a word share a value that grows with its length."""
    features: dict[str, float] = defaultdict(float)
    normalized = unicodedata.normalize("NFC", text[:MAX_CHARS]).lower().translate(_APOSTROPHES)
    for match in _WORD.findall(normalized):
        # French and Italian articles end with an apostrophe
        for word in filter(None, re.split("(?<=')", match)):
            spaced = f" {word} "
            ngrams = [
                spaced[start : start + length]
                for length in range(1, 6)
                for start in range(len(spaced) - length + 1)
                if length > 1 or spaced[start] != " "
            ]
            for ngram in ngrams:
                features[ngram] += 1 / math.sqrt(len(ngrams))
            features["=" + word] += 1
    return features


@cache
def _classifiers() -> dict[str, _Classifier]:
    """The classifiers by script. The file has a line of JSON, and then the arrays of each script."""
    data = memoryview(resources.files(__package__).joinpath("ngrams.bin").read_bytes())
    start = data.obj.index(b"\n") + 1  # type: ignore[attr-defined]
    table = {}
    for header in msgspec.json.decode(data[:start], type=tuple[_Header, ...]):
        sizes = (4 * header.features, header.features, (len(header.languages) + 1) // 2 * header.features)
        hashes, factors, weights = (data[start + sum(sizes[:i]) : start + sum(sizes[: i + 1])] for i in range(3))
        start += sum(sizes)
        # the processors that the service supports are little-endian
        table[header.script] = _Classifier(header.languages, header.biases, hashes.cast("I"), factors, weights)
    return table
