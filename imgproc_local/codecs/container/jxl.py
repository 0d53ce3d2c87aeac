"""JPEG XL as boxes, or as a bare codestream. Source: ISO/IEC 18181-2.

The colour profile is part of the codestream. The box `jbrd` has what is needed to rebuild the JPEG that a file was made
of; it is valid only together with the EXIF and XMP of that JPEG.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from imgproc_local.codecs.container import Blocks, Data
from imgproc_local.codecs.container.avif import Box, box_bytes, boxes
from imgproc_local.codecs.metadata.blocks import MAX_BLOCK_BYTES
from imgproc_local.domain.errors import BrokenImage, StageFailed, UnsupportedImage
from imgproc_local.domain.privacy import Removed

_SIGNATURE = b"\0\0\0\x0cJXL \r\n\x87\n"
_CODESTREAM = b"\xff\x0a"
_START = _SIGNATURE + box_bytes(b"ftyp", b"jxl \0\0\0\0jxl ")
SRGB, P3 = (1, 1, 13), (1, 11, 13)
"""The white point, primaries and transfer function, as `colours` returns them."""
_HEADER_BYTES = 16 * 1024
_KNOWN = (b"ftyp", b"Exif", b"xml ", b"jxll", b"jxlc", b"jxlp", b"jxli", b"jbrd")
"""The boxes that are written anew; the level of the codestream, and the codestream in one or several parts, which are
copied; an index of frames, and what rebuilds a JPEG.
"""


def _boxes(data: Data) -> Iterator[Box]:
    """The boxes after the signature; none of a bare codestream. Raises: BrokenImage."""
    if data[:2] == _CODESTREAM:
        return iter(())
    if data[: len(_SIGNATURE)] != _SIGNATURE:
        raise BrokenImage("The JPEG XL does not begin with its signature.")
    return boxes(data, len(_SIGNATURE), len(data))


def _kind(data: Data, box: Box) -> bytes:
    """The type of a box; of a compressed one (`brob`) that of its content."""
    return data[box.body : box.body + 4] if box.kind == b"brob" else box.kind


def codestream(data: Data) -> bytes:
    """The coded picture without its container. Raises: BrokenImage."""
    if data[:2] == _CODESTREAM:
        return data[:]
    # each part begins with its number of four bytes
    starts = {b"jxlc": 0, b"jxlp": 4}
    found = b"".join(data[box.body + starts[box.kind] : box.end] for box in _boxes(data) if box.kind in starts)
    if not found.startswith(_CODESTREAM):
        raise BrokenImage("The JPEG XL holds no picture.")
    return found


class _Bits:
    """The numbers in a header, from the least significant bit of each byte on. Zeros follow its end."""

    def __init__(self, header: bytes) -> None:
        self._left = int.from_bytes(header, "little")

    def take(self, count: int) -> int:
        value = self._left & ((1 << count) - 1)
        self._left >>= count
        return value

    def number(self, *forms: tuple[int, int]) -> int:
        """A number in one of four forms: its least value, and how many bits are added to that."""
        least, count = forms[self.take(2)]
        return least + self.take(count)

    def enum(self) -> int:
        return self.number((0, 0), (1, 0), (2, 4), (18, 6))

    def skip_size(self) -> None:
        is_small = self.take(1)
        skip = partial(self.take, 5) if is_small else partial(self.number, (1, 9), (1, 13), (1, 18), (1, 30))
        skip()
        if self.take(3) == 0:  # otherwise the width follows from the height
            skip()

    def skip_depth(self) -> None:
        is_float = self.take(1)
        self.number((8, 0), (10, 0), (12, 0), (1, 6))
        self.take(4 if is_float else 0)

    def skip_channel(self) -> None:
        """Skip an extra channel. Raises: UnsupportedImage if it is other than alpha."""
        if self.take(1):  # alpha of 8 bits
            return
        if self.enum() != 0:
            raise UnsupportedImage("Expected a JPEG XL with no further channels but alpha.")
        self.skip_depth()
        self.number((0, 0), (3, 0), (4, 0), (1, 3))
        self.take(8 * self.number((0, 0), (0, 4), (16, 5), (48, 10)) + 1)  # its name, and whether it is premultiplied


def colours(encoded: bytes) -> tuple[int, int, int] | None:
    """The white point, primaries and transfer function of a still codestream; None if it has an ICC profile.

    Those of grey are taken as sRGB's primaries; a gamma or a colour space of another kind has zeros.
    Source: ISO/IEC 18181-1, D.2, D.3 and E.2. Raises: UnsupportedImage.
    """
    bits = _Bits(encoded[2:_HEADER_BYTES])
    bits.skip_size()
    if bits.take(1):
        return SRGB
    if bits.take(1):
        bits.take(3)  # orientation
        if bits.take(1):
            bits.skip_size()
        if bits.take(2):
            raise UnsupportedImage("Expected a still JPEG XL without a preview in its header.")
    bits.skip_depth()
    bits.take(1)
    for _ in range(bits.number((0, 0), (1, 0), (2, 4), (1, 12))):
        bits.skip_channel()
    bits.take(1)  # XYB
    if bits.take(1):
        return SRGB
    has_profile, space = bits.take(1), bits.enum()
    if has_profile or space > 1:
        return None if has_profile else (0, 0, 0)
    white = bits.enum()
    if white == 2:  # numbers of its own
        return 0, 0, 0
    primaries = bits.enum() if space == 0 else 1
    return (0, 0, 0) if primaries == 2 or bits.take(1) else (white, primaries, bits.enum())


def has_jpeg(data: Data) -> bool:
    """Whether the file says how to rebuild the JPEG that it was made of. Raises: BrokenImage."""
    return b"jbrd" in {box.kind for box in _boxes(data)}


def read_blocks(data: Data) -> Blocks:
    """The metadata blocks that are not compressed, the first of each kind."""
    found: dict[bytes, bytes] = {}
    for box in _boxes(data):
        if box.kind in (b"Exif", b"xml ") and box.end - box.body <= MAX_BLOCK_BYTES:
            found.setdefault(box.kind, data[box.body : box.end])
    exif = found.get(b"Exif")  # begins with the offset of the TIFF structure
    return Blocks(exif and exif[4 + int.from_bytes(exif[:4], "big") :], found.get(b"xml "))


def with_blocks(data: Data, blocks: Blocks) -> bytes:
    """The file with these EXIF and XMP blocks, and no other metadata; the codestream is copied bit for bit.

    What is needed to rebuild a JPEG is removed, because it holds the rest of that JPEG's metadata.
    """
    level = b"".join(data[box.start : box.end] for box in _boxes(data) if box.kind == b"jxll")
    exif = box_bytes(b"Exif", bytes(4) + blocks.exif) if blocks.exif else b""
    xmp = box_bytes(b"xml ", blocks.xmp) if blocks.xmp else b""
    picture = codestream(data)
    if not (level or exif or xmp):
        return picture
    return b"".join((_START, level, exif, xmp, box_bytes(b"jxlc", picture)))


def with_plain_boxes(data: Data, blocks: Blocks) -> bytes:
    """The file with its compressed EXIF and XMP as they are in `blocks`, not compressed."""
    plain = {b"Exif": bytes(4) + (blocks.exif or b""), b"xml ": blocks.xmp or b""}
    parts = [_SIGNATURE]
    for box in _boxes(data):
        kind = _kind(data, box)
        is_replaced = box.kind == b"brob" and kind in plain
        parts.append(box_bytes(kind, plain[kind]) if is_replaced else data[box.start : box.end])
    return b"".join(parts)


def dropped(data: Data) -> Iterator[Removed | None]:
    """The kinds of private data in what `with_blocks` does not keep, apart from the blocks.

    What is needed to rebuild a JPEG counts as unreadable: whoever rebuilds the JPEG reads that.
    """
    kinds = [_kind(data, box) for box in _boxes(data)]
    if kinds.count(b"Exif") > 1 or kinds.count(b"xml ") > 1:  # only the first is read
        yield Removed.OTHER
    for box in _boxes(data):
        if _kind(data, box) not in _KNOWN:
            yield Removed.OTHER
        elif box.kind in (b"brob", b"jbrd"):
            yield Removed.UNREADABLE


def with_xmp(data: Data, xmp: bytes) -> bytes:
    """The file with this XMP packet in place of its own; all else is copied bit for bit.

    Raises: StageFailed if its own is compressed, so that it was not read, or is needed to rebuild a JPEG.
    """
    kept = []
    for box in _boxes(data):
        if box.kind == b"jbrd" or (box.kind == b"brob" and _kind(data, box) == b"xml "):
            raise StageFailed("No texts can be added to the compressed XMP of this JPEG XL: write a sidecar file.")
        if box.kind not in (b"ftyp", b"xml "):
            # the last box may have no size; another one follows it here
            kept.append(box_bytes(box.kind, data[box.body : box.end]))
    return b"".join((_START, box_bytes(b"xml ", xmp), *(kept or [box_bytes(b"jxlc", codestream(data))])))
