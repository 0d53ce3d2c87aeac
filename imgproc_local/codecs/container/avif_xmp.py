"""Replaces the XMP packet of an AVIF, or adds one, and changes nothing else but offsets and sizes.

Source: ISO/IEC 14496-12, 8.11 (items); ISO/IEC 23008-12, 6.3.
"""

from __future__ import annotations

import struct

from imgproc_local.codecs.container import Data, avif, unpack
from imgproc_local.codecs.container.avif import Box, Edit, box_bytes
from imgproc_local.domain.errors import StageFailed

_TABLES = frozenset((b"iinf", b"iloc", b"iref"))
"""The boxes into which the entries of a new item are inserted."""


def with_xmp(data: Data, xmp: bytes, more_xmp: bytes | None = None) -> bytes:  # noqa: ARG001  # in JPEG only
    """The file with this XMP packet in place of its own, or in a new item that describes the picture.

    Raises: BrokenImage; StageFailed for a file whose tables can't hold a further item.
    """
    edits: set[Edit] = set()
    lengths: dict[tuple[int, int], int] = {}
    # an animation's tracks may repeat the items of the file
    for name, item in avif.metadata_items(data):
        if name == "xmp":
            item_edits, item_lengths = avif.replacing(item, xmp)
            edits |= item_edits
            lengths |= item_lengths
    if edits:
        return avif.with_edits(data, edits, lengths)
    packet = avif.xmp_box(data)
    if packet is not None:
        return avif.with_edits(data, {(packet.body, packet.end, xmp)}, {})
    return _with_new_item(data, xmp)


def _with_new_item(data: Data, xmp: bytes) -> bytes:
    meta = avif.meta_box(data)
    tables = {box.kind: box for box in avif.boxes(data, meta.body, meta.end) if box.kind in (*_TABLES, b"pitm")}
    names, places = tables.get(b"iinf"), tables.get(b"iloc")
    if names is None or places is None or b"pitm" not in tables:
        raise StageFailed("The AVIF has no table of items, so no texts can be written into it.")
    primary = avif.primary_item(data, tables[b"pitm"])
    number = 1 + max((item.id for item in avif.items(data, meta)), default=primary)
    references = tables.get(b"iref")
    if references is None:
        wide = number > 0xFFFF
        box = box_bytes(b"iref", struct.pack(">I", wide << 24) + _reference(number, primary, wide=wide))
        reference = tables[b"pitm"].end, tables[b"pitm"].end, box
    else:
        wide = unpack(">B", data, references.body, "item references", references.end)[0] != 0
        reference = references.end, references.end, _reference(number, primary, wide=wide)
    inserted: set[Edit] = {(names.end, names.end, _name(number)), reference}
    place_bytes = len(_place(data, places, number, 0, 0))
    packet_at = len(data) + sum(len(content) for _, _, content in inserted) + place_bytes + 8
    place = _place(data, places, number, packet_at, len(xmp))
    counts = _incremented_count(data, names, 0) | _incremented_count(data, places, 2)
    edits = {*inserted, (places.end, places.end, place)}
    out = avif.with_edits(data, edits, {}, overwritten=counts, tables=_TABLES) + box_bytes(b"mdat", xmp)
    if avif.read_blocks(out).xmp != xmp:
        # bytes after a table's last entry hide the new one
        raise StageFailed("The AVIF's tables of items are damaged, so no texts can be written into it.")
    return out


def _name(number: int) -> bytes:
    """The entry of the new item in the table of names."""
    layout, version = (">IIH4s", 3) if number > 0xFFFF else (">IHH4s", 2)
    return box_bytes(b"infe", struct.pack(layout, version << 24, number, 0, b"mime") + b"\0" + avif.XMP_TYPE + b"\0")


def _reference(number: int, primary: int, *, wide: bool) -> bytes:
    """The statement that the new item describes the picture."""
    if not wide and number > 0xFFFF:
        raise StageFailed("The AVIF's table of references can't hold a further item.")
    return box_bytes(b"cdsc", struct.pack(">IHI" if wide else ">HHH", number, 1, primary))


def _place(data: Data, places: Box, number: int, offset: int, length: int) -> bytes:
    """The entry of the new item in the table of locations."""
    (version,) = unpack(">B", data, places.body, "item table", places.end)
    sizes, more = unpack(">BB", data, places.body + 4, "item table", places.end)
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
    if length_size == 0 or offset_size + base_size == 0 or any(value >> 8 * size for value, size in values):
        raise StageFailed("The AVIF's table of locations can't hold a further item.")
    return b"".join(value.to_bytes(size, "big") for value, size in values)


def _incremented_count(data: Data, table: Box, skipped: int) -> dict[int, bytes]:
    """The number of a table's entries increased by one: the bytes to write, by their position in the file.

    The number is `skipped` bytes after the table's version and flags. It has two bytes, or four from version 1 of the
    table of names and version 2 of the table of locations on.
    """
    (version,), at = unpack(">B", data, table.body, "item table", table.end), table.body + 4 + skipped
    layout = ">I" if version >= (2 if skipped else 1) else ">H"
    (count,) = unpack(layout, data, at, "item table", table.end)
    if (count + 1) >> 8 * struct.calcsize(layout):
        raise StageFailed("The AVIF's tables can't hold a further item.")
    return {at: struct.pack(layout, count + 1)}
