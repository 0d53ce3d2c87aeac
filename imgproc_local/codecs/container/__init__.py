"""The five file formats as bytes: what a header says, where the metadata blocks lie, how they are exchanged.

Nothing here decodes a pixel or imports an image library, so it is quick and safe on hostile files: every loop moves
forward through the file and every length is checked against the bytes that are there. What is not as the format's
specification has it raises `BrokenImage`.
"""

from __future__ import annotations

import mmap
import struct
import zlib

from msgspec import Struct

from imgproc_local.domain.errors import BrokenImage

Data = bytes | mmap.mmap

MAX_BLOCK_BYTES = 8 * 1024 * 1024
"""The longest metadata block that is looked at, decompressed; a longer one is treated as absent."""


class Blocks(Struct, frozen=True):
    """The metadata blocks of one file, each without its container's own framing.

    `exif` is a TIFF structure, `xmp` an XMP packet, `iptc` a run of IIM datasets, `icc` an ICC profile.
    """

    exif: bytes | None = None
    xmp: bytes | None = None
    iptc: bytes | None = None
    icc: bytes | None = None


def unpack(form: str, data: Data, offset: int, where: str) -> tuple[int, ...]:
    """The integers that struct reads at `offset`. Raises: BrokenImage where the file ends before."""
    end = offset + struct.calcsize(form)
    if offset < 0 or end > len(data):
        raise BrokenImage(f"The picture is cut off: it ends at byte {len(data)}, inside its {where}.")
    return struct.unpack(form, data[offset:end])


def inflate(compressed: bytes) -> bytes | None:
    """The bytes that a zlib stream holds, None where it is broken or longer than `MAX_BLOCK_BYTES`."""
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(compressed, MAX_BLOCK_BYTES)
    except zlib.error:
        return None
    return plain if stream.eof else None
