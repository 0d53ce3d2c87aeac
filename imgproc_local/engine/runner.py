"""Claims stages, runs each on a thread of its lane, and records its outcome.

A lane is a number of asyncio tasks that claim the lane's stages, and as many threads that run them. The threads of the
codecs lane wait for worker processes or an outside service; the thread of the vision lane runs the model.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress

from imgproc_local.domain.errors import NoWorker, StageCancelled, StageFailed, StorageFailed
from imgproc_local.domain.job import MADE_BY, Job, SizedFile, StageName, StoredFile
from imgproc_local.domain.plan import Plan
from imgproc_local.domain.result import Note
from imgproc_local.engine.pipeline import CancellationToken, Outcome, Pipeline, error_message
from imgproc_local.engine.stage import Output, WorkItem
from imgproc_local.storage.blobs import Blobs, WorkerFile
from imgproc_local.storage.stages import ClaimedStage, Stages

log = logging.getLogger(__name__)

STORAGE_RETRY_S = 1.0
"""The delay between retries after a storage error."""


class Runner:
    """Runs the tasks of every lane. `publish` is called with the identifiers of a job and its account after every
    commit that changes the job.
    """

    def __init__(
        self, stored_stages: Stages, blobs: Blobs, pipeline: Pipeline, publish: Callable[[str, str], None]
    ) -> None:
        self._stored_stages = stored_stages
        self._blobs = blobs
        self._pipeline = pipeline
        self._publish = publish
        self._wake = {stage.lane: asyncio.Event() for stage in pipeline.stages}
        """An event per lane, which is set when there may be a stage to claim."""
        self.stage_observers: list[Callable[[StageName, Outcome, float], None]] = []
        """Called with each stage that has run, its outcome and the seconds that it took; none for previews."""
        self._tasks: list[asyncio.Task[None]] = []
        self._running: dict[CancellationToken, str] = {}
        """The jobs of the running stages and previews."""
        self._preview = CancellationToken(0)
        """That of the last preview. One runs at a time."""
        self._preview_lock = asyncio.Lock()
        self._without_worker: dict[str, str] = {}
        """Why the last stage of a task had no worker, by the name of the task."""
        self._stopping = False
        self.has_unstopped_threads = False

    def start(self) -> None:
        assert self._pipeline.lanes is not None
        for lane, count in self._pipeline.lanes.at_once.items():
            names = [f"{lane}-{number}" for number in range(count)]
            self._tasks += [asyncio.create_task(self._run_lane(lane, name), name=name) for name in names]

    def wake(self) -> None:
        """Look for stages to claim in every lane."""
        for event in self._wake.values():
            event.set()

    def cancel(self, job_id: str) -> None:
        """Cancel the running stages of a job."""
        for token, running_job_id in self._running.items():
            if running_job_id == job_id:
                token.cancel()

    async def preview(self, job: Job, stage: StageName, plan: Plan) -> Output:
        """The output of a stage with another plan, beside the lanes; it is not stored. The caller deletes its file.

        A later call cancels this one. Raises: what the stage raises; StageCancelled.
        """
        self.end_preview()
        self._preview = token = CancellationToken(self._pipeline.timeout_s)
        self._running[token] = job.id
        claimed = ClaimedStage(job, stage, "stage", row_ids=(), attempts=1, plan=plan)
        try:
            async with self._preview_lock:
                outcome, _ = await asyncio.to_thread(self._run_stage, claimed, token)
        finally:
            token.cancel()
            del self._running[token]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def end_preview(self) -> None:
        """Cancel the preview that is being made."""
        self._preview.cancel()

    async def stop(self) -> None:
        """Stop claiming, cancel running stages, and wait at most 5 seconds for them."""
        self._stopping = True
        self.wake()
        for token in self._running:
            token.cancel()
        if self._tasks:
            _, pending = await asyncio.wait(self._tasks, timeout=5.0)
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

    async def _run_lane(self, lane: str, task: str) -> None:
        """The loop of one task: claim a stage, run it on a thread of the lane, record its outcome."""
        wake = self._wake[lane]
        while not self._stopping:
            wake.clear()
            try:
                claimed = await self._stored_stages.claim(lane)
            except Exception as error:  # the lane must go on after any error
                log.error("Failed to claim a stage: %s", error, exc_info=not isinstance(error, StorageFailed))
                await asyncio.sleep(STORAGE_RETRY_S)
                continue
            if claimed is None:
                self._without_worker.pop(task, None)
                await wake.wait()
                continue
            token = CancellationToken(self._pipeline.timeout_s)
            if self._stopping:
                token.cancel()
            self._running[token] = claimed.job.id
            self._publish(claimed.job.id, claimed.job.account_id)
            await asyncio.shield(asyncio.ensure_future(self._run_claimed(claimed, token, lane, task)))
            if claimed.attempts > 1:
                wake.set()  # the lane ran this stage alone; now its other tasks may claim again

    async def _run_claimed(self, claimed: ClaimedStage, token: CancellationToken, lane: str, task: str) -> None:
        """Run one stage and record its outcome."""
        assert self._pipeline.lanes is not None
        try:
            threads = self._pipeline.lanes.threads[lane]
            running = asyncio.get_running_loop().run_in_executor(threads, self._run_stage, claimed, token)
            outcome, duration_s = await running
        except Exception as error:  # it has not run
            outcome = error
        else:
            for observe in self.stage_observers:
                observe(claimed.stage, outcome, duration_s)
        finally:
            del self._running[token]
        self._without_worker.pop(task, None)
        if isinstance(outcome, NoWorker):
            self._without_worker[task] = outcome.message
        try:
            await self._record(claimed, outcome)
        finally:
            for path in outcome.paths if isinstance(outcome, Output) else ():
                await asyncio.to_thread(path.unlink, missing_ok=True)

    def _run_stage(self, claimed: ClaimedStage, token: CancellationToken) -> tuple[Outcome, float]:
        """Check the original and run the stage. Runs on a thread of the lane."""
        token.check()
        job, original = claimed.job, claimed.job.original
        damage = self._blobs.find_damage(original)
        if damage is not None:
            return StageFailed(f"The uploaded file is {damage} in the data folder. Send the picture again."), 0.0
        file = self._blobs.path(original.sha256)
        options, name = self._pipeline.options(), job.original_filename
        to_beat = (job.file("optimized") or original).size_bytes
        work = WorkItem(file, job.info, claimed.plan, name, options, claimed.record, claimed.translated, to_beat)
        stage = next(stage for stage in self._pipeline.stages if stage.name == claimed.stage)
        return self._pipeline.run(stage, work, token)

    # ---- recording ----

    async def _record(self, claimed: ClaimedStage, outcome: Outcome) -> None:
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
                    self._publish(changed.id, changed.account_id)
                    await self._remove_replaced(claimed)
                return

    async def _remove_replaced(self, claimed: ClaimedStage) -> None:
        """Delete the files that a new result has replaced; if that fails, the next start deletes them."""
        if claimed.kind == "remake":
            files = (file for variant in MADE_BY for file in claimed.job.files(variant))
            with suppress(StorageFailed):
                await self._blobs.remove(file.sha256 for file in files)

    async def _pause(self, claimed: ClaimedStage, error: StorageFailed) -> None:
        log.error("Stage %s of job %s is tried again: %s", claimed.stage, claimed.job.id, error.message)
        await asyncio.sleep(STORAGE_RETRY_S)

    async def _record_once(self, claimed: ClaimedStage, outcome: Outcome) -> Job | None:
        """The job with the outcome; None if the stage runs again, or the job has been deleted."""
        if isinstance(outcome, StorageFailed) or (isinstance(outcome, StageCancelled) and self._stopping):
            await self._stored_stages.requeue(claimed)
            return None
        if isinstance(outcome, Output) and claimed.kind == "remake" and Note.NOT_SMALLER in outcome.notes:
            outcome = StageFailed(Note.NOT_SMALLER.message)  # the file in force, which was paid for, stays
        if isinstance(outcome, Exception):
            message = error_message(outcome, claimed.stage, f"job {claimed.job.id}")
            return await self._stored_stages.record_failed(claimed, message)
        made = outcome.texts, outcome.removed, outcome.suggestion, outcome.score, outcome.notes
        if outcome.path is None:
            file = claimed.job.original if outcome.keeps_original else None
            return await self._stored_stages.record_done(claimed, file, *made)
        new_format = outcome.format or claimed.job.info.format
        async with AsyncExitStack() as stored:
            opened = [self._blobs.stored(WorkerFile(path)) for path in outcome.paths]
            blob, *others = blobs = [await stored.enter_async_context(each) for each in opened]
            file = StoredFile(blob.sha256, blob.size_bytes, new_format)
            variants = [
                SizedFile(at.sha256, at.size_bytes, new_format, width_px=size.width_px, height_px=size.height_px)
                for at, size in zip(others, outcome.variants, strict=True)
            ]
            changed = await self._stored_stages.record_done(claimed, file, *made, variants)
            if changed is None:  # the job was deleted while this stage ran
                await self._blobs.remove(each.sha256 for each in blobs)
            return changed
