"""Jobs in the database: what is written together, in which order stages run, and what never changes again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from imgproc_local.domain.errors import IdempotencyConflict, InsufficientCredits, InvalidRequest, NotFound, QueueFull
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.job import Job, StageName, Status, StoredFile
from imgproc_local.domain.plan import DEFAULT_PROJECT_NAME, STAGES, Operation, Plan
from imgproc_local.domain.privacy import Removed
from imgproc_local.storage.jobs import IDEMPOTENCY_WINDOW
from imgproc_local.storage.retention import MaxAge, Retention
from imgproc_local.storage.stages import MAX_ATTEMPTS
from tests.storage.store import BALANCE, PRICES, QUEUE_LIMIT, Store, texts

OTHER_ULID = "01arz3ndektsv4rrffq69g5fav"


# ---- submitting ----


async def test_a_new_job_is_pending_with_its_stages_and_its_project(store: Store) -> None:
    job, is_new = await store.submit_or_repeat(Operation.PROCESS)
    assert is_new
    assert job.status is Status.PENDING
    assert [stage.name for stage in job.stages] == list(STAGES[Operation.PROCESS])
    assert job.original == StoredFile("a" * 64, 1000, Format.JPEG)
    assert (job.optimized, job.converted, job.translations) == (None, None, ())
    assert await store.jobs.get(job.id, store.account_id) == job
    assert await store.jobs.by_image(job.image_id, store.account_id) == job


async def test_jobs_of_one_project_name_share_the_project(store: Store) -> None:
    first, second = await store.submit(), await store.submit()
    named = await store.submit(plan=Plan(Operation.OPTIMIZE, project_name="Another"))
    again = await store.submit(plan=Plan(Operation.OPTIMIZE, project_id=named.project_id, project_name="Ignored"))
    assert first.project_id == second.project_id != named.project_id == again.project_id
    claimed = [await store.stages.claim("codecs") for _ in range(4)]
    assert [work.plan.project_name for work in claimed if work] == [
        DEFAULT_PROJECT_NAME,
        DEFAULT_PROJECT_NAME,
        "Another",
        "Another",
    ]


async def test_an_unknown_project_is_refused_and_nothing_is_written(store: Store) -> None:
    with pytest.raises(InvalidRequest, match="project_id must name a project of this account"):
        await store.submit(plan=Plan(Operation.OPTIMIZE, project_id=OTHER_ULID))
    with pytest.raises(InvalidRequest):
        await store.jobs.require_project(store.account_id, OTHER_ULID)
    assert await store.jobs.page(store.account_id, 10) == []
    assert await store.balance() == BALANCE


async def test_a_full_queue_refuses_until_a_job_is_final(store: Store) -> None:
    for _ in range(QUEUE_LIMIT):
        await store.submit()
    with pytest.raises(QueueFull):
        await store.jobs.require_room(store.account_id)
    with pytest.raises(QueueFull):
        await store.submit()
    await store.finish()
    await store.jobs.require_room(store.account_id)
    await store.submit()


async def test_concurrent_submissions_do_not_exceed_the_queue_limit(store: Store) -> None:
    outcomes = await asyncio.gather(*(store.submit() for _ in range(2 * QUEUE_LIMIT)), return_exceptions=True)
    assert sum(isinstance(outcome, Job) for outcome in outcomes) == QUEUE_LIMIT
    assert sum(isinstance(outcome, QueueFull) for outcome in outcomes) == QUEUE_LIMIT


# ---- idempotency ----


async def test_the_same_key_and_body_give_the_same_job_and_cost_once(store: Store) -> None:
    first, is_new = await store.submit_or_repeat(idempotency_key="k")
    again, repeated = await store.submit_or_repeat(idempotency_key="k")
    assert (is_new, repeated) == (True, False)
    assert again.id == first.id
    assert await store.balance() == BALANCE - PRICES[StageName.OPTIMIZE]


@pytest.mark.parametrize(
    "other",
    [{"sha256": "b" * 64}, {"original_filename": "b.jpg"}, {"plan": Plan(Operation.OPTIMIZE, project_name="B")}],
)
async def test_the_same_key_with_another_body_is_a_conflict(store: Store, other: dict[str, Any]) -> None:
    await store.submit(idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        await store.submit(idempotency_key="k", **other)


async def test_an_idempotency_key_is_valid_for_its_account_and_for_a_day(store: Store) -> None:
    first = await store.submit(idempotency_key="k")
    assert (await store.submit(idempotency_key="k", account_id=store.other_account_id)).id != first.id
    store.now += IDEMPOTENCY_WINDOW - timedelta(seconds=1)
    assert (await store.submit(idempotency_key="k")).id == first.id
    store.now += timedelta(seconds=2)
    assert (await store.submit(idempotency_key="k")).id != first.id


# ---- credits ----


async def test_credits_are_held_at_the_submission_and_stay_spent_when_stages_are_done(store: Store) -> None:
    job = await store.submit(Operation.PROCESS)
    assert await store.balance() == BALANCE - 6
    await store.finish()
    await store.finish()
    await store.finish("vision")
    assert await store.balance() == BALANCE - 6
    assert await store.ledger(job) == [("hold", "analyze", -3), ("hold", "optimize", -2), ("hold", "convert", -1)]


async def test_a_failed_stage_gives_back_its_own_price_once(store: Store) -> None:
    job = await store.submit(Operation.PROCESS)
    claimed = await store.stages.claim("codecs")
    assert claimed is not None
    for _ in range(2):
        await store.stages.record_failed(claimed, "Broken.")
    assert await store.balance() == BALANCE - 4
    assert (await store.ledger(job))[3:] == [("release", "optimize", 2)]


async def test_a_balance_that_does_not_cover_the_job_is_refused_with_the_shortfall(store: Store) -> None:
    prices = {StageName.OPTIMIZE: BALANCE + 7}
    with pytest.raises(InsufficientCredits) as refused:
        await store.submit(prices=prices)
    assert (refused.value.required, refused.value.balance, refused.value.shortfall) == (BALANCE + 7, BALANCE, 7)
    assert await store.jobs.page(store.account_id, 10) == []
    assert await store.balance() == BALANCE


# ---- claiming and recording ----


async def test_stages_of_a_lane_are_claimed_in_the_order_of_submission(store: Store) -> None:
    jobs = [await store.submit(Operation.PROCESS) for _ in range(2)]
    claimed = [await store.stages.claim("codecs") for _ in range(5)]
    expected = [(job.id, stage) for job in jobs for stage in (StageName.OPTIMIZE, StageName.CONVERT)]
    assert [(work.job.id, work.stage) for work in claimed if work] == expected
    assert claimed[4] is None
    vision = await store.stages.claim("vision")
    assert vision is not None
    assert vision.job.id == jobs[0].id
    assert vision.job.status is Status.ANALYZING, "the stage that was started last"


async def test_concurrent_claims_never_share_a_stage(store: Store) -> None:
    for _ in range(QUEUE_LIMIT):
        await store.submit()
    claimed = await asyncio.gather(*(store.stages.claim("codecs") for _ in range(2 * QUEUE_LIMIT)))
    ids = [work.job.id for work in claimed if work]
    assert len(ids) == len(set(ids)) == QUEUE_LIMIT


async def test_a_claimed_stage_carries_what_its_work_needs(store: Store) -> None:
    plan = Plan(Operation.PROCESS, languages=("de", "en"), format=Format.AVIF)
    await store.submit(Operation.PROCESS, plan=plan, original_filename="b.jpg")
    claimed = await store.stages.claim("vision")
    assert claimed is not None
    assert (claimed.plan.languages, claimed.plan.format, claimed.attempts) == (("de", "en"), Format.AVIF, 1)
    assert claimed.info == ImageInfo(Format.JPEG, 8, 8)
    assert claimed.job.original_filename == "b.jpg"


async def test_results_are_readable_as_soon_as_their_stage_is_done(store: Store) -> None:
    await store.submit(Operation.PROCESS)
    optimized = StoredFile("b" * 64, 500, Format.JPEG)
    job = await store.finish(file=optimized)
    assert (job.optimized, job.converted, job.status.final) == (optimized, None, False)
    analyzed = await store.stages.claim("vision")
    assert analyzed is not None
    now = await store.stages.record_done(analyzed, None, texts("a-name", "en", "de"), (Removed.GPS,))
    assert now is not None
    assert [text.language_code for text in now.translations] == ["en", "de"]
    assert now.removed == (Removed.GPS,)
    converted = StoredFile("c" * 64, 400, Format.WEBP)
    final = await store.finish(file=converted)
    assert (final.status, final.converted) == (Status.COMPLETED, converted)
    assert await store.jobs.referenced_files() == {"a" * 64, "b" * 64, "c" * 64}
    assert await store.jobs.is_referenced("c" * 64)
    assert not await store.jobs.is_referenced("d" * 64)


async def test_file_names_are_unique_in_their_project_and_language(store: Store) -> None:
    names = []
    for project in ("A", "A", "B", "A"):
        await store.submit(Operation.ANALYZE, plan=Plan(Operation.ANALYZE, project_name=project))
        claimed = await store.stages.claim("vision")
        assert claimed is not None
        job = await store.stages.record_done(claimed, None, texts("name", "en", "de"))
        assert job is not None
        names.append([text.seo_filename for text in job.translations])
    assert names == [["name", "name"], ["name-2", "name-2"], ["name", "name"], ["name-3", "name-3"]]


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


async def test_an_orderly_stop_does_not_count_as_an_attempt(store: Store) -> None:
    await store.submit()
    for _ in range(MAX_ATTEMPTS + 1):
        claimed = await store.stages.claim("codecs")
        assert claimed is not None
        assert claimed.attempts == 1
        await store.stages.requeue(claimed)


# ---- reading, listing, deleting ----


async def test_another_account_sees_no_job(store: Store) -> None:
    job = await store.submit()
    for call in (
        store.jobs.get(job.id, store.other_account_id),
        store.jobs.by_image(job.image_id, store.other_account_id),
        store.jobs.delete(job.id, store.other_account_id),
    ):
        with pytest.raises(NotFound):
            await call
    assert await store.jobs.page(store.other_account_id, 10) == []


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


async def test_jobs_of_one_instant_list_in_the_order_of_their_submission(store: Store) -> None:
    jobs = [await store.submit() for _ in range(QUEUE_LIMIT)]
    assert [job.id for job in await store.jobs.page(store.account_id, 10)] == [job.id for job in reversed(jobs)]


async def test_a_thumbnail_is_a_file_of_its_job_until_the_upload_is_removed(store: Store) -> None:
    job = await store.submit(sha256="b" * 64)
    await store.finish()
    assert await store.jobs.record_thumbnail(job.id, "c" * 64, 7)
    details = (await store.jobs.get(job.id)).details
    assert details is not None
    assert details.thumbnail == StoredFile("c" * 64, 7, Format.WEBP)
    assert "c" * 64 in await store.jobs.referenced_files()
    retention, age = Retention(store.database), MaxAge(originals=timedelta(days=1))
    store.now += timedelta(days=2)
    assert (await retention.removable(age)).size_bytes == 7, "the result is the same file as the upload"
    await retention.remove(age)
    assert "c" * 64 not in await store.jobs.referenced_files()
    assert not await store.jobs.record_thumbnail(job.id, "c" * 64, 7)
