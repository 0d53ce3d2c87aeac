"""Claims stages, runs each on a worker thread, and records its outcome.

A lane is a pool of worker threads for one kind of stage.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from imgproc_local.domain.errors import BadImage, NotFound, StageCancelled, StageFailed, StorageFailed
from imgproc_local.domain.job import Job, StoredFile
from imgproc_local.engine.budget import PixelBudget
from imgproc_local.engine.stage import CancellationToken, Options, Output, Stage, WorkItem
from imgproc_local.engine.updates import Updates
from imgproc_local.storage.blobs import Blobs
from imgproc_local.storage.jobs import ClaimedStage, Jobs

log = logging.getLogger(__name__)

WORKER_NICENESS = 5
"""Stages run at a lower priority than the thread that answers requests."""

UNEXPECTED_ERROR = "Server Error: this stage failed with an unexpected error; the service's log has the details."


class Limits(Struct, frozen=True):
    """Limits on the size of pictures and on concurrency.

    `max_pixels` is the maximum for one picture, counting all its frames. `pixels_in_progress` is the maximum for all
    running stages together. `lane_threads` is the number of threads of each lane.
    """

    max_pixels: int
    pixels_in_progress: int
    lane_threads: Mapping[str, int]


class Timeouts(Struct, frozen=True):
    """Timeouts of the runner, in seconds.

    A stage times out after `stage_s`. If its function has not returned after another `deadline_grace_s`, its thread
    is abandoned. A graceful shutdown waits `stop_grace_s` for cancelled stages. `storage_retry_s` is the delay between
    retries after a storage error.
    """

    stage_s: float
    deadline_grace_s: float = 10.0
    stop_grace_s: float = 5.0
    storage_retry_s: float = 1.0


class Runner:
    """Runs one worker task per thread of each lane. `wake` has an event per lane, set when a stage is queued."""

    def __init__(
        self,
        jobs: Jobs,
        blobs: Blobs,
        stages: Sequence[Stage],
        options: Options,
        updates: Updates,
        wake: Mapping[str, asyncio.Event],
        limits: Limits,
        timeouts: Timeouts,
    ) -> None:
        self._jobs = jobs
        self._blobs = blobs
        self._stages = {stage.name: stage for stage in stages}
        self._options = options
        self._updates = updates
        self._wake = wake
        self._lane_threads = limits.lane_threads
        self._budget = PixelBudget(limits.pixels_in_progress)
        self._timeouts = timeouts
        self._workers: list[asyncio.Task[None]] = []
        self._running: dict[str, set[CancellationToken]] = {}
        self._stopping = False
        self.abandoned_threads = 0

    def start(self) -> None:
        for lane, threads in self._lane_threads.items():
            for number in range(threads):
                self._workers.append(asyncio.create_task(self._run_worker(lane), name=f"{lane}-{number}"))

    def cancel(self, job_id: str) -> None:
        """Cancel the running stages of a job."""
        for token in self._running.get(job_id, ()):
            token.cancel()

    async def stop(self) -> None:
        """Stop claiming, cancel running stages, and return within `stop_grace_s`."""
        self._stopping = True
        for event in self._wake.values():
            event.set()
        for job_id in self._running:
            self.cancel(job_id)
        if self._workers:
            _, pending = await asyncio.wait(self._workers, timeout=self._timeouts.stop_grace_s)
            for worker in pending:
                self.abandoned_threads += 1
                worker.cancel()
            await asyncio.gather(*self._workers, return_exceptions=True)
        self._workers.clear()

    @property
    def is_claiming(self) -> bool:
        """Whether all worker tasks are running."""
        return bool(self._workers) and not self._stopping and not any(worker.done() for worker in self._workers)

    async def _run_worker(self, lane: str) -> None:
        """The loop of one worker task: claim a stage, run it on a thread, record its outcome."""
        executor = _new_executor(lane)
        wake = self._wake[lane]
        try:
            while not self._stopping:
                wake.clear()
                try:
                    claimed = await self._jobs.claim(lane)
                except Exception as error:  # the lane must go on after any error
                    log.error("Failed to claim a stage: %s", error, exc_info=not isinstance(error, StorageFailed))
                    await asyncio.sleep(self._timeouts.storage_retry_s)
                    continue
                if claimed is None:
                    await wake.wait()
                    continue
                token = CancellationToken(self._timeouts.stage_s)
                if self._stopping:
                    token.cancel()
                self._running.setdefault(claimed.job.id, set()).add(token)
                self._updates.publish(claimed.job)
                if not await asyncio.shield(asyncio.ensure_future(self._run_claimed(claimed, token, executor))):
                    self.abandoned_threads += 1
                    executor.shutdown(wait=False)
                    executor = _new_executor(lane)
        finally:
            executor.shutdown(wait=False)

    async def _run_claimed(self, claimed: ClaimedStage, token: CancellationToken, executor: ThreadPoolExecutor) -> bool:
        """Run one stage and record its outcome. Returns False if its thread is still running and must be abandoned."""
        job_id = claimed.job.id
        try:
            outcome: Output | BaseException
            async with self._budget.acquired(claimed.info.pixels):
                token.restart_timeout()
                future = asyncio.get_running_loop().run_in_executor(executor, self._run_stage, claimed, token)
                timeout_s = self._timeouts.stage_s + self._timeouts.deadline_grace_s
                done, _ = await asyncio.wait({future}, timeout=timeout_s)
            if done:
                outcome = future.exception() or future.result()
            else:
                outcome = StageFailed("Not finished in time; the stage did not stop at its deadline.")
            await self._record(claimed, outcome)
            return bool(done)
        except Exception as error:
            log.exception("Stage %s of job %s failed with an unexpected error", claimed.stage, job_id)
            await self._record(claimed, error)
            return True
        finally:
            self._running[job_id].discard(token)
            if not self._running[job_id]:
                del self._running[job_id]

    def _run_stage(self, claimed: ClaimedStage, token: CancellationToken) -> Output:
        """Call the function of the stage. Runs on a worker thread."""
        token.check()
        work = WorkItem(
            path=str(self._blobs.path(claimed.job.original.sha256)),
            size_bytes=claimed.job.original.size_bytes,
            info=claimed.info,
            languages=claimed.languages,
            convert_to=claimed.convert_to,
            original_filename=claimed.job.original_filename,
            project_name=claimed.project_name,
            options=self._options,
        )
        return self._stages[claimed.stage].run(work, token.check)

    # ---- recording ----

    async def _record(self, claimed: ClaimedStage, outcome: Output | BaseException) -> None:
        """Record an outcome. After a storage error, retry until it is recorded or the service stops."""
        stage, job_id = claimed.stage, claimed.job.id
        while True:
            try:
                await self._record_once(claimed, outcome)
                return
            except Exception as error:
                if not isinstance(error, StorageFailed):
                    if isinstance(outcome, BaseException):
                        log.exception("Failed to record the failure of stage %s of job %s", stage, job_id)
                        return
                    outcome = error
                    continue
                # the stage is still `running` in the database: the next start requeues it
                log.error("Failed to record the outcome of stage %s of job %s: %s", stage, job_id, error.message)
                if self._stopping:
                    return
                await asyncio.sleep(self._timeouts.storage_retry_s)

    async def _record_once(self, claimed: ClaimedStage, outcome: Output | BaseException) -> None:
        job, stage = claimed.job, claimed.stage
        if isinstance(outcome, StageCancelled) and self._stopping:
            await self._jobs.requeue(job, stage)
            return
        changed: Job | None
        if isinstance(outcome, BaseException):
            changed = await self._jobs.record_failed(job, stage, _user_message(claimed, outcome))
        elif outcome.data is not None:
            changed = await self._record_file(claimed, outcome)
        else:
            file = job.original if outcome.keeps_original else None
            changed = await self._jobs.record_done(job, stage, file, outcome.texts)
        if changed is not None:
            self._updates.publish(changed)

    async def _record_file(self, claimed: ClaimedStage, output: Output) -> Job | None:
        assert output.data is not None
        file_format = output.format or claimed.info.format
        try:
            async with self._blobs.put(output.data) as blob:
                file = StoredFile(blob.sha256, blob.size_bytes, file_format)
                changed = await self._jobs.record_done(claimed.job, claimed.stage, file, output.texts)
                if changed is None:
                    raise NotFound("The job was deleted while this stage ran.")
                return changed
        except NotFound:
            return None


def _user_message(claimed: ClaimedStage, error: BaseException) -> str:
    """The error message that users see for a failed stage."""
    if isinstance(error, (StageFailed, BadImage)):
        return error.message
    log.error("Stage %s of job %s failed", claimed.stage, claimed.job.id, exc_info=error)
    if isinstance(error, MemoryError):
        return "There was not enough memory for this image."
    return UNEXPECTED_ERROR


def _new_executor(lane: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix=f"imgproc-{lane}", initializer=_lower_priority)


def _lower_priority() -> None:
    if sys.platform == "linux":  # on other systems niceness belongs to the whole process, not to a thread
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), WORKER_NICENESS)
