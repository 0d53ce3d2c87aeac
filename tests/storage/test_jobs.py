"""Jobs in the database: what is written together, in which order stages run, and what never changes again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from imgproc_local.domain.errors import NotFound, QueueFull
from imgproc_local.domain.image import Format
from imgproc_local.domain.job import Job, Status, StoredFile
from imgproc_local.domain.plan import Operation
from imgproc_local.storage.jobs import MaxAge, Retention
from imgproc_local.storage.stages import MAX_ATTEMPTS
from tests.storage.store import BALANCE, QUEUE_LIMIT, Store, texts

# ---- submitting ----


async def test_concurrent_submissions_do_not_exceed_the_queue_limit(store: Store) -> None:
    outcomes = await asyncio.gather(*(store.submit() for _ in range(2 * QUEUE_LIMIT)), return_exceptions=True)
    assert sum(isinstance(outcome, Job) for outcome in outcomes) == QUEUE_LIMIT
    assert sum(isinstance(outcome, QueueFull) for outcome in outcomes) == QUEUE_LIMIT


# ---- credits ----


# ---- claiming and recording ----


async def test_concurrent_claims_never_share_a_stage(store: Store) -> None:
    for _ in range(QUEUE_LIMIT):
        await store.submit()
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


# ---- after an end of the process ----


async def test_a_stage_of_a_killed_process_is_requeued_twice_and_then_fails(store: Store) -> None:
    job = await store.submit()
    for attempt in range(1, MAX_ATTEMPTS + 1):
        claimed = await store.stages.claim("codecs")
        assert claimed is not None
        assert claimed.attempts == attempt
        assert claimed.job.status is Status.OPTIMIZING
        assert await store.stages.recover() == ((1, 0) if attempt < MAX_ATTEMPTS else (0, 1))
    final = await store.jobs.get(job.id)
    assert final.status is Status.FAILED
    assert "Interrupted" in (final.stages[0].error or "")
    assert await store.balance() == BALANCE


async def test_stages_that_ran_when_the_process_ended_are_claimed_last_and_alone(store: Store) -> None:
    interrupted = [await store.submit() for _ in range(2)]
    for _ in interrupted:
        await store.stages.claim("codecs")
    assert await store.stages.recover() == (2, 0)
    new = [await store.submit() for _ in range(2)]
    order = []
    for expected in (*new, *interrupted):
        claimed = await store.stages.claim("codecs")
        assert claimed is not None
        order.append(claimed.job.id)
        if expected is new[0]:
            first = claimed
            continue
        if expected is new[1]:
            assert await store.stages.claim("codecs") is None, "other stages of the lane are running"
            for each in (first, claimed):
                await store.stages.record_done(each, each.job.original, ())
            continue
        later = await store.submit()
        assert await store.stages.claim("codecs") is None, "nothing is claimed beside such a stage"
        await store.jobs.delete(later.id, later.account_id)
        await store.stages.record_done(claimed, claimed.job.original, ())
    assert order == [job.id for job in (*new, *interrupted)]


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


async def test_deleting_a_job_gives_back_what_has_not_started(store: Store) -> None:
    job = await store.submit(Operation.PROCESS)
    await store.finish(file=StoredFile("b" * 64, 500, Format.JPEG))
    running = await store.stages.claim("vision")
    assert running is not None
    assert sorted(await store.jobs.delete(job.id, store.account_id)) == ["a" * 64, "b" * 64]
    assert await store.balance() == BALANCE - 5, "convert had not started"
    with pytest.raises(NotFound):
        await store.jobs.get(job.id)
    assert await store.stages.record_done(running, None, texts("name", "en")) is None
    assert await store.stages.record_failed(running, "Cancelled.") is None
    assert await store.balance() == BALANCE - 5
    assert await store.jobs.referenced_files() == set()


async def test_stored_bytes_exclude_files_removed_because_of_their_age(store: Store) -> None:
    await store.submit()
    await store.finish(file=StoredFile("b" * 64, 500, Format.JPEG))
    assert await store.jobs.stored_bytes() == 1500
    store.now += timedelta(days=2)
    await Retention(store.database).remove(MaxAge(originals=timedelta(days=1)))
    assert await store.jobs.stored_bytes() == 500
    await Retention(store.database).remove(MaxAge(results=timedelta(days=1)))
    assert await store.jobs.stored_bytes() == 0


async def test_jobs_list_newest_first_after_the_clock_went_back(store: Store) -> None:
    store.now = datetime(2040, 1, 1, tzinfo=UTC)
    jobs = [await store.submit()]
    store.now = datetime(2026, 11, 1, tzinfo=UTC)
    jobs += [await store.submit() for _ in range(3)]
    assert [job.id for job in await store.jobs.page(store.account_id, 10)] == [job.id for job in reversed(jobs)]
    assert jobs[-1].created_at.startswith("2026-")


async def test_a_thumbnail_is_a_file_of_its_job_until_the_upload_is_removed(store: Store) -> None:
    job = await store.submit(sha256="b" * 64)
    await store.finish()
    assert await store.jobs.record_thumbnail(job.id, "c" * 64, 7)
    assert (await store.jobs.get(job.id)).thumbnail == StoredFile("c" * 64, 7, Format.WEBP)
    assert "c" * 64 in await store.jobs.referenced_files()
    retention, age = Retention(store.database), MaxAge(originals=timedelta(days=1))
    store.now += timedelta(days=2)
    assert (await retention.removable(age)).size_bytes == 7, "the result is the same file as the upload"
    await retention.remove(age)
    assert "c" * 64 not in await store.jobs.referenced_files()
    assert not await store.jobs.record_thumbnail(job.id, "c" * 64, 7)
