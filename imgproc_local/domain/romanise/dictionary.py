"""Segmentation and romanisation of scripts without spaces, with a dictionary (Japanese, Chinese, Thai).

A dictionary is a gzip file of UTF-8 lines, which `build/dictionaries.py` generates:

    one line with a character per word class, which says how its words are written: `<` as one word with the word
        before them, `>` as one word with the word after them, `.` as words of their own
    one line per class: the costs of a word of this class followed by a word of each class, separated by spaces
    an empty line
    one line per written form, sorted by bytes: the form, a tab, its readings separated by spaces. A reading is
        `latin,class,cost`

As in MeCab, the more frequent a word or a pair of classes is, the lower is its cost, and the segmentation with the
lowest sum of costs is used. Entries are searched in one block of bytes: a dict of them would need ten times the memory.
"""

from __future__ import annotations

import gzip
import re
from bisect import bisect_left
from functools import cache
from importlib.resources import files

from msgspec import Struct

MAX_WORD_CHARS = 16
"""Longer entries are never found."""
MAX_SEGMENTED_CHARS = 200
"""Further characters of a text are ignored: a slug is full before that."""
_DEFAULT_CLASS = 0
"""The class given to words without an entry: in Japanese that of general nouns, which are not joined to neighbours."""
_SINGLE_COST = 1200
_GROUPED_COST = 400
"""The costs of words without an entry: a single character, and a match of `grouped`. Those of entries are lower."""


class Word(Struct, frozen=True):
    """A word of a segmented text. `latin` is "" if it has no reading. `joins` is that of its class: `<`, `>` or `.`."""

    written: str
    latin: str
    word_class: int
    cost: int
    joins: str = "."


class _Path(Struct, frozen=True):
    """The cheapest segmentation that ends with `word`, with `before` as all but its last word."""

    cost: int
    word: Word
    before: _Path | None


class _Entries:
    """The lines of a dictionary as a sequence for `bisect`: the item at each byte is the line that contains it."""

    def __init__(self, lines: bytes) -> None:
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, position: int) -> bytes:
        start = self._lines.rfind(b"\n", 0, position) + 1
        return self._lines[start : self._lines.find(b"\n", position)]


class Dictionary:
    """The words of a language with their romanisation."""

    def __init__(self, content: bytes) -> None:
        header, _, entries = content.partition(b"\n\n")
        self._joins, *rows = header.decode().split("\n")
        self._costs = [[int(cost) for cost in row.split()] for row in rows]
        self._entries = entries if entries.endswith(b"\n") else entries + b"\n"

    def readings(self, written: str) -> tuple[list[Word], bool]:
        """The entries whose form is `written`, and whether longer forms begin with it."""
        key = written.encode()
        first = bisect_left(_Entries(self._entries), key)
        line_end = self._entries.find(b"\n", first)
        start = self._entries.rfind(b"\n", 0, first) + 1
        if line_end < 0 or not self._entries.startswith(key, start):
            return [], False
        if not self._entries.startswith(key + b"\t", start):
            return [], True
        words = []
        for reading in self._entries[start + len(key) + 1 : line_end].decode().split(" "):
            latin, word_class, cost = reading.split(",")
            words.append(Word(written, latin, int(word_class), int(cost), self._joins[int(word_class)]))
        return words, self._entries.startswith(key, line_end + 1)

    def segment(self, text: str, grouped: re.Pattern[str] | None = None) -> list[Word]:
        """The words of the cheapest segmentation of `text`.

        A match of `grouped` is also considered as one word, without a reading, beside the entries that begin there.
        """
        text = text[:MAX_SEGMENTED_CHARS]
        paths: list[list[_Path]] = [[] for _ in range(len(text) + 1)]
        for start in range(len(text)):
            if start and not paths[start]:
                continue
            for word in self._words_at(text, start, grouped):
                end = start + len(word.written)
                path = self._extend(paths[start], word)
                paths[end] = [
                    old for old in paths[end] if old.word.word_class != word.word_class or old.cost < path.cost
                ]
                if all(old.word.word_class != word.word_class for old in paths[end]):
                    paths[end].append(path)
        words: list[Word] = []
        last = min(paths[-1], key=lambda path: path.cost, default=None)
        while last is not None:
            words.append(last.word)
            last = last.before
        return words[::-1]

    def _extend(self, before: list[_Path], word: Word) -> _Path:
        """The cheapest of the paths `before` followed by `word`."""
        if not before:
            return _Path(word.cost, word, None)
        cost, best = min(
            ((path.cost + self._costs[path.word.word_class][word.word_class], path) for path in before),
            key=lambda pair: pair[0],
        )
        return _Path(cost + word.cost, word, best)

    def _words_at(self, text: str, start: int, grouped: re.Pattern[str] | None) -> list[Word]:
        """All words that begin at `start`; at least one."""
        words: list[Word] = []
        for end in range(start + 1, min(len(text), start + MAX_WORD_CHARS) + 1):
            found, has_longer = self.readings(text[start:end])
            words += found
            if not has_longer:
                break
        match = grouped.match(text, start) if grouped else None
        if match:
            words.append(Word(match[0], "", _DEFAULT_CLASS, _GROUPED_COST))
        return words or [Word(text[start], "", _DEFAULT_CLASS, _SINGLE_COST)]


@cache
def load_dictionary(name: str) -> Dictionary:
    """The dictionary in `data/NAME.gz`, read when a text first needs it."""
    content = (files(__package__) / "data" / f"{name}.gz").read_bytes()
    return Dictionary(gzip.decompress(content))


def joined(words: list[Word]) -> list[str]:
    """The romanised words, joined to their neighbours as their classes say.

    Words without a reading are dropped, and separate their neighbours.
    """
    out: list[str] = []
    join_next = False
    for word in words:
        if not word.latin:
            join_next = False
        elif out and (join_next or word.joins == "<"):
            out[-1] += word.latin
            join_next = word.joins == ">"
        else:
            out.append(word.latin)
            join_next = word.joins == ">"
    return out
