"""The texts of jobs in the database: their versions, and the order of snapshots."""

from __future__ import annotations

import pytest

from imgproc_local.domain.errors import NoSuchVersion, NotFound
from imgproc_local.domain.job import Job, is_newer
from imgproc_local.domain.plan import Operation
from imgproc_local.domain.result import TextState
from imgproc_local.storage.translations import Translations
from tests.storage.store import Store, texts


async def test_snapshots_of_a_job_are_ordered_by_the_transactions_that_they_contain(store: Store) -> None:
    submitted = await store.submit()
    claimed = await store.jobs.claim("codecs")
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
    claimed = await store.jobs.claim("vision")
    assert claimed is not None
    job = await store.jobs.record_done(claimed.job, claimed.stage, None, texts("a-name", "en"))
    translations = Translations(store.database)
    for number in range(count):
        job = await translations.edit(claimed.job.id, "en", alt_text=f"Text {number}.", slug=None)
    assert job is not None
    return job


async def test_the_oldest_version_is_deleted_after_fifty(store: Store) -> None:
    job = await edited(store, 60)
    translations = Translations(store.database)
    for number in reversed(range(10, 59)):
        job = await translations.undo(job.id, "en")
        assert job.translations[0].seo_alt_text == f"Text {number}."
    assert job.text_states["en"] == TextState(can_undo=False, can_redo=True)
    with pytest.raises(NoSuchVersion):
        await translations.undo(job.id, "en")


async def test_versions_are_deleted_with_their_job(store: Store) -> None:
    job = await edited(store, 3)
    await store.jobs.delete(job.id, store.account_id)
    async with store.database.reading() as read:
        rows = await read._connection.execute_fetchall("SELECT 1 FROM translation_versions")
    assert list(rows) == []
    with pytest.raises(NotFound):
        await Translations(store.database).undo(job.id, "en")
