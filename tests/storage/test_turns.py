"""Whose stage runs next: accounts take turns, batches wait for single uploads, and no account fills the queue alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from imgproc_local.domain.errors import QueueFull
from imgproc_local.domain.job import Job
from imgproc_local.domain.plan import Operation
from imgproc_local.storage.accounts import Keys
from imgproc_local.storage.database import QUERIES
from imgproc_local.storage.jobs import BATCH_BEGINS_AT, Jobs
from tests.storage.store import Store

LIMIT = 40


@pytest.fixture
def store(store: Store) -> Store:
    store.jobs = Jobs(store.database, LIMIT)
    return store


async def submit(store: Store, account: str, count: int = 1, client: str = "") -> list[Job]:
    account_id = await Keys(store.database, 1000).account_id(account, create=True)
    return [await store.submit(account_id=account_id, client_id=client) for _ in range(count)]


async def claimed(store: Store, count: int) -> list[str]:
    """The ids of the jobs whose stages are claimed next."""
    claims = [await store.jobs.claim("codecs") for _ in range(count)]
    return [claim.job.id for claim in claims if claim is not None]


async def test_accounts_take_turns(store: Store) -> None:
    first = await submit(store, "first", 6)
    assert await claimed(store, 2) == [first[0].id, first[1].id]
    second, third = await submit(store, "second", 2), await submit(store, "third", 1)
    expected = [second[0], third[0], first[2], second[1], first[3], first[4]]
    assert await claimed(store, 6) == [job.id for job in expected]


async def test_a_single_upload_comes_before_the_batch_of_another_account(store: Store) -> None:
    await submit(store, "many", 30)
    await claimed(store, 3)
    (single,) = await submit(store, "few")
    assert await claimed(store, 1) == [single.id]


async def test_both_stages_of_a_job_take_turns_with_the_other_account(store: Store) -> None:
    many = await submit(store, "many", 10)
    await claimed(store, 1)
    account_id = await Keys(store.database, 1000).account_id("few", create=True)
    single = await store.submit(Operation.PROCESS, account_id=account_id)
    assert await claimed(store, 3) == [single.id, many[1].id, single.id]


async def test_within_an_account_a_single_upload_comes_before_the_batch_of_another_client(store: Store) -> None:
    batch = await submit(store, "own", BATCH_BEGINS_AT + 5, client="script")
    (single,) = await submit(store, "own", client="page")
    order = await claimed(store, BATCH_BEGINS_AT + 6)
    singles = [job.id for job in batch[:BATCH_BEGINS_AT]]
    assert order == [*singles, single.id, *(job.id for job in batch[BATCH_BEGINS_AT:])]


async def test_a_client_with_few_unfinished_jobs_is_no_batch_again(store: Store) -> None:
    await submit(store, "own", BATCH_BEGINS_AT, client="script")
    (batch,) = await submit(store, "own", client="script")
    for _ in range(5):
        await store.finish()
    (single,) = await submit(store, "own", client="script")
    order = await claimed(store, BATCH_BEGINS_AT)
    assert order.index(single.id) < order.index(batch.id)


async def test_a_full_queue_still_accepts_the_share_of_other_accounts(store: Store) -> None:
    await submit(store, "many", LIMIT)
    with pytest.raises(QueueFull):
        await submit(store, "many")
    await submit(store, "second", LIMIT // 2 // 2)
    with pytest.raises(QueueFull):
        await submit(store, "second")
    await submit(store, "third", LIMIT // 2 // 3)
    with pytest.raises(QueueFull):
        await submit(store, "third")
    with pytest.raises(QueueFull):
        await submit(store, "many")


async def test_the_queue_is_bounded_for_any_number_of_accounts(store: Store) -> None:
    await submit(store, "many", LIMIT)
    accepted = 0
    for number in range(30):
        for _ in range(LIMIT):
            try:
                await submit(store, f"account {number}")
            except QueueFull:
                break
            accepted += 1
    assert LIMIT // 2 <= accepted <= LIMIT // 2 + 30


async def test_a_claim_searches_indexes_only(store: Store, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "imgproc.db")
    try:
        parameters = {"lane": "codecs", "at": ""}
        steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {QUERIES['claim_stage']}", parameters)]
    finally:
        connection.close()
    scans = [step for step in steps if step.startswith("SCAN") and step not in ("SCAN waiting", "SCAN CONSTANT ROW")]
    assert scans == [], steps
    assert not any("stages_by_job" in step for step in steps)
