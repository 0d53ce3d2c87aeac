"""The number of committed transactions, recorded in a file beside the database, so that lost ones are noticed.

SQLite recovers from a damaged write-ahead log by ignoring everything from the first damaged frame on: committed
transactions are lost without an error. So each transaction that changes a row increments a number in the database,
which is written to this file after the commit. Invariant: the file never holds a higher number than the database,
unless the database lost transactions or was replaced by an older copy. The file is not synced: after a loss of power it
may hold a lower number, never a higher one.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import msgspec
from msgspec import Struct

log = logging.getLogger(__name__)

RECORD_BYTES = 256
"""Every record has this size, so that a new one overwrites the old one completely, within one sector of the disk."""


class Commits(Struct, frozen=True):
    """The database has `committed` transactions; `lost` others were missing at starts, the last time at `lost_at`."""

    committed: int = 0
    lost: int = 0
    lost_at: str = ""


def record_path(database: Path) -> Path:
    return database.with_name(f"{database.name}-commits")


def read_commits(database: Path) -> Commits:
    """What is recorded beside `database`; zeros where the file is missing or can't be read."""
    try:
        return msgspec.json.decode(record_path(database).read_bytes(), type=Commits)
    except (OSError, msgspec.MsgspecError):
        return Commits()


class CommitRecord:
    """The open file. Its methods block, and report errors only to the log: the transaction is committed already."""

    def __init__(self, database: Path, commits: Commits) -> None:
        self._commits = commits
        self._failed = False
        self._file: int | None = None
        try:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
            self._file = os.open(record_path(database), flags, 0o600)
            self._write()
        except OSError as error:
            self._report(error)

    def record(self, number: int) -> None:
        """Record that transaction `number` is committed."""
        self._commits = msgspec.structs.replace(self._commits, committed=number)
        try:
            self._write()
        except OSError as error:
            self._report(error)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self) -> None:
        if self._file is not None:
            os.lseek(self._file, 0, os.SEEK_SET)
            os.write(self._file, msgspec.json.encode(self._commits).ljust(RECORD_BYTES - 1) + b"\n")

    def _report(self, error: OSError) -> None:
        if not self._failed:
            log.warning("The number of commits can't be recorded: %s.", error.strerror)
        self._failed = True


def open_record(database: Path, before: Commits, committed: int, at: str) -> CommitRecord:
    """The record of a database that holds `committed` transactions. `before` was read from the file before that.

    Lost transactions are logged, and recorded with the instant `at`.
    """
    lost = max(0, before.committed - committed)
    if lost:
        log.error(
            "The database lost %d committed transactions: it was damaged, or replaced by an older copy."
            " Run `imgproc-local doctor`.",
            lost,
        )
    return CommitRecord(database, Commits(committed, before.lost + lost, at if lost else before.lost_at))
