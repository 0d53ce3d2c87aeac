"""The engine on stages that a test makes: order, failures, deadlines, stops and restarts."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from imgproc_local.domain.credits import Prices
from imgproc_local.domain.errors import StageFailed, StorageFailed
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.job import Job, StageName, Status
from imgproc_local.domain.plan import Operation, Plan
from imgproc_local.domain.result import ConvertResult, OptimizeResult, StageResult
from imgproc_local.engine import runner
from imgproc_local.engine.runner import Engine
from imgproc_local.engine.signals import changes
from imgproc_local.engine.stage import CODECS_LANE, Work
from imgproc_local.storage.blobs import Blobs
from imgproc_local.storage.clock import utc_now
from imgproc_local.storage.credits import Credits
from imgproc_local.storage.database import Database, open_database
from imgproc_local.storage.jobs import MAX_ATTEMPTS, Jobs
from imgproc_local.storage.keys import Keys

INFO = ImageInfo(Format.JPEG, 8, 8)


class Made:
    """A stage that does what the test says."""

    lane = CODECS_LANE

    def __init__(self, name: StageName, work: Callable[[Work], StageResult]) -> None:
        self.name = name
        self._work = work

    def run(self, work: Work) -> StageResult:
        return self._work(work)


class House:
    """An engine on its folder, as compose wires it."""

    def __init__(self, database: Database, folder: Path, optimize: Callable[[Work], StageResult], threads: int) -> None:
        self.database = database
        self.jobs = Jobs(database, utc_now, 1000)
        self.blobs = Blobs(folder, self.jobs.is_referenced)
        self.credits = Credits(database, utc_now)
        self.keys = Keys(database, utc_now, 1000)
        stages = (
            Made(StageName.OPTIMIZE, optimize),
            Made(StageName.CONVERT, lambda work: ConvertResult(b"converted", work.convert_to)),
        )
        self.engine = Engine(self.jobs, self.blobs, stages, {CODECS_LANE: threads}, Prices(), 0.5, 10**9)

    async def submit(self, operation: Operation = Operation.OPTIMIZE, content: bytes = b"picture") -> Job:
        account_id = await self.keys.account_id(create=True)
        async with self.blobs.put(content) as blob:
            job, _ = await self.engine.submit(account_id, Plan(operation), blob, INFO, "a.jpg")
        return job

    async def movements(self, job_id: str) -> list[tuple[str, int]]:
        async with self.database.reading() as read:
            sql = "SELECT kind, amount FROM ledger WHERE job_id = ? ORDER BY id"
            return [(row["kind"], row["amount"]) for row in await read._connection.execute_fetchall(sql, (job_id,))]

    async def balance(self) -> int:
        return await self.credits.balance(await self.keys.account_id(create=True))


@asynccontextmanager
async def house(folder: Path, optimize: Callable[[Work], StageResult], threads: int = 1) -> AsyncIterator[House]:
    folder.mkdir(exist_ok=True)
    database = await open_database(folder / "jobs.db")
    try:
        made = House(database, folder, optimize, threads)
        await made.engine.start()
        try:
            yield made
        finally:
            await made.engine.stop()
    finally:
        await database.close()


def smaller(_: Work) -> StageResult:
    return OptimizeResult(b"small")


async def test_stages_are_claimed_in_the_order_they_came(tmp_path: Path) -> None:
    order: list[str] = []

    def note(work: Work) -> StageResult:
        order.append(work.original.read_text())
        return OptimizeResult(None)

    async with house(tmp_path, note) as made:
        jobs = [await made.submit(content=str(number).encode()) for number in range(8)]
        for job in jobs:
            await made.engine.wait_final(job.id, 10)
    assert order == [str(number) for number in range(8)]


async def test_stages_of_one_lane_run_as_many_at_a_time_as_it_has_threads(tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=5)

    def meet(_: Work) -> StageResult:
        both.wait()
        return OptimizeResult(None)

    async with house(tmp_path, meet, threads=2) as made:
        jobs = [await made.submit(content=bytes([number])) for number in range(4)]
        finals = [await made.engine.wait_final(job.id, 10) for job in jobs]
    assert {job.status for job in finals} == {Status.COMPLETED}


async def test_a_result_that_is_not_smaller_is_the_original(tmp_path: Path) -> None:
    async with house(tmp_path, lambda _: OptimizeResult(b"much larger than the picture was")) as made:
        job = await made.engine.wait_final((await made.submit()).id, 10)
        assert job.optimized == job.original
        assert len(made.blobs.on_disk()) == 1


async def test_a_failure_is_told_and_paid_back_once(tmp_path: Path) -> None:
    def fail(_: Work) -> StageResult:
        raise StageFailed("Expected more.")

    async with house(tmp_path, fail) as made:
        job = await made.engine.wait_final((await made.submit()).id, 10)
        assert (job.status, job.stages[0].error) == (Status.FAILED, "Expected more.")
        assert await made.balance() == 1000
        assert await made.movements(job.id) == [("hold", -1), ("release", 1)]


async def test_a_stage_is_told_its_deadline(tmp_path: Path) -> None:
    def slow(work: Work) -> StageResult:
        while True:
            work.stop.check()
            time.sleep(0.01)

    async with house(tmp_path, slow) as made:
        job = await made.engine.wait_final((await made.submit()).id, 10)
        assert job.status is Status.FAILED
        assert "0.5 seconds" in (job.stages[0].error or "")


async def test_a_stage_that_ignores_its_deadline_is_written_off_and_the_lane_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "DEADLINE_GRACE_S", 0.1)
    release = threading.Event()

    def deaf(work: Work) -> StageResult:
        if work.original.read_bytes() == b"deaf":
            release.wait(10)
        return OptimizeResult(None)

    async with house(tmp_path, deaf) as made:
        stuck = await made.submit(content=b"deaf")
        after = await made.submit(content=b"fine")
        assert (await made.engine.wait_final(stuck.id, 10)).status is Status.FAILED
        assert (await made.engine.wait_final(after.id, 10)).status is Status.COMPLETED
        assert made.engine.claims
        assert made.engine.abandoned_threads == 1
        release.set()
        await asyncio.sleep(0.1)
        assert (await made.jobs.get(stuck.id)).status is Status.FAILED


async def test_an_orderly_stop_returns_the_stage_to_the_queue_without_counting(tmp_path: Path) -> None:
    started = threading.Event()

    def long(work: Work) -> StageResult:
        started.set()
        while True:
            work.stop.check()
            time.sleep(0.005)

    job = None
    for _ in range(MAX_ATTEMPTS + 2):
        async with house(tmp_path, long) as made:
            job = job or await made.submit()
            await asyncio.to_thread(started.wait, 5)
            started.clear()
    async with house(tmp_path, smaller) as made:
        assert job is not None
        assert (await made.engine.wait_final(job.id, 10)).status is Status.COMPLETED


async def test_a_stage_that_runs_at_three_ends_of_the_process_is_given_up(tmp_path: Path) -> None:
    database = await open_database(tmp_path / "jobs.db")
    jobs = Jobs(database, utc_now, 1000)
    made = House(database, tmp_path, smaller, 1)
    job = await made.submit()
    for attempt in range(1, MAX_ATTEMPTS + 1):
        claimed = await jobs.claim(CODECS_LANE)
        assert claimed is not None
        assert claimed.attempts == attempt
        before = (await jobs.get(job.id)).status
        assert await jobs.recover() == ((1, 0) if attempt < MAX_ATTEMPTS else (0, 1))
        assert before is Status.OPTIMIZING
    final = await jobs.get(job.id)
    assert final.status is Status.FAILED
    assert "Interrupted" in (final.stages[0].error or "")
    assert await made.balance() == 1000
    await database.close()


async def test_an_outcome_is_recorded_once_the_store_takes_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "RETRY_STORAGE_S", 0.01)
    async with house(tmp_path, smaller) as made:
        real, refusals = made.jobs.record_done, 3

        async def refusing(*arguments: object) -> Job | None:
            nonlocal refusals
            if refusals:
                refusals -= 1
                raise StorageFailed("The disk is full.")
            return await real(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(made.jobs, "record_done", refusing)
        job = await made.engine.wait_final((await made.submit()).id, 10)
        assert (job.status, refusals) == (Status.COMPLETED, 0)


async def test_an_unforeseen_error_while_recording_fails_the_stage_and_the_lane_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(tmp_path, smaller) as made:
        real = made.jobs.record_done

        async def broken(job: Job, *arguments: object) -> Job | None:
            if job.original.size_bytes == len(b"odd"):
                raise ValueError("surrogates not allowed")
            return await real(job, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(made.jobs, "record_done", broken)
        odd, fine = await made.submit(content=b"odd"), await made.submit(content=b"an even picture")
        failed = await made.engine.wait_final(odd.id, 10)
        assert failed.status is Status.FAILED
        assert "Server Error" in (failed.stages[0].error or "")
        assert (await made.engine.wait_final(fine.id, 10)).status is Status.COMPLETED
        assert made.engine.claims


async def test_a_stage_claimed_while_the_service_stops_goes_back_to_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = threading.Event()

    def note(_: Work) -> StageResult:
        ran.set()
        return OptimizeResult(None)

    async with house(tmp_path, note) as made:
        real = made.jobs.claim

        async def stopped_meanwhile(lane: str) -> object:
            claimed = await real(lane)
            if claimed is not None:
                asyncio.get_running_loop().create_task(made.engine.stop())
                await asyncio.sleep(0.05)
            return claimed

        monkeypatch.setattr(made.jobs, "claim", stopped_meanwhile)
        job = await made.submit()
        await asyncio.sleep(0.5)
        stage = (await made.jobs.get(job.id)).stages[0]
    assert stage.state == "pending"
    assert not ran.is_set()


async def test_changes_older_than_what_was_read_are_not_told(tmp_path: Path) -> None:
    release = threading.Event()

    def wait(_: Work) -> StageResult:
        release.wait(5)
        return OptimizeResult(None)

    async with house(tmp_path, wait, threads=2) as made:
        pending = await made.submit()
        with made.engine.signals.watch(pending.id) as watch:
            release.set()
            final = await made.engine.wait_final(pending.id, 10)
            watch.offer(pending)
            told = [job async for job in changes(watch, final, 0.1)]
        assert told == [final]
        with made.engine.signals.watch(pending.id) as watch:
            for job in (final, pending, final):
                watch.offer(job)
            told = [job async for job in changes(watch, pending, 0.1)]
        assert told == [pending, final]


async def test_a_job_deleted_while_it_runs_leaves_no_file(tmp_path: Path) -> None:
    running, go = threading.Event(), threading.Event()

    def wait(_: Work) -> StageResult:
        running.set()
        go.wait(5)
        return OptimizeResult(b"small")

    async with house(tmp_path, wait) as made:
        job = await made.submit()
        await asyncio.to_thread(running.wait, 5)
        await made.engine.delete(job.id, job.account_id)
        go.set()
        other = await made.submit(content=b"another")
        await made.engine.wait_final(other.id, 10)
        names = {file.name for file in made.blobs.on_disk()}
        assert names == await made.jobs.referenced_files()
