"""The file formats as bytes: reading headers, and reading and replacing metadata blocks.

Nothing here decodes pixels or imports an image library, so it is fast and safe on hostile files: every loop moves
forward through the file, every length is checked against the bytes that are there, and every walk over the parts of a
file is `bounded`. A file that is too damaged to be read raises `BrokenImage`.

What exceeds a bound counts as absent, and is reported as `Removed.UNREADABLE` if it is XMP, a text that is cleaned, or
EXIF. Each bound, here and in the modules that parse the blocks, is a multiple of what real files have, and small enough
that reading, cleaning and writing everything that it admits takes about a second.
"""

from __future__ import annotations

import mmap
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from msgspec import Struct

from imgproc_local.domain.errors import BrokenImage
from imgproc_local.domain.privacy import Removed

Data = bytes | mmap.mmap

MAX_BLOCK_BYTES = 8 * 1024 * 1024
"""The largest metadata block that is read, after decompression: ICC profiles of printers have up to 3 MB."""

MAX_TEXT_BYTES = 64 * 1024
"""The largest PNG text or GIF comment that is read, after decompression."""

MAX_TEXTS = 32
"""The number of PNG texts or GIF comments that are read from one file."""

MAX_PARTS = 50_000
"""Segments, chunks, blocks or boxes that are read in a row, for which a walk takes about 0.1 s. A real file of 25 MB
has a few thousand, and an animation two or three for each frame.
"""

_Arguments = ParamSpec("_Arguments")
_Part = TypeVar("_Part")


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


def bounded(walk: Callable[_Arguments, Iterator[_Part]]) -> Callable[_Arguments, Iterator[_Part]]:
    """The walk over the parts of a file, which raises BrokenImage after `MAX_PARTS` of them."""

    @wraps(walk)
    def bounded_walk(*args: _Arguments.args, **options: _Arguments.kwargs) -> Iterator[_Part]:
        for number, part in enumerate(walk(*args, **options)):
            if number == MAX_PARTS:
                raise BrokenImage(f"The picture has more than {MAX_PARTS:,} parts. Save it again in another program.")
            yield part

    return bounded_walk


def unpack(layout: str, data: Data, offset: int, where: str, limit: int | None = None) -> tuple[int, ...]:
    """The integers of a `struct` layout at `offset`, in a part of the file that ends before `limit`.

    Raises: BrokenImage if the file or the part ends before they do; its message names the part, `where`.
    """
    end = offset + struct.calcsize(layout)
    if offset < 0 or end > len(data):
        raise BrokenImage(f"The picture is cut off: it ends at byte {len(data)}, inside its {where}.")
    if limit is not None and end > limit:
        raise BrokenImage(f"The picture is damaged: its {where} ends at byte {limit}, but needs {end - limit} more.")
    return struct.unpack(layout, data[offset:end])


_NOT_BLANK = re.compile(rb"[^\0\t\n\r ]")


def kind_of_rest(data: Data, start: int) -> Removed | None:
    """The kind of private data that may be in the bytes from `start` on; None if they are blank."""
    return Removed.OTHER if _NOT_BLANK.search(data, start) else None


def inflate(compressed: bytes, max_bytes: int = MAX_BLOCK_BYTES) -> bytes | None:
    """The decompressed bytes of a zlib stream; None if it is damaged or would exceed `max_bytes`."""
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(compressed, max_bytes)
    except zlib.error:
        return None
    return plain if stream.eof else None
