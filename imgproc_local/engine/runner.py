"""The engine: a claimed stage runs on a thread of its lane, and its outcome is recorded whatever happens meanwhile.

Invariant: a job that `submit` returned is in the database; from there each of its stages reaches `done` or `failed`
exactly once, however often the process ends in between.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from imgproc_local.domain.credits import Prices, plan_prices
from imgproc_local.domain.errors import BadImage, NotFound, StageCancelled, StageFailed, StorageFailed
from imgproc_local.domain.image import ImageInfo
from imgproc_local.domain.job import Job, StoredFile, is_newer
from imgproc_local.domain.plan import Plan
from imgproc_local.domain.result import AnalyzeResult, ConvertResult, StageResult
from imgproc_local.engine.budget import PixelBudget
from imgproc_local.engine.signals import Signals
from imgproc_local.engine.stage import Stage, StopSignal, Work
from imgproc_local.storage.blobs import Blob, Blobs
from imgproc_local.storage.jobs import Claimed, Jobs, Output, Submission

log = logging.getLogger(__name__)

STOP_GRACE_S = 5.0
"""How long an orderly stop waits for stages that were told to give up."""
DEADLINE_GRACE_S = 10.0
"""How long after its deadline a stage that does not answer is written off, with its thread."""
RETRY_STORAGE_S = 1.0
WORKER_NICENESS = 5
"""Stages yield to the thread that answers requests where they compete for a core."""

UNEXPECTED = "Server Error: this stage met a problem that was not foreseen; the service's log has the details."


class Engine:
    """`stages` is the pipeline; `lane_threads` bounds how many stages of a lane run at a time, `pixels_in_flight` how
    many pixels all of them work on.
    """

    def __init__(
        self,
        jobs: Jobs,
        blobs: Blobs,
        stages: Sequence[Stage],
        lane_threads: Mapping[str, int],
        prices: Prices,
        stage_timeout_s: float,
        pixels_in_flight: int,
    ) -> None:
        self.signals = Signals()
        self._jobs = jobs
        self._blobs = blobs
        self._stages = {stage.name: stage for stage in stages}
        self._lane_threads = dict(lane_threads)
        self._prices = prices
        self._stage_timeout_s = stage_timeout_s
        self._wake = {lane: asyncio.Event() for lane in lane_threads}
        self._workers: list[asyncio.Task[None]] = []
        self._running: dict[str, set[StopSignal]] = {}
        self._budget = PixelBudget(pixels_in_flight)
        self._stopping = False
        self.abandoned_threads = 0

    # ---- taking in ----

    async def submit(
        self,
        account_id: str,
        plan: Plan,
        blob: Blob,
        info: ImageInfo,
        original_filename: str,
        idempotency_key: str | None = None,
    ) -> tuple[Job, bool]:
        """Queue one upload and return its job, and whether it is new. See `Jobs.submit` for what it raises."""
        job, is_new = await self._jobs.submit(
            Submission(
                account_id=account_id,
                plan=plan,
                original_filename=original_filename,
                sha256=blob.sha256,
                size_bytes=blob.size_bytes,
                info=info,
                prices=plan_prices(self._prices, plan),
                lanes={name: self._stages[name].lane for name in plan.stages},
                idempotency_key=idempotency_key,
            )
        )
        if is_new:
            self._wake_all()
        return job, is_new

    async def wait_final(self, job_id: str, timeout_s: float, account_id: str | None = None) -> Job:
        """The job once it is final, or as it stands after `timeout_s`. Raises `NotFound`."""
        deadline = time.monotonic() + timeout_s
        with self.signals.watch(job_id) as watch:
            job = await self._jobs.get(job_id, account_id)
            while not job.status.final:
                try:
                    changed = await watch.next(max(0.0, deadline - time.monotonic()))
                except TimeoutError:
                    return job
                if changed is None:
                    return job
                if is_newer(changed, job):
                    job = changed
            return job

    async def delete(self, job_id: str, account_id: str) -> None:
        """Delete a job: what waits never starts, what runs is told to give up, the files go. Raises `NotFound`."""
        files = await self._jobs.delete(job_id, account_id)
        for stop in self._running.get(job_id, ()):
            stop.cancel()
        self.signals.end(job_id)
        await self._blobs.remove(files)

    # ---- running ----

    async def start(self) -> None:
        """Take up what an earlier process left, then begin to claim."""
        requeued, given_up = await self._jobs.recover()
        removed = await asyncio.to_thread(self._blobs.sweep, await self._jobs.referenced_files())
        if requeued or given_up or removed:
            log.info(
                "recovered: %d stages queued again, %d given up, %d leftover files removed", requeued, given_up, removed
            )
        for lane, threads in self._lane_threads.items():
            for number in range(threads):
                self._workers.append(asyncio.create_task(self._work_lane(lane), name=f"{lane}-{number}"))

    async def stop(self) -> None:
        """Stop claiming, tell running stages to give up, and return within `STOP_GRACE_S`; nothing is lost."""
        self._stopping = True
        self.signals.close()
        self._wake_all()
        for stops in self._running.values():
            for stop in stops:
                stop.cancel()
        if self._workers:
            _, late = await asyncio.wait(self._workers, timeout=STOP_GRACE_S)
            for worker in late:
                self.abandoned_threads += 1
                worker.cancel()
            await asyncio.gather(*self._workers, return_exceptions=True)
        self._workers.clear()

    @property
    def claims(self) -> bool:
        """Whether every lane still takes work."""
        return bool(self._workers) and not self._stopping and not any(worker.done() for worker in self._workers)

    def _wake_all(self) -> None:
        for event in self._wake.values():
            event.set()

    async def _work_lane(self, lane: str) -> None:
        """One slot of a lane: claim, run on a thread of its own, record, again."""
        executor = _new_executor(lane)
        wake = self._wake[lane]
        try:
            while not self._stopping:
                wake.clear()
                try:
                    claimed = await self._jobs.claim(lane)
                except Exception as error:  # whatever it is, the lane must go on
                    log.error("no stage can be claimed: %s", error, exc_info=not isinstance(error, StorageFailed))
                    await asyncio.sleep(RETRY_STORAGE_S)
                    continue
                if claimed is None:
                    await wake.wait()
                    continue
                stop = StopSignal(self._stage_timeout_s)
                if self._stopping:
                    stop.cancel()
                self._running.setdefault(claimed.job.id, set()).add(stop)
                self.signals.publish(claimed.job)
                if not await asyncio.shield(asyncio.ensure_future(self._run_claimed(claimed, stop, executor))):
                    self.abandoned_threads += 1
                    executor.shutdown(wait=False)
                    executor = _new_executor(lane)
        finally:
            executor.shutdown(wait=False)

    async def _run_claimed(self, claimed: Claimed, stop: StopSignal, executor: ThreadPoolExecutor) -> bool:
        """Run one stage and record its outcome. False where its thread did not come back and must be written off."""
        job_id = claimed.job.id
        try:
            outcome: StageResult | BaseException
            async with self._budget.taken(claimed.info.pixels):
                stop.restart()
                future = asyncio.get_running_loop().run_in_executor(executor, self._run_stage, claimed, stop)
                done, _ = await asyncio.wait({future}, timeout=self._stage_timeout_s + DEADLINE_GRACE_S)
            if done:
                outcome = future.exception() or future.result()
            else:
                outcome = StageFailed("Not finished in time; the stage did not react to its deadline.")
            await self._record(claimed, outcome)
            return bool(done)
        except Exception as error:
            log.exception("stage %s of job %s met an unforeseen error", claimed.stage, job_id)
            await self._record(claimed, error)
            return True
        finally:
            self._running[job_id].discard(stop)
            if not self._running[job_id]:
                del self._running[job_id]

    def _run_stage(self, claimed: Claimed, stop: StopSignal) -> StageResult:
        """On the lane's thread."""
        stop.check()
        return self._stages[claimed.stage].run(self._work(claimed, stop))

    def _work(self, claimed: Claimed, stop: StopSignal) -> Work:
        return Work(
            original=self._blobs.path(claimed.job.original.sha256),
            info=claimed.info,
            languages=claimed.languages,
            convert_to=claimed.convert_to,
            original_filename=claimed.job.original_filename,
            project_name=claimed.project_name,
            stop=stop,
        )

    # ---- keeping outcomes ----

    async def _record(self, claimed: Claimed, outcome: StageResult | BaseException) -> None:
        """Record an outcome; where the store refuses, try again until it takes it or the service stops."""
        while True:
            try:
                await self._record_once(claimed, outcome)
                return
            except Exception as error:
                if not isinstance(error, StorageFailed):
                    if isinstance(outcome, BaseException):
                        log.exception("the failure of stage %s of job %s can't be kept", claimed.stage, claimed.job.id)
                        return
                    outcome = error
                    continue
                # the stage stays `running` in the database: a restart takes it up again
                log.error("stage %s of job %s can't be recorded: %s", claimed.stage, claimed.job.id, error.message)
                if self._stopping:
                    return
                await asyncio.sleep(RETRY_STORAGE_S)

    async def _record_once(self, claimed: Claimed, outcome: StageResult | BaseException) -> None:
        job, stage = claimed.job, claimed.stage
        if isinstance(outcome, StageCancelled) and self._stopping:
            await self._jobs.give_back(job, stage)
            return
        changed: Job | None
        if isinstance(outcome, BaseException):
            changed = await self._jobs.record_failed(job, stage, _reason(claimed, outcome))
        elif isinstance(outcome, AnalyzeResult):
            changed = await self._jobs.record_done(job, stage, Output(translations=outcome.translations))
        elif isinstance(outcome, ConvertResult):
            changed = await self._record_file(claimed, outcome.data, outcome)
        elif outcome.data is None or len(outcome.data) >= job.original.size_bytes:
            changed = await self._jobs.record_done(job, stage, Output(file=job.original))
        else:
            changed = await self._record_file(claimed, outcome.data, outcome)
        if changed is not None:
            self.signals.publish(changed)

    async def _record_file(self, claimed: Claimed, data: bytes, result: StageResult) -> Job | None:
        file_format = result.format if isinstance(result, ConvertResult) else claimed.info.format
        try:
            async with self._blobs.put(data) as blob:
                file = StoredFile(blob.sha256, blob.size_bytes, file_format)
                changed = await self._jobs.record_done(claimed.job, claimed.stage, Output(file=file))
                if changed is None:
                    raise NotFound("The job was deleted while this stage ran.")
                return changed
        except NotFound:
            return None


def _reason(claimed: Claimed, error: BaseException) -> str:
    if isinstance(error, (StageFailed, BadImage)):
        return error.message
    log.error("stage %s of job %s failed", claimed.stage, claimed.job.id, exc_info=error)
    if isinstance(error, MemoryError):
        return "There was not enough memory for this image."
    return UNEXPECTED


def _new_executor(lane: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix=f"imgproc-{lane}", initializer=_lower_priority)


def _lower_priority() -> None:
    if sys.platform == "linux":  # elsewhere niceness belongs to the whole process, not to a thread
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), WORKER_NICENESS)
