"""The records of a ZIP archive whose entries are stored without compression.

The size and the CRC-32 of each entry are in the header before its data, so that no entry has a data descriptor: readers
that read from the beginning to the end, such as Java's, can't read a stored entry that has one. The size of an archive
is known before its first byte, too. `zipfile` offers neither for a stream; of the libraries that do, stream-zip needs
pycryptodome, and zipstream-ng has a licence that is not permissive.

Source: APPNOTE.TXT 6.3.10, "ZIP File Format Specification" by PKWARE.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from struct import Struct as Layout

from msgspec import Struct

LOCAL_HEADER = Layout("<4s5H3I2H")
DIRECTORY_RECORD = Layout("<4s6H3I5H2I")
END_RECORD = Layout("<4s4H2IH")
ZIP64_OFFSET = Layout("<2HQ")
ZIP64_END_RECORD = Layout("<4sQ2H2I4Q")
ZIP64_LOCATOR = Layout("<4sIQI")

VERSION, VERSION_ZIP64 = 20, 45
MADE_BY_UNIX = 3 << 8
"""The system whose file attributes the archive has. Programs on other systems ignore the attributes."""
REGULAR_FILE_0644 = 0o100644 << 16
UTF8_NAMES = 1 << 11
STORED = 0
MAX_16, MAX_32 = 0xFFFF, 0xFFFFFFFF
"""In a field, these mean that its value is in a ZIP64 record; lower values are the value itself."""
EARLIEST, LATEST = datetime(1980, 1, 1, tzinfo=UTC), datetime(2107, 12, 31, 23, 59, 58, tzinfo=UTC)
"""The earliest and latest time that an entry can have. Entries have no time zone; this module writes UTC."""


class Entry(Struct, frozen=True):
    """A file in an archive. `name` has `/` between its parts and is not longer than 65,535 bytes of UTF-8."""

    name: str
    size_bytes: int
    crc32: int
    modified_at: datetime


class ZipRecords:
    """Writes the records of one archive: `header` before the data of each entry, then `end`."""

    def __init__(self) -> None:
        self._offset = 0
        self._directory = bytearray()
        self._entries = 0

    def header(self, entry: Entry) -> bytes:
        """The header of the next entry, which the caller sends before `entry.size_bytes` bytes of data.

        Raises:
            ValueError: the entry has more than 4 GiB - 2 bytes.
        """
        if entry.size_bytes >= MAX_32:
            raise ValueError(f"An entry of an archive may have at most {MAX_32 - 1} bytes, got {entry.size_bytes}.")
        name = entry.name.encode()
        date, time = _dos_time(entry.modified_at)
        shared = (UTF8_NAMES, STORED, time, date, entry.crc32, entry.size_bytes, entry.size_bytes, len(name))
        header = LOCAL_HEADER.pack(b"PK\3\4", VERSION, *shared, 0) + name
        extra = b"" if self._offset < MAX_32 else ZIP64_OFFSET.pack(1, 8, self._offset)
        version = VERSION_ZIP64 if extra else VERSION
        self._directory += DIRECTORY_RECORD.pack(
            b"PK\1\2", MADE_BY_UNIX | version, version, *shared, len(extra), 0, 0, 0, REGULAR_FILE_0644,
            min(self._offset, MAX_32),
        )  # fmt: skip
        self._directory += name + extra
        self._offset += len(header) + entry.size_bytes
        self._entries += 1
        return header

    def end(self) -> bytes:
        """The central directory and the records after it, which end the archive."""
        size, count = len(self._directory), self._entries
        zip64 = b""
        if count >= MAX_16 or max(size, self._offset) >= MAX_32:
            zip64 = ZIP64_END_RECORD.pack(
                b"PK\6\6", ZIP64_END_RECORD.size - 12, MADE_BY_UNIX | VERSION_ZIP64, VERSION_ZIP64, 0, 0, count, count,
                size, self._offset,
            )  # fmt: skip
            zip64 += ZIP64_LOCATOR.pack(b"PK\6\7", 0, self._offset + size, 1)
        shown = min(count, MAX_16)
        end = END_RECORD.pack(b"PK\5\6", 0, 0, shown, shown, min(size, MAX_32), min(self._offset, MAX_32), 0)
        return bytes(self._directory) + zip64 + end


def archive_size(files: Iterable[tuple[str, int]]) -> int:
    """The size in bytes of an archive of files with these names and sizes."""
    records = ZipRecords()
    size = sum(len(records.header(Entry(name, size, 0, EARLIEST))) + size for name, size in files)
    return size + len(records.end())


def _dos_time(at: datetime) -> tuple[int, int]:
    """Date and time as MS-DOS stores them, in steps of two seconds."""
    at = min(max(at, EARLIEST), LATEST)
    date = (at.year - 1980) << 9 | at.month << 5 | at.day
    return date, at.hour << 11 | at.minute << 5 | at.second // 2
