"""The texts of jobs in the database: their versions, their file names, and requests to write them anew."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from imgproc_local.domain.job import is_newer
from tests.storage.test_jobs import Store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = Store()
    await store.open(tmp_path / "jobs.db")
    yield store
    await store.database.close()


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
