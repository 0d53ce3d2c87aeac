"""Processes the pictures of a run, several at a time: submits their jobs, waits, writes the results, deletes the jobs.

Pictures are worked on at the same time and end in any order. Their results get names in the order of the pictures, so
that names and manifest do not depend on timing. The idempotency key of a job is made of the picture's path and content,
the options, the version of the program and the output folder: a run that continues a killed one finds the jobs of that
run and does not repeat their work.

Invariant: when `run` returns, every job that it queued is deleted, whether it completed, failed or was interrupted. If
the data folder can't be written, the job remains, and the outcome has an error that names it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from msgspec import Struct, structs

from imgproc_local import __version__
from imgproc_local.batch.records import Record
from imgproc_local.batch.request import BatchRequest
from imgproc_local.cli.output import path_text
from imgproc_local.cli.process.discovery import Picture
from imgproc_local.cli.process.manifest import source_key
from imgproc_local.cli.process.progress import StageProgress
from imgproc_local.cli.process.publishing import Finished, Publisher
from imgproc_local.cli.process.results import Results, StagedFile
from imgproc_local.cli.process.staging import Stager
from imgproc_local.domain.errors import QueueFull, ServiceError, StorageFailed
from imgproc_local.domain.job import Job, StageName, StageState
from imgproc_local.domain.plan import Plan
from imgproc_local.storage.blobs import hash_file
from imgproc_local.system.files import is_disk_full

log = logging.getLogger(__name__)

MAX_WAITING_FOR_NAME = 256
"""How many pictures may be finished and wait for an earlier one. It bounds the files in the data folder."""
INTERRUPTED = "Interrupted."


class Jobs(Protocol):
    """Where the jobs run: `EngineJobs` in this process, `ServerJobs` in the server that owns the data folder."""

    at_once: int

    def opened(self, name: str) -> AbstractAsyncContextManager[None]: ...
    async def submit(self, picture: Path, plan: Plan, idempotency_key: str) -> Job: ...
    def changes(self, job: Job) -> AsyncIterator[Job]: ...
    async def base_names(self, job: Job) -> dict[str, str]: ...
    async def copy_result(self, job: Job, stage: StageName, results: Results, ending: str) -> StagedFile: ...
    async def delete(self, job_id: str) -> None: ...
    async def leftovers(self, key_prefix: str) -> list[str]: ...
    def end_waits(self) -> None: ...


class Outcome(Struct, frozen=True):
    """The result of one picture.

    `record` is what this run stored in the manifest or, for an unchanged picture, found there; None if neither. `new`
    is the record without the files that an earlier run made; None if this run made nothing. `image_id` is the image's
    identifier in the API. An error is a pair of the failed stage, None for an error outside a stage, and a message.
    `interrupted` says that the run ended before the picture was done: by Ctrl+C, or because the data folder, the server
    or the output folder could not be used.
    """

    picture: Path
    record: Record | None = None
    new: Record | None = None
    image_id: str | None = None
    errors: tuple[tuple[str | None, str], ...] = ()
    interrupted: bool = False

    @property
    def needs_text(self) -> bool:
        """Whether a person has to write one of the alt texts."""
        return self.record is not None and self.record.needs_text

    @property
    def done(self) -> bool:
        return self.record is not None and not self.errors

    @property
    def unchanged(self) -> bool:
        """Whether the results of an earlier run are up to date. Those of a picture that failed since are not."""
        return self.new is None and self.done


class Batch:
    """Processes pictures. `out_id` identifies the output folder, so that a run that is continued finds its jobs.

    `stop_reason` says why the run ended early; None if it did not.
    """

    def __init__(
        self,
        jobs: Jobs,
        request: BatchRequest,
        out: Path,
        out_id: str,
        stager: Stager,
        publisher: Publisher,
        progress: StageProgress,
    ) -> None:
        self._jobs = jobs
        self._request = request
        self._out = out
        self._stager = stager
        self._progress = progress
        self._key_prefix = f"imgproc-local-process-{out_id}-"
        self._publisher = publisher
        self._retry_submit = asyncio.Event()
        self._in_progress: dict[int, list[Job]] = {}
        self._dropped: set[int] = set()
        self._deletions: list[asyncio.Future[None]] = []
        self.stop_reason: str | None = None
        self._ending = asyncio.Event()  # start no more pictures
        self._stopped_at_once = False  # do not wait for the pictures in progress either

    # ---- the run ----

    async def run(self, pictures: Sequence[Picture], on_outcome: Callable[[Outcome], None]) -> None:
        """Process `pictures`. `on_outcome` is called for each that was started, in their order."""
        finished: dict[int, Finished] = {}
        changed = asyncio.Event()
        room = asyncio.Semaphore(self._jobs.at_once + MAX_WAITING_FOR_NAME)
        remaining = iter(enumerate(pictures))
        started = 0

        async def work() -> None:
            nonlocal started
            while not self.is_ending:
                await room.acquire()
                if self.is_ending or (following := next(remaining, None)) is None:
                    break
                number, picture = following
                started = number + 1
                finished[number] = await self._process(number, picture)
                changed.set()
            changed.set()

        async def name_in_order() -> None:
            number = 0
            interrupted = False
            while number < started or not all(worker.done() for worker in workers):
                if number not in finished:
                    changed.clear()
                    await changed.wait()
                    continue
                outcome = await self._finish(finished.pop(number), after_interrupted=interrupted)
                interrupted = interrupted or outcome.interrupted
                on_outcome(outcome)
                room.release()
                number += 1

        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(work()) for _ in range(min(len(pictures), self._jobs.at_once))]
            for worker in workers:
                worker.add_done_callback(lambda _: changed.set())
            group.create_task(name_in_order())
        await asyncio.gather(*self._deletions)
        await self._delete_leftovers()

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Inside the block, the first Ctrl+C finishes the pictures in progress; the second stops the run at once."""
        with _on_signals(self._interrupt):
            yield

    @property
    def is_ending(self) -> bool:
        """Whether no more pictures are started."""
        return self._ending.is_set()

    async def wait_until_ending(self, timeout_s: float) -> None:
        """Return when no more pictures are started, or after `timeout_s`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._ending.wait()

    def stop(self, reason: str) -> None:
        """Start no more pictures, and end all waits at once."""
        self.stop_reason = self.stop_reason or reason
        self._ending.set()
        if not self._stopped_at_once:
            self._stopped_at_once = True
            self._retry_submit.set()
            self._jobs.end_waits()

    def _interrupt(self, count: int) -> None:
        """Ctrl+C was pressed for the `count`-th time in this run."""
        if count > 1:
            self.stop(INTERRUPTED)
            return
        self.stop_reason = self.stop_reason or INTERRUPTED
        self._ending.set()
        self._retry_submit.set()
        # from the end, because the names of a picture depend on all before it
        for number in sorted(self._in_progress, reverse=True):
            if any(stage.started_seq is not None for job in self._in_progress[number] for stage in job.stages):
                break
            self._dropped.add(number)
        remaining = len(self._in_progress) - len(self._dropped)
        for number in self._dropped:
            self._deletions += [
                asyncio.ensure_future(self._delete_quietly(job.id)) for job in self._in_progress[number]
            ]
        if remaining:
            pictures = "1 picture" if remaining == 1 else f"{remaining} pictures"
            self._progress.print(f"Finishing {pictures} in progress. Press Ctrl+C again to stop at once.")

    # ---- one picture ----

    async def _process(self, number: int, picture: Picture) -> Finished:
        """Submit the jobs of a picture, wait for them, and copy their results to temporary files."""
        jobs = self._in_progress.setdefault(number, [])
        try:
            sha256 = await asyncio.to_thread(hash_file, picture.path)
            for plan in self._request.plans:
                job = await self._submit(picture, plan, sha256, is_first=not jobs)
                if job is not None:
                    jobs.append(job)
                    self._progress.job_submitted(job)
                if job is None or number in self._dropped:
                    return Finished(picture, job_ids=_ids(jobs), interrupted=True)
            for index in range(len(jobs)):
                await self._wait_until_final(jobs, index)
            merged = _merged(jobs)
            if not merged.status.final or number in self._dropped:
                return Finished(picture, job_ids=_ids(jobs), interrupted=True)
            return await self._stage(picture, sha256, merged, _ids(jobs))
        except StorageFailed as error:
            self.stop(error.message)
            return Finished(picture, job_ids=_ids(jobs), interrupted=True)
        except ServiceError as error:
            if number in self._dropped:
                return Finished(picture, job_ids=_ids(jobs), interrupted=True)
            return self._failed(picture, jobs, error.message)
        except OSError as error:
            return self._failed(picture, jobs, f"It can't be read: {error.strerror}.")
        finally:
            del self._in_progress[number]

    def _failed(self, picture: Picture, jobs: Sequence[Job], message: str) -> Finished:
        of_stages = _stage_errors(_merged(jobs)) if jobs else ()
        return Finished(picture, job_ids=_ids(jobs), errors=(*of_stages, (None, message)))

    async def _submit(self, picture: Picture, plan: Plan, sha256: str, *, is_first: bool) -> Job | None:
        """Queue a job for the picture and return it; None if the run ends before that.

        A picture whose first job was queued gets the others too, unless the run is stopped at once.
        """
        source = f"{source_key(picture.path, self._out)}\n{sha256}\n{self._request.options_hash}\n{__version__}"
        key = f"{self._key_prefix}{plan.operation.value}-{hashlib.sha256(source.encode()).hexdigest()}"
        while not (self._ending.is_set() if is_first else self._stopped_at_once):
            self._retry_submit.clear()
            try:
                return await self._jobs.submit(picture.path, plan, key)
            except QueueFull as full:
                with suppress(TimeoutError):
                    # at most `retry_after_s`, because jobs of others may fill the queue
                    async with asyncio.timeout(full.retry_after_s):
                        await self._retry_submit.wait()
        return None

    async def _wait_until_final(self, jobs: list[Job], index: int) -> None:
        """Replace `jobs[index]` by its latest state, until it is final or deleted, or the run is stopped at once."""
        async for state in self._jobs.changes(jobs[index]):
            self._progress.job_changed(jobs[index], state)
            jobs[index] = state

    async def _stage(self, picture: Picture, sha256: str, job: Job, job_ids: tuple[str, ...]) -> Finished:
        finished = Finished(picture, sha256, job_ids=job_ids, errors=_stage_errors(job))
        pages = job.details.info.pages if job.details is not None else 1
        if pages > 1:
            log.warning("%s: only the first of its %d pages is processed.", path_text(picture.path), pages)
        if job.translations:
            finished = structs.replace(finished, base_names=await self._jobs.base_names(job))
        try:
            return await self._stager.stage(finished, job)
        except OSError as error:
            self.stop(_write_problem(error))
            return Finished(picture, job_ids=job_ids, interrupted=True)

    # ---- in the order of the pictures ----

    async def _finish(self, finished: Finished, *, after_interrupted: bool) -> Outcome:
        """Give the results their names, store the record, and delete the jobs.

        If an earlier picture was interrupted, the results are discarded: their names could depend on that picture.
        """
        outcome = Outcome(finished.picture.path, errors=finished.errors, interrupted=finished.interrupted)
        if finished.interrupted or after_interrupted:
            outcome = Outcome(outcome.picture, errors=((None, self.stop_reason or INTERRUPTED),), interrupted=True)
        elif finished.job is not None:
            try:
                record = await asyncio.to_thread(self._publisher.publish, finished, finished.job)
                outcome = structs.replace(
                    outcome,
                    record=record,
                    image_id=finished.job.image_id,
                    new=_new_part(record, finished),
                )
            except OSError as error:
                message = _write_problem(error)
                self.stop(message)
                outcome = structs.replace(outcome, errors=(*outcome.errors, (None, message)), interrupted=True)
        if outcome.record is None:
            for staged in finished.staged:
                staged.part.unlink(missing_ok=True)
        for job_id in finished.job_ids:
            try:
                await self._jobs.delete(job_id)
            except ServiceError as error:
                self.stop(error.message)
                message = (
                    f"Its job {job_id} could not be deleted from the data folder: {error.message} To delete it, run the"
                    " same command again."
                )
                outcome = structs.replace(outcome, errors=(*outcome.errors, (None, message)))
        self._retry_submit.set()
        self._progress.picture_finished(outcome.new, finished.picture.size_bytes)
        return outcome

    async def _delete_leftovers(self) -> None:
        """Delete the jobs of a killed run that this run did not need."""
        try:
            for job_id in await self._jobs.leftovers(self._key_prefix):
                await self._jobs.delete(job_id)
        except ServiceError as error:
            self._progress.print(f"Jobs of an earlier run could not be deleted: {error.message}")

    async def _delete_quietly(self, job_id: str) -> None:
        """Delete a job that has not begun. If that fails, `_finish` tries it again and reports the error."""
        with suppress(ServiceError):
            await self._jobs.delete(job_id)


def _new_part(record: Record, finished: Finished) -> Record | None:
    """`Outcome.new` of a record, which is that of an earlier run if the picture has changed and failed since."""
    if record.sha256 != finished.sha256 or not (finished.staged or finished.base_names):
        return None
    return structs.replace(
        record,
        optimized=record.optimized if finished.optimized else None,
        converted=record.converted if finished.converted else None,
        sidecar=record.sidecar if finished.sidecar else None,
    )


def _ids(jobs: Sequence[Job]) -> tuple[str, ...]:
    return tuple(job.id for job in jobs)


def _merged(jobs: Sequence[Job]) -> Job:
    """One job with the stages and results of all jobs of a picture."""
    merged = jobs[0]
    for job in jobs[1:]:
        merged = structs.replace(
            merged,
            stages=(*merged.stages, *job.stages),
            optimized=merged.optimized or job.optimized,
            converted=merged.converted or job.converted,
            translations=merged.translations or job.translations,
        )
    return merged


def _stage_errors(job: Job) -> tuple[tuple[str | None, str], ...]:
    return tuple((stage.name.value, stage.error or "") for stage in job.stages if stage.state is StageState.FAILED)


def _write_problem(error: OSError) -> str:
    if is_disk_full(error):
        return "The disk of the output folder is full."
    return f"The results can't be written to the output folder ({error.strerror or error})."


@contextmanager
def _on_signals(interrupt: Callable[[int], None]) -> Iterator[None]:
    """Inside the block, the first and the second SIGINT or SIGTERM call `interrupt` with their number.

    The third is handled as before the block.
    """
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if before[signal.SIGINT] is signal.SIG_IGN:
        del before[signal.SIGINT]  # shells start background jobs like this, so that Ctrl+C does not end them
    received = 0

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)

    def handle(*_: object) -> None:
        nonlocal received
        received += 1
        if received > 1:
            restore()
        loop.call_soon_threadsafe(interrupt, received)

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()
