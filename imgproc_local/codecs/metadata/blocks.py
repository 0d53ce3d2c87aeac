"""The metadata blocks of one file, as every container reads and writes them, and how their texts are decoded.

What exceeds a bound counts as absent, and is reported as `Removed.UNREADABLE` if it is XMP, a text that is cleaned, or
EXIF. Each bound, here and in the modules that parse the blocks, is a multiple of what real files have, and small enough
that reading, cleaning and writing everything that it admits takes about a second.
"""

from __future__ import annotations

import mmap

from msgspec import Struct

Data = bytes | mmap.mmap

MAX_BLOCK_BYTES = 8 * 1024 * 1024
"""The largest metadata block that is read, after decompression: ICC profiles of printers have up to 3 MB."""

MAX_TEXT_BYTES = 64 * 1024
"""The largest PNG text or GIF comment that is read, after decompression."""

MAX_TEXTS = 32
"""The number of PNG texts or GIF comments that are read from one file."""


class TextBlock(Struct, frozen=True):
    """A PNG text chunk or a GIF comment.

    `keyword` is the PNG's in lower case, or `comment` for a GIF's; `language` is a BCP 47 tag where the file has one.
    """

    keyword: str
    text: str
    language: str | None


class Blocks(Struct, frozen=True):
    """The metadata blocks of one file, each without its container's own framing.

    `exif` is a TIFF structure, `xmp` an XMP packet, `iptc` a run of IIM datasets, `icc` an ICC profile; `texts` are a
    PNG's text chunks with the keywords that are read, or a GIF's comments. `more_xmp` is a JPEG's ExtendedXMP.
    `tiff` is a whole TIFF file, which holds the fields of EXIF among those that describe its pixels. `with_blocks`
    writes `exif`, `xmp` and `icc`, as far as the format can hold them, and `iptc` into a JPEG.
    """

    exif: bytes | None = None
    xmp: bytes | None = None
    iptc: bytes | None = None
    icc: bytes | None = None
    texts: tuple[TextBlock, ...] = ()
    more_xmp: bytes | None = None
    tiff: Data | None = None


def text_of(raw: bytes) -> str:
    """A text without a declared encoding, decoded as UTF-8 or, where that fails, as Windows-1252."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("cp1252", "replace")
    return text.replace("\0", "").strip()
