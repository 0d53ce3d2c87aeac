"""Writes copies of ELF objects without what is never loaded.

Only little-endian 64-bit objects are supported: all Linux systems that the program is built for use them.

Source: System V ABI, gABI 4.1, chapters 4 and 5.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

MAGIC = b"\x7fELF\x02\x01"
PT_LOAD = 1
MAX_PAGE_BYTES = {62: 4096}  # EM_X86_64
"""The largest page size of a machine, by e_machine; 64 KiB for others. Segments are aligned to it and no more, because
a larger alignment only leaves holes in the file.
"""
HEADER_BYTES = 64
# places in the file header: the offsets of the program headers and of the section headers, and their counts
E_MACHINE, E_PHOFF, E_PHENTSIZE, E_SHNUM = 18, 32, 54, 60
# places in a program header: the offset of the segment in the file, and its alignment
P_OFFSET, P_ALIGN = 8, 48


class Segment(NamedTuple):
    """One program header: where it is in its file, and what it says."""

    header: int
    kind: int
    offset: int
    address: int
    file_bytes: int


def is_elf(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def segments(data: bytes) -> list[Segment]:
    (start,) = struct.unpack_from("<Q", data, E_PHOFF)
    size, count = struct.unpack_from("<HH", data, E_PHENTSIZE)
    headers = range(start, start + size * count, size)
    fields = [struct.unpack_from("<IIQQQQQQ", data, header) for header in headers]
    return [
        Segment(header, kind, offset, address, file_bytes)
        for header, (kind, _, offset, address, _, file_bytes, _, _) in zip(headers, fields, strict=True)
    ]


def write_compact(source: Path, target: Path) -> None:
    """Write a copy of the object with only its loaded segments, without debug symbols and section headers.

    In the file the segments follow each other without gaps; their addresses in memory are unchanged. `strip` can't be
    used: in the libraries of wheels auditwheel has moved segments behind the sections, where `strip` overwrites them.

    Raises: ValueError if the object does not have the layout of a loadable one.
    """
    data = source.read_bytes()
    (machine,) = struct.unpack_from("<H", data, E_MACHINE)
    page_bytes = MAX_PAGE_BYTES.get(machine, 65536)
    new_offsets, content = {}, bytearray()
    for load in sorted((each for each in segments(data) if each.kind == PT_LOAD), key=lambda load: load.offset):
        offset = len(content) + (load.address - len(content)) % page_bytes
        content += bytes(offset - len(content)) + data[load.offset : load.offset + load.file_bytes]
        new_offsets[load] = offset

    def new_offset(start: int, end: int) -> int:
        for load, offset in new_offsets.items():
            if load.offset <= start and end <= load.offset + load.file_bytes:
                return offset + start - load.offset
        raise ValueError(f"{source.name}: the bytes from {start:#x} to {end:#x} are in no loaded segment")

    if new_offset(0, HEADER_BYTES) != 0:
        raise ValueError(f"{source.name}: its header is not at the start of the first loaded segment")
    for segment in segments(data):
        header = new_offset(segment.header, segment.header + P_ALIGN + 8)
        if segment.file_bytes:
            offset = new_offset(segment.offset, segment.offset + segment.file_bytes)
            struct.pack_into("<Q", content, header + P_OFFSET, offset)
        if segment.kind == PT_LOAD:
            struct.pack_into("<Q", content, header + P_ALIGN, page_bytes)
    (table,) = struct.unpack_from("<Q", data, E_PHOFF)
    struct.pack_into("<QQ", content, E_PHOFF, new_offset(table, table + 1), 0)  # no section headers
    struct.pack_into("<HH", content, E_SHNUM, 0, 0)
    target.write_bytes(content)
