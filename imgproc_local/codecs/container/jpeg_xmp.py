"""Replaces the XMP packet of a JPEG, and nothing else. Source: XMP part 3, 1.1.3; CIPA DC-007 (MPF)."""

from __future__ import annotations

import hashlib
import struct

from imgproc_local.codecs.container import Data, jpeg, unpack
from imgproc_local.codecs.container.bounds import MAX_PICTURES
from imgproc_local.domain.errors import StageFailed

_MAX_PACKET_BYTES = jpeg.MAX_PAYLOAD_BYTES - len(jpeg.XMP)
_MPF_ENTRIES = 0xB002
"""The tag of the entries in a multi-picture index."""


def with_xmp(data: Data, xmp: bytes, more_xmp: bytes | None = None) -> bytes:
    """The file with this XMP packet in place of its own, and with `more_xmp` in place of the packet's extension.

    Everything else is copied bit for bit, except that the sizes and offsets in a multi-picture index are adjusted.
    Raises: StageFailed if the packet does not fit into one segment.
    """
    if len(xmp) > _MAX_PACKET_BYTES:
        raise StageFailed(
            f"A JPEG's XMP packet may have at most {_MAX_PACKET_BYTES:,} bytes, but with the texts it has {len(xmp):,}."
            " Write the texts to a sidecar file instead."
        )
    place, guid, index = _xmp_places(data)
    parts = [(place, jpeg.segment_bytes(jpeg.APP1, jpeg.XMP + xmp))]
    if more_xmp is not None and guid is not None:
        new_guid = hashlib.md5(more_xmp, usedforsecurity=False).hexdigest().upper().encode()
        parts = [
            (
                place,
                jpeg.segment_bytes(jpeg.APP1, jpeg.XMP + xmp.replace(guid, new_guid)) + _extension(new_guid, more_xmp),
            )
        ]
        parts += [((segment.start, segment.end), b"") for segment in _extension_segments(data, guid)]
    out, at, shift, after_index = [], 0, 0, 0
    for (start, end), content in sorted(parts):
        out += [data[at:start], content]
        shift += len(content) - (end - start)
        after_index += len(content) - (end - start) if index is not None and start >= index.payload else 0
        at = end
    moved = b"".join([*out, data[at:]])
    return moved if index is None else _with_moved_index(moved, shift, after_index)


def _xmp_places(data: Data) -> tuple[tuple[int, int], bytes | None, jpeg.Segment | None]:
    """The range of the first XMP packet, or where one belongs; the GUID of its extension; the multi-picture index."""
    found: jpeg.Segment | None = None
    index: jpeg.Segment | None = None
    at = 2
    guids: dict[bytes, None] = {}
    for segment in jpeg.segments(data):
        head = data[segment.payload : min(segment.end, segment.payload + len(jpeg.EXTENDED_XMP) + 32)]
        if segment.marker == jpeg.APP1 and head.startswith(jpeg.XMP):
            found = found or segment
        elif segment.marker == jpeg.APP1 and head.startswith(jpeg.EXTENDED_XMP):
            guids.setdefault(head[len(jpeg.EXTENDED_XMP) :])
        elif segment.marker == jpeg.APP2 and head.startswith(jpeg.MPF):
            index = index or segment
        if segment.start == at and (
            segment.marker == jpeg.APP0 or (segment.marker == jpeg.APP1 and head.startswith(jpeg.EXIF))
        ):
            at = segment.end
    packet = data[found.payload : found.end] if found else b""
    guid = next((each for each in guids if each in packet), None)
    return ((found.start, found.end) if found else (at, at)), guid, index


def _extension_segments(data: Data, guid: bytes) -> list[jpeg.Segment]:
    return [
        segment
        for segment in jpeg.segments(data)
        if segment.marker == jpeg.APP1
        and data[segment.payload : min(segment.end, segment.payload + len(jpeg.EXTENDED_XMP) + 32)]
        == jpeg.EXTENDED_XMP + guid
    ]


def _extension(guid: bytes, packet: bytes) -> bytes:
    """The segments of an extended packet. Source: XMP part 3, 1.1.3.1."""
    head = jpeg.EXTENDED_XMP + guid + struct.pack(">I", len(packet))
    piece = jpeg.MAX_PAYLOAD_BYTES - len(head) - 4
    return b"".join(
        jpeg.segment_bytes(jpeg.APP1, head + struct.pack(">I", at) + packet[at : at + piece])
        for at in range(0, len(packet), piece)
    )


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
