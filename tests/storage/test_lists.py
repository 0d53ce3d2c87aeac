"""Lists are read through an index, whatever they are filtered by, and no poll waits for one."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.domain.job import Status
from imgproc_local.domain.plan import Operation, Plan
from imgproc_local.storage.database import LIST_READERS, QUERIES, Database, open_database
from imgproc_local.storage.jobs import JobFilters
from tests.storage.store import QUEUE_LIMIT, Store

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


async def test_readers_are_bounded_and_returned_when_a_task_is_cancelled(database: Database) -> None:
    async def hold(entered: asyncio.Event) -> None:
        async with database.listing():
            entered.set()
            await asyncio.Event().wait()

    async with asyncio.timeout(10):
        for _ in range(3):
            tasks = []
            for _ in range(LIST_READERS):
                entered = asyncio.Event()
                tasks.append(asyncio.create_task(hold(entered)))
                await entered.wait()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05), database.listing():
                    pass
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_pages_are_newest_first_and_complete(store: Store) -> None:
    jobs = [await store.submit() for _ in range(QUEUE_LIMIT)]
    first = await store.jobs.page(store.account_id, 2)
    rest = await store.jobs.page(store.account_id, 10, before_id=first[-1].id)
    assert [job.id for job in [*first, *rest]] == [job.id for job in reversed(jobs)]


async def test_pages_can_be_limited_to_statuses_and_a_project(store: Store) -> None:
    named = await store.submit(plan=Plan(Operation.OPTIMIZE, project_name="Another"))
    await store.finish()
    pending = await store.submit()

    async def listed(**filters: Any) -> list[str]:
        return [job.id for job in await store.jobs.page(store.account_id, 10, JobFilters(**filters))]

    assert await listed(statuses=(Status.COMPLETED,)) == [named.id]
    assert await listed(statuses=(Status.PENDING,)) == [pending.id]
    assert await listed(statuses=(Status.FAILED,)) == []
    assert await listed(project_id=named.project_id) == [named.id]
