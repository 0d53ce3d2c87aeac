"""GIF as blocks. Source: GIF89a specification; XMP part 3, 1.1.2."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from imgproc_local.codecs.container import MAX_BLOCK_BYTES, Blocks, Data, unpack
from imgproc_local.domain.errors import BrokenImage
from imgproc_local.domain.image import Format, ImageInfo

IMAGE, EXTENSION, TRAILER = 0x2C, 0x21, 0x3B
CONTROL, COMMENT, APPLICATION = 0xF9, 0xFE, 0xFF
XMP = b"XMP DataXMP"
LOOPS = (b"NETSCAPE2.0", b"ANIMEXTS1.0")
_MAGIC_TRAILER = b"\x01" + bytes(range(255, -1, -1)) + b"\0"


class Block(Struct, frozen=True):
    """`kind` is the introducer, `label` an extension's label, `name` an application's; bytes are `data[start:end]`."""

    kind: int
    label: int
    name: bytes
    start: int
    body: int
    end: int


def _colour_table_bytes(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _after_sub_blocks(data: Data, at: int) -> int:
    """The offset after the block terminator."""
    size = len(data)
    while True:
        if at >= size:
            raise BrokenImage("The GIF is cut off in the middle of a frame or an extension.")
        length = data[at]
        at += 1 + length
        if length == 0:
            return at


def blocks(data: Data) -> Iterator[Block]:
    """The blocks after the global colour table; a missing trailer, which decoders forgive, ends them too."""
    if data[:6] not in (b"GIF87a", b"GIF89a"):
        raise BrokenImage("The GIF does not begin with its signature.")
    at = _first_block(data)
    while at < len(data):
        start, kind = at, data[at]
        if kind == TRAILER:
            return
        if kind == IMAGE:
            (flags,) = unpack("<B", data, at + 9, "frame header")
            body = at + 10 + _colour_table_bytes(flags) + 1
            at = _after_sub_blocks(data, body)
            yield Block(kind, 0, b"", start, body, at)
        elif kind == EXTENSION:
            (label,) = unpack("<B", data, at + 1, "extension")
            name = data[at + 3 : at + 14] if label == APPLICATION else b""
            body = at + 2
            at = _after_sub_blocks(data, body)
            yield Block(kind, label, name, start, body, at)
        elif kind == 0:
            at += 1  # a stray terminator
        else:
            raise BrokenImage(f"The GIF is damaged: byte {at} is none of its block types.")


def _first_block(data: Data) -> int:
    (flags,) = unpack("<B", data, 10, "header")
    return 13 + _colour_table_bytes(flags)


def read_header(data: Data) -> ImageInfo:
    """What the headers of screen and frames say. Raises: BrokenImage, also where there is no frame."""
    width, height = unpack("<HH", data, 6, "header")
    frames, duration_ms, delay, alpha = 0, 0, 0, False
    for block in blocks(data):
        if block.kind == IMAGE:
            left, top, frame_width, frame_height = unpack("<HHHH", data, block.start + 1, "frame header")
            width, height = max(width, left + frame_width), max(height, top + frame_height)
            frames += 1
            duration_ms += played_delay_ms(delay * 10)
            delay = 0
        elif block.label == CONTROL and block.end - block.body >= 6:
            flags, delay, _, _ = unpack("<BHBB", data, block.body + 1, "frame control")
            alpha = alpha or bool(flags & 1)
    if not frames or not width or not height:
        raise BrokenImage(f"The GIF holds no picture: {frames} frames of {width}×{height} pixels.")
    return ImageInfo(Format.GIF, width, height, frames, has_alpha=alpha, duration_ms=duration_ms if frames > 1 else 0)


def played_delay_ms(delay_ms: int) -> int:
    """How long a frame is shown: browsers play delays of 10 ms and less as 100 ms."""
    return delay_ms if delay_ms > 10 else 100


def read_timing(data: Data) -> tuple[list[int], int]:
    """The delay of each frame in milliseconds as browsers play it, and how often the animation plays; 0 is for ever."""
    delays, delay, plays = [], 0, 1
    for block in blocks(data):
        if block.kind == IMAGE:
            delays.append(played_delay_ms(delay * 10))
            delay = 0
        elif block.label == CONTROL and block.end - block.body >= 6:
            (delay,) = unpack("<H", data, block.body + 2, "frame control")
        elif block.name in LOOPS and block.end - block.start >= 19:
            # the number is of repetitions after the first time
            (repetitions,) = unpack("<H", data, block.start + 16, "loop count")
            plays = repetitions + 1 if repetitions else 0
    return delays, plays


def read_blocks(data: Data) -> Blocks:
    """The XMP packet, the only metadata a GIF has a place for that is read here."""
    for block in blocks(data):
        if block.name == XMP and block.end - block.start < MAX_BLOCK_BYTES:
            packet = data[block.start + 14 : block.end]
            return Blocks(xmp=packet[: -len(_MAGIC_TRAILER)] if packet.endswith(_MAGIC_TRAILER) else packet)
    return Blocks()


def with_blocks(data: Data, new: Blocks) -> bytes:
    """The file with this XMP packet and no other metadata; frames, delays and loop count stay bit for bit.

    GIF has no place for EXIF, IPTC-IIM or a profile that programs read: only `new.xmp` is written.
    """
    out = [data[: _first_block(data)]]
    if new.xmp:
        out[0] = b"GIF89a" + out[0][6:]
    for block in blocks(data):
        drop = block.kind == EXTENSION and (
            block.label == COMMENT or (block.label == APPLICATION and block.name not in LOOPS)
        )
        if not drop:
            out.append(data[block.start : block.end])
    if new.xmp:
        out.append(b"\x21\xff\x0b" + XMP + new.xmp + _MAGIC_TRAILER)
    out.append(b"\x3b")
    return b"".join(out)
