"""What the lint knows of each language, from lint.toml, which says what the fields are; read when first asked for."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

import msgspec
from msgspec import Struct

from imgproc_local.vision.text.language import function_words

UNSPACED = frozenset(("ja", "zh", "th"))
"""Their words are not parted."""
MAX_ENDING = 5
"""Letters that may follow a stem: a longer rest makes another word."""


class Rules(Struct, frozen=True):
    """One language's rules, compiled; a pattern is None where the language has none."""

    opener: re.Pattern[str]
    closer: re.Pattern[str] | None
    label: re.Pattern[str]
    cut: re.Pattern[str] | None
    dangling: frozenset[str]
    words: frozenset[str]
    stems: tuple[str, ...]
    marks: re.Pattern[str] | None

    def common(self, word: str) -> bool:
        """Whether `word`, in small letters, is one of the language's common words."""
        # Arabic and Hebrew join articles of one or two letters to any word, however long
        return word in self.words or any(
            word.startswith(stem) and (len(stem) < 3 or len(word) - len(stem) <= MAX_ENDING) for stem in self.stems
        )


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    openers: tuple[str, ...]
    labels: tuple[str, ...]
    dangling: str
    closers: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()
    words: str = ""
    marks: str = ""


@cache
def rules_of(language_code: str) -> Rules:
    """The rules of `language_code`."""
    table = _tables()[language_code]
    # Korean is spaced, but its particles are part of the word before
    before, after = ("", "") if language_code in (*UNSPACED, "ko") else (r"(?<!\w)", r"(?!\w)|(?<!\w)")
    entries = table.words.split()
    return Rules(
        opener=re.compile(rf"(?i)({'|'.join(table.openers)})({after})"),
        closer=re.compile(rf"(?i){before}({'|'.join(table.closers)})[.。।]?$") if table.closers else None,
        label=re.compile(rf"(?i)({'|'.join(table.labels)}) ?[:：]"),
        cut=re.compile(rf"(?i)({'|'.join(table.cut)})") if table.cut else None,
        dangling=frozenset(table.dangling.split()),
        words=function_words(language_code) | frozenset(word for word in entries if not word.endswith("*")),
        stems=tuple(word[:-1] for word in entries if word.endswith("*")),
        marks=re.compile(table.marks) if table.marks else None,
    )


@cache
def _tables() -> dict[str, _Table]:
    table = resources.files(__package__).joinpath("lint.toml")
    return msgspec.toml.decode(table.read_bytes(), type=dict[str, _Table])
