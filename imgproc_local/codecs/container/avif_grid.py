"""One AVIF of several: pictures of one size as the tiles of a grid, each encoded by itself.

An AV1 encoder takes memory for every pixel that it holds; a grid bounds that, and every AVIF reader knows it.
Source: ISO/IEC 23008-12, 6.6.2.3 (grid); 23000-22, 7.3.11.4 (even sides where colour is subsampled); AVIF 1.1.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from msgspec import Struct

from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container.avif import boxes, meta_box, picture_items, properties_of
from imgproc_local.domain.errors import BrokenImage

MAX_TILES = 64
"""In each direction; the format itself has room for 256."""

_HIDDEN = 1
_ESSENTIAL = 0x80
_IN_FILE, _IN_TABLE = 0, 1


class _Picture(Struct, frozen=True):
    """The coded bytes of a tile, or of its alpha, and the boxes that describe them."""

    data: bytes
    properties: tuple[bytes, ...]


class _Item(Struct, frozen=True):
    kind: bytes
    content: bytes
    properties: tuple[bytes, ...] = ()
    hidden: bool = False
    place: int = _IN_FILE
    content_type: bytes = b""


def joined(tiles: Sequence[bytes], columns: int, width_px: int, height_px: int, blocks: Blocks) -> bytes:
    """Tiles, row by row, as one AVIF of this size, which may cut the last column and row; with these blocks.

    `tiles` are stills of one size, made by one encoder with one set of options, with alpha or all without.
    """
    rows = len(tiles) // columns
    if rows * columns != len(tiles) or not 0 < rows <= MAX_TILES or not 0 < columns <= MAX_TILES:
        raise ValueError(f"expected full rows of 1 to {MAX_TILES} tiles, got {len(tiles)} in {columns} columns")
    # version and flags, then one less than the numbers of rows and columns; the second flag makes sizes four bytes long
    grid = struct.pack(">BBBBII", 0, 1, rows - 1, columns - 1, width_px, height_px)
    layers = [_pictures(tile) for tile in tiles]
    items: list[_Item] = []
    references: list[tuple[bytes, int, list[int]]] = []
    for layer in zip(*layers, strict=True):
        whole = _shared(layer[0], width_px, height_px, None if items else blocks.icc)
        items.append(_Item(b"grid", grid, whole, place=_IN_TABLE))
        number = len(items)
        items += [_Item(b"av01", each.data, each.properties, hidden=True) for each in layer]
        references.append((b"dimg", number, [*range(number + 1, len(items) + 1)]))
        if number > 1:
            references.append((b"auxl", number, [1]))
    if blocks.exif:
        items.append(_Item(b"Exif", b"\0\0\0\0" + blocks.exif))
        references.append((b"cdsc", len(items), [1]))
    if blocks.xmp:
        items.append(_Item(b"mime", blocks.xmp, content_type=b"application/rdf+xml\0"))
        references.append((b"cdsc", len(items), [1]))
    return _file(tiles[0], items, references)


def _pictures(tile: bytes) -> list[_Picture]:
    """The picture of a file, then its alpha where it has one."""
    meta = meta_box(tile)
    found = []
    for item in picture_items(tile):
        if len(item.extents) != 1 or not item.in_file:
            raise BrokenImage("A tile of the AVIF was not written in one piece.")
        extent = item.extents[0]
        properties = tuple(tile[box.start : box.end] for box in properties_of(tile, meta, item.id))
        found.append(_Picture(tile[extent.offset : extent.offset + extent.length], properties))
    # encoders write the picture first, what belongs to it after
    found.sort(key=lambda each: any(_kind(box) == b"auxC" for box in each.properties))
    return found


def _shared(picture: _Picture, width_px: int, height_px: int, icc: bytes | None) -> tuple[bytes, ...]:
    """What is said of the whole as of its tiles: depth, colours, what an auxiliary picture is; and its own size."""
    kept = [box for box in picture.properties if _kind(box) in (b"pixi", b"colr", b"auxC")]
    profile = [_box(b"colr", b"prof" + icc)] if icc else []
    return (_full_box(b"ispe", struct.pack(">II", width_px, height_px)), *kept, *profile)


def _file(like: bytes, items: Sequence[_Item], references: Sequence[tuple[bytes, int, list[int]]]) -> bytes:
    """The boxes of a file whose items are numbered from 1, with brand and handler of a file like it."""
    head = next(like[box.start : box.end] for box in boxes(like, 0, len(like)) if box.kind == b"ftyp")
    meta = meta_box(like)
    handler = next(like[box.start : box.end] for box in boxes(like, meta.body, meta.end) if box.kind == b"hdlr")
    description = [
        handler,
        _full_box(b"pitm", struct.pack(">H", 1)),
        _full_box(
            b"iinf", struct.pack(">H", len(items)) + b"".join(_entry(n, item) for n, item in enumerate(items, 1))
        ),
        _full_box(b"iref", b"".join(_reference(*each) for each in references)),
        _properties_box(items),
        _box(b"idat", b"".join(item.content for item in items if item.place == _IN_TABLE)),
    ]
    # offsets have a fixed size, so the table's length does not depend on them
    empty = _full_box(b"meta", b"".join([*description, _locations(items, 0)]))
    in_file = _locations(items, len(head) + len(empty) + 8)
    content = b"".join(item.content for item in items if item.place == _IN_FILE)
    return head + _full_box(b"meta", b"".join([*description, in_file])) + _box(b"mdat", content)


def _entry(number: int, item: _Item) -> bytes:
    body = struct.pack(">HH4s", number, 0, item.kind) + b"\0" + item.content_type
    return _full_box(b"infe", body, version=2, flags=_HIDDEN if item.hidden else 0)


def _reference(kind: bytes, number: int, to: list[int]) -> bytes:
    return _box(kind, struct.pack(f">HH{len(to)}H", number, len(to), *to))


def _properties_box(items: Sequence[_Item]) -> bytes:
    """Each property once, and which items have it. A reader must understand how an item is coded."""
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
    return _box(b"iprp", _box(b"ipco", b"".join(store)) + table)


def _locations(items: Sequence[_Item], start: int) -> bytes:
    """Where each item lies: in the file from `start` on, or in the box beside the table."""
    at = {_IN_FILE: start, _IN_TABLE: 0}
    entries = []
    for number, item in enumerate(items, 1):
        entries.append(struct.pack(">HHHHII", number, item.place, 0, 1, at[item.place], len(item.content)))
        at[item.place] += len(item.content)
    return _full_box(b"iloc", struct.pack(">BBH", 0x44, 0, len(items)) + b"".join(entries), version=1)


def _kind(box: bytes) -> bytes:
    return box[4:8]


def _box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(body), kind) + body


def _full_box(kind: bytes, body: bytes, *, version: int = 0, flags: int = 0) -> bytes:
    return _box(kind, struct.pack(">I", version << 24 | flags) + body)
