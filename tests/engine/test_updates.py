"""Following jobs: subscriptions to changes, and the states that a follower of one job is given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.job import Job, StageName, StageRecord, StageState, Status, StoredFile
from imgproc_local.engine.engine import MAX_UNREAD_JOBS, Engine, Updates
from tests.support.worker_pool import WAIT_S


def job_with(state: StageState, status: Status) -> Job:
    stages = (StageRecord(StageName.OPTIMIZE, state),)
    return Job("j", "i", "a", "p", "optimize", "a.jpg", StoredFile("0", 1, Format.JPEG), stages,
               "2026-11-22T13:14:16.000Z", "p", (), ImageInfo(Format.JPEG, 8, 8), status)  # fmt: skip


PENDING = job_with(StageState.PENDING, Status.PENDING)
RUNNING = job_with(StageState.RUNNING, Status.OPTIMIZING)
DONE = job_with(StageState.DONE, Status.COMPLETED)


class ReadJobs:
    """In place of the stored jobs: each call of `get` returns the next one of `states`, then the last one.

    In the calls whose numbers are in `publish_in`, a change is published that the returned state does not have yet.
    """

    def __init__(self, updates: Updates, states: list[Job], publish_in: set[int]) -> None:
        self._updates = updates
        self._states = states
        self._publish_in = publish_in
        self._calls = 0

    async def get(self, job_id: str, _: str | None) -> Job:
        self._calls += 1
        job = self._states[min(self._calls, len(self._states)) - 1]
        await asyncio.sleep(0)
        if self._calls in self._publish_in:
            self._updates.publish(job_id, "a")
        return job


def engine_of(updates: Updates, states: list[Job], publish_in: set[int]) -> Engine:
    nothing: Any = SimpleNamespace(stages=(), reader=None, workers=None)
    jobs: Any = ReadJobs(updates, states, publish_in)
    return Engine(jobs, nothing, nothing, nothing, nothing, nothing, updates)


async def test_a_follower_that_does_not_read_is_told_to_read_the_list_again() -> None:
    updates = Updates()
    with updates.subscribed("a") as subscription:
        updates.publish("of another account", "b")
        assert not await subscription.wait(0)
        for job_id in ("2", "1", "2"):
            updates.publish(job_id, "a")
        assert subscription.take(2) == ["2", "1"], "in the order of their first change"
        for number in range(MAX_UNREAD_JOBS + 1):
            updates.publish(str(number), "a")
        assert subscription.take() is None
        updates.publish("later", "a")
        assert await subscription.wait(WAIT_S)
        assert subscription.take() == ["later"]
        assert not await subscription.wait(0)


async def test_a_follower_gets_each_state_once_and_none_is_lost_that_changes_while_it_reads() -> None:
    updates = Updates()
    engine = engine_of(updates, [PENDING, PENDING, RUNNING, DONE], publish_in={1, 2, 3})
    async with asyncio.timeout(WAIT_S):
        assert [job async for job in engine.follow("j")] == [PENDING, RUNNING, DONE]


@pytest.mark.parametrize("change", [lambda updates: updates.publish("j", "a"), Updates.reset])
async def test_a_change_just_before_a_stop_is_still_followed(change: Callable[[Updates], None]) -> None:
    updates = Updates()
    following = engine_of(updates, [PENDING, RUNNING], publish_in=set()).follow("j")
    async with asyncio.timeout(WAIT_S):
        assert await anext(following) == PENDING
        change(updates)
        updates.close()
        assert [job async for job in following] == [RUNNING]
