"""Jobs in the database: what is written together, in which order stages run, and what never changes again."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from msgspec.structs import replace

from imgproc_local.domain.errors import QueueFull
from imgproc_local.domain.image import Format
from imgproc_local.domain.job import Job, StageName, Status, StoredFile
from imgproc_local.domain.plan import Operation, Plan, Remake, RemakeItem
from imgproc_local.domain.result import NeedsTextReason, NewTexts, Note, StoredText, TextName, TextSource, Translation
from imgproc_local.storage.accounts import Keys
from imgproc_local.storage.jobs import MaxAge, Retention
from imgproc_local.storage.stages import MAX_ATTEMPTS
from imgproc_local.storage.translations import Translations
from tests.storage.conftest import BALANCE, LANGUAGES, PRICES, QUEUE_LIMIT, Store


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


async def test_a_conversion_that_must_be_smaller_waits_for_the_optimized_file_and_costs_nothing_if_it_is_not(
    store: Store,
) -> None:
    before = await store.balance()
    await store.submit(Operation.PROCESS, plan=Plan(Operation.PROCESS, only_smaller=True))
    first = await store.stages.claim("codecs")
    assert await store.stages.claim("codecs") is None
    await store.submit()
    other = await store.stages.claim("codecs")
    assert first is not None
    assert other is not None
    assert other.job.id != first.job.id, "other jobs go on"
    await store.stages.record_done(first, StoredFile("b" * 64, 900, Format.JPEG), ())
    second = await store.stages.claim("codecs")
    assert second is not None
    assert (second.stage, second.plan.only_smaller, second.job.only_smaller) == (StageName.CONVERT, True, True)
    assert await store.stages.recover() == (2, 0)  # a killed service has not decided
    second = await store.stages.claim("codecs")
    assert second is not None
    done = await store.stages.record_done(second, None, (), notes=[Note.NOT_SMALLER])
    assert done is not None
    assert (done.file("converted"), done.notes("converted")) == (None, (Note.NOT_SMALLER,))
    spent = PRICES[StageName.ANALYZE] + 2 * PRICES[StageName.OPTIMIZE]
    assert before - await store.balance() == spent


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
        row = await read.one("plan_of_job", {"job_id": job.id, "remake_id": None})
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


async def remake(store: Store, *jobs: Job, account_id: str = "") -> None:
    """Request the optimized files of finished jobs anew."""
    wanted = Remake(tuple(RemakeItem(job.image_id) for job in jobs))
    _, outcomes = await store.stages.request_remakes(account_id or store.account_id, wanted, PRICES)
    assert outcomes == list(wanted.images)


async def request(store: Store, job: Job, *languages: str, from_language: str | None = None) -> None:
    """Request texts of a finished job anew, for 5 credits each."""
    names = [TextName(job.image_id, language) for language in languages]
    wanted = NewTexts(from_language=from_language)
    outcomes = await Translations(store.database, QUEUE_LIMIT).request(job.account_id, names, wanted, lambda _: 5)
    assert all(isinstance(each, StoredText) for each in outcomes), outcomes


async def test_a_result_that_was_made_anew_ages_from_then_on(store: Store) -> None:
    await store.submit()
    job = await store.finish()
    store.now += timedelta(days=80)
    await remake(store, job)
    await store.finish(file=StoredFile("2" * 64, 1, Format.JPEG))
    age = MaxAge(results=timedelta(days=90))
    for days, files in ((20, 0), (80, 1)):
        store.now += timedelta(days=days)
        assert (await Retention(store.database).removable(age)).files == files


@pytest.mark.parametrize("kind", ["stage", "text", "remake"])
async def test_work_of_a_killed_process_is_requeued_twice_and_then_fails(store: Store, kind: str) -> None:
    lane = "codecs" if kind == "remake" else "vision"
    if kind == "remake":
        await store.submit()
        job = await store.finish()
    else:
        job = await (store.submit(Operation.ANALYZE) if kind == "stage" else store.analyzed())
    balance = BALANCE if kind == "stage" else await store.balance()
    if kind == "text":
        await request(store, job, "de", "en")
    elif kind == "remake":
        await remake(store, job)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        claimed = await store.stages.claim(lane)
        assert claimed is not None
        assert (claimed.kind, claimed.attempts) == (kind, attempt)
        rows = 2 if kind == "text" else 1
        assert await store.stages.recover() == ((rows, 0) if attempt < MAX_ATTEMPTS else (0, rows))
    assert await store.stages.claim(lane) is None
    final = await store.jobs.get(job.id)
    assert final.status is (Status.FAILED if kind == "stage" else Status.COMPLETED)
    error = {"stage": final.stages[0].error, "remake": final.remake_error}
    assert "Interrupted" in (error.get(kind) or final.text_states["de"].error or "")
    assert await store.balance() == balance


async def test_texts_of_a_picture_are_written_in_one_pass_and_recorded_each_on_its_own(store: Store) -> None:
    job, other = await store.analyzed(), await store.analyzed()
    balance = await store.balance()
    await request(store, job, "fr", "de")
    await request(store, other, "it")
    await request(store, job, "it", from_language="de")
    await request(store, job, "en")
    seen = []
    while (claimed := await store.stages.claim("vision")) is not None:
        translated = claimed.translated.seo_alt_text if claimed.translated else None
        seen.append((claimed.job.id, claimed.plan.languages, translated))
        texts = [Translation(code, "new", f"New in {code}.", TextSource.VISION) for code in claimed.plan.languages]
        if claimed.job.id == job.id and len(texts) > 1:
            texts[1] = replace(texts[1], needs_text_reason=NeedsTextReason.NOTHING_KNOWN)
            await store.stages.requeue(claimed)  # as a stop of the service does
            again = await store.stages.claim("vision")
            assert again == claimed
        assert await store.stages.record_done(claimed, None, texts) is not None
    assert seen == [
        (job.id, ("de", "en", "fr"), None),
        (other.id, ("it",), None),
        (job.id, ("it",), "New in de."),
    ]
    final = await store.jobs.get(job.id)
    written = {text.language_code: text.seo_alt_text for text in final.translations}
    new = {code: f"New in {code}." for code in ("de", "fr", "it")}
    assert written == {code: f"Text in {code}." for code in LANGUAGES} | new
    assert "kept" in (final.text_states["en"].error or ""), "its new text was no better"
    assert await store.balance() == balance - 4 * 5


async def test_a_failure_ends_all_texts_of_a_pass_and_a_deleted_job_takes_them_along(store: Store) -> None:
    job, balance = await store.analyzed(), await store.balance()
    await request(store, job, "de", "en")
    claimed = await store.stages.claim("vision")
    assert claimed is not None
    failed = await store.stages.record_failed(claimed, "The model is tired.")
    assert failed is not None
    assert {failed.text_states[code].error for code in ("de", "en")} == {"The model is tired."}
    assert await store.balance() == balance
    await request(store, job, "de", "en")
    claimed = await store.stages.claim("vision")
    assert claimed is not None
    await store.jobs.delete(job.id, job.account_id)
    assert await store.stages.record_done(claimed, None, job.translations[:2]) is None
    assert await store.stages.record_failed(claimed, "Late.") is None


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


async def test_a_remake_that_ends_the_process_fails_no_other_work(store: Store) -> None:
    for _ in range(3):
        await store.submit()
        await store.finish()
    fatal, *innocent = await store.jobs.page(store.account_id, 3)
    await remake(store, fatal, *innocent)
    stages = [await store.submit() for _ in range(2)]
    for _ in range(10):
        running: Counter[str] = Counter()
        while (claimed := await store.stages.claim("codecs")) is not None:
            running[claimed.job.id] += 1
            if fatal.id not in running:
                await store.stages.record_done(claimed, claimed.job.original, ())
        assert running[fatal.id] < 2
        await store.stages.recover()  # the process ended as soon as the fatal remake ran, and all others with it
    assert "Interrupted" in ((await store.jobs.get(fatal.id)).remake_error or "")
    for job in (*innocent, *stages):
        ended = await store.jobs.get(job.id)
        assert (ended.status, ended.remaking, ended.remake_error) == (Status.COMPLETED, False, None)


async def test_stages_take_turns_with_remakes_and_accounts_with_each_other(store: Store) -> None:
    jobs = {}
    for account_id in (store.account_id, store.other_account_id):
        jobs[account_id] = []
        for _ in range(3):
            await store.submit(account_id=account_id)
            jobs[account_id].append(await store.finish())
    for account_id, listed in jobs.items():
        await remake(store, *listed, account_id=account_id)
    for _ in range(3):
        await store.submit()
    claims = [claim for _ in range(9) if (claim := await store.stages.claim("codecs"))]
    assert [claim.kind for claim in claims] == ["remake", "stage"] * 3 + ["remake"] * 3
    accounts = [claim.job.account_id for claim in claims if claim.kind == "remake"]
    assert all(one != other for one, other in pairwise(accounts))


# ---- reading, listing, deleting ----


async def test_jobs_list_newest_first_after_the_clock_went_back(store: Store) -> None:
    store.now = datetime(2040, 1, 1, tzinfo=UTC)
    jobs = [await store.submit()]
    store.now = datetime(2026, 11, 1, tzinfo=UTC)
    jobs += [await store.submit() for _ in range(3)]
    assert [job.id for job in await store.jobs.page(store.account_id, 10)] == [job.id for job in reversed(jobs)]
    assert jobs[-1].created_at.startswith("2026-")
