"""The rules of the lint for each language, compiled from `lint.toml`. The head of that file describes the fields."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

import msgspec
from msgspec import Struct

from imgproc_local.vision.text.language import function_words

UNSPACED = frozenset(("ja", "zh", "th"))
"""Languages that are written without spaces between words."""
CJK = frozenset(("ja", "zh", "ko"))
MAX_ENDING_CHARS = 5
"""Letters that may follow a stem; a longer ending makes another word."""


class Rules(Struct, frozen=True):
    """The compiled rules of one language; a pattern is None if the language has none."""

    opener: re.Pattern[str]
    closer: re.Pattern[str] | None
    label: re.Pattern[str]
    removable_opener: re.Pattern[str] | None
    dangling: frozenset[str]
    words: frozenset[str]
    stems: tuple[str, ...]
    marks: re.Pattern[str] | None

    def is_common(self, word: str) -> bool:
        """Whether `word`, in lower case, is a common word of the language."""
        # in Arabic and Hebrew, articles of one or two letters are written together with words of any length
        return word in self.words or any(
            word.startswith(stem) and (len(stem) < 3 or len(word) - len(stem) <= MAX_ENDING_CHARS)
            for stem in self.stems
        )


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    """The table of one language in `lint.toml`."""

    openers: tuple[str, ...]
    labels: tuple[str, ...]
    dangling: str
    closers: tuple[str, ...] = ()
    removable_openers: tuple[str, ...] = ()
    words: str = ""
    marks: str = ""


@cache
def rules_of(language_code: str) -> Rules:
    """The rules of `language_code`."""
    table = _tables()[language_code]
    # Korean has spaces, but its particles are attached to the preceding word
    before, after = ("", "") if language_code in (*UNSPACED, "ko") else (r"(?<!\w)", r"(?!\w)|(?<!\w)")
    entries, removable = table.words.split(), table.removable_openers
    return Rules(
        opener=re.compile(rf"(?i)({'|'.join(table.openers)})({after})"),
        closer=re.compile(rf"(?i){before}({'|'.join(table.closers)})[.。।]?$") if table.closers else None,
        label=re.compile(rf"(?i)({'|'.join(table.labels)}) ?[:：]"),
        removable_opener=re.compile(rf"(?i)({'|'.join(removable)})") if removable else None,
        dangling=frozenset(table.dangling.split()),
        words=function_words(language_code) | frozenset(word for word in entries if not word.endswith("*")),
        stems=tuple(word[:-1] for word in entries if word.endswith("*")),
        marks=re.compile(table.marks) if table.marks else None,
    )


@cache
def _tables() -> dict[str, _Table]:
    table = resources.files(__package__).joinpath("lint.toml")
    return msgspec.toml.decode(table.read_bytes(), type=dict[str, _Table])
