"""AVIF as boxes. Source: ISO/IEC 14496-12 (boxes), 23008-12 (items), AVIF 1.1.

Metadata blocks are items: `with_blocks` replaces their bytes in place and zeroes what no picture needs. Picture data is
copied bit for bit. HEIC files are read with the same functions. This is one long file because reading and rewriting use
the same tables.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Set

from msgspec import Struct, structs

from imgproc_local.codecs.container import MAX_PARTS, Blocks, Data, avif_known, bounded, colours_of_numbers, unpack
from imgproc_local.codecs.metadata.blocks import MAX_BLOCK_BYTES
from imgproc_local.domain.errors import BrokenImage, StageFailed
from imgproc_local.domain.image import CodedColours
from imgproc_local.domain.privacy import Removed

MAX_SIDE_PX = 16384
"""libvips writes no larger AVIF."""

_XMP_TYPE = b"application/rdf+xml"
_XMP_UUID = bytes.fromhex("be7acfcb97a942e89c71999491e3afac")
"""Source: XMP specification part 3, 1.2.7."""

_ORIENTATIONS = {
    (0, None): 1, (0, 1): 2, (2, None): 3, (0, 0): 4, (1, 0): 5, (3, None): 6, (3, 0): 7, (1, None): 8,
    (2, 0): 2, (2, 1): 4, (1, 1): 7, (3, 1): 5,
}  # fmt: skip
"""The EXIF orientation of a rotation by n × 90° anticlockwise and then a mirroring (0 vertical, 1 horizontal)."""


class Box(Struct, frozen=True):
    """The content is `data[body:end]`."""

    kind: bytes
    start: int
    body: int
    end: int


class _Extent(Struct, frozen=True):
    """A part of an item: `length` bytes at `offset` of the file.

    The table stores the offset relative to `base`, which all extents of an item share. Each `*_field` says where the
    table stores a value: `(position in the file, size in bytes)`.
    """

    offset: int
    length: int
    base: int
    offset_field: tuple[int, int]
    base_field: tuple[int, int]
    length_field: tuple[int, int]


class Item(Struct):
    """An item, whose extents lie directly in the file, in the `idat` box, or (neither) in another item.

    `entry` has the positions in the table of locations after the item's number, of its number of extents, and of its
    end; `kind_at` is the position of its type. The bases of `extents` are positions in the file, too; the table stores
    them relative to `origin`, the beginning of `idat`'s content for an item in that box, and 0 for others.
    """

    id: int
    entry: tuple[int, int, int] = (0, 0, 0)
    kind: bytes = b""
    content_type: bytes = b""
    in_file: bool = True
    extents: list[_Extent] = []
    kind_at: int = 0
    origin: int = 0


@bounded
def boxes(data: Data, start: int, end: int) -> Iterator[Box]:
    """The sibling boxes between two offsets. Raises: BrokenImage."""
    at = start
    while at + 8 <= end:
        size, kind = unpack(">I", data, at, "box header")[0], data[at + 4 : at + 8]
        body = at + 8
        if size == 1:
            (size,) = unpack(">Q", data, at + 8, "box header")
            body += 8
        stop = end if size == 0 else at + size
        if stop < body or stop > end:
            raise BrokenImage("The file is cut off or damaged: a box is longer than what holds it.")
        yield Box(kind, at, body, stop)
        at = stop


def box_bytes(kind: bytes, body: bytes) -> bytes:
    """A box with its size."""
    return struct.pack(">I4s", 8 + len(body), kind) + body


def _byte(data: Data, box: Box, offset: int = 0) -> int:
    """The byte at `offset` of a box's body. Raises: BrokenImage."""
    return unpack(">B", data, box.body + offset, "box", box.end)[0]


def _find(data: Data, inside: Box, *path: bytes) -> Box | None:
    """The first box at this path of box types; a meta box without its version and flags."""
    box: Box | None = inside
    for kind in path:
        if box is None:
            return None
        box = next((child for child in boxes(data, box.body, box.end) if child.kind == kind), None)
    return structs.replace(box, body=box.body + 4) if box and box.kind == b"meta" else box


def _children(data: Data, inside: Box, *path: bytes) -> Iterator[Box]:
    """The boxes in the first box at this path of box types; none if there is no such box."""
    parent = _find(data, inside, *path)
    return boxes(data, parent.body, parent.end) if parent else iter(())


def meta_box(data: Data) -> Box:
    """The file's meta box, without its version and flags. Raises: BrokenImage."""
    meta = _find(data, Box(b"", 0, 0, len(data)), b"meta")
    if meta is None:
        raise BrokenImage("The file holds no description of its picture.")
    return meta


def picture_items(data: Data) -> list[Item]:
    """The items of coded pictures (the picture, its tiles, alpha) in the order of the table of locations."""
    return [item for item in items(data, meta_box(data)) if item.kind == b"av01"]


def _all_items(data: Data) -> list[Item]:
    """The items of every meta box: the file's, and those of an animation's tracks, which repeat the metadata items."""
    metas = [meta_box(data), *(_find(data, track, b"meta") for track in _tracks(data))]
    return [item for meta in metas if meta for item in items(data, meta)]


def _tracks(data: Data) -> list[Box]:
    return [box for box in _children(data, Box(b"", 0, 0, len(data)), b"moov") if box.kind == b"trak"]


def orientation(data: Data) -> int:
    """The EXIF orientation that the primary item's rotation and mirroring amount to. Raises: BrokenImage."""
    angle, mirror = 0, None
    for box in _primary_properties(data, meta_box(data)):
        if box.kind == b"irot":
            angle = _byte(data, box) & 3
        elif box.kind == b"imir":
            mirror = _byte(data, box) & 1
    return _ORIENTATIONS[angle, mirror]


def frame_count(data: Data) -> int:
    """The number of frames of the track that has most; 1 for a still picture. Raises: BrokenImage."""
    tables = (_find(data, track, b"mdia", b"minf", b"stbl", b"stsz") for track in _tracks(data))
    counts = [unpack(">I", data, each.body + 8, "sample table", each.end)[0] for each in tables if each]
    return max([1, *counts])


def _primary_properties(data: Data, meta: Box) -> list[Box]:
    """The property boxes of the picture, each once, however often the table names it."""
    primary = _find(data, meta, b"pitm")
    if primary is None:
        raise BrokenImage("The file does not say which of its items is the picture.")
    return list(dict.fromkeys(properties(data, meta).get(_primary_item(data, primary), [])))


def _primary_item(data: Data, box: Box) -> int:
    """The ID of the primary item, which is the picture, from the `pitm` box."""
    wide = _byte(data, box) != 0
    return unpack(">I" if wide else ">H", data, box.body + 4, "primary item", box.end)[0]


def properties(data: Data, meta: Box) -> dict[int, list[Box]]:
    """The property boxes of each item, in order, by its ID."""
    stored = list(_children(data, meta, b"iprp", b"ipco"))
    found: dict[int, list[Box]] = {}
    for owner, _, numbers in _associations(data, meta):
        found.setdefault(owner, []).extend(stored[each - 1] for each in numbers if 0 < each <= len(stored))
    return found


def _associations(data: Data, meta: Box) -> Iterator[tuple[int, tuple[int, int, int], list[int]]]:
    """The entries of the property tables: an item's ID, the positions of the entry, of its list and of its end in the
    file, and the numbers of the item's properties.
    """
    for table in _children(data, meta, b"iprp"):
        if table.kind != b"ipma":
            continue
        version, flags = _byte(data, table), _byte(data, table, 3)
        layout, size = (">IB" if version else ">HB"), 2 if flags & 1 else 1
        (entries,) = unpack(">I", data, table.body + 4, "property table", table.end)
        end = table.body + 8
        for _ in range(entries):
            if end >= table.end:
                raise BrokenImage("The file is damaged: its property table is longer than its box.")
            owner, count = unpack(layout, data, end, "property table", table.end)
            at, start = end, end + struct.calcsize(layout)
            end = start + count * size
            indices = unpack(f">{count}{'H' if size == 2 else 'B'}", data, start, "property table", table.end)
            yield owner, (at, start, end), [index & (0x7FFF if size == 2 else 0x7F) for index in indices]


def coded_colours(data: Data) -> CodedColours | None:
    """The colours that the primary item's CICP numbers declare; None for sRGB, and if a profile declares them."""
    found: dict[bytes, bytes] = {}
    for box in _primary_properties(data, meta_box(data)):
        kind = data[box.body : box.body + 4] if box.kind == b"colr" else box.kind
        found.setdefault(kind, data[box.body : box.end])
    if b"nclx" not in found or b"prof" in found or b"rICC" in found:
        return None
    primaries, transfer = unpack(">HH", found[b"nclx"], 4, "colour description")
    brightest_nits = int.from_bytes(found.get(b"clli", b"")[:2], "big")
    return colours_of_numbers(primaries, transfer, brightest_nits, found.get(b"mdcv", b""))


def has_gain_map(data: Data) -> bool:
    """Whether a gain map belongs to the picture: as an item of ISO 21496-1, or as an auxiliary picture of Apple's."""
    meta = meta_box(data)
    auxiliary = (box for box in _children(data, meta, b"iprp", b"ipco") if box.kind == b"auxC")
    is_apples = any(b":aux:hdrgainmap" in data[box.body : box.end] for box in auxiliary)
    return is_apples or any(item.kind == b"tmap" for item in items(data, meta))


def items(data: Data, meta: Box) -> list[Item]:
    """The items in a meta box's table of locations, each with its type from the table of names."""
    table = _find(data, meta, b"iloc")
    names = _find(data, meta, b"iinf")
    if table is None or names is None:
        return []
    idat = _find(data, meta, b"idat")
    listed = list(_locations(data, table, idat.body if idat else 0))
    found = {item.id: item for item in listed}
    named = list(_names(data, names))
    if len(found) < len(listed) or len({number for _, number, _ in named}) < len(named):
        raise BrokenImage("The file is damaged: its tables list an item twice.")
    for box, number, at in named:
        if number in found:
            found[number].kind, found[number].kind_at = data[at : at + 4], at
            if found[number].kind == b"mime":
                texts = data[at + 4 : box.end].split(b"\0", 2)
                found[number].content_type = texts[1] if len(texts) > 1 else b""
    return list(found.values())


def _names(data: Data, table: Box) -> Iterator[tuple[Box, int, int]]:
    """The entries of the table of names, the numbers of their items, and where their types are."""
    for box in boxes(data, table.body + (8 if _byte(data, table) else 6), table.end):
        if box.kind == b"infe" and _byte(data, box) >= 2:
            layout = ">IHI" if _byte(data, box) > 2 else ">HHI"
            number, _, _ = unpack(layout, data, box.body + 4, "item table", box.end)
            yield box, number, box.body + struct.calcsize(layout)  # four bytes before the number, and four of the type


def _locations(data: Data, table: Box, idat_start: int) -> Iterator[Item]:
    version = _byte(data, table)
    sizes, more = unpack(">BB", data, table.body + 4, "item table", table.end)
    offset_size, length_size, base_size, index_size = sizes >> 4, sizes & 15, more >> 4, (more & 15) if version else 0
    at, all_extents = table.body + 6, 0

    def take(size: int) -> int:
        nonlocal at
        if at + size > table.end:
            raise BrokenImage("The file is damaged: its item table is longer than its box.")
        value = int.from_bytes(data[at : at + size], "big")
        at += size
        return value

    for _ in range(take(4 if version == 2 else 2)):
        item, start = Item(take(4 if version == 2 else 2)), at
        method = take(2) & 15 if version else 0
        item.in_file, item.origin = method == 0, idat_start if method == 1 else 0
        take(2)
        base_at, base = at, take(base_size) + item.origin
        count_at, extents = at, take(2)
        # extents whose fields have 0 bytes are not bounded by the table's length
        if extents > 1 and not length_size:
            raise BrokenImage("The file is damaged: its item table has extents without lengths.")
        all_extents += extents
        if all_extents > MAX_PARTS:
            raise BrokenImage(f"The picture has more than {MAX_PARTS:,} parts. Save it again in another program.")
        for _ in range(extents):
            take(index_size)
            offset_at, offset = at, take(offset_size)
            length_at, length = at, take(length_size)
            # writers store the position in the base and 0 in the offset, or the other way round
            fields = ((offset_at, offset_size), (base_at, base_size), (length_at, length_size))
            item.extents.append(_Extent(base + offset, length, base, *fields))
        item.entry = (start, count_at, at)
        yield item


def _metadata_items(data: Data) -> list[tuple[str, Item]]:
    """The items of metadata whose extents all lie in the file, each after its name: `exif` or `xmp`."""
    named = [(_metadata_name(item), item) for item in _all_items(data) if _has_valid_extents(data, item)]
    return [(name, item) for name, item in named if name is not None]


def _metadata_name(item: Item) -> str | None:
    if item.kind == b"mime":
        return "xmp" if item.content_type == _XMP_TYPE else None
    return "exif" if item.kind == b"Exif" else None


def _has_valid_extents(data: Data, item: Item) -> bool:
    inside = all(0 < each.length <= len(data) - each.offset for each in item.extents)
    return bool(item.extents) and inside and (item.in_file or bool(item.origin))


def _xmp_box(data: Data) -> Box | None:
    """The `uuid` box where Adobe's programs write an XMP packet, which is its body; None if there is none."""
    for box in boxes(data, 0, len(data)):
        if box.kind == b"uuid" and data[box.body : box.body + 16] == _XMP_UUID:
            return Box(box.kind, box.start, box.body + 16, box.end)
    return None


def _thumbnails(data: Data) -> list[Item]:
    """The items that are thumbnails of the picture."""
    meta = meta_box(data)
    references = _find(data, meta, b"iref")
    if references is None:
        return []
    layout = ">I" if _byte(data, references) else ">H"
    small = {
        unpack(layout, data, box.body, "item references", box.end)[0]
        for box in boxes(data, references.body + 4, references.end)
        if box.kind == b"thmb"
    }
    return [item for item in items(data, meta) if item.id in small and item.kind in avif_known.ITEMS]


def read_blocks(data: Data) -> Blocks:
    """The EXIF and XMP items and the profile."""
    found: dict[str, bytes] = {}
    for name, item in _metadata_items(data):
        if name not in found and 4 < sum(each.length for each in item.extents) <= MAX_BLOCK_BYTES:
            raw = b"".join(data[each.offset : each.offset + each.length] for each in item.extents)
            if name == "exif":
                raw = raw[4 + int.from_bytes(raw[:4], "big") :].removeprefix(b"Exif\0\0")
            found[name] = raw
    packet = _xmp_box(data)
    if packet is not None and packet.end - packet.body <= MAX_BLOCK_BYTES:
        found.setdefault("xmp", data[packet.body : packet.end])
    for box in _primary_properties(data, meta_box(data)):
        if box.kind == b"colr" and data[box.body : box.body + 4] in (b"prof", b"rICC"):
            found.setdefault("icc", data[box.body + 4 : box.end])
    return Blocks(found.get("exif"), found.get("xmp"), None, found.get("icc"))


def with_blocks(data: Data, blocks: Blocks) -> bytes:
    """The file with its EXIF and its XMP replaced by those of `blocks`, and without what else readers do not need.

    That is zeroed, so that nothing moves: thumbnails, items of metadata, private boxes and properties, names, bytes
    after the end of a table. A block is written into the item that the file has for it, or into a new one.
    `blocks.icc` is ignored: every profile in the file is written anew in its place.
    """
    new = {name: block for name, block in (("exif", blocks.exif), ("xmp", blocks.xmp)) if block}
    whole = bytearray(data)
    for item in _thumbnails(data):
        whole[item.kind_at : item.kind_at + 4] = b"free"
    clean = _blanked(bytes(whole), lambda name, item: name in new and _is_replaceable(item))
    kept = [box.end for box in boxes(clean, 0, len(clean)) if box.kind != b"free"]
    clean = clean[: kept[-1]]
    for name, block in new.items():
        clean = _with_metadata(clean, name, block)
    return clean


def dropped(data: Data) -> Iterator[Removed | None]:
    """The kinds of private data in what `with_blocks` does not keep, apart from the blocks."""
    if _thumbnails(data):
        yield Removed.THUMBNAIL
    packet, kept = _xmp_box(data), bytearray(_blanked(data))
    if packet:  # which is a block
        kept[packet.start : packet.end] = data[packet.start : packet.end]
    yield Removed.OTHER if kept != data[:] else None


def with_xmp(data: Data, xmp: bytes) -> bytes:
    """The file with this XMP packet in place of its own, and with nothing else changed but offsets and sizes.

    Raises: BrokenImage; StageFailed for a file whose packet or tables are stored in a way that is not supported.
    """
    out, packet = bytearray(data), _xmp_box(data)
    if packet is not None:
        out[packet.start + 4 : packet.start + 8] = b"free"
        out[packet.body - 16 : packet.end] = bytes(packet.end - packet.body + 16)
    if not all(_is_replaceable(item) for name, item in _metadata_items(data) if name == "xmp"):
        raise StageFailed("The AVIF stores its XMP in several parts, so no texts can be written into it.")
    return _with_metadata(bytes(out), "xmp", xmp)


def _is_replaceable(item: Item) -> bool:
    return len(item.extents) == 1 and item.in_file


def _with_metadata(data: bytes, name: str, block: bytes) -> bytes:
    """The file with a block in each item of this kind, all of which are replaceable, or in a new item.

    It is written over the old one and padded, or at the end of the file if it is longer. Raises: BrokenImage.
    """
    # EXIF is preceded by the offset of its TIFF header in the rest
    content, padding = (bytes(4) + block, b"\0") if name == "exif" else (block, b" ")
    extents = [item.extents[0] for kind, item in _metadata_items(data) if kind == name]
    if not extents:
        kind, content_type = (b"Exif", b"") if name == "exif" else (b"mime", _XMP_TYPE + b"\0")
        return _with_new_item(data, kind, content_type, content)
    out, is_longer = bytearray(data), any(len(content) > extent.length for extent in extents)
    for extent in extents:
        old = bytes(extent.length) if is_longer else content.ljust(extent.length, padding)
        out[extent.offset : extent.offset + extent.length] = old
        if is_longer:
            position = len(data) + 8
            at = (0, position) if extent.offset_field[1] else (position, 0)
            fields = (extent.base_field, at[0]), (extent.offset_field, at[1]), (extent.length_field, len(content))
            _write_fields(out, dict(fields))
    return bytes(out) + (box_bytes(b"mdat", content) if is_longer else b"")


def _write_fields(out: bytearray, fields: Mapping[tuple[int, int], int]) -> None:
    """Write numbers into the fields at these positions and of these sizes. Raises: BrokenImage if one has no room."""
    for (position, size), value in fields.items():
        if value >> 8 * size:
            raise BrokenImage(f"The AVIF's field of {size} bytes at byte {position} has no room for {value}.")
        out[position : position + size] = value.to_bytes(size, "big")


def _with_new_item(data: bytes, kind: bytes, content_type: bytes, content: bytes) -> bytes:
    """The file with an item of this type that describes the picture; its content is at the end.

    The meta box grows, so everything after it moves. Raises: BrokenImage, StageFailed.
    """
    meta = meta_box(data)
    children = list(boxes(data, meta.body, meta.end))
    tables = {box.kind: box for box in reversed(children)}
    if not {b"iinf", b"iloc", b"pitm"} <= tables.keys():
        raise StageFailed("The AVIF has no table of items, so no texts can be written into it.")
    primary = _primary_item(data, tables[b"pitm"])
    number = 1 + max((item.id for item in items(data, meta)), default=primary)
    references = tables.get(b"iref")
    is_wide = number > 0xFFFF if references is None else _byte(data, references) != 0
    if max(number, primary) > 0xFFFF and not is_wide:
        raise StageFailed("The AVIF's tables can't hold a further item.")
    reference = box_bytes(b"cdsc", struct.pack(">IHI" if is_wide else ">HHH", number, 1, primary))

    def grown(by: int, moved: bytes) -> bytes:
        """The meta box with the new entries, of a file whose content after the box moves by a number of bytes."""
        out = []
        for box in children:
            body = moved[box.body : box.end]
            if box.kind == b"iinf":
                body = _with_entry(body, 4, 4 if body[0] else 2, _name(number, kind, content_type))
            elif box.kind == b"iloc":
                place = _place(body, number, len(data) + by + 8, len(content))
                body = _with_entry(body, 6, 4 if body[0] == 2 else 2, place)
            elif box.kind == b"iref":
                body += reference
            out.append(box_bytes(box.kind, body))
            if box.kind == b"pitm" and references is None:
                out.append(box_bytes(b"iref", bytes((is_wide, 0, 0, 0)) + reference))
        return box_bytes(b"meta", b"".join([moved[meta.body - 4 : meta.body], *out]))

    try:
        by = len(grown(0, data)) - (meta.end - meta.start)
        moved = _moved(data, meta, by)
        out = moved[: meta.start] + grown(by, moved) + moved[meta.end :] + box_bytes(b"mdat", content)
    except (struct.error, OverflowError) as error:
        raise StageFailed("The AVIF's tables can't hold a further item.") from error
    if not any(item.id == number for _, item in _metadata_items(out)):
        # bytes after a table's last entry hide the new one
        raise StageFailed("The AVIF's tables of items are damaged, so no texts can be written into it.")
    return out


def _moved(data: bytes, meta: Box, by: int) -> bytes:
    """The file with `by` added to every offset after the meta box. Raises: BrokenImage."""
    start = meta.end
    fields: dict[tuple[int, int], int] = {}
    for item in _all_items(data):
        for extent in item.extents if item.in_file else ():
            if meta.start <= extent.offset < start:
                raise BrokenImage("The AVIF stores data of its picture in a place that is not supported.")
            if extent.base >= start:
                fields[extent.base_field] = extent.base + by
            elif extent.offset >= start:
                fields[extent.offset_field] = extent.offset - extent.base + by
    for position, size, offset in _chunk_offsets(data, _tracks(data)):
        fields[position, size] = offset + by if offset >= start else offset
    out = bytearray(data)
    _write_fields(out, fields)
    return bytes(out)


def _with_entry(table: bytes, at: int, size: int, entry: bytes) -> bytes:
    """The body of a table with a further entry; the number of entries is at `at` and has `size` bytes."""
    count = int.from_bytes(table[at : at + size], "big") + 1
    return table[:at] + count.to_bytes(size, "big") + table[at + size :] + entry


def _name(number: int, kind: bytes, content_type: bytes) -> bytes:
    """The entry of an item in the table of names."""
    layout, version = (">IIH", 3) if number > 0xFFFF else (">IHH", 2)
    return box_bytes(b"infe", struct.pack(layout, version << 24, number, 0) + kind + b"\0" + content_type)


def _place(table: bytes, number: int, offset: int, length: int) -> bytes:
    """The entry of an item in the table of locations. Raises: OverflowError if that has no room."""
    version, sizes, more = table[0], table[4], table[5]
    offset_size, length_size, base_size, index_size = sizes >> 4, sizes & 15, more >> 4, more & 15 if version else 0
    # the offset is written into the base where the table has no room for offsets
    values = (
        (number, 4 if version == 2 else 2),
        (0, 2 if version else 0),
        (0, 2),
        (0 if offset_size else offset, base_size),
        (1, 2),
        (0, index_size),
        (offset if offset_size else 0, offset_size),
        (length, length_size),
    )
    return b"".join(value.to_bytes(size, "big") for value, size in values)


def _blanked(data: Data, is_kept: Callable[[str, Item], bool] = lambda _name, _item: True) -> bytes:
    """The file with zeros in place of what readers do not need: unknown boxes and items become free space.

    Of the items of metadata, those remain for whose name and item `is_kept` is true. Raises: BrokenImage.
    """
    out = bytearray(len(data))
    _keep_children(data, out, Box(b"", 0, 0, len(data)), is_kept)
    return bytes(out)


def picture_bytes(data: Data) -> int:
    """The size of a file of only the coded pictures, of which encoders write 300 bytes of description."""
    return 300 + sum(each.length for item in picture_items(data) for each in item.extents)


def _write(out: bytearray, at: int, content: bytes) -> None:
    out[at : at + len(content)] = content


def _keep_box(data: Data, out: bytearray, box: Box, content: bytes | None) -> None:
    """Writes the header of a box and its known content. If that is None, the box becomes free space."""
    _write(out, box.start, data[box.start : box.body])
    _write(out, *((box.start + 4, b"free") if content is None else (box.body, content)))


def _keep_children(data: Data, out: bytearray, parent: Box, is_kept: Callable[[str, Item], bool]) -> None:
    """Writes the known boxes in a box whose body begins with them, and what is known in these."""
    seen: set[bytes] = set()
    for box in boxes(data, parent.body, parent.end):
        is_known = box.kind in avif_known.CHILDREN[parent.kind] and box.kind not in seen - avif_known.REPEATED
        if box.kind == b"trak":
            handler = _find(data, box, b"mdia", b"hdlr")
            is_known &= handler is not None and data[handler.body + 8 : handler.body + 12] in avif_known.HANDLERS
        seen.add(box.kind)
        content = avif_known.fields(box.kind, data[box.body : box.end]) if is_known else None
        _keep_box(data, out, box, content)
        if content is not None and box.kind in avif_known.CHILDREN:
            _keep_children(data, out, structs.replace(box, body=box.body + len(content)), is_kept)
        for start, end in _frames(data, box) if is_known and box.kind == b"trak" else ():
            _write(out, start, data[start:end])
    if parent.kind == b"meta":
        _keep_items(data, out, parent, is_kept)


def _keep_items(data: Data, out: bytearray, meta: Box, is_kept: Callable[[str, Item], bool]) -> None:
    """Writes the known items of a meta box: their names, places, content, references and properties."""
    tables = {box.kind: box for box in reversed(list(boxes(data, meta.body, meta.end)))}
    names, places, idat = tables.get(b"iinf"), tables.get(b"iloc"), tables.get(b"idat")
    if names is None or places is None:
        return
    stored = {item.id: item for item in items(data, meta)}
    known: set[int] = set()
    for box in boxes(data, names.body + (8 if _byte(data, names) else 6), names.end):
        _keep_box(data, out, box, None)
    for box, number, at in _names(data, names):
        kind, item = data[at : at + 4], stored.get(number)
        name = _metadata_name(item) if item and _has_valid_extents(data, item) else None
        entry = b"free"
        if kind in avif_known.ITEMS or (item and name and is_kept(name, item)):
            known.add(number)
            content_type = _XMP_TYPE + b"\0" if name == "xmp" else b""
            entry = kind + avif_known.name(data[at + 4 : box.end]) + b"\0" + content_type
        _write(out, box.start, (data[box.start : at] + entry)[: box.end - box.start])
    _write(out, places.body, data[places.body : max((item.entry[2] for item in stored.values()), default=places.end)])
    for item in stored.values():
        start, count_at, end = item.entry
        if item.id not in known:
            _write(out, start, bytes(count_at - start))
            _write(out, count_at + 2, bytes(end - count_at - 2))
            continue
        for each in item.extents if item.in_file or item.origin else ():
            stop = each.offset + each.length if each.length else len(data)
            _write(out, each.offset, data[each.offset : stop])
    if idat and not any(stored[number].origin for number in known & stored.keys()):
        _write(out, idat.start + 4, b"free")
    for table in (tables.get(b"iref"), tables.get(b"grpl")):
        if table:
            _keep_references(data, out, table, known)
    _keep_properties(data, out, meta, known)


def _keep_references(data: Data, out: bytearray, table: Box, ids: Set[int]) -> None:
    """Writes the references between items, or the groups of items. Others become references of one item to itself."""
    layout, known, start = "III", avif_known.GROUPS, table.body
    if table.kind == b"iref":
        layout, known, start = "IH" if _byte(data, table) else "HH", avif_known.REFERENCES, table.body + 4
    one = min(ids, default=1)
    for box in boxes(data, start, table.end):
        *_, count = unpack(f">{layout}", data, box.body, "item references", box.end)
        whole = f">{layout}{count}{layout[0]}"
        values = unpack(whole, data, box.body, "item references", box.end)
        numbers = {*values[len(layout) :], *values[: 3 - len(layout)]}  # a group has a number of its own
        is_known = box.kind in known and numbers <= ids
        _keep_box(data, out, box, struct.pack(whole, *values) if is_known else None)
        if not is_known:  # libavif reads it whatever its type is
            _write(out, box.body, struct.pack(whole, *[one] * (len(layout) - 1), count, *[one] * count))


def _keep_properties(data: Data, out: bytearray, meta: Box, ids: Set[int]) -> None:
    """Writes the properties of these items, and the tables that say which item has which."""
    used = {box.start for owner, own in properties(data, meta).items() if owner in ids for box in own}
    for box in _children(data, meta, b"iprp", b"ipco"):
        is_known = box.kind in avif_known.PROPERTIES and box.start in used
        _keep_box(data, out, box, avif_known.fields(box.kind, data[box.body : box.end]) if is_known else None)
    for owner, (at, start, end), _ in _associations(data, meta):
        _write(out, at, data[at : end if owner in ids else start])


def _frames(data: Data, track: Box) -> list[tuple[int, int]]:
    """The ranges of the chunks that hold a track's frames."""
    sizes, runs = (_find(data, track, b"mdia", b"minf", b"stbl", kind) for kind in (b"stsz", b"stsc"))
    if sizes is None or runs is None:
        return []
    same, count = unpack(">II", data, sizes.body + 4, "sample table", sizes.end)
    lengths = () if same else unpack(f">{count}I", data, sizes.body + 12, "sample table", sizes.end)
    (count,) = unpack(">I", data, runs.body + 4, "chunk table", runs.end)
    numbers = unpack(f">{3 * count}I", data, runs.body + 8, "chunk table", runs.end)
    frames_from = dict(zip(numbers[::3], numbers[1::3], strict=True))
    found, frame, frames = [], 0, 0
    for chunk, (_, _, offset) in enumerate(_chunk_offsets(data, [track]), 1):
        frames = frames_from.get(chunk, frames)
        found.append((offset, offset + (same * frames if same else sum(lengths[frame : frame + frames]))))
        frame += frames
    return found


def with_plays(data: bytes, plays: int) -> bytes:
    """The animation, which libavif wrote as endless, with this number of plays; 0 leaves it endless.

    It is without the times at which it was made, so that the same picture always has the same bytes.
    Source: ISO/IEC 14496-12, 8.6.6: a repeated edit list fills the duration of its track; 8.2.2, 8.3.2 and 8.4.2: each
    header begins with the times of creation and modification.
    """
    out, longest = bytearray(data), 0
    for track in _tracks(data):
        header, media = _find(data, track, b"tkhd"), _find(data, track, b"mdia", b"mdhd")
        if header is not None and media is not None:
            duration = plays * _without_times(out, media, (24, 16))
            longest = max(longest, duration)
            _without_times(out, header, (28, 20), duration)
    movie = _find(data, Box(b"", 0, 0, len(data)), b"moov", b"mvhd")
    if movie is not None:
        _without_times(out, movie, (24, 16), longest)
    return bytes(out)


def _without_times(out: bytearray, box: Box, offsets: tuple[int, int], duration: int = 0) -> int:
    """Zeroes the times in a header, and stores a `duration` that is not 0; the duration that the header had.

    `offsets` of the duration are relative to the body of a version 1 and of a version 0 box.
    """
    is_wide = out[box.body] == 1
    at, size = box.body + offsets[0 if is_wide else 1], 8 if is_wide else 4
    times = slice(box.body + 4, box.body + 4 + 2 * size)
    out[times] = bytes(2 * size)
    before = int.from_bytes(out[at : at + size], "big")
    out[at : at + size] = (duration or before).to_bytes(size, "big")
    return before


@bounded
def _chunk_offsets(data: Data, tracks: list[Box]) -> Iterator[tuple[int, int, int]]:
    """Each chunk offset of the frames: where it is stored, its size in bytes, its value. Raises: BrokenImage."""
    for track in tracks:
        for table in _children(data, track, b"mdia", b"minf", b"stbl"):
            if table.kind not in (b"stco", b"co64"):
                continue
            size = 4 if table.kind == b"stco" else 8
            (count,) = unpack(">I", data, table.body + 4, "chunk table", table.end)
            if table.body + 8 + count * size > table.end:
                raise BrokenImage("The file is damaged: its chunk table is longer than its box.")
            for position in range(table.body + 8, table.body + 8 + count * size, size):
                yield position, size, int.from_bytes(data[position : position + size], "big")
