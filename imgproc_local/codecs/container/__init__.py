"""The five file formats as bytes: what a header says, where the metadata blocks lie, how they are exchanged.

Nothing here decodes a pixel or imports an image library, so it is quick and safe on hostile files: every loop moves
forward through the file and every length is checked against the bytes that are there. What is not as the format's
specification has it raises `BrokenImage`.
"""

from __future__ import annotations

import mmap
import struct
import zlib

from imgproc_local.codecs.metadata.blocks import Blocks as Blocks
from imgproc_local.codecs.metadata.blocks import TextBlock as TextBlock
from imgproc_local.domain.errors import BrokenImage

Data = bytes | mmap.mmap

MAX_BLOCK_BYTES = 8 * 1024 * 1024
"""The longest metadata block that is looked at, decompressed; a longer one is treated as absent."""


MAX_TEXT_BYTES = 64 * 1024
"""The longest PNG text or GIF comment that is looked at, decompressed."""

MAX_TEXTS = 32
"""So many are looked at in one file."""


def unpack(form: str, data: Data, offset: int, where: str) -> tuple[int, ...]:
    """The integers that struct reads at `offset`. Raises: BrokenImage where the file ends before."""
    end = offset + struct.calcsize(form)
    if offset < 0 or end > len(data):
        raise BrokenImage(f"The picture is cut off: it ends at byte {len(data)}, inside its {where}.")
    return struct.unpack(form, data[offset:end])


def inflate(compressed: bytes, max_bytes: int = MAX_BLOCK_BYTES) -> bytes | None:
    """The bytes that a zlib stream holds, None where it is broken or longer than `max_bytes`."""
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(compressed, max_bytes)
    except zlib.error:
        return None
    return plain if stream.eof else None


def text_of(raw: bytes) -> str:
    """The characters of a text without a declared encoding: UTF-8, and Windows-1252 where it can't be that."""
    try:
        return raw.decode("utf-8").replace("\0", "").strip()
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace").replace("\0", "").strip()
