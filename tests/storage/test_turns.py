"""Whose stage runs next: accounts take turns, and none fills the queue alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from imgproc_local.domain.errors import QueueFull
from imgproc_local.domain.job import Job
from imgproc_local.storage.accounts import Keys
from imgproc_local.storage.database import QUERIES
from imgproc_local.storage.jobs import Jobs
from tests.storage.store import Store

LIMIT = 40


@pytest.fixture
def store(store: Store) -> Store:
    store.jobs = Jobs(store.database, LIMIT)
    return store


async def submit(store: Store, account: str, count: int = 1) -> list[Job]:
    account_id = await Keys(store.database, 1000).account_id(account, create=True)
    return [await store.submit(account_id=account_id) for _ in range(count)]


async def claimed(store: Store, count: int) -> list[str]:
    """The ids of the jobs whose stages are claimed next."""
    claims = [await store.stages.claim("codecs") for _ in range(count)]
    return [claim.job.id for claim in claims if claim is not None]


async def test_accounts_take_turns(store: Store) -> None:
    first = await submit(store, "first", 6)
    assert await claimed(store, 2) == [first[0].id, first[1].id]
    second, third = await submit(store, "second", 2), await submit(store, "third", 1)
    expected = [second[0], third[0], first[2], second[1], first[3], first[4]]
    assert await claimed(store, 6) == [job.id for job in expected]


async def test_a_full_queue_still_accepts_one_job_of_each_other_account(store: Store) -> None:
    await submit(store, "many", LIMIT)
    for account in ("second", "third"):
        await submit(store, account)
        with pytest.raises(QueueFull):
            await submit(store, account)
    with pytest.raises(QueueFull):
        await submit(store, "many")


async def test_a_claim_searches_indexes_only(store: Store, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "imgproc.db")
    try:
        parameters = {"lane": "codecs", "at": ""}
        steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {QUERIES['claim_stage']}", parameters)]
    finally:
        connection.close()
    scans = [step for step in steps if step.startswith("SCAN") and "accounts" not in step]
    assert scans == [], steps
    assert not any("stages_by_job" in step for step in steps)
