"""The frames of an APNG, each as a PNG of its own. Source: W3C PNG specification, third edition, 11.3.6 and 4.9."""

from __future__ import annotations

from msgspec import Struct

from imgproc_local.codecs.container import Data, png, unpack
from imgproc_local.domain.errors import BrokenImage

TO_NOTHING, TO_PREVIOUS = 1, 2
"""What a frame leaves behind: a hole, or what was there before it."""

_OVER = 1


class Frame(Struct, frozen=True):
    """Where it lies in the picture, and its data; `over` what is there already, else in place of it."""

    left: int
    top: int
    width: int
    height: int
    disposal: int
    over: bool
    pieces: tuple[tuple[int, int], ...]


def frames(data: Data) -> list[Frame]:
    """Raises: BrokenImage, also where a frame lies outside of the picture."""
    width, height = unpack(">II", data, 16, "header")
    controls: list[tuple[int, ...]] = []
    pieces: list[list[tuple[int, int]]] = []
    for chunk in png.chunks(data):
        if chunk.kind == b"fcTL":
            controls.append(unpack(">IIIIHHBB", data, chunk.payload + 4, "frame header"))
            pieces.append([])
        elif pieces and chunk.kind in (b"IDAT", b"fdAT"):
            # frame data begins with a sequence number
            pieces[-1].append((chunk.payload + (4 if chunk.kind == b"fdAT" else 0), chunk.end))
    found = []
    for (across, down, left, top, _, _, disposal, blend), lies in zip(controls, pieces, strict=True):
        if not across or not down or left + across > width or top + down > height or not lies:
            raise BrokenImage("The APNG is damaged: a frame has no data, or lies outside of the picture.")
        found.append(Frame(left, top, across, down, disposal, blend == _OVER, tuple(lies)))
    return found


def as_png(data: Data, frame: Frame) -> bytes:
    """The frame alone, with the palette of the whole."""
    header = data[16:29]
    size = frame.width.to_bytes(4, "big") + frame.height.to_bytes(4, "big")
    out = [png.SIGNATURE, png.chunk_bytes(b"IHDR", size + header[8:])]
    out += [data[chunk.payload - 8 : chunk.end + 4] for chunk in png.chunks(data) if chunk.kind in (b"PLTE", b"tRNS")]
    coded = b"".join(data[start:end] for start, end in frame.pieces)
    return b"".join([*out, png.chunk_bytes(b"IDAT", coded), png.chunk_bytes(b"IEND", b"")])
