"""EXIF as a TIFF structure, read with every offset checked, and written with a few texts and the orientation.

A damaged structure is read as far as possible; nothing here raises.
Source: CIPA DC-008 (Exif 3.0), TIFF 6.0.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from msgspec import Struct

from imgproc_local.codecs.metadata.blocks import MAX_BLOCK_BYTES, Data, text_of

IMAGE_DESCRIPTION = 0x010E
MAKE = 0x010F
MODEL = 0x0110
_ORIENTATION = 0x0112
ARTIST = 0x013B
COPYRIGHT = 0x8298
EXIF_IFD = 0x8769
GPS_IFD = 0x8825
DATE_TIME_ORIGINAL = 0x9003
XP_FIELDS = range(0x9C9B, 0x9CA0)
"""Windows' title, comment, author, keywords and subject."""

MAX_TEXT_BYTES = 64 * 1024
"""The longest field that is read. A JPEG segment can't hold more."""

MAX_IFD_ENTRIES = 512
"""Entries of one IFD of EXIF; cameras write fewer than 100."""

TIFF_TAGS = frozenset(
    (*range(269, 274), _ORIENTATION, 285, 305, 306, ARTIST, 316, 337, COPYRIGHT, *XP_FIELDS, EXIF_IFD, GPS_IFD, 0xC62F)
)
"""The fields in the first directory of a TIFF file that are about the picture; others describe its pixels."""

_STRUCTURE_BYTES = 8 + 2 + 12 + 4
"""The size without text fields: header, number of entries, orientation and offset of the next IFD."""
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 13: 4, 129: 1}
"""Bytes per value by field type; 13 is IFD, an offset like LONG, and 129 is UTF-8, since Exif 3.0."""
_ASCII, _SHORT, _LONG, _OFFSET = 2, 3, 4, 13
_NUMBERS = {_SHORT: "H", _LONG: "I", _OFFSET: "I"}


class _Field(Struct, frozen=True):
    """A value of type `kind`, and where it is in the block. For one that can't be read, `end` is less than `start`."""

    kind: int
    start: int
    end: int


class Ifd(Struct, frozen=True):
    """A directory of fields by tag, the first of equal tags. Their ranges may overlap or be equal.

    `is_complete` is False if entries are cut off or exceed the bound; `has_next` says whether another directory
    follows.
    """

    tiff: Data
    order: str
    fields: dict[int, _Field]
    is_complete: bool
    has_next: bool = False

    def number(self, tag: int) -> int:
        """The first whole number of a field; 0 if there is none."""
        field = self.fields.get(tag)
        if field is None or field.kind not in _NUMBERS or field.end <= field.start:
            return 0
        return int(struct.unpack_from(self.order + _NUMBERS[field.kind], self.tiff, field.start)[0])

    def raw(self, tag: int) -> bytes:
        """The bytes of a field; empty if it is missing, can't be read, holds numbers or is too long."""
        field = self.fields.get(tag)
        if field is None or field.kind in _NUMBERS or not 0 <= field.end - field.start <= MAX_TEXT_BYTES:
            return b""
        return self.tiff[field.start : field.end]

    def text(self, tag: int) -> str:
        """The text of a field, which many writers fill with UTF-8, stripped; "" if there is none.

        Windows' fields are UTF-16, little-endian whatever the byte order of the structure. A copyright is the
        photographer's and the editor's, which a NUL separates, joined. Source: CIPA DC-008, 4.6.4.D.
        """
        raw = self.raw(tag)
        if tag in XP_FIELDS:
            return raw.decode("utf-16-le", "ignore").split("\0", 1)[0].strip()
        parts = raw.split(b"\0", 2)[: 2 if tag == COPYRIGHT else 1]
        return "; ".join(text for text in map(text_of, parts) if text)


def read_ifd(tiff: Data | None, pointer_tag: int | None = None) -> Ifd:
    """IFD0, or the IFD that `pointer_tag` in IFD0 points to; without fields if there is none or it can't be read."""
    if tiff is None or len(tiff) < 8 or tiff[:4] not in (b"II*\0", b"MM\0*"):
        return Ifd(b"", "<", {}, is_complete=True)
    order = "<" if tiff[:2] == b"II" else ">"
    main = _ifd_at(tiff, order, struct.unpack_from(order + "I", tiff, 4)[0])
    if pointer_tag is None:
        return main
    if offset := main.number(pointer_tag):
        return _ifd_at(tiff, order, offset)
    pointer = main.fields.get(pointer_tag)
    is_null = pointer is None or (pointer.start <= pointer.end and not any(tiff[pointer.start : pointer.end]))
    return Ifd(tiff, order, {}, is_complete=is_null)


def _ifd_at(tiff: Data, order: str, offset: int) -> Ifd:
    if offset < 8 or offset + 2 > len(tiff):
        return Ifd(tiff, order, {}, is_complete=offset == 0)
    (count,) = struct.unpack_from(order + "H", tiff, offset)
    read = min(count, MAX_IFD_ENTRIES, (len(tiff) - offset - 2) // 12)
    fields: dict[int, _Field] = {}
    for at in range(offset + 2, offset + 2 + 12 * read, 12):
        tag, kind, items = struct.unpack_from(order + "HHI", tiff, at)
        size = _SIZES.get(kind, 0) * items
        start = at + 8 if size <= 4 else struct.unpack_from(order + "I", tiff, at + 8)[0]
        is_readable = items == 0 or 0 < size <= len(tiff) - start
        fields.setdefault(tag, _Field(kind, start, start + size) if is_readable else _Field(kind, at, at - 1))
    end = offset + 2 + 12 * read
    return Ifd(tiff, order, fields, is_complete=read == count, has_next=any(tiff[end : end + 4]))


def orientation(tiff: bytes | None) -> int:
    """The orientation from 1 to 8; 1 if there is none or it is out of this range."""
    value = read_ifd(tiff).number(_ORIENTATION)
    return value if 1 <= value <= 8 else 1


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
    tags = sorted([*fields, *([_ORIENTATION] if orientation_value != 1 else [])])
    if not tags:
        return None
    head = b"II*\0" + struct.pack("<IH", 8, len(tags))
    free = len(head) + 12 * len(tags) + 4
    tail = b""
    for tag in tags:
        if tag == _ORIENTATION:
            head += struct.pack("<HHIHH", tag, _SHORT, 1, orientation_value, 0)
            continue
        raw = fields[tag]
        if len(raw) <= 4:
            head += struct.pack("<HHI", tag, _ASCII, len(raw)) + raw.ljust(4, b"\0")
        else:
            head += struct.pack("<HHII", tag, _ASCII, len(raw), free + len(tail))
            tail += raw + b"\0" * (len(raw) % 2)
    return head + struct.pack("<I", 0) + tail
