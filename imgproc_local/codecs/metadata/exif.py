"""EXIF as a TIFF structure, read with every offset checked, and written with a few texts, the orientation and fields
that are preserved as they are.

A damaged structure is read as far as possible; nothing here raises.
Source: CIPA DC-008 (Exif 3.0), TIFF 6.0.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from msgspec import Struct

from imgproc_local.codecs.metadata.blocks import Data, text_of
from imgproc_local.domain.image import Kept

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

_KEPT_IN_MAIN = {MAKE: Kept.CAMERA, MODEL: Kept.CAMERA, 0x0132: Kept.DATES, 0x4746: Kept.RATING, 0x4749: Kept.RATING}
_KEPT_IN_SHOT = {
    **dict.fromkeys((0x9003, 0x9004, *range(0x9010, 0x9013), *range(0x9290, 0x9293)), Kept.DATES),
    # exposure time, aperture, programme, sensitivity, the same in APEX, metering, light, flash, focal length
    **dict.fromkeys((0x829A, 0x829D, 0x8822, 0x8827, 0x8830, *range(0x8831, 0x8836)), Kept.CAMERA),
    **dict.fromkeys((*range(0x9201, 0x9206), *range(0x9207, 0x920B)), Kept.CAMERA),
    # exposure mode, white balance, digital zoom, focal length in 35 mm; specification, make and model of the lens
    **dict.fromkeys((*range(0xA402, 0xA407), *range(0xA432, 0xA435)), Kept.CAMERA),
}
"""The fields of IFD0 and of EXIF's own directory that settings preserve. Beside them are serial numbers, the owner's
name and the maker note. Source: CIPA DC-008, 4.6.5; for the rating, ExifTool's tag names."""
_MAX_KEPT_BYTES = 64

MAX_TEXT_BYTES = 64 * 1024
"""The longest field that is read. A JPEG segment can't hold more."""

MAX_IFD_ENTRIES = 512
"""Entries of one IFD of EXIF; cameras write fewer than 100."""

TIFF_TAGS = frozenset(
    (*range(269, 274), _ORIENTATION, 285, 305, 306, ARTIST, 316, 337, COPYRIGHT, *XP_FIELDS, EXIF_IFD, GPS_IFD, 0xC62F)
)
"""The fields in the first directory of a TIFF file that are about the picture; others describe its pixels."""

_HEADER_BYTES = 8
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 13: 4, 129: 1}
"""Bytes per value by field type; 13 is IFD, an offset like LONG, and 129 is UTF-8, since Exif 3.0."""
_ASCII, _SHORT, _LONG, _OFFSET = 2, 3, 4, 13
_NUMERIC = (_SHORT, _LONG, 5, 9, 10)
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


_Values = dict[int, tuple[int, bytes]]
"""The type and the bytes of each field of a directory, by tag."""


class KeptFields(Struct, frozen=True):
    """Fields of IFD0 (`main`) and of EXIF's own directory (`shot`) as a file has them, in its byte order."""

    order: str = "<"
    main: _Values = {}
    shot: _Values = {}


def kept_fields(main: Ifd, shot: Ifd, kept: frozenset[Kept], clean: Callable[[str], str]) -> KeptFields:
    """The fields of two directories that `kept` asks for, without those whose text `clean` would change."""

    def values(ifd: Ifd, tags: Mapping[int, Kept]) -> _Values:
        found = {}
        for tag in (tag for tag, kind in tags.items() if kind in kept and tag in ifd.fields):
            field = ifd.fields[tag]
            raw = bytes(ifd.tiff[field.start : field.end]) if field.end - field.start <= _MAX_KEPT_BYTES else b""
            if field.kind == _ASCII and (text := ifd.text(tag)) and raw and clean(text) == text:
                found[tag] = _ASCII, text.encode("utf-8", "ignore") + b"\0"  # nothing hides after the NUL
            elif field.kind in _NUMERIC and raw:
                found[tag] = field.kind, raw
        return found

    found = values(main, _KEPT_IN_MAIN), values(shot, _KEPT_IN_SHOT)
    return KeptFields(main.order, *found) if any(found) else KeptFields()


def write(texts: Mapping[int, str], orientation_value: int, max_bytes: int, kept: KeptFields) -> bytes | None:
    """A TIFF structure of these texts of IFD0, in UTF-8, the orientation and `kept`; None if it would have no field.

    If it would be longer than `max_bytes`, the longest texts are omitted.
    """
    main = dict(kept.main)
    if orientation_value != 1:
        main[_ORIENTATION] = _SHORT, struct.pack(kept.order + "H", orientation_value)
    if kept.shot:
        main[EXIF_IFD] = _LONG, bytes(4)
    size = _HEADER_BYTES + len(_directory(kept.order, main, 0)) + len(_directory(kept.order, kept.shot, 0))
    for tag, text in sorted(texts.items(), key=lambda field: len(field[1])):
        raw = text.replace("\0", "").encode("utf-8", "ignore") + b"\0"
        size += 12 + len(raw) + len(raw) % 2
        if len(raw) > 1 and size <= max_bytes:
            main[tag] = _ASCII, raw
    if not main:
        return None
    at = _HEADER_BYTES + len(_directory(kept.order, main, 0))
    if kept.shot:
        main[EXIF_IFD] = _LONG, struct.pack(kept.order + "I", at)
    head = (b"II*\0" if kept.order == "<" else b"MM\0*") + struct.pack(kept.order + "I", _HEADER_BYTES)
    shot = _directory(kept.order, kept.shot, at) if kept.shot else b""
    return head + _directory(kept.order, main, _HEADER_BYTES) + shot


def _directory(order: str, values: _Values, at: int) -> bytes:
    """A directory that begins at the offset `at`, and its values that do not fit into it."""
    head, tail = struct.pack(order + "H", len(values)), b""
    for tag, (kind, raw) in sorted(values.items()):
        stored = raw.ljust(4, b"\0")
        if len(raw) > 4:
            stored = struct.pack(order + "I", at + 2 + 12 * len(values) + 4 + len(tail))
            tail += raw + b"\0" * (len(raw) % 2)
        head += struct.pack(order + "HHI", tag, kind, len(raw) // _SIZES[kind]) + stored
    return head + struct.pack(order + "I", 0) + tail
