"""Which alt texts a person may write, and how long any alt text may be. Source: api/README.md, "Results"."""

from __future__ import annotations

import re
import unicodedata

MAX_ALT_CHARS = 250
"""The maximum length of every alt text."""
PREFERRED_ALT_CHARS = 125
"""The length to which longer alt texts are shortened, if omitting whole sentences or details is enough."""

TAG = r"</?([a-z][\w:-]{0,30}+)[^<>]*(?:>|[\s/][^\s<>=/]+\s*=[^<>]*)"
"""A tag of HTML, in either case, also one that is not closed but has an attribute: a browser closes it at the next `>`
of the page. `a < b`, `x<y` and `<3` are no tags.
"""
_MARKUP = re.compile(TAG + r"|<!--|&(?:#[0-9]{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,31});", re.IGNORECASE)
_NOT_TEXT = re.compile("[\u2028-\u202e\u2066-\u2069\ufffd\ufff9-\ufffb]")
"""Line and paragraph separators, marks that change the direction of text, annotation and replacement characters."""


def normalized_alt_text(text: str) -> str:
    """`text` as it is stored: in Unicode NFC, without white space around it."""
    return unicodedata.normalize("NFC", text).strip()


def alt_text_error(text: str) -> str | None:
    """The error message for a normalized text that can't be an alt text; None if it can."""
    if not 1 <= len(text) <= MAX_ALT_CHARS:
        return f"seo_alt_text must have 1 to {MAX_ALT_CHARS} characters; received {len(text)}."
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs", "Co", "Cn") or _NOT_TEXT.match(character):
            return f"seo_alt_text must be one line of text without control characters; received U+{ord(character):04X}."
    if not any(character.isalnum() or unicodedata.category(character)[0] == "S" for character in text):
        return f"seo_alt_text must have letters, digits or symbols; received {text[:40]!r}."
    if markup := _MARKUP.search(text):
        return f"seo_alt_text must be plain text without HTML; received {markup[0][:40]!r}."
    return None
