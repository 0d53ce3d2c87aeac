"""The texts of jobs in the database, and requests to write one anew."""

from __future__ import annotations

import pytest

from imgproc_local.domain.errors import InsufficientCredits, NoSuchVersion, NotFound, QueueFull
from imgproc_local.domain.job import Job, StageName
from imgproc_local.domain.plan import Operation, Plan
from imgproc_local.storage.stages import MAX_ATTEMPTS
from imgproc_local.storage.translations import Translations
from tests.storage.store import BALANCE, PRICES, Store, texts

LIMIT = 4
PRICE = 5
LANGUAGES = ("de", "en", "fr", "it", "es")
PAID = BALANCE - PRICES[StageName.ANALYZE]


async def analyzed(store: Store, account_id: str) -> Job:
    """A finished job of the account with texts in five languages."""
    job = await store.submit(plan=Plan(Operation.ANALYZE, languages=LANGUAGES), account_id=account_id, prices={
        StageName.ANALYZE: PRICES[StageName.ANALYZE]})  # fmt: skip
    claimed = await store.stages.claim("vision")
    assert claimed is not None
    assert claimed.job.id == job.id
    done = await store.stages.record_done(claimed, None, texts("a-name", *LANGUAGES))
    assert done is not None
    return done


async def test_the_last_fifty_versions_are_stored(store: Store) -> None:
    job, translations = await analyzed(store, store.account_id), Translations(store.database, LIMIT)
    for number in range(55):
        await translations.edit(job.id, "de", alt_text=f"Text {number}.", slug=None)
    for _ in range(49):
        job = await translations.undo(job.id, "de")
    assert job.translations[0].seo_alt_text == "Text 5."
    with pytest.raises(NoSuchVersion):
        await translations.undo(job.id, "de")


async def test_nothing_is_stored_without_credits_text_or_room(store: Store) -> None:
    job, other = [await analyzed(store, account_id) for account_id in (store.account_id, store.other_account_id)]
    translations = Translations(store.database, LIMIT)
    with pytest.raises(InsufficientCredits):
        await translations.request(job.id, "de", PAID + 1)
    with pytest.raises(NotFound):
        await translations.request(job.id, "ja", PRICE)
    for language in LANGUAGES[:LIMIT]:
        await translations.request(job.id, language, PRICE)
    with pytest.raises(QueueFull):
        await translations.request(job.id, LANGUAGES[LIMIT], PRICE)
    assert (await translations.request(other.id, "de", PRICE))[1], "each account has its own limit"
    assert await store.balance() == PAID - LIMIT * PRICE


async def test_a_request_fails_after_three_ends_of_the_process(store: Store) -> None:
    job = await analyzed(store, store.account_id)
    await Translations(store.database, LIMIT).request(job.id, "de", PRICE)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        claimed = await store.stages.claim("vision")
        assert claimed is not None
        assert claimed.kind == "text"
        assert await store.stages.recover() == ((1, 0) if attempt < MAX_ATTEMPTS else (0, 1))
    assert "Interrupted" in ((await store.jobs.get(job.id)).text_states["de"].error or "")
    assert await store.balance() == PAID
    assert await store.stages.claim("vision") is None
