"""Replaces the XMP packet of a JPEG, and nothing else. Source: XMP part 3, 1.1.3; CIPA DC-007 (MPF)."""

from __future__ import annotations

import struct

from imgproc_local.codecs.container import Data, jpeg, unpack
from imgproc_local.codecs.container.bounds import MAX_PICTURES
from imgproc_local.domain.errors import StageFailed

_MAX_PACKET_BYTES = jpeg.MAX_PAYLOAD_BYTES - len(jpeg.XMP)
_MPF_ENTRIES = 0xB002
"""The tag of the entries in a multi-picture index."""


def with_xmp(data: Data, xmp: bytes) -> bytes:
    """The file with this XMP packet in place of its own; an extension of the packet remains.

    Everything else is copied bit for bit, except that the sizes and offsets in a multi-picture index are adjusted.
    Raises: StageFailed if the packet does not fit into one segment.
    """
    if len(xmp) > _MAX_PACKET_BYTES:
        raise StageFailed(
            f"A JPEG's XMP packet may have at most {_MAX_PACKET_BYTES:,} bytes, but with the texts it has {len(xmp):,}."
            " Write the texts to a sidecar file instead."
        )
    start, end, index = _xmp_place(data)
    new = jpeg.segment_bytes(jpeg.APP1, jpeg.XMP + xmp)
    moved = b"".join([data[:start], new, data[end:]])
    shift = len(new) - (end - start)
    if index is None:
        return moved
    return _with_moved_index(moved, shift, shift if start >= index.payload else 0)


def _xmp_place(data: Data) -> tuple[int, int, jpeg.Segment | None]:
    """The start and end of the first XMP packet, or twice where one belongs; and the multi-picture index."""
    found: jpeg.Segment | None = None
    index: jpeg.Segment | None = None
    at = 2
    for segment in jpeg.segments(data):
        head = data[segment.payload : min(segment.end, segment.payload + len(jpeg.XMP))]
        if segment.marker == jpeg.APP1 and head == jpeg.XMP:
            found = found or segment
        elif segment.marker == jpeg.APP2 and head.startswith(jpeg.MPF):
            index = index or segment
        is_exif = segment.marker == jpeg.APP1 and head.startswith(jpeg.EXIF)
        if segment.start == at and (segment.marker == jpeg.APP0 or is_exif):
            at = segment.end
    return (found.start, found.end, index) if found else (at, at, index)


def _with_moved_index(data: bytes, shift: int, after_index: int) -> bytes:
    """The file with its multi-picture index adjusted: the first picture grew by `shift` bytes, of which `after_index`
    lie between the index and the pictures that follow. Source: CIPA DC-007, 5.2.3.
    """
    segment = next(
        each
        for each in jpeg.segments(data)
        if each.marker == jpeg.APP2 and data[each.payload : each.payload + 4] == jpeg.MPF
    )
    start = segment.payload + len(jpeg.MPF)
    tiff = data[start : segment.end]
    order = ">" if tiff[:2] == b"MM" else "<"
    out = bytearray(data)
    (ifd,) = unpack(order + "I", tiff, 4, "multi-picture index")
    (count,) = unpack(order + "H", tiff, ifd, "multi-picture index")
    for number in range(min(count, MAX_PICTURES)):
        tag, _, size, at = unpack(order + "HHII", tiff, ifd + 2 + 12 * number, "multi-picture index")
        if tag != _MPF_ENTRIES:
            continue
        for entry in range(at, at + 16 * min(size // 16, MAX_PICTURES), 16):
            length, offset = unpack(order + "II", tiff, entry + 4, "multi-picture index")
            # the first picture has no offset
            field, value = (entry + 8, offset + after_index) if offset else (entry + 4, length + shift)
            out[start + field : start + field + 4] = struct.pack(order + "I", value)
    return bytes(out)
