"""The upkeep removes what is too old, but not because the clock jumped ahead."""

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
