"""The name to remember an upload by: the last path segment, without what could play tricks on a reader."""

from __future__ import annotations

import re
import unicodedata

from imgproc_local.domain.image import Format

MAX_BYTES = 255
MAX_EXTENSION = 16
BIDI_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""They turn the order of letters around: `gpj.exe` can be made to look like `exe.jpg`."""


def clean_filename(raw: str, file_format: Format) -> str:
    """The name to remember an upload by. Source: api/README.md, "Uploads"."""
    name = re.split(r"[/\\]", raw)[-1]
    name = "".join(c for c in name if unicodedata.category(c) not in ("Cc", "Cs") and c not in BIDI_CONTROLS).strip()
    if not name.strip("."):
        name = f"image.{file_format.value}"
    if len(name.encode()) > MAX_BYTES:
        _, dot, extension = name.rpartition(".")
        suffix = dot + extension if len(extension) <= MAX_EXTENSION else ""
        room = MAX_BYTES - len(suffix.encode())
        name = name.encode()[:room].decode("utf-8", "ignore") + suffix
    return name
