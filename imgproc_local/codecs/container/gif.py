"""GIF as blocks. Source: GIF89a specification; XMP part 3, 1.1.2."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from imgproc_local.codecs.container import Blocks, Data, bounded, kind_of_rest, unpack
from imgproc_local.codecs.metadata.blocks import MAX_BLOCK_BYTES, MAX_TEXT_BYTES, MAX_TEXTS, TextBlock, text_of
from imgproc_local.domain.errors import BrokenImage
from imgproc_local.domain.privacy import Removed

_IMAGE, _EXTENSION, _TRAILER = 0x2C, 0x21, 0x3B
CONTROL, COMMENT, _APPLICATION = 0xF9, 0xFE, 0xFF
_XMP = b"XMP DataXMP"
_LOOPS = (b"NETSCAPE2.0", b"ANIMEXTS1.0")
"""The identifiers of the application extension with the loop count."""
_ICC = b"ICCRGBG1012"
_NOT_A_STRAY_TERMINATOR = re.compile(rb"[^\0]")
_MAGIC_TRAILER = b"\x01" + bytes(range(255, -1, -1)) + b"\0"


class _Block(Struct, frozen=True):
    """`kind` is the introducer byte, `label` an extension's label, `name` an application's identifier of 11 bytes.

    The block is `data[start:end]`; `body` is the offset of its first sub-block.
    """

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
    while at < size:
        length = data[at]
        at += 1 + length
        if length == 0:
            return at
    raise BrokenImage("The GIF is cut off in the middle of a frame or an extension.")


@bounded
def blocks(data: Data) -> Iterator[_Block]:
    """The blocks after the global colour table, up to the trailer or, as decoders accept, the end of the file."""
    if data[:6] not in (b"GIF87a", b"GIF89a"):
        raise BrokenImage("The GIF does not begin with its signature.")
    at = _first_block(data)
    while True:
        if at < len(data) and data[at] == 0:
            found = _NOT_A_STRAY_TERMINATOR.search(data, at)
            at = found.start() if found else len(data)
        if at >= len(data) or data[at] == _TRAILER:
            return
        start, kind, label, name = at, data[at], 0, b""
        if kind == _IMAGE:
            (flags,) = unpack("<B", data, at + 9, "frame header")
            body = at + 10 + _colour_table_bytes(flags) + 1
        elif kind == _EXTENSION:
            (label,) = unpack("<B", data, at + 1, "extension")
            body = at + 2
            if label == _APPLICATION and data[body : body + 1] == b"\x0b":
                name = data[body + 1 : body + 12]
        else:
            raise BrokenImage(f"The GIF is damaged: byte {at} is not a block type.")
        at = _after_sub_blocks(data, body)
        yield _Block(kind, label, name, start, body, at)


def _first_block(data: Data) -> int:
    (flags,) = unpack("<B", data, 10, "header")
    return 13 + _colour_table_bytes(flags)


def played_delay_ms(delay_ms: int) -> int:
    """The time that browsers show a frame: they play delays of 10 ms and less as 100 ms."""
    return delay_ms if delay_ms > 10 else 100


def read_timing(data: Data) -> tuple[list[int], int]:
    """The delay of each frame in milliseconds, as browsers play it, and the number of plays; 0 is endless."""
    delays, delay, plays = [], 0, 1
    for block in blocks(data):
        if block.kind == _IMAGE:
            delays.append(played_delay_ms(delay * 10))
            delay = 0
        elif block.label == CONTROL and block.end - block.body >= 6:
            (delay,) = unpack("<H", data, block.body + 2, "frame control")
        elif block.name in _LOOPS and block.end - block.start >= 19:
            # the file stores the repetitions after the first play
            (repetitions,) = unpack("<H", data, block.start + 16, "loop count")
            plays = repetitions + 1 if repetitions else 0
    return delays, plays


def read_blocks(data: Data) -> Blocks:
    """The XMP packet and the comments."""
    packet: bytes | None = None
    texts: list[TextBlock] = []
    for block in blocks(data):
        if block.name == _XMP and packet is None and block.end - block.start < MAX_BLOCK_BYTES:
            packet = data[block.start + 14 : block.end].removesuffix(_MAGIC_TRAILER)
        elif block.label == COMMENT and len(texts) < MAX_TEXTS and block.end - block.start < MAX_TEXT_BYTES:
            texts.append(TextBlock("comment", text_of(_joined(data[block.body : block.end])), None))
    return Blocks(xmp=packet, texts=tuple(texts))


def _joined(sub_blocks: bytes) -> bytes:
    out, at = bytearray(), 0
    while sub_blocks[at]:
        out += sub_blocks[at + 1 : at + 1 + sub_blocks[at]]
        at += 1 + sub_blocks[at]
    return bytes(out)


def _with_one_sub_block(data: Data, start: int, at: int) -> bytes:
    """The extension at `start`, with only its first sub-block, which is at `at`: programs read no others."""
    return data[start : at + 1 + data[at]] + (b"\0" if data[at] else b"")


def with_blocks(data: Data, new: Blocks) -> bytes:
    """The file with this XMP packet and no other metadata; frames, delays and loop count are copied bit for bit."""
    out = [data[: _first_block(data)]]
    control = b""
    if new.xmp:
        out[0] = b"GIF89a" + out[0][6:]
    for block in blocks(data):
        if block.kind == _IMAGE:
            out += [control, data[block.start : block.end]]
            control = b""
        elif block.label == CONTROL:
            # only the last one before a frame applies to it: others belong to plain text, which no program draws
            control = _with_one_sub_block(data, block.start, block.body)
        elif block.name in _LOOPS:
            out.append(_with_one_sub_block(data, block.start, block.start + 14))
    if new.xmp:
        out.append(_xmp_block(new.xmp))
    out.append(b"\x3b")
    return b"".join(out)


def dropped(data: Data) -> Iterator[Removed | None]:
    """The kinds of private data in what `with_blocks` does not keep, apart from the XMP packet and comments."""
    end = 0
    for block in blocks(data):
        end = block.end
        is_known = block.name in (*_LOOPS, _XMP, _ICC) or block.label in (CONTROL, COMMENT)
        if block.kind == _EXTENSION and not is_known:
            yield Removed.OTHER if block.label == _APPLICATION else Removed.COMMENT
    # some programs write bytes before the trailer
    yield kind_of_rest(data, data.find(b"\x3b", end) + 1 or len(data))


def with_xmp(data: Data, xmp: bytes) -> bytes:
    """The file with this XMP packet in place of its own, or after its last block; others are copied bit for bit."""
    start = end = _first_block(data)
    for block in blocks(data):
        start, end = block.start if block.name == _XMP else block.end, block.end
        if block.name == _XMP:
            break
    return b"".join([b"GIF89a", data[6:start], _xmp_block(xmp), data[end:]])


def _xmp_block(packet: bytes) -> bytes:
    """The packet's application extension, whose end readers find by the magic trailer. Source: XMP part 3, 1.1.2."""
    return b"\x21\xff\x0b" + _XMP + packet + _MAGIC_TRAILER
