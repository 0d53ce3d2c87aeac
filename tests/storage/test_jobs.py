"""Jobs in the database: what is written together, in which order stages run, and what never changes again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from imgproc_local.domain.errors import QueueFull
from imgproc_local.domain.job import Job, Status
from imgproc_local.domain.plan import Operation
from imgproc_local.storage.accounts import Keys
from imgproc_local.storage.stages import MAX_ATTEMPTS
from imgproc_local.storage.translations import Translations
from tests.storage.conftest import BALANCE, QUEUE_LIMIT, Store


async def test_concurrent_submissions_keep_the_queue_limit_and_concurrent_claims_share_no_stage(store: Store) -> None:
    outcomes = await asyncio.gather(*(store.submit() for _ in range(2 * QUEUE_LIMIT)), return_exceptions=True)
    assert sum(isinstance(outcome, Job) for outcome in outcomes) == QUEUE_LIMIT
    assert sum(isinstance(outcome, QueueFull) for outcome in outcomes) == QUEUE_LIMIT
    claimed = await asyncio.gather(*(store.stages.claim("codecs") for _ in range(2 * QUEUE_LIMIT)))
    ids = [work.job.id for work in claimed if work]
    assert len(ids) == len(set(ids)) == QUEUE_LIMIT


async def test_a_final_job_never_changes_again(store: Store) -> None:
    await store.submit()
    claimed = await store.stages.claim("codecs")
    assert claimed is not None
    final = await store.stages.record_failed(claimed, "Broken.")
    assert final is not None
    assert final.status is Status.FAILED
    assert await store.stages.record_done(claimed, claimed.job.original, ()) is None
    assert await store.stages.record_failed(claimed, "Another reason.") is None
    await store.stages.requeue(claimed)
    assert await store.stages.recover() == (0, 0)
    assert await store.stages.claim("codecs") is None
    assert await store.jobs.get(final.id) == final


async def test_the_record_of_an_upload_is_stored_until_its_last_stage_ends(store: Store) -> None:
    job = await store.submit(Operation.PROCESS, record=b"its words")
    for lane in ("codecs", "codecs", "vision"):
        claimed = await store.stages.claim(lane)
        assert claimed is not None
        assert claimed.record == b"its words"
        if lane == "vision":
            await store.stages.record_failed(claimed, "Broken.")
        else:
            await store.stages.record_done(claimed, claimed.job.original, ())
    async with store.database.reading() as read:
        row = await read.one("plan_of_job", {"job_id": job.id})
    assert row is not None
    assert row["record"] is None


# ---- accounts take turns ----


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
    await submit(store, "many", QUEUE_LIMIT)
    for account in ("second", "third"):
        await submit(store, account)
        with pytest.raises(QueueFull):
            await submit(store, account)
    with pytest.raises(QueueFull):
        await submit(store, "many")


# ---- after an end of the process ----


@pytest.mark.parametrize("kind", ["stage", "text"])
async def test_work_of_a_killed_process_is_requeued_twice_and_then_fails(store: Store, kind: str) -> None:
    job = await (store.submit(Operation.ANALYZE) if kind == "stage" else store.analyzed())
    balance = BALANCE if kind == "stage" else await store.balance()
    if kind == "text":
        await Translations(store.database, QUEUE_LIMIT).request(job.id, "de", 5, replaces_person=False)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        claimed = await store.stages.claim("vision")
        assert claimed is not None
        assert (claimed.kind, claimed.attempts) == (kind, attempt)
        assert await store.stages.recover() == ((1, 0) if attempt < MAX_ATTEMPTS else (0, 1))
    assert await store.stages.claim("vision") is None
    final = await store.jobs.get(job.id)
    assert final.status is (Status.FAILED if kind == "stage" else Status.COMPLETED)
    failed = final.stages[0] if kind == "stage" else final.text_states["de"]
    assert "Interrupted" in (failed.error or "")
    assert await store.balance() == balance


async def test_a_picture_that_ends_the_process_fails_no_other_job(store: Store) -> None:
    fatal, innocent = await store.submit(), await store.submit()
    for _ in range(10):
        running: set[str] = set()
        while (claimed := await store.stages.claim("codecs")) is not None:
            running.add(claimed.job.id)
            if fatal.id not in running:
                await store.stages.record_done(claimed, claimed.job.original, ())
        await store.stages.recover()  # the process ended as soon as the fatal stage ran, and all others with it
    assert (await store.jobs.get(fatal.id)).status is Status.FAILED
    assert (await store.jobs.get(innocent.id)).status is Status.COMPLETED


# ---- reading, listing, deleting ----


async def test_jobs_list_newest_first_after_the_clock_went_back(store: Store) -> None:
    store.now = datetime(2040, 1, 1, tzinfo=UTC)
    jobs = [await store.submit()]
    store.now = datetime(2026, 11, 1, tzinfo=UTC)
    jobs += [await store.submit() for _ in range(3)]
    assert [job.id for job in await store.jobs.page(store.account_id, 10)] == [job.id for job in reversed(jobs)]
    assert jobs[-1].created_at.startswith("2026-")
