"""Removes private data from the texts of a picture: from metadata, alt texts, file names and text read in it.

`clean_text` separates the words of people from positions (`positions.py`) and the data of programs (`data_text.py`). A
sentence with personal data (`personal_data.py`) is left out as a whole, because its other words are about these.
Every pattern takes linear time: its quantifiers are bounded or possessive.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct

from imgproc_local.domain.alt_text import sentence_ends
from imgproc_local.domain.data_text import WORD, is_data, without_data
from imgproc_local.domain.positions import without_positions


class Removed(StrEnum):
    """The kinds of private data that are removed from a picture. api/README.md describes each."""

    GPS = "gps"
    LOCATION = "location"
    CONTACT = "contact"
    PERSON = "person"
    IDENTIFIER = "identifier"
    CAMERA = "camera"
    DATE = "date"
    SOFTWARE = "software"
    THUMBNAIL = "thumbnail"
    COMMENT = "comment"
    OTHER = "other"
    UNREADABLE = "unreadable"

    @classmethod
    def _missing_(cls, value: object) -> Removed:
        """The kind that stands for one that an earlier version stored."""
        return _EARLIER_KINDS.get(str(value), cls.OTHER)


_EARLIER_KINDS = {
    "email": Removed.CONTACT,
    "owner": Removed.PERSON,
    "faces": Removed.PERSON,
    "serial_number": Removed.IDENTIFIER,
    "history": Removed.SOFTWARE,
    "maker_note": Removed.CAMERA,
    "data_text": Removed.COMMENT,
}


MAX_TEXT_CHARACTERS = 32 * 1024


class CleanText(Struct, frozen=True):
    """A text without private data. `text` is "" if no word remains; it is unchanged if `removed` is empty."""

    text: str
    removed: frozenset[Removed] = frozenset()


_MAY_BE_PRIVATE = re.compile(r"[\d@＠﹫%&\[{(<=/:：]|\s(?:at|arroba)\s", re.IGNORECASE)
"""Matches every text in which there may be anything to remove, so that all other texts are returned quickly."""

_BLOB = (
    r"(?i)\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"
    r"|(?<![\w+/.:@])(?=[A-Za-z+/]{0,4096}\d[A-Za-z+/]{0,4096}\d)(?=[\d+/]{0,4096}[A-Za-z])[A-Za-z0-9+/]{24,}+={0,2}(?![\w.])"
)
"""A UUID, a hash or Base64."""

_LEFTOVER = (
    r"(?i)\(\s{0,4}[,;:/|-]?\s{0,4}\)|\[\s{0,4}[,;:/|-]?\s{0,4}\]|<\s{0,4}>|\{\s{0,4}\}|\"\s{0,4}\""
    r"|\b(?:e-?mail|mail|mailto|gps|coordinates?|position|koordinaten|coordonnées|coordenadas)\s{0,2}[:=]\s{0,2}(?=$|[\s,;.)\]])"
)
"""Empty brackets, and labels without a value."""
_TIDYING = (
    (_LEFTOVER, " "),
    (_LEFTOVER, " "),
    (r"(?<=\s)[,;](?=\s)", " "),
    (r"([,;:|/])(?:\s{0,4}[,;:|/]){1,8}+(?=\s|$)", r"\1"),
    (r"[^\S\r\n]{2,}+", " "),
    (r"[^\S\r\n](?=[,.;:!?)\]](?:\s|$))", ""),
    (r"[,;:]\s{0,4}(?=[.!?](?:\s|$))", ""),
)
"""What removals leave behind, and what replaces it, in order."""

_NAME = re.compile(
    r"[^\s。！？।؟!?]{1,255}[_-][^\s。！？।؟!?]{1,255}|(?!.{0,512}[.!?]\s)[^\n_。！？।؟]{1,255}_[^\n。！？।؟]{1,255}"
)
"""A file name or keyword whose words are joined by hyphens or underscores."""
_BREAK = re.compile(
    r"[\r\n]|</?(?:p|div|br|li|ul|ol|h[1-6]|t[drh]|table|blockquote|figcaption|section)\b[^<>]{0,2000}>", re.IGNORECASE
)
"""What separates sentences that end without a full stop."""


@lru_cache(maxsize=64)
def clean_text(text: str, *, keep_sentences: bool = False, keep_streets: bool = False) -> CleanText:
    """`text` without positions, data such as JSON, and sentences with personal data; HTML elements are preserved.

    With `keep_sentences`, only the personal data themselves are removed: a copyright notice still says whose it is.
    With `keep_streets`, streets with a number are preserved, except in file names. A file name is one sentence. A text
    that is mainly data, or that is longer than `MAX_TEXT_CHARACTERS`, becomes "".
    """
    if len(text) > MAX_TEXT_CHARACTERS:
        return CleanText("", frozenset((Removed.COMMENT,)))
    if not _MAY_BE_PRIVATE.search(text):
        return CleanText(text)
    if is_data(text):
        return CleanText("", frozenset((Removed.COMMENT, *_kinds_in(text))))
    if not keep_sentences and _NAME.fullmatch(text) and (kinds := _kinds_in_name(text)):
        return CleanText("", frozenset(kinds))
    removed: set[Removed] = set()
    cleaned = without_data(text)
    if cleaned != text:
        removed |= {Removed.COMMENT, *_kinds_in(text)}
    shorter = without_positions(cleaned)
    removed |= {Removed.GPS} if shorter != cleaned else set()
    cleaned = shorter
    for find in (_personal, _long_numbers):
        found = [(kind, span) for kind, span in find(cleaned) if not (keep_streets and kind is Removed.LOCATION)]
        removed |= {kind for kind, _ in found}
        spans = [span for _, span in found]
        if spans:
            cleaned = _without(cleaned, spans if keep_sentences else _sentences_with(cleaned, spans))
    # only now, because the number of a bank account looks like a hash
    shorter = re.sub(_BLOB, " ", cleaned)
    if not removed and shorter == text:
        return CleanText(text)
    removed |= {Removed.COMMENT} if shorter != cleaned else set()
    for remains, replacement in _TIDYING:
        shorter = re.sub(remains, replacement, shorter)
    cleaned = shorter.strip(" \t\r\n,;:|/–—-&")
    return CleanText(cleaned if WORD.search(cleaned) and not is_data(cleaned) else "", frozenset(removed))


def _kinds_in(data: str) -> set[Removed]:
    """The kinds of private data in `data`."""
    positions = {Removed.GPS} if without_positions(data) != data else set()
    return positions | {kind for kind, _ in _personal(data)}


def _kinds_in_name(name: str) -> set[Removed]:
    """The kinds of private data in a name, whose letters may have lost the case by which streets and codes are told."""
    words = re.sub("[_-]", " ", name)
    return set().union(*map(_kinds_in, (name, name.replace("_", " "), words.title(), words.upper())))


def _personal(text: str) -> list[tuple[Removed, tuple[int, int]]]:
    """The kind of each item of personal data, and its start and end."""
    # imported here, because its patterns take time to compile
    from imgproc_local.domain.personal_data import folded, personal_data

    return [(Removed(kind), span) for kind, span in personal_data(folded(text))]


def _long_numbers(text: str) -> list[tuple[Removed, tuple[int, int]]]:
    """Long numbers beside words; a text without words, such as the name of a camera's file, tells of nobody."""
    from imgproc_local.domain.personal_data import folded, long_numbers

    return [(Removed.IDENTIFIER, span) for span in long_numbers(folded(text)) if " " in text]


def _sentences_with(text: str, spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The sentences of `text` that contain a part of one of the `spans`."""
    breaks = {end for each in _BREAK.finditer(text) for end in each.span()}
    # a full stop after an address or number is never that of an abbreviation
    stops = {end + 1 for _, end in spans if re.match(r"[.!?]\s", text[end : end + 2])}
    bounds = sorted({0, len(text)} | breaks | stops | {*sentence_ends(text)})
    found = {part for start, end in spans for part in range(bisect_right(bounds, start) - 1, bisect_left(bounds, end))}
    return [(bounds[part], bounds[part + 1]) for part in found]


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    gone = {index for start, end in spans for index in range(start, end)}
    return "".join(character for index, character in enumerate(text) if index not in gone)
