"""The engine with stages that a test makes: order, failures, deadlines, stops and restarts.

This is one long file because its tests share the engine that `harness` makes.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace
from PIL import Image

from imgproc_local.domain.errors import CheckStop, NoWorker
from imgproc_local.domain.job import Job, StageName, Status
from imgproc_local.domain.plan import Operation, Plan, Prices
from imgproc_local.engine import runner
from imgproc_local.engine.direct import DirectStages, Lanes
from imgproc_local.engine.engine import Engine, Updates
from imgproc_local.engine.stage import CODECS_LANE, Options, Output, Stage, WorkItem
from imgproc_local.engine.workers import Workers
from imgproc_local.storage.accounts import Keys
from imgproc_local.storage.blobs import Blobs
from imgproc_local.storage.database import Database, open_database
from imgproc_local.storage.jobs import Jobs
from imgproc_local.storage.stages import ClaimedStage, Stages
from imgproc_local.storage.translations import Translations
from tests.support import pictures
from tests.support.reading import reader_here

StageFunction = Callable[[WorkItem, CheckStop], Output]
STAGE_S, PATIENT_S = 0.5, 60.0
"""Timeouts of stages; the second for those that run until something else ends them, which may take a while."""


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STORAGE_RETRY_S", 0.01)


class Harness:
    """An engine on a data folder, wired as the service wires it, with an optimize stage made by the test."""

    def __init__(
        self,
        database: Database,
        stages: Stages,
        folder: Path,
        optimize: StageFunction,
        threads: int,
        stage_s: float,
    ) -> None:
        self.database = database
        self.jobs = Jobs(database, 1000)
        self.stages = stages
        self.blobs = Blobs(folder, self.jobs.is_referenced)
        self.keys = Keys(database, 1000)
        self.lanes = Lanes({CODECS_LANE: threads}, 10**9)
        self.engine = Engine(
            self.jobs,
            stages,
            Translations(database, 1000),
            self.blobs,
            DirectStages(
                (
                    Stage(StageName.OPTIMIZE, CODECS_LANE, self._with_file(optimize)),
                    Stage(StageName.CONVERT, CODECS_LANE, self._with_file(converted)),
                ),
                Options(target_score=85.0),
                cast("Workers", None),
                reader_here(),
                stage_s,
                self.lanes,
            ),
            Prices(),
            Updates(),
        )

    def _with_file(self, function: StageFunction) -> StageFunction:
        """The function on a thread, with the data of its output in a file, as worker processes return it."""

        def run(work: WorkItem, check_stop: CheckStop) -> Output:
            output = function(work, check_stop)
            if output.data is None:
                return output
            path = self.blobs.incoming_folder / f"{threading.get_ident()}.part"
            path.write_bytes(output.data)
            return replace(output, data=None, path=str(path))

        return run

    async def accept(self, seed: int = 0, filename: str = "a.png") -> Job:
        """Queue a picture for optimize. Different seeds give pictures of different widths."""
        account_id = await self.keys.account_id(create=True)
        with self.blobs.incoming() as incoming:
            incoming.write(picture(seed))
            job, _ = await self.engine.accept(account_id, Plan(Operation.OPTIMIZE), incoming, filename)
        return job


def picture(seed: int) -> bytes:
    return pictures.encoded(Image.new("RGB", (8 + seed, 8)), "PNG")


@asynccontextmanager
async def harness(
    folder: Path,
    optimize: StageFunction,
    threads: int = 1,
    stages_type: type[Stages] = Stages,
    stage_s: float = STAGE_S,
) -> AsyncIterator[Harness]:
    folder.mkdir(exist_ok=True)
    database = await open_database(folder / "jobs.db")
    try:
        made = Harness(database, stages_type(database), folder, optimize, threads, stage_s)
        await made.engine.start()
        try:
            yield made
        finally:
            await made.engine.stop()
            made.lanes.close()
    finally:
        await database.close()


def smaller(work: WorkItem, check_stop: CheckStop) -> Output:
    return Output(data=b"small", format=work.info.format)


def converted(work: WorkItem, check_stop: CheckStop) -> Output:
    return Output(data=b"converted", format=work.plan.format)


async def test_a_stage_past_its_deadline_fails(tmp_path: Path) -> None:
    def slow(work: WorkItem, check_stop: CheckStop) -> Output:
        while True:
            check_stop()
            time.sleep(0.01)

    async with harness(tmp_path, slow) as service:
        job = await service.engine.wait((await service.accept()).id, 10)
        assert job.status is Status.FAILED
        assert "0.5 seconds" in (job.stages[0].error or "")


async def test_a_stage_without_a_worker_runs_again_and_the_engine_says_why_it_waits(tmp_path: Path) -> None:
    error: Exception | None = NoWorker("No worker.")

    def without_worker(work: WorkItem, check_stop: CheckStop) -> Output:
        if error is not None:
            raise error
        return smaller(work, check_stop)

    async def wait_for(problem: str | None) -> None:
        async with asyncio.timeout(10):
            while service.engine.problem != problem:  # noqa: ASYNC110 - the engine reports it when it is asked
                await asyncio.sleep(0.01)

    async with harness(tmp_path, without_worker) as service:
        job = await service.accept()
        await wait_for("No worker.")
        error = RuntimeError("can't start new thread")
        await wait_for("The system starts no more threads for this user, or has no memory left.")
        error = None
        assert (await service.engine.wait(job.id, 10)).status is Status.COMPLETED
        await wait_for(None)
        error = NoWorker("No worker.")
        job = await service.accept(seed=1)
        await wait_for("No worker.")
        await service.engine.delete(job.id, await service.keys.account_id(create=True))
        await wait_for(None)  # nothing is waiting any more


class BreaksOnOddNames(Stages):
    async def record_done(self, claimed: ClaimedStage, *result: Any) -> Job | None:
        if claimed.job.original_filename == "odd.png":
            raise ValueError("surrogates not allowed")
        return await super().record_done(claimed, *result)


async def test_an_unexpected_error_while_recording_fails_the_stage_and_its_lane_continues(tmp_path: Path) -> None:
    async with harness(tmp_path, smaller, stages_type=BreaksOnOddNames) as service:
        odd, fine = await service.accept(filename="odd.png"), await service.accept(seed=1)
        failed = await service.engine.wait(odd.id, 10)
        assert failed.status is Status.FAILED
        assert "Server Error" in (failed.stages[0].error or "")
        assert (await service.engine.wait(fine.id, 10)).status is Status.COMPLETED
        assert service.engine.problem is None


async def test_a_job_deleted_while_it_runs_leaves_no_file(tmp_path: Path) -> None:
    running, go = threading.Event(), threading.Event()

    def wait(work: WorkItem, check_stop: CheckStop) -> Output:
        running.set()
        go.wait(5)
        return Output(data=b"small", format=work.info.format)

    async with harness(tmp_path, wait) as service:
        job = await service.accept(seed=1)
        await asyncio.to_thread(running.wait, 5)
        await service.engine.delete(job.id, job.account_id)
        go.set()
        other = await service.accept(seed=2)
        await service.engine.wait(other.id, 10)
        names = {file.name for file in service.blobs.on_disk()}
        assert names == await service.jobs.referenced_files()


# ---- following ----
