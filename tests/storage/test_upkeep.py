"""The upkeep removes what is too old and reports it, but not because the clock is or was ahead."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from pathlib import Path

import pytest

from imgproc_local.engine import upkeep
from imgproc_local.engine.upkeep import run_upkeep
from imgproc_local.storage.accounts import audit_log
from imgproc_local.storage.blobs import Blobs
from imgproc_local.storage.jobs import MaxAge, Retention
from tests.storage.conftest import Store

WAIT_S, ROUNDS = 60, 3
NINETY_DAYS = MaxAge(jobs=timedelta(days=90))


@pytest.mark.parametrize(("clock_days", "elapsed_days", "remaining"), [(100, 100, 0), (100, 0, 1), (0.5, 0, 1)])
async def test_only_time_that_has_passed_makes_jobs_old(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    clock_days: float,
    elapsed_days: float,
    remaining: int,
) -> None:
    monkeypatch.setattr(upkeep, "DELETE_FILES_EVERY_S", 0)
    monkeypatch.setattr(upkeep, "REMOVE_EVERY_S", 0)
    caplog.set_level(logging.INFO)
    audit_log.addHandler(caplog.handler)
    await store.submit()
    await store.finish()
    start, calls, removals = store.now, 0, []
    ended = asyncio.Event()

    def elapsed() -> float:
        """The time since the start; the clock shows `clock_days` more from its second call."""
        nonlocal calls
        calls += 1
        if calls == 1:
            return 0.0
        if calls > 4 * ROUNDS:  # more than a round asks for
            ended.set()
        store.now = start + timedelta(days=clock_days)
        return max(elapsed_days, 0.01) * 86_400

    retention, blobs = Retention(store.database), Blobs(tmp_path, store.jobs.is_referenced)
    arguments = (retention, blobs, NINETY_DAYS, lambda: store.now, lambda: removals.append(None), elapsed)
    task = asyncio.create_task(run_upkeep(*arguments))
    try:
        await asyncio.wait_for(ended.wait(), WAIT_S)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        audit_log.removeHandler(caplog.handler)
    assert len(await store.jobs.page(store.account_id, 10)) == remaining
    assert bool(removals) == (remaining == 0)
    assert ("clock is ahead by" in caplog.text) == (clock_days - elapsed_days > 1)
    logged = [record.getMessage() for record in caplog.records]
    expected = [
        "Removing what is too old (retention_jobs_days = 90): 1 jobs, 1 files.",
        "data.prune jobs=1 files=1 by=retention retention_jobs_days=90",
    ]
    assert [message in logged for message in expected] == [remaining == 0] * 2
