"""Claims stages, runs each on a thread of its lane, and records its outcome.

A lane is a number of asyncio tasks that claim the lane's stages, each with a thread of its own. The threads of the
codecs lane wait for worker processes or an outside service; the thread of the vision lane runs the model.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

from imgproc_local.domain.errors import BadImage, NotFound, NoWorker, StageCancelled, StageFailed, StorageFailed
from imgproc_local.domain.job import Job, StoredFile
from imgproc_local.engine.stage import (
    CancellationToken,
    Options,
    Outcome,
    Output,
    Stage,
    StageDurations,
    WorkItem,
    stage_error_message,
)
from imgproc_local.engine.updates import Updates
from imgproc_local.storage.blobs import Blobs, WorkerFile
from imgproc_local.storage.stages import ClaimedStage, Stages
from imgproc_local.system.threads import started_threads

log = logging.getLogger(__name__)

THREAD_NICENESS = 5
"""Stages run at a lower priority than the thread that answers requests."""


STOP_GRACE_S = 5.0
"""How long a graceful shutdown waits for cancelled stages."""


class Limits(Struct, frozen=True):
    """Limits on concurrency and on times.

    `pixels_in_progress` is the maximum for all
    running stages together. `stages_at_once` is the number of stages that each lane runs at the same time. A stage
    times out after `stage_s`. `storage_retry_s` is the delay between retries after a storage error.
    """

    pixels_in_progress: int
    stages_at_once: Mapping[str, int]
    stage_s: float
    storage_retry_s: float = 1.0


class Runner:
    """Runs the tasks of every lane. `wake` has an event per lane, which is set when there may be a stage to claim."""

    def __init__(
        self,
        stored_stages: Stages,
        blobs: Blobs,
        stages: Sequence[Stage],
        options: Options,
        updates: Updates,
        wake: Mapping[str, asyncio.Event],
        limits: Limits,
    ) -> None:
        self._stored_stages = stored_stages
        self._blobs = blobs
        self._stages = {stage.name: stage for stage in stages}
        self._options = options
        self._updates = updates
        self._wake = wake
        self._limits = limits
        self._budget = PixelBudget(limits.pixels_in_progress)
        self.durations = StageDurations()
        self._tasks: list[asyncio.Task[None]] = []
        self._running: dict[CancellationToken, str] = {}
        """The jobs of the running stages."""
        self._without_worker: dict[ThreadPoolExecutor, str] = {}
        self._stopping = False
        self.has_unstopped_threads = False

    def start(self) -> None:
        for lane, count in self._limits.stages_at_once.items():
            for number in range(count):
                executor = started_threads(1, f"imgproc-{lane}", _lower_priority)
                self._tasks.append(asyncio.create_task(self._run_lane(lane, executor), name=f"{lane}-{number}"))

    def cancel(self, job_id: str) -> None:
        """Cancel the running stages of a job."""
        for token, running_job_id in self._running.items():
            if running_job_id == job_id:
                token.cancel()

    async def stop(self) -> None:
        """Stop claiming, cancel running stages, and return within `STOP_GRACE_S`."""
        self._stopping = True
        for event in self._wake.values():
            event.set()
        for token in self._running:
            token.cancel()
        if self._tasks:
            _, pending = await asyncio.wait(self._tasks, timeout=STOP_GRACE_S)
            for task in pending:
                self.has_unstopped_threads = True
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    @property
    def problem(self) -> str | None:
        """Why stages do not run now; None if they run, or there are none."""
        if not self._tasks or self._stopping or any(task.done() for task in self._tasks):
            return "Not all stages are being processed; see the service's log."
        return next(iter(self._without_worker.values()), None)

    async def _run_lane(self, lane: str, executor: ThreadPoolExecutor) -> None:
        """The loop of one task: claim a stage, run it on the thread of `executor`, record its outcome."""
        wake = self._wake[lane]
        try:
            while not self._stopping:
                wake.clear()
                try:
                    claimed = await self._stored_stages.claim(lane)
                except Exception as error:  # the lane must go on after any error
                    log.error("Failed to claim a stage: %s", error, exc_info=not isinstance(error, StorageFailed))
                    await asyncio.sleep(self._limits.storage_retry_s)
                    continue
                if claimed is None:
                    self._without_worker.pop(executor, None)
                    await wake.wait()
                    continue
                token = CancellationToken(self._limits.stage_s)
                if self._stopping:
                    token.cancel()
                self._running[token] = claimed.job.id
                self._updates.publish(claimed.job)
                await asyncio.shield(asyncio.ensure_future(self._run_claimed(claimed, token, executor)))
                if claimed.attempts > 1:
                    wake.set()  # the lane ran this stage alone; now its other tasks may claim again
        finally:
            executor.shutdown(wait=False)

    async def _run_claimed(self, claimed: ClaimedStage, token: CancellationToken, executor: ThreadPoolExecutor) -> None:
        """Run one stage and record its outcome."""
        outcome: Output | Exception
        began_s = time.monotonic()
        try:
            async with self._budget.acquired(claimed.info.pixels):
                began_s = time.monotonic()
                loop = asyncio.get_running_loop()
                outcome = await loop.run_in_executor(executor, self._run_stage, claimed, token)
        except Exception as error:
            outcome = error
            if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
                outcome = NoWorker("The system starts no more threads for this user, or has no memory left.")
        finally:
            del self._running[token]
        if isinstance(outcome, NoWorker):
            self._without_worker[executor] = outcome.message
        else:
            self._without_worker.pop(executor, None)
        self.durations.add(claimed.stage.value, _outcome_name(outcome), time.monotonic() - began_s)
        try:
            await self._record(claimed, outcome)
        finally:
            if isinstance(outcome, Output) and outcome.path is not None:
                await asyncio.to_thread(Path(outcome.path).unlink, missing_ok=True)

    def _run_stage(self, claimed: ClaimedStage, token: CancellationToken) -> Output:
        """Check the original and call the function of the stage. Runs on a thread of the lane."""
        stage = self._stages[claimed.stage]
        token.restart_timeout()
        token.check()
        original = claimed.job.original
        damage = self._blobs.find_damage(original.sha256, original.size_bytes)
        if damage is not None:
            raise StageFailed(f"The uploaded file is {damage} in the data folder. Send the picture again.")
        work = WorkItem(
            path=os.fsencode(self._blobs.path(original.sha256)),
            size_bytes=original.size_bytes,
            info=claimed.info,
            plan=claimed.plan,
            original_filename=claimed.job.original_filename,
            options=self._options,
            record=claimed.record,
        )
        return stage.run(work, token.check)

    # ---- recording ----

    async def _record(self, claimed: ClaimedStage, outcome: Output | Exception) -> None:
        """Record an outcome and publish the change. After a storage error, retry until it is recorded or the service
        stops; the next start requeues a stage that is still running in the database.

        If recording fails for another reason, record that as the failure of the stage.
        """
        if isinstance(outcome, StorageFailed):  # for example, a worker had no room on the disk for its result
            await self._pause(claimed, outcome)
        while True:
            try:
                changed = await self._record_once(claimed, outcome)
            except StorageFailed as error:
                if self._stopping:
                    return
                if isinstance(outcome, Output) and outcome.path is not None:
                    outcome = error  # its file may be gone: the stage runs again
                await self._pause(claimed, error)
            except Exception as error:
                if isinstance(outcome, Exception):
                    log.exception("Failed to record the failure of stage %s of job %s", claimed.stage, claimed.job.id)
                    return
                outcome = error
            else:
                if changed is not None:
                    self._updates.publish(changed)
                return

    async def _pause(self, claimed: ClaimedStage, error: StorageFailed) -> None:
        log.error("Stage %s of job %s is tried again: %s", claimed.stage, claimed.job.id, error.message)
        await asyncio.sleep(self._limits.storage_retry_s)

    async def _record_once(self, claimed: ClaimedStage, outcome: Output | Exception) -> Job | None:
        """The job with the outcome; None if the stage runs again, or the job has been deleted."""
        if isinstance(outcome, StorageFailed) or (isinstance(outcome, StageCancelled) and self._stopping):
            await self._stored_stages.requeue(claimed)
            return None
        if isinstance(outcome, Exception):
            return await self._stored_stages.record_failed(claimed, _user_message(claimed, outcome))
        if outcome.path is None:
            file = claimed.job.original if outcome.keeps_original else None
            return await self._stored_stages.record_done(claimed, file, outcome.texts, outcome.removed)
        with suppress(NotFound):
            async with self._blobs.stored(WorkerFile(Path(outcome.path))) as blob:
                file = StoredFile(blob.sha256, blob.size_bytes, outcome.format or claimed.info.format)
                changed = await self._stored_stages.record_done(claimed, file, outcome.texts, outcome.removed)
                if changed is None:  # leave the block with an error, which removes the file again
                    raise NotFound("The job was deleted while this stage ran.")
                return changed
        return None


def _outcome_name(outcome: Output | Exception) -> Outcome:
    if isinstance(outcome, Output):
        return "done"
    return "cancelled" if isinstance(outcome, StageCancelled) else "failed"


def _user_message(claimed: ClaimedStage, error: Exception) -> str:
    """The error message that users see for a failed stage. Logs the error if it is unexpected."""
    if not isinstance(error, (StageFailed, BadImage)):
        log.error("Stage %s of job %s failed", claimed.stage, claimed.job.id, exc_info=error)
    return stage_error_message(error)


def _lower_priority() -> None:
    if sys.platform == "linux":  # on other systems niceness belongs to the whole process, not to a thread
        thread = threading.get_native_id()
        # only root may lower the niceness that the process was started with
        os.setpriority(os.PRIO_PROCESS, thread, max(THREAD_NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))


class PixelBudget:
    """At most `limit` pixels at once, first come, first served. A larger picture waits until it is alone."""

    def __init__(self, limit: int) -> None:
        self._limit = self._free = limit
        self._turn = asyncio.Lock()  # is acquired in the order of the calls
        self._released = asyncio.Event()

    @asynccontextmanager
    async def acquired(self, pixels: int) -> AsyncIterator[None]:
        """Hold `pixels` inside the block."""
        needed = min(pixels, self._limit)
        async with self._turn:
            while self._free < needed:
                self._released.clear()
                await self._released.wait()
            self._free -= needed
        try:
            yield
        finally:
            self._free += needed
            self._released.set()
