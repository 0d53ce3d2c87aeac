"""Transactions, the statements of queries.sql and their indexes, and the mode of a new database."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sqlite3
import stat
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest

from imgproc_local.storage.database import LIST_READERS, QUERIES, Database, open_database
from imgproc_local.storage.inspection import read_database

AT = "2026-11-01T00:00:00.000Z"


async def count_accounts(database: Database) -> int:
    async with database.reading() as read:
        return len(await read._connection.execute_fetchall("SELECT 1 FROM accounts"))  # type: ignore[arg-type]


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = await open_database(tmp_path / "d.db")
    yield database
    await database.close()


async def test_a_cancelled_transaction_leaves_nothing_and_blocks_nobody(database: Database) -> None:
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


INDEXES = {
    "list_jobs": "jobs_by_account",
    "list_jobs_of_project": "jobs_by_project",
    "list_open_jobs": "stages_open",
    "list_failed_jobs": "stages_failed",
    "list_jobs_needing_text": "translations_needing_text",
}
"""The index through which each list is read, so that it neither scans nor sorts."""


async def test_every_statement_is_valid_and_lists_and_claims_search_indexes(database: Database) -> None:
    assert {name for name in QUERIES if re.fullmatch("list_.*jobs.*", name)} == INDEXES.keys()
    for name, sql in QUERIES.items():
        if name in ("list_filters", "fields_of_text", "state_of_text", "waits_for_optimized"):
            continue  # parts of other statements
        parameters = dict.fromkeys(re.findall(r":(\w+)", sql), "")
        async with database.reading() as read:
            steps = [
                tuple(row) for row in await read._connection.execute_fetchall(f"EXPLAIN QUERY PLAN {sql}", parameters)
            ]
        outermost = [detail for _, parent, _, detail in steps if parent == 0]
        scanned = [detail for *_, detail in steps if detail.startswith("SCAN")]
        if name in INDEXES:
            assert any(step.startswith("SEARCH") and f"{INDEXES[name]} (" in step for step in outermost), steps
            assert not [step for step in outermost if "TEMP B-TREE" in step], steps
            assert [step for step in scanned if "json_each" not in step] == [], steps
        elif name == "claim_stage":
            assert [step for step in scanned if "accounts" not in step] == [], steps
            assert not [step for *_, step in steps if "stages_by_job" in step], steps


async def test_polls_do_not_wait_for_lists(database: Database) -> None:
    async with asyncio.timeout(10), AsyncExitStack() as lists:
        for _ in range(LIST_READERS):
            await lists.enter_async_context(database.listing())
        async with database.reading() as read:
            assert await read.value("count_keys_in_force") == 0


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


def test_what_a_journal_says_that_a_loss_of_power_left_is_undone_before_a_database_is_read(tmp_path: Path) -> None:
    def count(rows: sqlite3.Connection) -> int:
        return int(rows.execute("SELECT count(*) FROM a").fetchone()[0])

    with closing(sqlite3.connect(tmp_path / "d.db", isolation_level=None)) as rows:
        for statement in ("CREATE TABLE a (b)", "PRAGMA cache_size = 1", "BEGIN"):
            rows.execute(statement)
        rows.executemany("INSERT INTO a VALUES (?)", [("x" * 100,)] * 1000)  # more than is held in memory
        for name in ("d.db", "d.db-journal"):
            shutil.copy(tmp_path / name, tmp_path / f"lost-{name}")
    (tmp_path / "lost-d.db-wal").touch()
    assert read_database(tmp_path / "lost-d.db", count) == 0
