"""Finds the words of `probe_words.toml` in an alt text, whatever their case and ending."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib.resources import files

import msgspec

NUMBERS = {"two": "2", "three": "3", "five": "5"}
_UNSPACED = frozenset(("ja", "zh", "th"))
"""Words are not parted by spaces: an entry may stand anywhere."""
_PARTICLES = {"ar": "[وفبكل]{0,2}(?:ال|ل)?", "he": "[ושהבלמכ]{0,3}"}
"""Written together with the word that follows: and, in, the …"""


def find(text: str, word: str, language: str) -> int | None:
    """Where `text` first names `word` in `language`, counted in folded characters; None where it does not."""
    patterns, ignored = _vocabulary(language)
    match = patterns[word].search(_folded(text, ignored))
    return match.start() if match else None


def named(text: str, language: str) -> int:
    """How many of all words of the language's vocabulary are in `text`."""
    patterns, ignored = _vocabulary(language)
    folded = _folded(text, ignored)
    return sum(pattern.search(folded) is not None for pattern in patterns.values())


def quotes(text: str, words: str) -> bool:
    """Whether `words`, in Latin letters and figures, stand in `text` as they are; case does not count."""
    return re.search(rf"(?<![a-z0-9]){re.escape(words.casefold())}(?![a-z0-9])", _folded(text)) is not None


def languages() -> tuple[str, ...]:
    return tuple(_entries())


def words(language: str) -> dict[str, tuple[str, ...]]:
    """Every word with its entries as they are written in the file, and `ignore`."""
    return {word: tuple(entry.strip() for entry in listed.split(",")) for word, listed in _entries()[language].items()}


@cache
def _entries() -> dict[str, dict[str, str]]:
    text = (files(__package__) / "probe_words.toml").read_text(encoding="utf-8")
    return msgspec.toml.decode(text, type=dict[str, dict[str, str]])


@cache
def _vocabulary(language: str) -> tuple[dict[str, re.Pattern[str]], tuple[str, ...]]:
    listed = words(language)
    ignored = tuple(_folded(entry).strip() for entry in listed.pop("ignore", ()))
    return {word: _pattern(word, entries, language) for word, entries in listed.items()}, ignored


def _pattern(word: str, entries: tuple[str, ...], language: str) -> re.Pattern[str]:
    branches = [_branch(entry, language) for entry in entries]
    if word in NUMBERS:
        branches.append(rf"(?<!\d){NUMBERS[word]}(?!\d)")
    return re.compile("|".join(branches))


def _branch(entry: str, language: str) -> str:
    inside = entry.startswith("*") or language in _UNSPACED
    start = "" if inside else f" {_PARTICLES.get(language, '')}"
    end = "(?= )" if entry.endswith(".") else ""
    return start + re.escape(_folded(entry).strip()) + end


def _folded(text: str, ignored: tuple[str, ...] = ()) -> str:
    """Small letters, marks and figures of 0 to 9; a space for everything else, and at both ends."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("i\u0307", "i")
    kept = (_figure(char) if unicodedata.category(char)[0] in "LMN" else " " for char in folded)
    folded = f" {' '.join(''.join(kept).split())} "
    for phrase in ignored:
        folded = folded.replace(phrase, " ")
    return folded


def _figure(char: str) -> str:
    return str(unicodedata.decimal(char)) if char.isdecimal() else char
