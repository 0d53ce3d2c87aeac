"""The frames of an APNG, each as a separate PNG. Source: W3C PNG specification, third edition, 11.3.6 and 4.9."""

from __future__ import annotations

from msgspec import Struct

from imgproc_local.codecs.container import Data, png, unpack
from imgproc_local.domain.errors import BrokenImage

DISPOSE_BACKGROUND, DISPOSE_PREVIOUS = 1, 2
"""Values of `dispose_op`: clear the frame's area to transparent black, or restore what it covered."""

_BLEND_OVER = 1


class Frame(Struct, frozen=True):
    """A frame: its area in pixels, `dispose_op` as `disposal`, and the byte ranges of its compressed data.

    If `blend_over`, the frame is blended over the canvas; otherwise it replaces its area.
    """

    left: int
    top: int
    width: int
    height: int
    disposal: int
    blend_over: bool
    data_ranges: tuple[tuple[int, int], ...]


def frames(data: Data) -> list[Frame]:
    """The frames in order. Raises: BrokenImage if a frame has no data or lies outside the picture."""
    width, height = unpack(">II", data, 16, "header")
    controls: list[tuple[int, ...]] = []
    ranges: list[list[tuple[int, int]]] = []
    for chunk in png.chunks(data):
        if chunk.kind == b"fcTL":
            controls.append(unpack(">IIIIHHBB", data, chunk.payload + 4, "frame header", chunk.end))
            ranges.append([])
        elif ranges and chunk.kind in (b"IDAT", b"fdAT"):
            # fdAT begins with a sequence number; an IDAT before the first fcTL is no frame
            ranges[-1].append((chunk.payload + (4 if chunk.kind == b"fdAT" else 0), chunk.end))
    found = []
    for control, data_ranges in zip(controls, ranges, strict=True):
        frame_width, frame_height, left, top, _, _, disposal, blend = control
        outside = left + frame_width > width or top + frame_height > height
        if not frame_width or not frame_height or outside or not data_ranges:
            raise BrokenImage("The APNG is damaged: a frame has no data, or lies outside the picture.")
        found.append(Frame(left, top, frame_width, frame_height, disposal, blend == _BLEND_OVER, tuple(data_ranges)))
    return found


def palette_chunks(data: Data) -> bytes:
    """The chunks with the palette and the transparency of all frames."""
    found: dict[bytes, bytes] = {}
    for chunk in png.chunks(data):
        if chunk.kind in (b"PLTE", b"tRNS"):
            found.setdefault(chunk.kind, png.whole_chunk(data, chunk))
    return b"".join(found.values())


def as_png(data: Data, frame: Frame, palette: bytes) -> bytes:
    """The frame as a PNG, with the animation's `palette_chunks`."""
    header = data[16:29]
    size = frame.width.to_bytes(4, "big") + frame.height.to_bytes(4, "big")
    compressed = b"".join(data[start:end] for start, end in frame.data_ranges)
    return b"".join(
        [
            png.SIGNATURE,
            png.chunk_bytes(b"IHDR", size + header[8:]),
            palette,
            png.chunk_bytes(b"IDAT", compressed),
            png.chunk_bytes(b"IEND", b""),
        ]
    )
