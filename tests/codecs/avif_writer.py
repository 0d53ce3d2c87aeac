"""Writes AVIFs from items as tests need them: with any metadata, in any place of the file, with any references."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from msgspec import Struct

from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container.avif import box_bytes, boxes, meta_box, picture_items, properties

_ESSENTIAL = 0x80
_IN_FILE, _IN_IDAT = 0, 1


class CodedPicture(Struct, frozen=True):
    """The AV1 data of one picture, and the property boxes that describe it."""

    data: bytes
    properties: tuple[bytes, ...]


class _Item(Struct, frozen=True):
    kind: bytes
    content: bytes
    properties: tuple[bytes, ...] = ()
    place: int = _IN_FILE
    content_type: bytes = b""


def assemble(encoded: bytes, blocks: Blocks) -> bytes:
    """An AVIF without alpha with these metadata blocks, whatever they contain."""
    picture = picture_of(encoded)
    items = [_Item(b"av01", picture.data, picture.properties)]
    if blocks.exif:
        items.append(_Item(b"Exif", b"\0\0\0\0" + blocks.exif))
    if blocks.xmp:
        items.append(_Item(b"mime", blocks.xmp, content_type=b"application/rdf+xml\0"))
    return _file(encoded, items, [(b"cdsc", number, [1]) for number in range(2, len(items) + 1)])


def picture_of(encoded: bytes) -> CodedPicture:
    """The coded colours of an AVIF."""
    item = picture_items(encoded)[0]
    own = properties(encoded, meta_box(encoded))[item.id]
    extent = item.extents[0]
    data = encoded[extent.offset : extent.offset + extent.length]
    return CodedPicture(data, tuple(encoded[box.start : box.end] for box in own))


def _file(template: bytes, items: Sequence[_Item], references: Sequence[tuple[bytes, int, list[int]]]) -> bytes:
    """The file with these items, which are numbered from 1. Its brands and handler are those of the AVIF `template`."""
    head = next(template[box.start : box.end] for box in boxes(template, 0, len(template)) if box.kind == b"ftyp")
    meta = meta_box(template)
    handler = next(template[box.start : box.end] for box in boxes(template, meta.body, meta.end) if box.kind == b"hdlr")
    description = [
        handler,
        _full_box(b"pitm", struct.pack(">H", 1)),
        _full_box(
            b"iinf", struct.pack(">H", len(items)) + b"".join(_entry(n, item) for n, item in enumerate(items, 1))
        ),
    ]
    if references:
        description.append(_full_box(b"iref", b"".join(_reference(*each) for each in references)))
    description.append(_properties_box(items))
    in_idat = b"".join(item.content for item in items if item.place == _IN_IDAT)
    if in_idat:  # libavif refuses an empty one
        description.append(box_bytes(b"idat", in_idat))
    # offsets have a fixed size, so the table's length does not depend on them
    empty = _full_box(b"meta", b"".join([*description, _locations(items, 0)]))
    in_file = _locations(items, len(head) + len(empty) + 8)
    content = b"".join(item.content for item in items if item.place == _IN_FILE)
    return head + _full_box(b"meta", b"".join([*description, in_file])) + box_bytes(b"mdat", content)


def _entry(number: int, item: _Item) -> bytes:
    body = struct.pack(">HH4s", number, 0, item.kind) + b"\0" + item.content_type
    return _full_box(b"infe", body, version=2)


def _reference(kind: bytes, number: int, to: list[int]) -> bytes:
    return box_bytes(kind, struct.pack(f">HH{len(to)}H", number, len(to), *to))


def _properties_box(items: Sequence[_Item]) -> bytes:
    """Each property once, and the table of which items have it. The codec configuration is marked as essential."""
    store: dict[bytes, int] = {}
    owned = []
    for number, item in enumerate(items, 1):
        indices = [
            store.setdefault(box, len(store) + 1) | (_ESSENTIAL if _kind(box) == b"av1C" else 0)
            for box in item.properties
        ]
        if indices:
            owned.append(struct.pack(f">HB{len(indices)}B", number, len(indices), *indices))
    table = _full_box(b"ipma", struct.pack(">I", len(owned)) + b"".join(owned))
    return box_bytes(b"iprp", box_bytes(b"ipco", b"".join(store)) + table)


def _locations(items: Sequence[_Item], start: int) -> bytes:
    """Where each item's content is: in the file from `start` on, or in the `idat` box."""
    at = {_IN_FILE: start, _IN_IDAT: 0}
    entries = []
    for number, item in enumerate(items, 1):
        entries.append(struct.pack(">HHHHII", number, item.place, 0, 1, at[item.place], len(item.content)))
        at[item.place] += len(item.content)
    return _full_box(b"iloc", struct.pack(">BBH", 0x44, 0, len(items)) + b"".join(entries), version=1)


def _kind(box: bytes) -> bytes:
    return box[4:8]


def _full_box(kind: bytes, body: bytes, *, version: int = 0) -> bytes:
    return box_bytes(kind, struct.pack(">I", version << 24) + body)
