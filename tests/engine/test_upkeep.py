"""The upkeep removes what is too old and reports it, but not because the clock is or was ahead."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from imgproc_local.engine import upkeep
from imgproc_local.engine.upkeep import run_upkeep
from imgproc_local.storage.blobs import Blobs
from imgproc_local.storage.retention import MaxAge, Retention
from imgproc_local.system import audit
from tests.storage.store import Store
from tests.support.worker_pool import wait_until

WAIT_S = 60
AHEAD = "clock is ahead by"
START = datetime(2026, 11, 1, tzinfo=UTC)


NINETY_DAYS = MaxAge(jobs=timedelta(days=90))


@asynccontextmanager
async def finished_job(folder: Path) -> AsyncIterator[tuple[Store, str]]:
    """A store with one finished job, and its id."""
    store = Store()
    await store.open(folder / "d.db")
    try:
        job = await store.submit()
        await store.finish()
        yield store, job.id
    finally:
        await store.database.close()


@asynccontextmanager
async def upkeep_of(
    store: Store, folder: Path, retention: Retention, elapsed: Callable[[], float], on_removed: Callable[[], None]
) -> AsyncIterator[None]:
    """The upkeep runs inside the block, and as long after it as what must not happen could need."""
    blobs = Blobs(folder, store.jobs.is_referenced)
    task = asyncio.create_task(run_upkeep(retention, blobs, NINETY_DAYS, lambda: store.now, on_removed, elapsed))
    try:
        yield
        await asyncio.sleep(0.3)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def ids_of(store: Store) -> list[str]:
    return [job.id for job in await store.jobs.page(store.account_id, 10)]


@pytest.mark.parametrize(("clock_days", "elapsed_days", "remaining"), [(100, 100, 0), (100, 0, 1), (0.5, 0, 1)])
async def test_only_time_that_has_passed_makes_jobs_old(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    clock_days: float,
    elapsed_days: float,
    remaining: int,
) -> None:
    monkeypatch.setattr(upkeep, "DELETE_FILES_EVERY_S", 0)
    caplog.set_level(logging.WARNING)
    warned = clock_days - elapsed_days > 1
    elapsed = 0.0
    removals: list[None] = []
    async with finished_job(tmp_path) as (store, job_id):
        retention = Retention(store.database)
        async with upkeep_of(store, tmp_path, retention, lambda: elapsed, lambda: removals.append(None)):
            await asyncio.sleep(0.1)
            assert await ids_of(store) == [job_id]
            store.now = START + timedelta(days=clock_days)
            elapsed = max(elapsed_days, 1) * 86_400
            if remaining == 0 or warned:
                assert await asyncio.to_thread(wait_until, lambda: bool(removals) or AHEAD in caplog.text, WAIT_S)
        assert len(await ids_of(store)) == remaining
        assert bool(removals) == (remaining == 0)
        assert (AHEAD in caplog.text) == warned


async def test_a_clock_that_is_ahead_at_the_start_and_corrected_soon_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "DELETE_FILES_EVERY_S", 0)
    rounds = [0.0, 60.0, 599.0, 601.0]  # the time since the start, as the upkeep asks for it
    ended = asyncio.Event()
    async with finished_job(tmp_path) as (store, job_id):

        def elapsed() -> float:
            if len(rounds) == 1:
                store.now = START + timedelta(minutes=10)
                ended.set()
            return rounds[0] if len(rounds) == 1 else rounds.pop(0)

        store.now = START + timedelta(days=400)
        async with (
            asyncio.timeout(WAIT_S),
            upkeep_of(store, tmp_path, Retention(store.database), elapsed, lambda: None),
        ):
            await ended.wait()
        assert await ids_of(store) == [job_id]


async def test_a_removal_is_in_the_log_and_in_the_audit_log_before_it_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(upkeep, "FIRST_REMOVAL_AFTER_S", 0)
    caplog.set_level(logging.INFO)
    audit.log.addHandler(caplog.handler)
    at_removal: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()

    async def remove(age: MaxAge) -> None:
        at_removal.set_result([record.getMessage() for record in caplog.records])

    try:
        async with finished_job(tmp_path) as (store, _):
            retention = Retention(store.database)
            monkeypatch.setattr(retention, "remove", remove)
            store.now = START + timedelta(days=100)
            async with asyncio.timeout(WAIT_S), upkeep_of(store, tmp_path, retention, lambda: 0.0, lambda: None):
                logged = await at_removal
    finally:
        audit.log.removeHandler(caplog.handler)
    assert "Removing what is too old (retention_jobs_days = 90): 1 jobs, 1 files." in logged
    assert "data.prune jobs=1 files=1 by=retention retention_jobs_days=90" in logged
