"""Transactions, the statements of queries.sql, the mode of a new database, and which errors become StorageFailed."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import stat
from pathlib import Path

import pytest

from imgproc_local.storage.database import QUERIES, Database, open_database

AT = "2026-11-01T00:00:00.000Z"


async def count_accounts(database: Database) -> int:
    async with database.reading() as read:
        return len(await read._connection.execute_fetchall("SELECT 1 FROM accounts"))  # type: ignore[arg-type]


async def test_a_cancelled_transaction_leaves_nothing_and_blocks_nobody(tmp_path: Path) -> None:
    database = await open_database(tmp_path / "d.db")
    try:
        for turns in range(30):

            async def write(name: str = f"cancelled-{turns}") -> None:
                async with database.transaction() as tx:
                    await tx.run("insert_account", {"id": name, "name": name, "at": AT})
                    await tx.run("account_by_name", {"name": name})

            before = await count_accounts(database)
            task = asyncio.create_task(write())
            for _ in range(turns):  # of the event loop
                await asyncio.sleep(0)
            task.cancel()
            if turns % 2:  # once more, while the first cancellation is being cleaned up
                await asyncio.sleep(0)
                task.cancel()
            async with database.transaction() as tx:
                await tx.run("insert_account", {"id": f"n{turns}", "name": f"n{turns}", "at": AT})
            after = await count_accounts(database)
            assert after - before in (1, 2), "the cancelled write is whole or absent, the next one succeeds"
    finally:
        await database.close()


async def test_every_named_statement_is_valid(tmp_path: Path) -> None:
    database = await open_database(tmp_path / "d.db")
    try:
        for name, sql in QUERIES.items():
            if name == "list_filters":  # a part of other statements
                continue
            async with database.reading() as read:
                parameters = dict.fromkeys(re.findall(r":(\w+)", sql))
                rows = await read._connection.execute_fetchall(f"EXPLAIN {sql}", parameters)
                assert rows, name
    finally:
        await database.close()


@pytest.mark.skipif(os.name != "posix", reason="Windows has no modes")
async def test_a_new_database_is_private_from_its_first_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the umask is 0: the file has its mode before its first byte is written, and -wal and -shm have it too."""

    def modes() -> set[int]:
        return {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}

    seen: list[set[int]] = []

    def connect(*arguments: object, **options: object) -> sqlite3.Connection:
        seen.append(modes())
        return original(*arguments, **options)  # type: ignore[call-overload, no-any-return]

    original = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", connect)
    before = os.umask(0)
    try:
        database = await open_database(tmp_path / "d.db")
        try:
            assert {path.name for path in tmp_path.iterdir()} >= {"d.db", "d.db-wal", "d.db-shm"}
            assert modes() == {0o600}
        finally:
            await database.close()
    finally:
        os.umask(before)
    assert seen[0] == {0o600}, "the file is private before SQLite opens it"
