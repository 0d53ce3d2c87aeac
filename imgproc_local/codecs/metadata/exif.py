"""EXIF as a TIFF structure, read with every offset checked, and written with a few texts and the orientation.

A damaged structure is read as far as possible; nothing here raises.
Source: CIPA DC-008 (Exif 3.0), TIFF 6.0.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from fractions import Fraction

from imgproc_local.codecs.metadata import xmp
from imgproc_local.codecs.metadata.blocks import text_of
from imgproc_local.codecs.metadata.bounds import MAX_BLOCK_BYTES, MAX_EXIF_NUMBERS, MAX_EXIF_TEXT_BYTES, MAX_IFD_ENTRIES

IMAGE_DESCRIPTION = 0x010E
MAKE = 0x010F
MODEL = 0x0110
ORIENTATION = 0x0112
ARTIST = 0x013B
COPYRIGHT = 0x8298
EXIF_IFD = 0x8769
GPS_IFD = 0x8825
DATE_TIME_ORIGINAL = 0x9003
XP_TITLE, XP_COMMENT, XP_AUTHOR, XP_KEYWORDS, XP_SUBJECT = XP_FIELDS = range(0x9C9B, 0x9CA0)

FIELDS = {
    IMAGE_DESCRIPTION: xmp.DC + "description",
    ARTIST: xmp.DC + "creator",
    COPYRIGHT: xmp.DC + "rights",
    XP_TITLE: xmp.DC + "title",
    XP_COMMENT: xmp.DC + "description",
    XP_AUTHOR: xmp.DC + "creator",
    XP_KEYWORDS: xmp.DC + "subject",
    XP_SUBJECT: xmp.PHOTOSHOP + "Headline",
}
"""The fields of IFD0 whose words are preserved, and the XMP properties of the same meaning.

Windows' subject is a line about the whole picture, as a headline is; `dc:subject` are keywords.
"""

_STRUCTURE_BYTES = 8 + 2 + 12 + 4
"""The size without text fields: header, number of entries, orientation and offset of the next IFD."""
_READ_TAGS = frozenset(
    (
        IMAGE_DESCRIPTION, MAKE, MODEL, ORIENTATION, ARTIST, COPYRIGHT, EXIF_IFD, GPS_IFD, DATE_TIME_ORIGINAL,
        XP_TITLE, XP_COMMENT, XP_AUTHOR, XP_KEYWORDS, XP_SUBJECT, *range(1, 5),
    )
)  # fmt: skip
"""The tags that are read; 1 to 4 are those of a GPS IFD.

Others are skipped: in a hostile file every entry may point to the same large value, which would be copied each time.
"""
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 13: 4, 129: 1}
"""Bytes per value by field type; 13 is IFD, an offset like LONG, and 129 is UTF-8, since Exif 3.0."""
_ASCII, _SHORT, _LONG, _RATIONAL, _SIGNED_RATIONAL, _OFFSET = 2, 3, 4, 5, 10, 13
_NUMBERS = (_SHORT, _LONG, _RATIONAL, _SIGNED_RATIONAL, _OFFSET)

Value = bytes | tuple[int, ...] | tuple[Fraction, ...]


def read_ifd(tiff: bytes, pointer_tag: int | None = None) -> dict[int, Value]:
    """The values of IFD0, or of the IFD that `pointer_tag` in IFD0 points to, by tag; the first of equal tags.

    Only `_READ_TAGS` are read. Text and undefined values are bytes, numbers are tuples. Empty if there is no such IFD
    or it can't be read.
    """
    offset, order = _ifd_offset(tiff, pointer_tag)
    return _entries(tiff, order, offset)


def field_ranges(tiff: bytes, pointer_tag: int | None = None) -> dict[int, tuple[int, int]]:
    """The start and end of the value of every field of IFD0, or of the IFD that `pointer_tag` points to, by tag.

    For a field that can't be read, the end is less than the start. Ranges may overlap or be equal.
    """
    offset, order = _ifd_offset(tiff, pointer_tag)
    found: dict[int, tuple[int, int]] = {}
    for number in range(_entry_count(tiff, offset, order)):
        at = offset + 2 + 12 * number
        if at + 12 > len(tiff):
            break
        tag, kind, items = struct.unpack_from(order + "HHI", tiff, at)
        size = _SIZES.get(kind, 0) * items
        start = at + 8 if size <= 4 else struct.unpack_from(order + "I", tiff, at + 8)[0]
        is_read = items == 0 or 0 < size <= len(tiff) - start
        found.setdefault(tag, (start, start + size) if is_read else (at, at - 1))
    return found


def has_second_ifd(tiff: bytes) -> bool:
    """Whether IFD0 is followed by IFD1, which describes a thumbnail."""
    offset, order = _ifd_offset(tiff, None)
    at = offset + 2 + 12 * _entry_count(tiff, offset, order)
    return offset > 0 and at + 4 <= len(tiff) and any(tiff[at : at + 4])


def is_complete(tiff: bytes) -> bool:
    """Whether all entries of IFD0 and of the IFDs that it points to are read: none is cut off, or exceeds the bound.

    Their values may lie outside the block nevertheless, see `field_ranges`.
    """
    for pointer in (None, EXIF_IFD, GPS_IFD):
        offset, order = _ifd_offset(tiff, pointer)
        if not offset:
            start, end = field_ranges(tiff).get(pointer, (0, 0)) if pointer is not None else (0, 0)
            if end < start or any(tiff[start:end]):  # a pointer that can't be read
                return False
            continue
        count = int(struct.unpack_from(order + "H", tiff, offset)[0]) if offset + 2 <= len(tiff) else 0
        if count != _entry_count(tiff, offset, order) or offset + 2 + 12 * count > len(tiff):
            return False
    return True


def _ifd_offset(tiff: bytes, pointer_tag: int | None) -> tuple[int, str]:
    """The offset of an IFD and the byte order; 0 if there is none."""
    if len(tiff) < 8 or tiff[:4] not in (b"II*\0", b"MM\0*"):
        return 0, "<"
    order = "<" if tiff[:2] == b"II" else ">"
    offset: int = struct.unpack(order + "I", tiff[4:8])[0]
    if pointer_tag is not None:
        pointer = _entries(tiff, order, offset).get(pointer_tag)
        offset = int(pointer[0]) if isinstance(pointer, tuple) and pointer else 0
    return offset, order


def _entry_count(tiff: bytes, offset: int, order: str) -> int:
    if offset < 8 or offset + 2 > len(tiff):
        return 0
    (count,) = struct.unpack_from(order + "H", tiff, offset)
    return min(MAX_IFD_ENTRIES, int(count))


def _entries(tiff: bytes, order: str, offset: int) -> dict[int, Value]:
    found: dict[int, Value] = {}
    for number in range(_entry_count(tiff, offset, order)):
        at = offset + 2 + 12 * number
        if at + 12 > len(tiff):
            break
        tag, kind, items = struct.unpack(order + "HHI", tiff[at : at + 8])
        if (
            tag not in _READ_TAGS
            or tag in found
            or items > (MAX_EXIF_NUMBERS if kind in _NUMBERS else MAX_EXIF_TEXT_BYTES)
        ):
            continue
        size = _SIZES.get(kind, 0) * items
        start = at + 8 if size <= 4 else struct.unpack(order + "I", tiff[at + 8 : at + 12])[0]
        if size == 0 or start + size > len(tiff):
            continue
        value = _value(tiff[start : start + size], order, kind)
        if value is not None:
            found[tag] = value
    return found


def _value(raw: bytes, order: str, kind: int) -> Value | None:
    if kind == _SHORT:
        return struct.unpack(f"{order}{len(raw) // 2}H", raw)
    if kind in (_LONG, _OFFSET):
        return struct.unpack(f"{order}{len(raw) // 4}I", raw)
    if kind in (_RATIONAL, _SIGNED_RATIONAL):
        letter = "I" if kind == _RATIONAL else "i"
        numbers = struct.unpack(f"{order}{len(raw) // 4}{letter}", raw)
        pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
        return None if any(below == 0 for _, below in pairs) else tuple(Fraction(*pair) for pair in pairs)
    return raw


def orientation(tiff: bytes | None) -> int:
    """The orientation from 1 to 8; 1 if there is none or it is out of this range."""
    value = read_ifd(tiff or b"").get(ORIENTATION)
    return int(value[0]) if isinstance(value, tuple) and value and 1 <= value[0] <= 8 else 1


def text(value: Value | None) -> str:
    """The text of an ASCII field, which many writers fill with UTF-8, stripped; "" if the field is not text."""
    if not isinstance(value, bytes):
        return ""
    return text_of(value.split(b"\0", 1)[0])


def copyright_text(value: Value | None) -> str:
    """The photographer's copyright and the editor's, joined; "" if both are missing.

    Source: CIPA DC-008, 4.6.4.D: a NUL separates the two.
    """
    holders = value.split(b"\0", 2)[:2] if isinstance(value, bytes) else []
    return "; ".join(text for text in map(text_of, holders) if text)


def wide_text(value: Value | None) -> str:
    """The text of one of Windows' XP fields: UTF-16, little-endian whatever the byte order of the structure."""
    return value.decode("utf-16-le", "ignore").split("\0", 1)[0].strip() if isinstance(value, bytes) else ""


def field_text(tag: int, value: Value | None) -> str:
    """The text of one of the `FIELDS`."""
    if tag == COPYRIGHT:
        return copyright_text(value)
    return wide_text(value) if tag in XP_FIELDS else text(value)


def write(texts: Mapping[int, str], orientation_value: int = 1, max_bytes: int = MAX_BLOCK_BYTES) -> bytes | None:
    """A TIFF structure of these texts of IFD0, in UTF-8, and the orientation; None if it would have no field.

    If it would be longer than `max_bytes`, the longest texts are omitted.
    """
    fields: dict[int, bytes] = {}
    size = _STRUCTURE_BYTES
    for tag, text in sorted(texts.items(), key=lambda field: len(field[1])):
        raw = text.replace("\0", "").encode("utf-8", "ignore") + b"\0"
        size += 12 + len(raw) + len(raw) % 2
        if len(raw) > 1 and size <= max_bytes:
            fields[tag] = raw
    tags = sorted([*fields, *([ORIENTATION] if orientation_value != 1 else [])])
    if not tags:
        return None
    head = b"II*\0" + struct.pack("<IH", 8, len(tags))
    free = len(head) + 12 * len(tags) + 4
    tail = b""
    for tag in tags:
        if tag == ORIENTATION:
            head += struct.pack("<HHIHH", tag, _SHORT, 1, orientation_value, 0)
            continue
        raw = fields[tag]
        if len(raw) <= 4:
            head += struct.pack("<HHI", tag, _ASCII, len(raw)) + raw.ljust(4, b"\0")
        else:
            head += struct.pack("<HHII", tag, _ASCII, len(raw), free + len(tail))
            tail += raw + b"\0" * (len(raw) % 2)
    return head + struct.pack("<I", 0) + tail
