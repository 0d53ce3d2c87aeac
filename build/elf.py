"""Reads the segments and the needed glibc versions of ELF objects, and writes copies without what is never loaded.

Only little-endian 64-bit objects are supported: all Linux systems that the program is built for use them.

Source: System V ABI, gABI 4.1, chapters 4 and 5; LSB 5.0, section 10.7 (symbol versioning).
"""

from __future__ import annotations

import mmap
import re
import struct
from pathlib import Path
from typing import NamedTuple

MAGIC = b"\x7fELF\x02\x01"
PT_LOAD, PT_DYNAMIC = 1, 2
DT_NULL, DT_STRTAB, DT_VERNEED, DT_VERNEEDNUM = 0, 5, 0x6FFFFFFE, 0x6FFFFFFF
MAX_PAGE_BYTES = {62: 4096}  # EM_X86_64
"""The largest page size of a machine, by e_machine; 64 KiB for others. Segments are aligned to it and no more, because
a larger alignment only leaves holes in the file.
"""
HEADER_BYTES = 64


class Segment(NamedTuple):
    """One program header."""

    kind: int
    flags: int
    offset: int
    address: int
    file_bytes: int
    memory_bytes: int
    align: int


class Elf:
    """A memory-mapped object and its segments. `header_ranges` are the bytes of its file header and program headers."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as stream:
            self.data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        start, size, count = (*struct.unpack_from("<Q", self.data, 32), *struct.unpack_from("<HH", self.data, 54))
        machine = struct.unpack_from("<H", self.data, 18)[0]
        self.page_bytes = MAX_PAGE_BYTES.get(machine, 65536)
        self.header_ranges = ((0, HEADER_BYTES), (start, start + size * count))
        self.segments = []
        for number in range(count):
            kind, flags, offset, address, _, file_bytes, memory_bytes, align = struct.unpack_from(
                "<IIQQQQQQ", self.data, start + number * size
            )
            self.segments.append(Segment(kind, flags, offset, address, file_bytes, memory_bytes, align))

    def loaded(self) -> list[Segment]:
        return [segment for segment in self.segments if segment.kind == PT_LOAD]

    def glibc_versions(self) -> set[tuple[int, ...]]:
        """The versions of the glibc symbols that the object needs, for example {(2, 2, 5), (2, 34)}."""
        dynamic = next((segment for segment in self.segments if segment.kind == PT_DYNAMIC), None)
        if dynamic is None:
            return set()
        entries = {}
        for offset in range(dynamic.offset, dynamic.offset + dynamic.file_bytes, 16):
            tag, value = struct.unpack_from("<QQ", self.data, offset)
            if tag == DT_NULL:
                break
            entries[tag] = value
        if DT_VERNEED not in entries:
            return set()
        names = self._file_offset(entries[DT_STRTAB])
        versions = set()
        file = self._file_offset(entries[DT_VERNEED])
        for _ in range(entries[DT_VERNEEDNUM]):
            _, count, _, first, following = struct.unpack_from("<HHIII", self.data, file)
            version = file + first
            for _ in range(count):
                _, _, _, name, later = struct.unpack_from("<IHHII", self.data, version)
                text = self.data[names + name : self.data.find(b"\0", names + name)].decode()
                if matched := re.fullmatch(r"GLIBC_([\d.]+)", text):
                    versions.add(tuple(map(int, matched[1].split("."))))
                version += later
            file += following
        return versions

    def _file_offset(self, address: int) -> int:
        """The file offset of the byte that is loaded at `address`. Raises: ValueError if no byte is loaded there."""
        for segment in self.loaded():
            if segment.address <= address < segment.address + segment.file_bytes:
                return segment.offset + address - segment.address
        raise ValueError(f"no segment is loaded at {address:#x}")


def is_elf(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def write_compact(source: Path, target: Path) -> None:
    """Write a copy of the object with only its loaded segments, without debug symbols and section headers.

    In the file the segments follow each other without gaps; their addresses in memory are unchanged. `strip` can't be
    used: in the libraries of wheels auditwheel has moved segments behind the sections, where `strip` overwrites them.

    Raises: ValueError if the object does not have the layout of a loadable one.
    """
    elf = Elf(source)
    new_offsets, content = {}, bytearray()
    for load in sorted(elf.loaded(), key=lambda load: load.offset):
        offset = len(content) + (load.address - len(content)) % elf.page_bytes
        content += bytes(offset - len(content)) + elf.data[load.offset : load.offset + load.file_bytes]
        new_offsets[load] = offset

    def new_offset(start: int, end: int) -> int:
        for load, offset in new_offsets.items():
            if load.offset <= start and end <= load.offset + load.file_bytes:
                return offset + start - load.offset
        raise ValueError(f"{source.name}: the bytes from {start:#x} to {end:#x} are in no loaded segment")

    header, table = (new_offset(*part) for part in elf.header_ranges)
    if header != 0:
        raise ValueError(f"{source.name}: its header is not at the start of the first loaded segment")
    size = struct.unpack_from("<H", content, 54)[0]
    for number, segment in enumerate(elf.segments):
        if segment.file_bytes:
            offset = new_offset(segment.offset, segment.offset + segment.file_bytes)
            struct.pack_into("<Q", content, table + number * size + 8, offset)
        if segment.kind == PT_LOAD:
            struct.pack_into("<Q", content, table + number * size + 48, elf.page_bytes)
    struct.pack_into("<QQ", content, 32, table, 0)  # no section headers
    struct.pack_into("<HH", content, 60, 0, 0)
    target.write_bytes(content)
    if not loads_the_same(source, target):
        raise ValueError(f"{source.name}: the copy would be loaded differently")


def loads_the_same(one: Path, other: Path) -> bool:
    """Whether both objects, when loaded, have the same bytes at the same addresses."""
    a, b = Elf(one), Elf(other)
    if len(a.segments) != len(b.segments):
        return False
    for left, right in zip(a.segments, b.segments, strict=True):
        if (left.kind, left.flags, left.address) != (right.kind, right.flags, right.address):
            return False
        if left.kind != PT_LOAD:
            continue
        if right.align < b.page_bytes or (right.offset - right.address) % right.align:
            return False
        size = max(left.memory_bytes, right.memory_bytes)
        if _in_memory(a, left, size) != _in_memory(b, right, size):
            return False
    return True


def _in_memory(elf: Elf, segment: Segment, size: int) -> bytes:
    """The segment as loaded, with the headers set to zero, because they hold file offsets."""
    content = bytearray(elf.data[segment.offset : segment.offset + segment.file_bytes].ljust(size, b"\0"))
    for start, end in elf.header_ranges:
        first, last = max(0, start - segment.offset), max(0, end - segment.offset)
        content[first:last] = bytes(len(content[first:last]))
    return bytes(content)
