"""The file formats as bytes: reading headers, and reading and replacing metadata blocks.

Nothing here decodes pixels or imports an image library, so it is fast and safe on hostile files: every loop moves
forward through the file, every length is checked against the bytes that are there, and every walk over the parts of a
file is `bounded`. A file that is too damaged to be read raises `BrokenImage`.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from msgspec import Struct

from imgproc_local.codecs.metadata.blocks import MAX_BLOCK_BYTES
from imgproc_local.codecs.metadata.blocks import Blocks as Blocks
from imgproc_local.codecs.metadata.blocks import Data as Data
from imgproc_local.domain.errors import BrokenImage
from imgproc_local.domain.image import CodedColours
from imgproc_local.domain.privacy import Removed

MAX_PARTS = 50_000
"""Segments, chunks, blocks or boxes that are read in a row, for which a walk takes about 0.1 s. A real file of 25 MB
has a few thousand, and an animation two or three for each frame.
"""

_Arguments = ParamSpec("_Arguments")
_Part = TypeVar("_Part")


class Chunk(Struct, frozen=True):
    """A part of a PNG or WebP: the payload is `data[payload:end]`; a checksum or padding to an even length follows."""

    kind: bytes
    payload: int
    end: int


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


_SRGB_PRIMARIES, SDR_TRANSFERS = (1, 2, 5, 6, 7, 22), (1, 2, 4, 6, 13, 14, 15)
"""BT.709, unspecified, and those of BT.601, SMPTE 240M and EBU, which differ little; sRGB and similar, among them a
gamma of 2.2. Source: ITU-T H.273, 8.1 and 8.2.
"""


def colours_of_numbers(primaries: int, transfer: int, brightest_nits: float, mastering: bytes) -> CodedColours | None:
    """The colours that CICP numbers declare; None if they are those of sRGB, or so similar that they are taken as such.

    `brightest_nits` is the light of the brightest pixel. Where it is 0, which means unknown, that of the display that
    the picture was made on counts, as its description `mastering` has it (`mDCV` of PNG and `mdcv` of AVIF are alike).
    """
    if primaries in _SRGB_PRIMARIES and transfer in SDR_TRANSFERS:
        return None
    nits = brightest_nits or int.from_bytes(mastering[16:20], "big") / 10_000
    return CodedColours(primaries, transfer, nits or None)


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
