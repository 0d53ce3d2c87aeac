"""Lists are read through an index, whatever they are filtered by, and no poll waits for one."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from imgproc_local.storage.database import LIST_READERS, QUERIES, Database, open_database

LISTS = [name for name in QUERIES if name.startswith("list_") and "jobs" in name]
PARAMETERS = (
    *("account_id", "project_id", "before_id", "statuses", "limit"),
    *("needs_text", "language_missing", "larger_than_optimized"),
)
INDEXES = {"open": "stages_open", "failed": "stages_failed", "needing_text": "translations_needing_text"}


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = await open_database(tmp_path / "d.db")
    yield database
    await database.close()


@pytest.mark.parametrize("name", LISTS)
async def test_a_list_reads_through_an_index_and_sorts_nothing(database: Database, name: str, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "d.db")
    try:
        parameters = dict.fromkeys(PARAMETERS, "")
        steps = connection.execute(f"EXPLAIN QUERY PLAN {QUERIES[name]}", parameters).fetchall()
    finally:
        connection.close()
    outermost = [detail for _, parent, _, detail in steps if parent == 0]
    index = next((index for status, index in INDEXES.items() if status in name), "jobs_by_account")
    if "of_project" in name:
        index = "jobs_by_project"
    assert any(step.startswith("SEARCH") and f"{index} (" in step for step in outermost), steps
    assert not any("SCAN" in step or "TEMP B-TREE" in step for step in outermost), steps
    assert not any("SCAN" in step[3] and "json_each" not in step[3] for step in steps), steps


async def test_polls_do_not_wait_for_lists(database: Database) -> None:
    async with asyncio.timeout(10), AsyncExitStack() as lists:
        for _ in range(LIST_READERS):
            await lists.enter_async_context(database.listing())
        async with database.reading() as read:
            assert await read.value("count_keys_in_force") == 0
