"""JPEG as segments. Source: ITU-T T.81 annex B, JFIF 1.02, CIPA DC-007 (MPF), ICC.1 annex B.4, XMP part 3, 1.1.3.

This is one long file, because reading, writing and naming what is left out know the same segments.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from msgspec import Struct

from imgproc_local.codecs.container import Blocks, Data, bounded, kind_of_rest, unpack
from imgproc_local.codecs.metadata import exif, iptc
from imgproc_local.codecs.metadata.blocks import MAX_BLOCK_BYTES
from imgproc_local.domain.errors import BrokenImage, StageFailed
from imgproc_local.domain.privacy import Removed

_APP0, _APP1, _APP2, _APP13, _APP14 = 0xE0, 0xE1, 0xE2, 0xED, 0xEE
_EOI, _SOS, _COM, _DQT = 0xD9, 0xDA, 0xFE, 0xDB
_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_PICTURE_MARKERS = _FRAME_MARKERS | {0xC4, 0xCC, _SOS, _DQT, 0xDD}
"""The segments that a decoder needs: headers of frames and scans, tables, restart interval. Source: ITU-T T.81, B.1."""

EXIF, _XMP = b"Exif\0\0", b"http://ns.adobe.com/xap/1.0/\0"
_EXTENDED_XMP = b"http://ns.adobe.com/xmp/extension/\0"
_ICC, PHOTOSHOP, _MPF = b"ICC_PROFILE\0", b"Photoshop 3.0\0", b"MPF\0"
_ISO_GAIN_MAP = b"urn:iso:std:iso:ts:21496:-1"
GAIN_MAP_IDENTIFIERS = (b"http://ns.adobe.com/hdr-gain-map/", _ISO_GAIN_MAP)
"""The namespace of the XMP, and the name of the APP2 segment, that describe a gain map."""

_JFIF_BYTES = 14
"""The shortest payload of a JFIF segment: name, version, unit, density and the size of a thumbnail."""
_BLOCKS = {_APP1: (EXIF, _XMP, _EXTENDED_XMP), _APP2: (_ICC, _MPF, _ISO_GAIN_MAP), _APP13: (PHOTOSHOP,)}
"""How the segments begin that are read as metadata, by their marker."""

MAX_SIDE_PX = 65_500
"""libjpeg writes no larger pictures. Source: JPEG_MAX_DIMENSION."""

_MAX_PAYLOAD_BYTES = 65533
"""The payload of one segment. Its length field has two bytes and counts itself."""
_ICC_PIECE = _MAX_PAYLOAD_BYTES - len(_ICC) - 2
_RESOURCES_PIECE = _MAX_PAYLOAD_BYTES - len(PHOTOSHOP)
_MAX_PACKET_BYTES = _MAX_PAYLOAD_BYTES - len(_XMP)
_MPF_ENTRIES = 0xB002
"""The tag of the entries in a multi-picture index."""

# fill bytes (FF) are not matched: a pattern for runs of them would take quadratic time where no marker follows
_MARKER = re.compile(rb"\xff[^\x00\x01\xff\xd0-\xd8]")
"""A marker that is followed by a length, or EOI."""


class _Segment(Struct, frozen=True):
    """`start` is the offset of its marker's FF; the payload, without the length, is `data[payload:end]`."""

    marker: int
    start: int
    payload: int
    end: int


@bounded
def segments(data: Data, start: int = 0) -> Iterator[_Segment]:
    """The segments of the picture at `start`, in order, up to and including the first SOS.

    Bytes between segments are skipped, as libjpeg does. Raises: BrokenImage.
    """
    if data[start : start + 2] != b"\xff\xd8":
        raise BrokenImage("The JPEG does not begin with its start marker.")
    at = start + 2
    while True:
        found = _MARKER.search(data, at)
        if found is None:
            raise BrokenImage("The JPEG is cut off before its picture data begins.")
        marker = data[found.end() - 1]
        at = found.end()
        if marker == _EOI:
            raise BrokenImage("The JPEG ends before its picture data begins.")
        (length,) = unpack(">H", data, at, "header")
        if length < 2 or at + length > len(data):
            raise BrokenImage("The JPEG is cut off or damaged in its header: a segment ends after the end of the file.")
        yield _Segment(marker, found.end() - 2, at + 2, at + length)
        if marker == _SOS:
            return
        at += length


def size(data: Data, start: int = 0) -> tuple[int, int]:
    """Width and height of the picture at `start`, as stored. Raises: BrokenImage."""
    frame = _frame_header(data, start)
    height, width = unpack(">HH", data, frame.payload + 1, "frame header", frame.end)
    return width, height


def components(data: Data) -> int:
    """The number of components: 1 is grey, 3 colour, 4 CMYK or YCCK."""
    frame = _frame_header(data)
    return unpack(">BHHB", data, frame.payload, "frame header", frame.end)[3]


def luma_sampling(data: Data) -> tuple[int, int]:
    """The horizontal and vertical sampling factors of luma; (2, 2) is 4:2:0."""
    frame = _frame_header(data)
    sampling = unpack(">BHHBBB", data, frame.payload, "frame header", frame.end)[5]
    return sampling >> 4, sampling & 15


def _frame_header(data: Data, start: int = 0) -> _Segment:
    """The first frame header of the picture at `start`. Raises: BrokenImage if there is none."""
    for segment in segments(data, start):
        if segment.marker in _FRAME_MARKERS:
            return segment
    raise BrokenImage("The JPEG has no frame header that says its size.")


def read_blocks(data: Data) -> Blocks:
    """The metadata blocks, the first of each kind. ICC profile, IPTC and extended XMP are joined from their segments.

    Extended XMP belongs to the packet that names its 32-digit GUID.
    """
    exif_block = xmp = None
    resources, resource_bytes = [], 0
    more_xmp: dict[bytes, dict[int, bytes]] = {}
    icc: dict[int, bytes] = {}
    for segment in segments(data):
        payload = data[segment.payload : segment.end]
        if segment.marker == _APP1 and payload.startswith(EXIF):
            exif_block = exif_block or payload[len(EXIF) :]
        elif segment.marker == _APP1 and payload.startswith(_XMP):
            xmp = xmp or payload[len(_XMP) :]
        elif segment.marker == _APP1 and payload.startswith(_EXTENDED_XMP) and len(payload) >= len(_EXTENDED_XMP) + 40:
            guid, rest = payload[len(_EXTENDED_XMP) : len(_EXTENDED_XMP) + 32], payload[len(_EXTENDED_XMP) + 32 :]
            more_xmp.setdefault(guid, {}).setdefault(int.from_bytes(rest[4:8], "big"), rest[8:])
        elif segment.marker == _APP13 and payload.startswith(PHOTOSHOP) and resource_bytes < MAX_BLOCK_BYTES:
            resources.append(payload[len(PHOTOSHOP) :])
            resource_bytes += len(payload)
        elif segment.marker == _APP2 and payload.startswith(_ICC) and len(payload) > len(_ICC) + 2:
            icc.setdefault(payload[len(_ICC)], payload[len(_ICC) + 2 :])
    profile = b"".join(icc[number] for number in sorted(icc))
    return Blocks(
        exif_block,
        xmp,
        iptc.from_photoshop(b"".join(resources)),
        profile if 0 < len(profile) <= MAX_BLOCK_BYTES else None,
        more_xmp=next((_joined(more_xmp[guid]) for guid in more_xmp if guid in (xmp or b"")), None),
    )


def _joined(pieces: dict[int, bytes]) -> bytes | None:
    """Pieces by their offset, joined; None if there is a gap before one, or if they are too long."""
    out = []
    end = 0
    for start in sorted(pieces):
        if start != end or start > MAX_BLOCK_BYTES:
            return None
        out.append(pieces[start])
        end += len(pieces[start])
    return b"".join(out)


def _picture_end(data: Data, start: int = 0) -> int:
    """The offset after the EOI marker of the picture at `start`. Raises: BrokenImage if there is none."""
    scan = 0
    for segment in segments(data, start):
        scan = segment.end
    return max(end for _, end in _between_scans(data, scan))


@bounded
def _between_scans(data: Data, at: int) -> Iterator[tuple[int, int]]:
    """The start and end of each segment after the first scan's header, the last being EOI.

    Raises: BrokenImage if there is no EOI.
    """
    while True:
        found = _MARKER.search(data, at)
        if found is None:
            raise BrokenImage("The JPEG is cut off: its end marker is missing.")
        if data[found.end() - 1] == _EOI:
            yield found.start(), found.end()
            return
        (length,) = unpack(">H", data, found.end(), "picture data")
        at = found.end() + max(2, length)
        yield found.start(), at


def quantization(data: Data, table: int = 0) -> tuple[int, ...]:
    """The 64 values of a quantization table in zigzag order. Encoders use table 0 for luma and 1 for chroma."""
    for segment in segments(data):
        at = segment.payload if segment.marker == _DQT else segment.end
        while at < segment.end:
            wide, number = data[at] >> 4, data[at] & 15
            if number == table:
                return unpack(">64H" if wide else "64B", data, at + 1, "quantization table", segment.end)
            at += 129 if wide else 65
    raise BrokenImage(f"The JPEG has no quantization table {table}.")


def gain_map(data: Data) -> bytes | None:
    """The gain map of an Ultra HDR JPEG, which is a further JPEG after the first; None if there is none.

    Of several further pictures, some of which may be previews, it is the first that is marked as a gain map, or else
    the first of them. Source: ISO 21496-1; Ultra HDR image format 1.1: announced in XMP or in an APP2 segment.
    """
    if not any(_gain_map_segments(data)):
        return None
    first: bytes | None = None
    end = _picture_end(data)
    while (start := data.find(b"\xff\xd8\xff", end)) >= 0:
        try:
            end = _picture_end(data, start)
            size(data, start)
        except BrokenImage:  # damaged: as if nothing followed
            break
        if any(_gain_map_segments(data, start)):
            return data[start:end]
        first = first or data[start:end]
    return first


def _gain_map_segments(data: Data, start: int = 0) -> Iterator[_Segment]:
    """The segments of the picture at `start` that describe a gain map."""
    for segment in segments(data, start):
        payload = data[segment.payload : segment.end]
        if segment.marker in (_APP1, _APP2) and any(name in payload for name in GAIN_MAP_IDENTIFIERS):
            yield segment


def _segment_bytes(marker: int, payload: bytes) -> bytes:
    """A segment with its marker and length."""
    return struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload


def with_blocks(data: Data, blocks: Blocks) -> bytes:
    """The file with these metadata blocks and no others; frame headers, tables and scans are copied bit for bit.

    Segments that no decoder needs, and everything after EOI, are removed: previews, the gain map, appended videos.
    """
    out = [b"\xff\xd8"]
    picture: list[bytes] = []
    scan = 0
    for segment in segments(data):
        kept = _kept(segment.marker, data[segment.payload : segment.end])
        scan = segment.end
        if kept is not None:
            (out if segment.marker == _APP0 else picture).append(_segment_bytes(segment.marker, kept))
    out += _block_segments(blocks)
    return b"".join([*out, *picture, *_scans(data, scan)])


def _kept(marker: int, payload: bytes) -> bytes | None:
    """What `with_blocks` keeps of a segment's payload; None if it removes the segment."""
    if marker == _APP0 and payload.startswith(b"JFIF\0") and len(payload) >= _JFIF_BYTES:
        # version, unit and density, without a thumbnail. Decoders ignore shorter segments.
        return payload[:12] + b"\0\0"
    if marker == _APP14 and payload.startswith(b"Adobe"):
        return payload[:12]  # version, flags and colour transform
    return payload if marker in _PICTURE_MARKERS else None


def dropped(data: Data) -> Iterator[Removed | None]:
    """The kinds of private data in what `with_blocks` does not keep, apart from the blocks and the gain map.

    Extended XMP that was not read belongs to no packet, or is damaged.
    """
    seen, scan, extended_bytes = set(), 0, 0
    for segment in segments(data):
        scan = segment.end
        payload = data[segment.payload : segment.end]
        name = next((each for each in _BLOCKS.get(segment.marker, ()) if payload.startswith(each)), None)
        is_second = name in (EXIF, _XMP) and name in seen
        seen.add(name)
        if payload == _kept(segment.marker, payload):
            continue
        if segment.marker == _COM:
            yield Removed.COMMENT
        elif name == PHOTOSHOP:
            yield from iptc.kinds_of_resources(payload[len(PHOTOSHOP) :])
        elif name == _EXTENDED_XMP:
            extended_bytes += len(payload) - len(_EXTENDED_XMP) - 40
        elif name in (_MPF, _ISO_GAIN_MAP):
            yield None if _is_plain_index(payload) or _is_plain_description(payload) else Removed.OTHER
        elif segment.marker == _APP0 and (payload.startswith(b"JFXX\0") or len(payload) > _JFIF_BYTES):
            yield Removed.THUMBNAIL
        else:
            yield Removed.OTHER if name is None or is_second else None
    if extended_bytes != len(read_blocks(data).more_xmp or b""):
        yield Removed.UNREADABLE
    end, own = _picture_end(data), gain_map(data) or b""
    if len(_scans(data, scan)) > 1:  # something between the scans is left out
        yield Removed.OTHER
    start = data.find(own, end)
    if start > end:
        yield Removed.THUMBNAIL
    rest = start + len(own)
    yield Removed.THUMBNAIL if data[rest : rest + 2] == b"\xff\xd8" else kind_of_rest(data, rest)


def _is_plain_index(payload: bytes) -> bool:
    """Whether a multi-picture index has nothing but the version, the number and the entries of the pictures."""
    index = exif.read_ifd(payload[len(_MPF) :])
    entries = index.fields.get(_MPF_ENTRIES)
    is_known = index.fields.keys() == {0xB000, 0xB001, _MPF_ENTRIES} and not index.has_next
    return is_known and entries is not None and len(payload) == len(_MPF) + 50 + entries.end - entries.start


def _is_plain_description(payload: bytes) -> bool:
    """Whether an ISO segment has nothing but two versions, as in a picture, or the fields of a gain map."""
    field_bytes = len(_iso_fields(payload + bytes(200)))
    return payload.startswith(_ISO_GAIN_MAP) and len(payload) in (len(_ISO_GAIN_MAP) + 5, field_bytes)


def _scans(data: Data, start: int) -> list[bytes]:
    """The picture data up to EOI, without segments that no decoder needs and the fill bytes before them."""
    found = []
    segment_end = start
    for at, stop in _between_scans(data, start):
        if data[at + 1] not in _PICTURE_MARKERS and data[at + 1] != _EOI:
            end = at
            while end > segment_end and data[end - 1] == 0xFF:  # would make a marker of the byte after the segment
                end -= 1
            found.append(data[start:end])
            start = stop
        segment_end = stop
    return [*found, data[start : _picture_end(data)]]


def with_blocks_and_gain_map(data: Data, blocks: Blocks, gain_map: bytes) -> bytes:
    """Like `with_blocks`, with the gain map after the picture.

    The multi-picture index, through which programs find the gain map, is written anew; so are, where the gain map is
    described as in ISO 21496-1, the versions that the picture has of that description, which are 0.
    """
    primary, head = with_blocks(data, blocks), b"\xff\xd8"
    if iso_gain_map_segments(gain_map):
        head += _segment_bytes(_APP2, _ISO_GAIN_MAP + b"\0" + bytes(4))
    index_bytes = 4 + len(_MPF) + 82
    primary_bytes = len(head) + index_bytes + len(primary) - 2
    # offsets count from the index's own TIFF header
    offset = primary_bytes - (len(head) + 4 + len(_MPF))
    index = _segment_bytes(_APP2, _MPF + _multi_picture_index(primary_bytes, offset, len(gain_map)))
    return head + index + primary[2:] + gain_map


def iso_gain_map_segments(gain_map: Data) -> bytes:
    """The APP2 segments of a gain map that describe it as in ISO 21496-1, joined, without what follows their fields."""
    payloads = (gain_map[each.payload : each.end] for each in segments(gain_map) if each.marker == _APP2)
    return b"".join(_segment_bytes(_APP2, _iso_fields(each)) for each in payloads if each.startswith(_ISO_GAIN_MAP))


def _iso_fields(payload: bytes) -> bytes:
    """The fields of a description: two versions, flags and fractions. Source: ISO 21496-1, C.2."""
    start = len(_ISO_GAIN_MAP) + 1
    flags = int.from_bytes(payload[start + 4 : start + 5], "big")
    channels, has_common_denominator = 3 if flags & 0x80 else 1, flags & 8
    return payload[: start + 5 + (12 + 20 * channels if has_common_denominator else 16 + 40 * channels)]


def _multi_picture_index(primary_bytes: int, second_offset: int, second_bytes: int) -> bytes:
    """A TIFF structure of 82 bytes that lists two pictures. Source: CIPA DC-007, 5.2."""
    entries = struct.pack("<IIIHH", 0x030000, primary_bytes, 0, 0, 0) + struct.pack(
        "<IIIHH", 0, second_bytes, second_offset, 0, 0
    )
    fields = struct.pack("<HHI4s", 0xB000, 7, 4, b"0100") + struct.pack("<HHII", 0xB001, 4, 1, 2)
    fields += struct.pack("<HHII", 0xB002, 7, len(entries), 50)
    return b"II*\0" + struct.pack("<IH", 8, 3) + fields + struct.pack("<I", 0) + entries


def _block_segments(blocks: Blocks) -> list[bytes]:
    out = []
    if blocks.exif:
        out.append(_segment_bytes(_APP1, EXIF + blocks.exif))
    if blocks.xmp:
        out.append(_segment_bytes(_APP1, _XMP + blocks.xmp))
    if blocks.iptc:
        # readers join the resources of all segments
        resources = iptc.to_photoshop(blocks.iptc)
        pieces = [resources[at : at + _RESOURCES_PIECE] for at in range(0, len(resources), _RESOURCES_PIECE)]
        out += [_segment_bytes(_APP13, PHOTOSHOP + piece) for piece in pieces]
    if blocks.icc:
        pieces = [blocks.icc[at : at + _ICC_PIECE] for at in range(0, len(blocks.icc), _ICC_PIECE)]
        for number, piece in enumerate(pieces, 1):
            out.append(_segment_bytes(_APP2, _ICC + bytes((number, len(pieces))) + piece))
    return out


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
    new = _segment_bytes(_APP1, _XMP + xmp)
    moved = b"".join([data[:start], new, data[end:]])
    shift = len(new) - (end - start)
    if index is None:
        return moved
    if start < index.payload:
        return _with_moved_index(moved, index.payload + len(_MPF) + shift, shift, 0)
    return _with_moved_index(moved, index.payload + len(_MPF), shift, shift)


def _xmp_place(data: Data) -> tuple[int, int, _Segment | None]:
    """The start and end of the first XMP packet, or twice where one belongs; and the multi-picture index."""
    found: _Segment | None = None
    index: _Segment | None = None
    at = 2
    for segment in segments(data):
        head = data[segment.payload : min(segment.end, segment.payload + len(_XMP))]
        if segment.marker == _APP1 and head == _XMP:
            found = found or segment
        elif segment.marker == _APP2 and head.startswith(_MPF):
            index = index or segment
        is_exif = segment.marker == _APP1 and head.startswith(EXIF)
        if segment.start == at and (segment.marker == _APP0 or is_exif):
            at = segment.end
    return (found.start, found.end, index) if found else (at, at, index)


def _with_moved_index(data: bytes, start: int, shift: int, after_index: int) -> bytes:
    """The file with its multi-picture index, a TIFF structure at `start`, adjusted: the first picture grew by `shift`
    bytes, of which `after_index` lie between the index and the pictures that follow. Source: CIPA DC-007, 5.2.3.
    """
    order = ">" if data[start : start + 2] == b"MM" else "<"
    out = bytearray(data)
    (ifd,) = unpack(order + "I", data, start + 4, "multi-picture index")
    (count,) = unpack(order + "H", data, start + ifd, "multi-picture index")
    for number in range(count):
        tag, _, size, at = unpack(order + "HHII", data, start + ifd + 2 + 12 * number, "multi-picture index")
        if tag == _MPF_ENTRIES:
            for entry in range(start + at, start + at + size // 16 * 16, 16):
                length, offset = unpack(order + "II", data, entry + 4, "multi-picture index")
                # the first picture has no offset
                field, value = (entry + 8, offset + after_index) if offset else (entry + 4, length + shift)
                out[field : field + 4] = struct.pack(order + "I", value)
            break
    return bytes(out)
