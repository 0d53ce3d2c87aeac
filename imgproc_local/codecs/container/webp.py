"""WebP as RIFF chunks. Source: RFC 9649."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from imgproc_local.codecs.container import Blocks, Chunk, Data, bounded, kind_of_rest, unpack
from imgproc_local.codecs.container.gif import played_delay_ms
from imgproc_local.codecs.metadata.blocks import MAX_BLOCK_BYTES
from imgproc_local.domain.errors import BrokenImage
from imgproc_local.domain.privacy import Removed

_ICC_FLAG, _ALPHA_FLAG, _EXIF_FLAG, _XMP_FLAG, _ANIMATION_FLAG = 0x20, 0x10, 0x08, 0x04, 0x02
MAX_SIDE_PX = 16383
_DISPOSE_BACKGROUND = 1
"""Disposal method bit of a frame: its area is cleared to transparent after it was shown."""
_PICTURE_DATA = (b"ALPH", b"VP8 ", b"VP8L")
_CHUNK_HEADER = struct.Struct("<4sI")
_KEPT, _WRITTEN_ANEW = (b"ANIM", b"ANMF", *_PICTURE_DATA), (b"VP8X", b"ICCP", b"EXIF", b"XMP ")
"""What `with_blocks` copies, except unknown chunks in frames, and what it writes from the blocks."""


@bounded
def chunks(data: Data, start: int = 12, end: int | None = None) -> Iterator[Chunk]:
    """The chunks of the file in order, or with `end` those of the frame data from `start` to `end`.

    Raises: BrokenImage if the file is shorter than its header says.
    """
    if end is None:
        if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
            raise BrokenImage("The WebP does not begin with its signature.")
        (size,) = unpack("<I", data, 4, "header")
        end = 8 + size
        if end > len(data):
            raise BrokenImage(f"The WebP is cut off: its header declares {end} bytes, but it has {len(data)}.")
    offset = start
    while offset + 8 <= end:
        kind, length = _CHUNK_HEADER.unpack_from(data, offset)
        if offset + 8 + length > end:
            raise BrokenImage("The WebP is damaged: a chunk ends after what holds it.")
        yield Chunk(kind, offset + 8, offset + 8 + length)
        offset += 8 + length + length % 2


def _u24(data: Data, offset: int, end: int) -> int:
    low, high = unpack("<HB", data, offset, "header", end)
    return low | high << 16


def _bitstream_header(data: Data, chunk: Chunk) -> tuple[int, int, bool]:
    """Width, height and whether there is alpha, from a VP8 or VP8L chunk."""
    if chunk.kind == b"VP8L":
        signature, bits = unpack("<BI", data, chunk.payload, "picture data", chunk.end)
        if signature != 0x2F:
            raise BrokenImage("The WebP is damaged: its lossless picture data has no signature.")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, bool(bits >> 28 & 1)
    start, width, height = unpack("<3sHH", data, chunk.payload + 3, "picture data", chunk.end)
    if start != b"\x9d\x01\x2a":  # type: ignore[comparison-overlap]  # `3s` gives bytes
        raise BrokenImage("The WebP is damaged: its picture data has no start code.")
    return width & 0x3FFF, height & 0x3FFF, False


def _size_and_alpha(data: Data) -> tuple[int, int, bool]:
    """Width and height from the VP8X header or, without one, from the bitstream, and whether one of them says alpha.

    Raises: BrokenImage.
    """
    size, alpha = None, False
    for number, chunk in enumerate(chunks(data)):
        if chunk.kind == b"VP8X" and number == 0:
            alpha = bool(unpack("<B", data, chunk.payload, "header", chunk.end)[0] & _ALPHA_FLAG)
            size = _u24(data, chunk.payload + 4, chunk.end) + 1, _u24(data, chunk.payload + 7, chunk.end) + 1
        elif chunk.kind in (b"VP8 ", b"VP8L"):
            width, height, is_transparent = _bitstream_header(data, chunk)
            return *(size or (width, height)), alpha or is_transparent
    if size is None:
        raise BrokenImage("The WebP holds no picture.")
    return *size, alpha


def read_timing(data: Data) -> tuple[list[int], int]:
    """The delay of each frame in milliseconds, as browsers play it, and the number of plays; 0 is endless."""
    delays, plays = [], 0
    for chunk in chunks(data):
        if chunk.kind == b"ANIM":
            (plays,) = unpack("<H", data, chunk.payload + 4, "animation header", chunk.end)
        elif chunk.kind == b"ANMF":
            delays.append(played_delay_ms(_u24(data, chunk.payload + 12, chunk.end)))
    return delays, plays


def is_lossless(data: Data) -> bool:
    """Whether every frame is stored losslessly."""
    kinds = set()
    for chunk in chunks(data):
        if chunk.kind == b"ANMF":
            kinds |= {part.kind for part in chunks(data, chunk.payload + 16, chunk.end)}
        kinds.add(chunk.kind)
    return b"VP8L" in kinds and b"VP8 " not in kinds


def read_blocks(data: Data) -> Blocks:
    """The metadata blocks, the first of each kind."""
    found: dict[bytes, bytes] = {}
    for chunk in chunks(data):
        if chunk.kind in (b"EXIF", b"XMP ", b"ICCP") and chunk.end - chunk.payload <= MAX_BLOCK_BYTES:
            found.setdefault(chunk.kind, data[chunk.payload : chunk.end])
    exif = found.get(b"EXIF")
    return Blocks(exif and exif.removeprefix(b"Exif\0\0"), found.get(b"XMP "), None, found.get(b"ICCP"))


def with_blocks(data: Data, blocks: Blocks) -> bytes:
    """The file with these metadata blocks and no others; the picture data is copied bit for bit.

    WebP can't store IPTC-IIM: `blocks.iptc` is not written.
    """
    width_px, height_px, has_alpha = _size_and_alpha(data)
    kinds = {chunk.kind for chunk in chunks(data)}
    flags = _ANIMATION_FLAG if b"ANMF" in kinds else 0
    body = b"".join(
        _chunk(chunk.kind, _cleaned_frame(data, chunk) if chunk.kind == b"ANMF" else data[chunk.payload : chunk.end])
        for chunk in chunks(data)
        if chunk.kind in _KEPT
    )
    if blocks.icc:
        flags, body = flags | _ICC_FLAG, _chunk(b"ICCP", blocks.icc) + body
    if blocks.exif:
        flags, body = flags | _EXIF_FLAG, body + _chunk(b"EXIF", blocks.exif)
    if blocks.xmp:
        flags, body = flags | _XMP_FLAG, body + _chunk(b"XMP ", blocks.xmp)
    if flags or b"ALPH" in kinds:
        body = _extended_header(width_px, height_px, flags | (_ALPHA_FLAG if has_alpha else 0)) + body
    return _riff(body)


def dropped(data: Data) -> Iterator[Removed | None]:
    """The kinds of private data in what `with_blocks` does not keep, apart from the blocks."""
    end = 12
    for chunk in chunks(data):
        end = chunk.end + (chunk.end - chunk.payload) % 2
        is_cleaned = chunk.kind == b"ANMF" and _cleaned_frame(data, chunk) != data[chunk.payload : chunk.end]
        if is_cleaned or chunk.kind not in (*_KEPT, *_WRITTEN_ANEW):
            yield Removed.OTHER
    yield kind_of_rest(data, end)


def with_xmp(data: Data, xmp: bytes) -> bytes:
    """The file with this XMP packet in place of its own, or after its last chunk.

    The VP8X header is added if it is missing, and its XMP flag is set. All other chunks are copied bit for bit, and so
    is what follows them.
    """
    new, parts = _chunk(b"XMP ", xmp), []
    for number, chunk in enumerate(chunks(data)):
        if chunk.kind == b"XMP " and new:
            parts.append(new)
            new = b""
        elif chunk.kind == b"VP8X" and number == 0:
            flags = unpack("<B", data, chunk.payload, "header", chunk.end)[0] | _XMP_FLAG
            parts.append(_chunk(b"VP8X", bytes((flags,)) + data[chunk.payload + 1 : chunk.end]))
        else:
            parts.append(_chunk(chunk.kind, data[chunk.payload : chunk.end]))
    if data[12:16] != b"VP8X":
        width_px, height_px, has_alpha = _size_and_alpha(data)
        parts.insert(0, _extended_header(width_px, height_px, _XMP_FLAG | (_ALPHA_FLAG if has_alpha else 0)))
    body = b"".join([*parts, new])
    rest = data[8 + unpack("<I", data, 4, "header")[0] :]
    return _riff(body) + rest


def _extended_header(width_px: int, height_px: int, flags: int) -> bytes:
    size = struct.pack("<I", width_px - 1)[:3] + struct.pack("<I", height_px - 1)[:3]
    return _chunk(b"VP8X", bytes((flags, 0, 0, 0)) + size)


def _cleaned_frame(data: Data, chunk: Chunk) -> bytes:
    """The payload of an ANMF chunk, without the unknown chunks in it."""
    inner = [part for part in chunks(data, chunk.payload + 16, chunk.end) if part.kind in _PICTURE_DATA]
    parts = [_chunk(part.kind, data[part.payload : part.end]) for part in inner]
    return b"".join([data[chunk.payload : min(chunk.payload + 16, chunk.end)], *parts])


def with_merged_frames_restored(data: bytes, delays_ms: Sequence[int], *, has_alpha: bool) -> bytes:
    """The animation, with the frames restored that the encoder merged with an identical preceding frame.

    Each is restored as a transparent frame of 40 bytes with its own delay, which needs the alpha flag in the header.
    `delays_ms` are those of all frames. No frame is restored unless each delay in `data` is the sum of consecutive
    `delays_ms`, and all are used. `has_alpha` sets that flag in any case: encoders omit it if no frame has alpha, even
    if a disposed frame leaves the canvas transparent.
    """
    if has_alpha and data[12:16] == b"VP8X":
        data = data[:20] + bytes((data[20] | _ALPHA_FLAG,)) + data[21:]
    out: list[tuple[bytes, bytes]] = []
    used, merged = 0, False
    for chunk in chunks(data):
        payload = data[chunk.payload : chunk.end]
        if chunk.kind != b"ANMF":
            out.append((chunk.kind, payload))
            continue
        shown_ms, merged_ms = _u24(data, chunk.payload + 12, chunk.end), list(delays_ms[used : used + 1])
        while sum(merged_ms) < shown_ms and used + len(merged_ms) < len(delays_ms):
            merged_ms.append(delays_ms[used + len(merged_ms)])
        if sum(merged_ms) != shown_ms:
            return data
        used += len(merged_ms)
        merged = merged or len(merged_ms) > 1
        out += [(b"ANMF", frame) for frame in _split_frame(payload, merged_ms)]
    if used != len(delays_ms) or not merged:
        return data
    body = b"".join(
        _chunk(kind, bytes((payload[0] | _ALPHA_FLAG,)) + payload[1:] if kind == b"VP8X" else payload)
        for kind, payload in out
    )
    return _riff(body)


def _split_frame(frame: bytes, delays_ms: Sequence[int]) -> list[bytes]:
    """A frame, then a transparent one for each further delay.

    The last has the frame's disposal method, and the area of the frame if that is to be cleared.
    """
    flags = frame[15]
    if len(delays_ms) == 1:
        return [frame]
    flags_without_disposal = flags & ~_DISPOSE_BACKGROUND
    frames = [frame[:12] + struct.pack("<I", delays_ms[0])[:3] + bytes((flags_without_disposal,)) + frame[16:]]
    for delay in delays_ms[1:-1]:
        frames.append(bytes(12) + struct.pack("<I", delay)[:3] + b"\0" + _transparent(1, 1))
    place = frame[:12] if flags & _DISPOSE_BACKGROUND else bytes(12)
    width, height = _u24(place, 6, len(place)) + 1, _u24(place, 9, len(place)) + 1
    last = struct.pack("<I", delays_ms[-1])[:3] + bytes((flags & _DISPOSE_BACKGROUND,))
    return [*frames, place + last + _transparent(width, height)]


def _transparent(width: int, height: int) -> bytes:
    """A VP8L chunk of a fully transparent image.

    Each of its five prefix codes has the single symbol 0, so the pixels take no bits. Source: RFC 9649, 3.7.2.1.
    """
    size = width - 1 | height - 1 << 14 | 1 << 28
    bits = sum(1 << 3 + 4 * code for code in range(5))
    return _chunk(b"VP8L", b"\x2f" + struct.pack("<I", size) + bits.to_bytes(3, "little"))


def _chunk(kind: bytes, payload: bytes) -> bytes:
    return kind + struct.pack("<I", len(payload)) + payload + b"\0" * (len(payload) % 2)


def _riff(body: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body
