"""Joins AVIFs of equal size into one that shows them as a grid, which bounds the memory of their encoder.

Every AVIF reader must support grids.
Source: ISO/IEC 23008-12, 6.6.2.3 (grid) and 6.5.8 (auxC); 23000-22, 7.3.11.4 (even sides where colour is subsampled).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from msgspec import Struct, structs

from imgproc_local.codecs.container.avif import box_bytes, boxes, meta_box, picture_items, properties
from imgproc_local.domain.errors import BrokenImage
from imgproc_local.domain.image import CodedColours

_HIDDEN = 1
_ESSENTIAL = 0x80
_BT601_MATRIX, _FULL_RANGE = 6, 0x80
"""How the encoders here turn RGB into luma and chroma."""


class _Item(Struct, frozen=True):
    """A coded picture, or a grid of the items that follow it; and the property boxes that describe it."""

    kind: bytes
    content: bytes
    properties: Sequence[bytes]
    is_hidden: bool = False


def joined(tiles: Sequence[bytes], columns: int, width_px: int, height_px: int) -> bytes:
    """One AVIF of this size made of AVIFs row by row, without metadata but with their profile.

    The tiles were written with the same options, so that all of them have alpha or none does. The last column and row
    may extend beyond the picture's edge.
    """
    rows = len(tiles) // columns
    if rows * columns != len(tiles):
        raise ValueError(f"expected full rows of tiles, got {len(tiles)} in {columns} columns")
    # version, flags (1: sizes have four bytes), one less than the number of rows and of columns
    grid = struct.pack(">BBBBII", 0, 1, rows - 1, columns - 1, width_px, height_px)
    size = _full_box(b"ispe", struct.pack(">II", width_px, height_px))
    items: list[_Item] = []
    references = b""
    for layer in zip(*map(_pictures, tiles), strict=True):  # the colours, and the alpha if there is any
        number = len(items) + 1
        # the grid has the depth, the profile and the role of its tiles
        shared = [box for box in layer[0].properties if _kind(box) in (b"pixi", b"colr", b"clli", b"auxC")]
        items += [_Item(b"grid", grid, [size, *shared]), *layer]
        references += _reference(b"dimg", number, range(number + 1, len(items) + 1))
        if number > 1:
            references += _reference(b"auxl", number, [1])
    return _file(tiles[0], items, references)


def with_colours(encoded: bytes, colours: CodedColours) -> bytes:
    """An AVIF that an encoder has just written from RGB, with CICP numbers in place of its profile."""
    picture, *alpha = _pictures(encoded)
    kept = [box for box in picture.properties if _kind(box) not in (b"colr", b"clli")]
    numbers = struct.pack(">4sHHHB", b"nclx", colours.primaries, colours.transfer, _BT601_MATRIX, _FULL_RANGE)
    described = [*kept, box_bytes(b"colr", numbers)]
    if colours.is_hdr and colours.max_nits is not None:
        described.append(box_bytes(b"clli", struct.pack(">HH", min(round(colours.max_nits), 0xFFFF), 0)))
    items = [structs.replace(picture, properties=described, is_hidden=False), *alpha]
    return _file(encoded, items, _reference(b"auxl", 2, [1]) if alpha else b"")


def _pictures(encoded: bytes) -> list[_Item]:
    """The coded colours of an AVIF that an encoder has just written, and its coded alpha if it has any."""
    found = []
    properties_by_item = properties(encoded, meta_box(encoded))
    for item in picture_items(encoded):
        if len(item.extents) != 1 or not item.in_file:
            raise BrokenImage("The encoder did not write the AVIF's picture data in one piece.")
        content = encoded[item.extents[0].offset :][: item.extents[0].length]
        own = [encoded[box.start : box.end] for box in properties_by_item.get(item.id, ())]
        found.append(_Item(item.kind, content, own, is_hidden=True))
    return sorted(found, key=lambda item: any(_kind(box) == b"auxC" for box in item.properties))


def _file(template: bytes, items: Sequence[_Item], references: bytes) -> bytes:
    """The file with these items, which are numbered from 1. Its brands and handler are those of the AVIF `template`."""
    head = next(template[box.start : box.end] for box in boxes(template, 0, len(template)) if box.kind == b"ftyp")
    meta = meta_box(template)
    handler = next(template[box.start : box.end] for box in boxes(template, meta.body, meta.end) if box.kind == b"hdlr")
    names = b"".join(
        _full_box(b"infe", struct.pack(">HH4sx", number, 0, item.kind), version=2, flags=_HIDDEN * item.is_hidden)
        for number, item in enumerate(items, 1)
    )
    description = handler + _full_box(b"pitm", struct.pack(">H", 1))
    description += _full_box(b"iinf", struct.pack(">H", len(items)) + names)
    description += _full_box(b"iref", references) + _properties_box(items)
    # offsets have a fixed size, so the table's length does not depend on them
    size = len(_full_box(b"meta", description + _locations(items, 0)))
    in_file = _locations(items, len(head) + size + 8)
    content = b"".join(item.content for item in items)
    return head + _full_box(b"meta", description + in_file) + box_bytes(b"mdat", content)


def _reference(kind: bytes, number: int, to: Sequence[int]) -> bytes:
    return box_bytes(kind, struct.pack(f">HH{len(to)}H", number, len(to), *to))


def _properties_box(items: Sequence[_Item]) -> bytes:
    """Each property once, and the table of which items have it. The codec configuration is marked as essential."""
    store: dict[bytes, int] = {}
    table = struct.pack(">I", len(items))
    for number, item in enumerate(items, 1):
        table += struct.pack(">HB", number, len(item.properties))
        for box in item.properties:
            table += bytes((store.setdefault(box, len(store) + 1) | _ESSENTIAL * (_kind(box) == b"av1C"),))
    return box_bytes(b"iprp", box_bytes(b"ipco", b"".join(store)) + _full_box(b"ipma", table))


def _locations(items: Sequence[_Item], start: int) -> bytes:
    """Where each item's content is in the file, from `start` on."""
    table = struct.pack(">BBH", 0x44, 0, len(items))
    for number, item in enumerate(items, 1):
        table += struct.pack(">HHHII", number, 0, 1, start, len(item.content))
        start += len(item.content)
    return _full_box(b"iloc", table)


def _kind(box: bytes) -> bytes:
    return box[4:8]


def _full_box(kind: bytes, body: bytes, *, version: int = 0, flags: int = 0) -> bytes:
    return box_bytes(kind, struct.pack(">I", version << 24 | flags) + body)
