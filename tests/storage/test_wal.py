"""The check of the write-ahead log raises no alarm while a server writes."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from imgproc_local.storage import wal
from imgproc_local.storage.wal import wal_damage, wal_path

CHECKS = 100


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 50")
    connection.execute("CREATE TABLE IF NOT EXISTS t (content BLOB)")
    return connection


def test_a_log_that_is_being_written_is_not_damaged(tmp_path: Path) -> None:
    """The writer also begins the log anew, again and again."""
    path, stop = tmp_path / "d.db", threading.Event()

    def write() -> None:
        with closing(connect(path)) as connection:
            while not stop.is_set():
                connection.execute("INSERT INTO t VALUES (?)", (os.urandom(9000),))
                connection.execute("DELETE FROM t WHERE rowid < (SELECT max(rowid) FROM t)")

    writer = threading.Thread(target=write)
    with closing(connect(path)):
        writer.start()
        try:
            assert [damage for damage in (wal_damage(path) for _ in range(CHECKS)) if damage] == []
        finally:
            stop.set()
            writer.join()


def test_one_damaged_byte_anywhere_before_the_last_transaction_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal, "PAUSE_S", 0)
    path = tmp_path / "d.db"
    with closing(connect(path)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        for _ in range(6):
            connection.execute("INSERT INTO t VALUES (?)", (os.urandom(3000),))
        content = wal_path(path).read_bytes()
    copy = tmp_path / "copy.db"
    last = len(content) - 4 * (4096 + wal.FRAME_HEADER_BYTES)
    for position in [*range(0, 60), *range(60, last, 997)]:
        wal_path(copy).write_bytes(content[:position] + bytes([content[position] ^ 0x10]) + content[position + 1 :])
        assert wal_damage(copy) is not None, position
    for end in range(0, len(content), 5003):  # a log that was cut off may be one that was being written
        wal_path(copy).write_bytes(content[:end])
        assert wal_damage(copy) is None
