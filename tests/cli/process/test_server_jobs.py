"""How a run that works through a server follows its jobs, without a server."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from imgproc_local.cli.process import server_jobs
from imgproc_local.cli.process.server_jobs import ServerJobs
from imgproc_local.config import Config
from imgproc_local.domain.errors import QueueFull, ServiceError, StorageFailed
from imgproc_local.domain.image import Format
from imgproc_local.domain.job import Job, StageName, StageRecord, StageState, StoredFile


def job(state: StageState) -> Job:
    stages = (StageRecord(StageName.OPTIMIZE, state),)
    return Job("j", "i", "a", "p", "optimize", "a.jpg", StoredFile("0", 1, Format.JPEG), stages, "2026")


def follow(statuses: list[int], monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[float]]:
    """The number of states, and the pauses. The server answers with `statuses`; the job is finished after the last."""
    left, pauses = list(statuses), []
    opened: Any = SimpleNamespace(database=None)
    jobs = ServerJobs(Config(codec_threads=1), opened, "a", "http://server")

    async def get(*_: str) -> Job:
        return job(StageState.PENDING if left else StageState.DONE)

    async def sleep(pause_s: float) -> None:
        pauses.append(pause_s)

    async def run() -> int:
        answer = httpx.MockTransport(lambda _: httpx.Response(left.pop(0), json={"error": "no"}))
        async with httpx.AsyncClient(transport=answer) as jobs._client:
            return len([state async for state in jobs.changes(job(StageState.PENDING))])

    monkeypatch.setattr(jobs._jobs, "get", get)
    monkeypatch.setattr(server_jobs, "asyncio", SimpleNamespace(sleep=sleep))
    return asyncio.run(run()), pauses


def test_a_refused_wait_is_repeated_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    assert follow([200, 503, 500, 200], monkeypatch) == (5, [server_jobs.POLL_S] * 2)


@pytest.mark.parametrize(
    ("code", "error"),
    [("queue_full", QueueFull), ("storage_failed", StorageFailed), ("too_many_streams", StorageFailed)],
)
def test_a_full_queue_is_recognized_by_its_code(code: str, error: type[ServiceError]) -> None:
    response = httpx.Response(503, json={"message": "Bitte warten."}, headers={"X-Error-Code": code})
    with pytest.raises(error):
        server_jobs._checked(response)


def test_a_run_whose_session_was_ended_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServiceError, match="no"):
        follow([200, 401, 200], monkeypatch)
