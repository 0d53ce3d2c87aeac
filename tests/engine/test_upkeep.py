"""The upkeep removes what is too old and reports it, but not because the clock is or was ahead."""

from __future__ import annotations

import asyncio
import logging
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
    store = Store()
    await store.open(tmp_path / "d.db")
    blobs = Blobs(tmp_path, store.jobs.is_referenced)
    retention = Retention(store.database)
    elapsed = 0.0
    removals: list[None] = []
    try:
        job = await store.submit()
        await store.finish()
        task = asyncio.create_task(
            run_upkeep(
                *(retention, blobs, MaxAge(jobs=timedelta(days=90)), lambda: store.now),
                on_removed=lambda: removals.append(None),
                elapsed=lambda: elapsed,
            )
        )
        await asyncio.sleep(0.1)
        assert [one.id for one in await store.jobs.page(store.account_id, 10)] == [job.id]
        store.now = START + timedelta(days=clock_days)
        elapsed = max(elapsed_days, 1) * 86_400
        if remaining == 0 or warned:
            seen = await asyncio.to_thread(wait_until, lambda: bool(removals) or AHEAD in caplog.text, WAIT_S)
            assert seen
        await asyncio.sleep(0.3)  # what must not happen could follow
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert len(await store.jobs.page(store.account_id, 10)) == remaining
        assert bool(removals) == (remaining == 0)
        assert (AHEAD in caplog.text) == warned
    finally:
        await store.database.close()


async def test_a_clock_that_is_ahead_at_the_start_and_corrected_soon_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "DELETE_FILES_EVERY_S", 0)
    store = Store()
    await store.open(tmp_path / "d.db")
    retention = Retention(store.database)
    rounds = [0.0, 60.0, 599.0, 601.0]  # the time since the start, as the upkeep asks for it
    ended = asyncio.Event()

    def elapsed() -> float:
        if len(rounds) == 1:
            store.now = START + timedelta(minutes=10)
            ended.set()
        return rounds[0] if len(rounds) == 1 else rounds.pop(0)

    try:
        job = await store.submit()
        await store.finish()
        store.now = START + timedelta(days=400)
        blobs = Blobs(tmp_path, store.jobs.is_referenced)
        task = asyncio.create_task(
            run_upkeep(
                *(retention, blobs, MaxAge(jobs=timedelta(days=90)), lambda: store.now),
                on_removed=lambda: None,
                elapsed=elapsed,
            )
        )
        async with asyncio.timeout(WAIT_S):
            await ended.wait()
        await asyncio.sleep(0.3)  # what must not happen could follow
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert [one.id for one in await store.jobs.page(store.account_id, 10)] == [job.id]
    finally:
        await store.database.close()


async def test_a_removal_is_in_the_log_and_in_the_audit_log_before_it_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(upkeep, "FIRST_REMOVAL_AFTER_S", 0)
    caplog.set_level(logging.INFO)
    audit.log.addHandler(caplog.handler)
    store = Store()
    await store.open(tmp_path / "d.db")
    retention = Retention(store.database)
    at_removal: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()

    async def remove(age: MaxAge) -> None:
        at_removal.set_result([record.getMessage() for record in caplog.records])

    monkeypatch.setattr(retention, "remove", remove)
    try:
        await store.submit()
        await store.finish()
        store.now = START + timedelta(days=100)
        blobs = Blobs(tmp_path, store.jobs.is_referenced)
        max_age = MaxAge(jobs=timedelta(days=90))
        task = asyncio.create_task(
            run_upkeep(retention, blobs, max_age, lambda: store.now, on_removed=lambda: None, elapsed=lambda: 0.0)
        )
        async with asyncio.timeout(WAIT_S):
            logged = await at_removal
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    finally:
        audit.log.removeHandler(caplog.handler)
        await store.database.close()
    assert "Removing what is too old (retention_jobs_days = 90): 1 jobs, 1 files." in logged
    assert "data.prune jobs=1 files=1 by=retention retention_jobs_days=90" in logged
