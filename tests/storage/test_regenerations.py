"""Requests to write a text anew in the database: credits, turns, ends of the process, deletion and age."""

from __future__ import annotations

from datetime import timedelta

import pytest

from imgproc_local.domain.errors import InsufficientCredits, NotFound, QueueFull
from imgproc_local.domain.job import Job, StageName
from imgproc_local.domain.plan import Operation, Plan
from imgproc_local.domain.result import TextSource, TextState, Translation
from imgproc_local.storage.accounts import Keys
from imgproc_local.storage.job_rows import MAX_ATTEMPTS
from imgproc_local.storage.regenerations import Regenerations
from imgproc_local.storage.retention import MaxAge, Retention
from tests.storage.store import BALANCE, PRICES, Store, texts

LIMIT = 4
PRICE = 5
LANGUAGES = ("de", "en", "fr", "it", "es")
PAID = BALANCE - PRICES[StageName.ANALYZE]
NEW = Translation("de", "neu", "Ein neuer Text.", TextSource.VISION)


@pytest.fixture
def store(store: Store) -> Store:
    store.requests = Regenerations(store.database, LIMIT)
    return store


async def analyzed(store: Store, account: str = "own") -> Job:
    """A finished job of the account with texts in five languages."""
    account_id = await Keys(store.database, BALANCE).account_id(account, create=True)
    job = await store.submit(plan=Plan(Operation.ANALYZE, languages=LANGUAGES), account_id=account_id, prices={
        StageName.ANALYZE: PRICES[StageName.ANALYZE]})  # fmt: skip
    claimed = await store.jobs.claim("vision")
    assert claimed is not None
    done = await store.jobs.record_done(claimed.job, claimed.stage, None, texts("a-name", *LANGUAGES))
    assert done is not None
    assert claimed.job.id == job.id
    return done


async def claim(store: Store) -> int:
    claimed = await store.requests.claim()
    assert claimed is not None
    assert claimed.regeneration_id is not None
    return claimed.regeneration_id


async def state(store: Store, job: Job, language: str = "de") -> TextState:
    return (await store.jobs.get(job.id)).text_states[language]


async def test_nothing_is_stored_without_credits_text_or_room(store: Store) -> None:
    job = await analyzed(store)
    with pytest.raises(InsufficientCredits):
        await store.requests.request(job.id, "de", PAID + 1)
    with pytest.raises(NotFound):
        await store.requests.request(job.id, "ja", PRICE)
    for language in LANGUAGES[:LIMIT]:
        await store.requests.request(job.id, language, PRICE)
    with pytest.raises(QueueFull):
        await store.requests.request(job.id, LANGUAGES[LIMIT], PRICE)
    other = await analyzed(store, "other")
    assert (await store.requests.request(other.id, "de", PRICE))[1], "each account has its own limit"
    assert await store.balance() == PAID - LIMIT * PRICE


async def test_accounts_take_turns(store: Store) -> None:
    many, few = await analyzed(store), await analyzed(store, "other")
    for language in LANGUAGES[:3]:
        await store.requests.request(many.id, language, PRICE)
    order = [await store.requests.claim()]
    await store.requests.request(few.id, "de", PRICE)
    order += [await store.requests.claim() for _ in range(3)]
    jobs = {many.id: "many", few.id: "few"}
    assert [jobs[claimed.job.id] for claimed in order if claimed] == ["many", "few", "many", "many"]


async def test_a_request_that_is_running_when_the_process_ends_waits_again_and_comes_last(store: Store) -> None:
    job = await analyzed(store)
    await store.requests.request(job.id, "de", PRICE)
    await claim(store)
    assert await store.requests.recover() == (1, 0)
    await store.requests.request(job.id, "en", PRICE)
    languages = [await store.requests.claim(interrupted=False) for _ in range(2)]
    assert [claimed.plan.languages if claimed else None for claimed in languages] == [("en",), None]
    again = await store.requests.claim()
    assert again is not None
    assert (again.plan.languages, again.attempts) == (("de",), 2)
    assert await store.balance() == PAID - 2 * PRICE


async def test_a_request_fails_after_three_ends_of_the_process(store: Store) -> None:
    job = await analyzed(store)
    await store.requests.request(job.id, "de", PRICE)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        await claim(store)
        assert await store.requests.recover() == ((1, 0) if attempt < MAX_ATTEMPTS else (0, 1))
    assert "Interrupted" in ((await state(store, job)).error or "")
    assert await store.balance() == PAID
    assert await store.requests.claim() is None


async def test_an_orderly_stop_counts_as_no_attempt(store: Store) -> None:
    job = await analyzed(store)
    await store.requests.request(job.id, "de", PRICE)
    for _ in range(MAX_ATTEMPTS + 1):
        await store.requests.requeue(await claim(store))
    assert await store.requests.recover() == (0, 0)
    claimed = await store.requests.claim()
    assert claimed is not None
    assert claimed.attempts == 1


async def test_a_deleted_job_gives_back_what_has_not_started(store: Store) -> None:
    job = await analyzed(store)
    await store.requests.request(job.id, "de", PRICE)
    running = await claim(store)
    await store.requests.request(job.id, "en", PRICE)
    await store.jobs.delete(job.id, store.account_id)
    assert await store.balance() == PAID - PRICE
    assert await store.requests.record_written(running, NEW) is None
    assert await store.requests.record_failed(running, "No description.") is None
    assert await store.requests.claim() is None
    assert await store.balance() == PAID - PRICE


async def test_a_picture_whose_text_is_to_be_written_is_not_removed_because_of_its_age(store: Store) -> None:
    job = await analyzed(store)
    await store.requests.request(job.id, "de", PRICE)
    retention, age = Retention(store.database), MaxAge(*[timedelta(days=1)] * 3)
    store.now += timedelta(days=2)
    assert (await retention.removable(age)).jobs == 0
    assert (await retention.removable(MaxAge(originals=timedelta(days=1)))).files == 0
    await retention.remove(age)
    assert not (await store.jobs.get(job.id)).original.expired
    await store.requests.record_written(await claim(store), NEW)
    await retention.remove(age)
    with pytest.raises(NotFound):
        await store.jobs.get(job.id)
