"""Assembles one AVIF from separately encoded pictures: the tiles of a grid, and a colour picture with its alpha.

A grid bounds the encoder's memory, which grows with the number of pixels it holds; alpha encoded separately can have
another quality than the colours. Every AVIF reader must support both.
Source: ISO/IEC 23008-12, 6.6.2.3 (grid) and 6.5.8 (auxC); 23000-22, 7.3.11.4 (even sides where colour is subsampled);
AVIF 1.1, 4.1 (alpha).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from msgspec import Struct

from imgproc_local.codecs.container import Blocks, Data, unpack
from imgproc_local.codecs.container.avif import Box, box_bytes, boxes, meta_box, picture_items, properties
from imgproc_local.codecs.container.bounds import MAX_ITEMS
from imgproc_local.domain.errors import BrokenImage

MAX_TILES = 64
"""Tiles in each direction. The format allows 256."""

_HIDDEN = 1
_ESSENTIAL = 0x80
_IN_FILE, _IN_IDAT = 0, 1
_ALPHA_TYPES = (b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha", b"urn:mpeg:hevc:2015:auxid:1")
_MAX_TYPE_BYTES = 64
_ALPHA_PROPERTIES = frozenset((b"ispe", b"pixi", b"av1C", b"auxC", b"colr"))
"""What may describe alpha that is copied to another file. Others (rotation, crop) would change what it shows."""


class CodedPicture(Struct, frozen=True):
    """The AV1 data of one picture, and the property boxes that describe it."""

    data: bytes
    properties: tuple[bytes, ...]


class _Item(Struct, frozen=True):
    kind: bytes
    content: bytes
    properties: tuple[bytes, ...] = ()
    hidden: bool = False
    place: int = _IN_FILE
    content_type: bytes = b""


def assemble(
    colour: Sequence[bytes], alpha: Sequence[CodedPicture], columns: int, width_px: int, height_px: int, blocks: Blocks
) -> bytes:
    """One AVIF of this size, made of tiles row by row, with these metadata blocks.

    `colour` are AVIF files without alpha, all of one size and made with the same options; `alpha` has one picture for
    each, or none at all. A single file becomes a plain picture, several become a grid whose last column and row may
    extend beyond the picture's edge.
    """
    rows = len(colour) // columns
    if rows * columns != len(colour) or not 0 < rows <= MAX_TILES or not 0 < columns <= MAX_TILES:
        raise ValueError(f"expected full rows of 1 to {MAX_TILES} tiles, got {len(colour)} in {columns} columns")
    items: list[_Item] = []
    references: list[tuple[bytes, int, list[int]]] = []
    for layer in ([picture_of(tile) for tile in colour], alpha):
        if not layer:
            continue
        number = len(items) + 1
        profile = (box_bytes(b"colr", b"prof" + blocks.icc),) if blocks.icc and number == 1 else ()
        if len(layer) == 1:
            items.append(_Item(b"av01", layer[0].data, (*layer[0].properties, *profile)))
        else:
            # version, flags (1: sizes have four bytes), one less than the number of rows and of columns
            grid = struct.pack(">BBBBII", 0, 1, rows - 1, columns - 1, width_px, height_px)
            shared = (*_shared(layer[0], width_px, height_px), *profile)
            items.append(_Item(b"grid", grid, shared, place=_IN_IDAT))
            items += [_Item(b"av01", tile.data, tile.properties, hidden=True) for tile in layer]
            references.append((b"dimg", number, [*range(number + 1, len(items) + 1)]))
        if number > 1:
            references.append((b"auxl", number, [1]))
    if blocks.exif:
        items.append(_Item(b"Exif", b"\0\0\0\0" + blocks.exif))
        references.append((b"cdsc", len(items), [1]))
    if blocks.xmp:
        items.append(_Item(b"mime", blocks.xmp, content_type=b"application/rdf+xml\0"))
        references.append((b"cdsc", len(items), [1]))
    return _file(colour[0], items, references)


def picture_of(encoded: bytes, *, alpha: bool = False) -> CodedPicture:
    """The coded colours of an AVIF that an encoder has just written, or its coded alpha. Raises: BrokenImage."""
    properties_by_item = properties(encoded, meta_box(encoded))
    for item in picture_items(encoded):
        own = tuple(encoded[box.start : box.end] for box in properties_by_item.get(item.id, ()))
        if any(_kind(box) == b"auxC" for box in own) == alpha:
            if len(item.extents) != 1 or not item.in_file:
                raise BrokenImage("The encoder did not write the AVIF's picture data in one piece.")
            extent = item.extents[0]
            return CodedPicture(encoded[extent.offset : extent.offset + extent.length], own)
    raise BrokenImage(f"The encoder wrote an AVIF without {'alpha' if alpha else 'colours'}.")


def stored_alpha(data: Data) -> CodedPicture | None:
    """The alpha of any AVIF as it is stored; None if there is none, or if another file can't use it undecoded.

    The latter is alpha that is a grid, is transformed, has more than 8 bits, or is multiplied into the colours.
    """
    meta = meta_box(data)
    found = []
    properties_by_item = properties(data, meta)
    for item in picture_items(data):
        own = properties_by_item.get(item.id, [])
        auxiliary = next((box for box in own if box.kind == b"auxC"), None)
        if auxiliary and _auxiliary_type(data, auxiliary) in _ALPHA_TYPES:
            found.append((item, own))
    references = next((box for box in boxes(data, meta.body, meta.end) if box.kind == b"iref"), None)
    kinds = [box.kind for box in boxes(data, references.body + 4, references.end, MAX_ITEMS)] if references else []
    if len(found) != 1 or kinds.count(b"auxl") != 1 or b"prem" in kinds or b"dimg" in kinds:
        return None
    item, own = found[0]
    if len(item.extents) != 1 or not item.in_file or not _has_eight_bits(data, own):
        return None
    if any(box.kind not in _ALPHA_PROPERTIES for box in own):
        return None
    extent = item.extents[0]
    coded = bytes(data[extent.offset : extent.offset + extent.length])
    return CodedPicture(coded, tuple(bytes(data[box.start : box.end]) for box in own))


def _auxiliary_type(data: Data, box: Box) -> bytes:
    return data[box.body + 4 : min(box.end, box.body + 4 + _MAX_TYPE_BYTES)].split(b"\0")[0]


def _has_eight_bits(data: Data, properties: Sequence[Box]) -> bool:
    configurations = [box for box in properties if box.kind == b"av1C"]
    flags = [unpack(">B", data, box.body + 2, "codec configuration", box.end)[0] for box in configurations]
    return len(flags) == 1 and not flags[0] & 0x40


def _shared(tile: CodedPicture, width_px: int, height_px: int) -> tuple[bytes, ...]:
    """The properties of the whole grid: its size, and depth, colours and auxiliary type of its tiles."""
    same = [box for box in tile.properties if _kind(box) in (b"pixi", b"colr", b"auxC")]
    return (_full_box(b"ispe", struct.pack(">II", width_px, height_px)), *same)


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
    return _full_box(b"infe", body, version=2, flags=_HIDDEN if item.hidden else 0)


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


def _full_box(kind: bytes, body: bytes, *, version: int = 0, flags: int = 0) -> bytes:
    return box_bytes(kind, struct.pack(">I", version << 24 | flags) + body)
