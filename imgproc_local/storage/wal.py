"""Finds damage in SQLite's write-ahead log by which committed transactions were lost.

SQLite reads the log up to its first damaged frame and ignores the rest without an error. A loss of power damages at
most the frames of one transaction, which was not committed: every commit is synced before the next transaction begins.
So if frames of more than one transaction follow the last readable commit, one that was committed is lost.

Source: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from msgspec import Struct

HEADER_BYTES, FRAME_HEADER_BYTES = 32, 24
MAGIC_LITTLE_ENDIAN, MAGIC_BIG_ENDIAN = 0x377F0682, 0x377F0683
MAX_PAGE_BYTES = 65536
ATTEMPTS, PAUSE_S = 5, 0.05
"""How often the log is read at most to find the same damage twice, and the pause between two attempts."""

Sums = tuple[int, int]


class _Header(Struct, frozen=True):
    """`salts` are those of every frame of this log; older frames have others."""

    byte_order: str
    page_bytes: int
    salts: bytes
    sums: Sums


class _Frame(Struct, frozen=True):
    """`is_readable` says that the checksums of this frame and of all before it are right."""

    is_commit: bool
    is_readable: bool


class _Damage(Struct, frozen=True):
    """`readable` frames lie before the damage."""

    readable: int
    detail: str


def wal_path(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def wal_damage(database: Path) -> str | None:
    """What is wrong with the write-ahead log of `database`; None without damage. Blocks. Raises: OSError.

    A running server may write while the log is read. So damage counts only if it is found twice, at the same place.
    """
    before = None
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE_S)
        try:
            with wal_path(database).open("rb") as file:
                first = file.read(HEADER_BYTES)
                damage = _damage(file, first)
        except FileNotFoundError:
            return None
        if damage is None:
            return None
        if before == (first, damage.readable):
            return damage.detail
        before = (first, damage.readable)
    return None


def _damage(file: IO[bytes], header_bytes: bytes) -> _Damage | None:
    header = _read_header(header_bytes)
    if header is None:
        # a log that was only begun, or whose first transaction was never synced, holds zeros or no frame
        has_frames = any(file.read(4 * MAX_PAGE_BYTES))
        return _Damage(0, "its header is damaged: all transactions in it are lost") if has_frames else None
    readable = ignored = ignored_commits = 0
    is_lost = False
    for frame in _frames(file, header):
        if frame.is_readable and frame.is_commit:
            readable += ignored + 1
            ignored = ignored_commits = 0
            is_lost = False
            continue
        is_lost = is_lost or ignored_commits > 0  # this frame is of a later transaction than that commit
        ignored += 1
        ignored_commits += frame.is_commit
    if not is_lost:
        return None
    detail = f"the {ignored} frames after frame {readable} are ignored; they hold at least one committed transaction"
    return _Damage(readable, detail)


def _read_header(data: bytes) -> _Header | None:
    if len(data) < HEADER_BYTES:
        return None
    magic, _version, page_bytes = struct.unpack(">3I", data[:12])
    if magic not in (MAGIC_LITTLE_ENDIAN, MAGIC_BIG_ENDIAN) or not 512 <= page_bytes <= MAX_PAGE_BYTES:
        return None
    order = "<" if magic == MAGIC_LITTLE_ENDIAN else ">"
    sums = _checksum(data[:24], (0, 0), order)
    return _Header(order, page_bytes, data[16:24], sums) if sums == struct.unpack(">2I", data[24:32]) else None


def _frames(file: IO[bytes], header: _Header) -> Iterator[_Frame]:
    """The frames of this log. Frames of an older one, which the file may still hold after them, are left out."""
    sums, is_readable = header.sums, True
    while len(data := file.read(FRAME_HEADER_BYTES + header.page_bytes)) == FRAME_HEADER_BYTES + header.page_bytes:
        belongs = data[8:16] == header.salts
        if is_readable:
            sums = _checksum(data[:8] + data[FRAME_HEADER_BYTES:], sums, header.byte_order)
            is_readable = belongs and sums == struct.unpack(">2I", data[16:24])
        if belongs:
            yield _Frame(is_commit=data[4:8] != bytes(4), is_readable=is_readable)


def _checksum(data: bytes, sums: Sums, byte_order: str) -> Sums:
    first, second = sums
    words = iter(struct.unpack(f"{byte_order}{len(data) // 4}I", data))
    for word in words:
        first = (first + word + second) & 0xFFFFFFFF
        second = (second + next(words) + first) & 0xFFFFFFFF
    return first, second
