"""Searches alt texts for the words of `probe_words.toml`, in any case and usually with any ending."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib.resources import files

import msgspec

NUMBERS = {"two": "2", "three": "3", "five": "5"}
"""Words that digits match, too."""
_UNSPACED = frozenset(("ja", "zh", "th"))
"""Languages without spaces between words, in which an entry matches anywhere in a text."""
_PREFIXES = {"ar": "[وفبكل]{0,2}(?:ال|ل)?", "he": "[ושהבלמכ]{0,3}"}
"""Conjunctions, prepositions and articles that are written together with the following word."""


def find_word(text: str, word: str, language: str) -> int | None:
    """The position of `word` in the folded `text` (see `_folded`); None if the text does not contain it."""
    patterns, ignored = _vocabulary(language)
    match = patterns[word].search(_folded(text, ignored))
    return match.start() if match else None


def count_words(text: str, language: str) -> int:
    """The number of distinct words of the language's vocabulary that `text` contains."""
    patterns, ignored = _vocabulary(language)
    folded = _folded(text, ignored)
    return sum(pattern.search(folded) is not None for pattern in patterns.values())


def contains_quote(text: str, quote: str) -> bool:
    """Whether `text` contains `quote` (Latin letters and digits) as a whole word, in any case."""
    return re.search(rf"(?<![a-z0-9]){re.escape(quote.casefold())}(?![a-z0-9])", _folded(text)) is not None


def languages() -> tuple[str, ...]:
    """The codes of all languages with a vocabulary."""
    return tuple(_entries())


def words(language: str) -> dict[str, tuple[str, ...]]:
    """The table of `language`: the entries of each word as written in the file, and under `ignore` phrases."""
    return {word: tuple(entry.strip() for entry in listed.split(",")) for word, listed in _entries()[language].items()}


@cache
def _entries() -> dict[str, dict[str, str]]:
    text = (files(__package__) / "probe_words.toml").read_text(encoding="utf-8")
    return msgspec.toml.decode(text, type=dict[str, dict[str, str]])


@cache
def _vocabulary(language: str) -> tuple[dict[str, re.Pattern[str]], tuple[str, ...]]:
    """A pattern for each word, and the folded phrases that are removed from a text first."""
    listed = words(language)
    ignored = tuple(_folded(entry).strip() for entry in listed.pop("ignore", ()))
    return {word: _pattern(word, entries, language) for word, entries in listed.items()}, ignored


def _pattern(word: str, entries: tuple[str, ...], language: str) -> re.Pattern[str]:
    branches = [_branch(entry, language) for entry in entries]
    if word in NUMBERS:
        branches.append(rf"(?<!\d){NUMBERS[word]}(?!\d)")
    return re.compile("|".join(branches))


def _branch(entry: str, language: str) -> str:
    """The regular expression of one entry, for a folded text."""
    anywhere = entry.startswith("*") or language in _UNSPACED
    start = "" if anywhere else f" {_PREFIXES.get(language, '')}"
    end = "(?= )" if entry.endswith(".") else ""
    return start + re.escape(_folded(entry).strip()) + end


def _folded(text: str, ignored: tuple[str, ...] = ()) -> str:
    """`text` case-folded, with ASCII digits and without the phrases `ignored`.

    Each sequence of other characters becomes one space; there is also a space at each end.
    """
    folded = unicodedata.normalize("NFKC", text).casefold().replace("i\u0307", "i")
    letters = (_ascii_digit(char) if unicodedata.category(char)[0] in "LMN" else " " for char in folded)
    folded = f" {' '.join(''.join(letters).split())} "
    for phrase in ignored:
        folded = folded.replace(phrase, " ")
    return folded


def _ascii_digit(char: str) -> str:
    return str(unicodedata.decimal(char)) if char.isdecimal() else char
