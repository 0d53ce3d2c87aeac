"""Finds damage in SQLite's write-ahead log that lost committed transactions.

SQLite reads the log up to its first damaged frame and ignores the rest without an error. A loss of power damages at
most the frames of one transaction, which was not committed: every commit is synced before the next transaction begins.
So if frames of more than one transaction lie behind the last readable commit, one that was committed is lost.

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

Sums = tuple[int, int]


class _Header(Struct, frozen=True):
    """`salts` are those of every frame of this log; older frames have others."""

    word_order: str
    page_bytes: int
    salts: bytes
    sums: Sums


class _Frame(Struct, frozen=True):
    """`continues` says that the checksums of this frame and of all before it are right."""

    is_commit: bool
    continues: bool


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


def _damage(file: IO[bytes], first: bytes) -> _Damage | None:
    header = _read_header(first)
    if header is None:
        # a log that was only begun, or whose first transaction was never synced, holds zeros or very little
        is_used = any(file.read(4 * MAX_PAGE_BYTES))
        return _Damage(0, "its header is damaged: all transactions in it are lost") if is_used else None
    readable = behind = commits_behind = 0
    is_followed = False
    for frame in _frames(file, header):
        if frame.continues and frame.is_commit:
            readable += behind + 1
            behind = commits_behind = 0
            is_followed = False
            continue
        is_followed = is_followed or commits_behind > 0
        behind += 1
        commits_behind += frame.is_commit
    if not is_followed:
        return None
    ignored = f"{behind} frames behind frame {readable} are ignored"
    return _Damage(readable, f"{ignored}, which hold at least one committed transaction")


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
    """The frames of this log. Frames of an older one, which the file may still hold behind them, are left out."""
    sums, continues = header.sums, True
    while len(data := file.read(FRAME_HEADER_BYTES + header.page_bytes)) == FRAME_HEADER_BYTES + header.page_bytes:
        belongs = data[8:16] == header.salts
        if continues:
            sums = _checksum(data[:8] + data[FRAME_HEADER_BYTES:], sums, header.word_order)
            continues = belongs and sums == struct.unpack(">2I", data[16:24])
        if belongs:
            yield _Frame(is_commit=data[4:8] != bytes(4), continues=continues)


def _checksum(data: bytes, sums: Sums, word_order: str) -> Sums:
    first, second = sums
    words = iter(struct.unpack(f"{word_order}{len(data) // 4}I", data))
    for word in words:
        first = (first + word + second) & 0xFFFFFFFF
        second = (second + next(words) + first) & 0xFFFFFFFF
    return first, second
