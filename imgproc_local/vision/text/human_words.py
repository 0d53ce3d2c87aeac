"""Cleans the texts of a picture's metadata: `human_text` is applied to all fields and preserves what people wrote."""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache

from imgproc_local.domain.alt_text import TAG
from imgproc_local.domain.privacy import clean_text
from imgproc_local.domain.sentences import sentences
from imgproc_local.vision.text.boilerplate import (
    has_only_machine_words,
    is_placeholder,
    without_boilerplate,
    without_opener,
)
from imgproc_local.vision.text.mojibake import has_lost_letters, repair_encoding

MAX_READ_CHARS = 2000
"""Texts are truncated to this length before they are cleaned."""
MAX_MARKUP_CHARS = 8000
"""Texts with mark-up are truncated to this length before it is removed."""

_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
_TAG = re.compile(TAG, re.IGNORECASE)
_INLINE = re.compile("a|abbr|b|big|cite|code|em|font|i|mark|q|s|small|span|strong|sub|sup|u|wbr", re.IGNORECASE)
"""Elements whose tags are removed without a space, because they don't separate words."""
_HIDDEN = (("<!--", "-->"), ("<script", "</script"), ("<style", "</style"), ("<head>", "</head>"))
"""The beginnings and ends of the parts of HTML that a browser does not show."""
_INVISIBLE = frozenset(
    "\u00ad\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff\ufffc"
)
"""Soft hyphens, zero-width spaces, bidirectional controls. Zero-width joiners belong to emoji and Persian words."""


@lru_cache(maxsize=128)
def human_text(text: str) -> str:
    """`text` on one line in NFC, without mark-up, private data and boilerplate; "" if no person wrote it.

    Sentences that have lost letters through a wrong encoding are dropped.
    """
    max_chars = MAX_MARKUP_CHARS if "<" in text or "&" in text else MAX_READ_CHARS
    plain = repair_encoding(_without_markup(clean_text(text[:max_chars]).text)[:MAX_READ_CHARS])
    plain = unicodedata.normalize("NFC", clean_text(plain).text)
    lines = (_cleaned_line(" ".join(line.split())) for line in plain.splitlines())
    cleaned = " ".join(filter(None, map(without_boilerplate, filter(None, lines))))
    cleaned = without_opener(cleaned)
    if is_placeholder(cleaned) or has_only_machine_words(cleaned):
        return ""
    return cleaned


def _without_markup(text: str) -> str:
    """`text` without tags, comments, scripts and styles of HTML, with entities replaced, even if escaped twice."""
    for _ in range(3):
        shorter = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text) if "&" in text else text
        if "<" in shorter:
            for start, end in _HIDDEN:
                shorter = _without_hidden(shorter, start, end)
            shorter = _TAG.sub(lambda tag: "" if _INLINE.fullmatch(tag[1]) else " ", shorter)
        if shorter == text:
            break
        text = shorter
    return text


def _without_hidden(text: str, start: str, end: str) -> str:
    """`text` without the parts from `start` to `end`, including both; an unclosed part extends to the end of `text`.

    Both are in lower case. If `end` begins a tag, the part ends after the ">" of this tag.
    """
    lower, out, at = text.lower(), [], 0
    # a letter such as İ has two characters in lower case, so the indices would not be valid for `text`
    if len(lower) != len(text):
        return text
    while (found := lower.find(start, at)) >= 0:
        out.append(text[at:found])
        stop = lower.find(end, found)
        stop = stop + len(end) if stop >= 0 else len(text)
        at = stop if end.endswith(">") else (lower.find(">", stop - 1) + 1 or len(text))
    return "".join([*out, " " if out else "", text[at:]])


def _cleaned_line(line: str) -> str:
    """`line` without invisible and control characters, and without the sentences that have lost letters."""
    line = "".join(char for char in line if char not in _INVISIBLE)
    if (not line.isascii() or "?" in line) and has_lost_letters(line):
        line = " ".join(part for part in sentences(line) if not has_lost_letters(part))
    return "".join(char for char in line if unicodedata.category(char) not in ("Cc", "Co", "Cn", "Cs")).strip()
