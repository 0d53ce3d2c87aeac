"""The texts of jobs in the database: their versions, the order of snapshots, and requests to write one anew."""

from __future__ import annotations

import pytest

from imgproc_local.domain.errors import InsufficientCredits, NoSuchVersion, NotFound, QueueFull
from imgproc_local.domain.job import Job, StageName, is_newer
from imgproc_local.domain.plan import Operation, Plan
from imgproc_local.domain.result import TextSource, TextState, Translation
from imgproc_local.storage.accounts import Keys
from imgproc_local.storage.stages import MAX_ATTEMPTS, ClaimedStage
from imgproc_local.storage.translations import Translations
from tests.storage.store import BALANCE, PRICES, Store, texts

LIMIT = 4
PRICE = 5
LANGUAGES = ("de", "en", "fr", "it", "es")
PAID = BALANCE - PRICES[StageName.ANALYZE]
NEW = Translation("de", "neu", "Ein neuer Text.", TextSource.VISION)


# ---- versions ----


async def test_snapshots_of_a_job_are_ordered_by_the_transactions_that_they_contain(store: Store) -> None:
    submitted = await store.submit()
    claimed = await store.stages.claim("codecs")
    assert claimed is not None
    read = await store.jobs.get(submitted.id)
    assert is_newer(claimed.job, submitted)
    assert not is_newer(read, claimed.job)
    assert not is_newer(claimed.job, read)
    await store.submit(sha256="b" * 64)
    assert is_newer(await store.jobs.get(submitted.id), read)


async def edited(store: Store, count: int) -> Job:
    """A job whose text was edited `count` times."""
    await store.submit(Operation.ANALYZE)
    claimed = await store.stages.claim("vision")
    assert claimed is not None
    job = await store.stages.record_done(claimed, None, texts("a-name", "en"))
    translations = Translations(store.database, 10)
    for number in range(count):
        job = await translations.edit(claimed.job.id, "en", alt_text=f"Text {number}.", slug=None)
    assert job is not None
    return job


async def test_the_oldest_version_is_deleted_after_fifty(store: Store) -> None:
    job = await edited(store, 60)
    translations = Translations(store.database, 10)
    for number in reversed(range(10, 59)):
        job = await translations.undo(job.id, "en")
        assert job.translations[0].seo_alt_text == f"Text {number}."
    assert job.text_states["en"] == TextState(can_undo=False, can_redo=True)
    with pytest.raises(NoSuchVersion):
        await translations.undo(job.id, "en")


# ---- requests to write a text anew ----


async def analyzed(store: Store, account: str = "own") -> Job:
    """A finished job of the account with texts in five languages."""
    account_id = await Keys(store.database, BALANCE).account_id(account, create=True)
    job = await store.submit(plan=Plan(Operation.ANALYZE, languages=LANGUAGES), account_id=account_id, prices={
        StageName.ANALYZE: PRICES[StageName.ANALYZE]})  # fmt: skip
    claimed = await store.stages.claim("vision")
    assert claimed is not None
    done = await store.stages.record_done(claimed, None, texts("a-name", *LANGUAGES))
    assert done is not None
    assert claimed.job.id == job.id
    return done


async def request(store: Store, job: Job, language: str, price: int = PRICE) -> bool:
    return (await Translations(store.database, LIMIT).request(job.id, language, price))[1]


async def claim(store: Store) -> ClaimedStage:
    claimed = await store.stages.claim("vision")
    assert claimed is not None
    assert claimed.kind == "text"
    return claimed


async def state(store: Store, job: Job, language: str = "de") -> TextState:
    return (await store.jobs.get(job.id)).text_states[language]


async def test_nothing_is_stored_without_credits_text_or_room(store: Store) -> None:
    job, other = await analyzed(store), await analyzed(store, "other")
    with pytest.raises(InsufficientCredits):
        await request(store, job, "de", PAID + 1)
    with pytest.raises(NotFound):
        await request(store, job, "ja")
    for language in LANGUAGES[:LIMIT]:
        await request(store, job, language)
    with pytest.raises(QueueFull):
        await request(store, job, LANGUAGES[LIMIT])
    assert await request(store, other, "de"), "each account has its own limit"
    assert await store.balance() == PAID - LIMIT * PRICE


async def test_accounts_take_turns(store: Store) -> None:
    many, few = await analyzed(store), await analyzed(store, "other")
    for language in LANGUAGES[:3]:
        await request(store, many, language)
    order = [await store.stages.claim("vision")]
    await request(store, few, "de")
    order += [await store.stages.claim("vision") for _ in range(3)]
    jobs = {many.id: "many", few.id: "few"}
    assert [jobs[claimed.job.id] for claimed in order if claimed] == ["many", "few", "many", "many"]


async def test_a_request_that_is_running_when_the_process_ends_waits_again_and_comes_last(store: Store) -> None:
    job = await analyzed(store)
    await request(store, job, "de")
    await claim(store)
    assert await store.stages.recover() == (1, 0)
    await request(store, job, "en")
    waiting = [await store.submit(Operation.ANALYZE) for _ in range(3)]
    claims = [await store.stages.claim("vision") for _ in range(5)]
    assert [(claimed.job.id, claimed.kind, claimed.attempts) for claimed in claims if claimed] == [
        (waiting[0].id, "stage", 1),
        (job.id, "text", 1),
        (waiting[1].id, "stage", 1),
        (waiting[2].id, "stage", 1),
        (job.id, "text", 2),
    ]
    assert await store.balance() == PAID - 2 * PRICE - 3 * PRICES[StageName.ANALYZE]


async def test_a_request_fails_after_three_ends_of_the_process(store: Store) -> None:
    job = await analyzed(store)
    await request(store, job, "de")
    for attempt in range(1, MAX_ATTEMPTS + 1):
        await claim(store)
        assert await store.stages.recover() == ((1, 0) if attempt < MAX_ATTEMPTS else (0, 1))
    assert "Interrupted" in ((await state(store, job)).error or "")
    assert await store.balance() == PAID
    assert await store.stages.claim("vision") is None
