"""Processes pictures with the engine, a few at a time: submit a job, wait for it, write its results, delete it.

Invariant: when `run` returns, every job that it queued is deleted, whether it completed, failed or was interrupted. If
the data folder can't be written, the job remains, and the outcome has an error that names it.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct, structs

from imgproc_local.cli.process.results import Results
from imgproc_local.cli.progress import StageProgress
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.compose import Services, core_count
from imgproc_local.domain.errors import QueueFull, ServiceError, StorageFailed, UploadTooLarge
from imgproc_local.domain.image import Format
from imgproc_local.domain.job import Job, StageState, Status
from imgproc_local.domain.plan import Plan
from imgproc_local.domain.result import Translation
from imgproc_local.domain.slug import make_slug
from imgproc_local.storage.blobs import Incoming
from imgproc_local.system.files import is_disk_full

JOBS_PER_THREAD = 4
"""Enough jobs that no thread is idle, and few enough that the data folder holds only some pictures at a time."""
STORAGE_CHECK_S = 5.0
"""If a job has not changed for this time, check that the data folder can still store results."""
COPY_BYTES = 1024 * 1024
INTERRUPTED = "Interrupted."


class Outcome(Struct, frozen=True):
    """The result of one picture. `job` is the last state of its job, None if the picture was refused.

    `translations` contain the names of the written files, which may have a number added to the name in the job. An
    error is a pair of the failed stage, None for an error outside a stage, and a message.
    """

    picture: Path
    job: Job | None = None
    translations: tuple[Translation, ...] = ()
    optimized_file: Path | None = None
    converted_file: Path | None = None
    errors: tuple[tuple[str | None, str], ...] = ()
    interrupted: bool = False

    @property
    def needs_text(self) -> bool:
        """Whether a person has to write one of the alt texts."""
        return any(text.needs_text for text in self.translations)

    @property
    def done(self) -> bool:
        return self.job is not None and self.job.status is Status.COMPLETED and not self.errors


class Batch:
    """Processes pictures for one account. `stop_reason` says why it ended early; None if it did not."""

    def __init__(
        self, services: Services, account_id: str, plan: Plan, results: Results, progress: StageProgress
    ) -> None:
        self._services = services
        self._account_id = account_id
        self._plan = plan
        self._results = results
        self._progress = progress
        self._job_deleted = asyncio.Event()
        self._stopping = False
        self.stop_reason: str | None = None

    async def run(self, pictures: Sequence[Path]) -> list[Outcome]:
        """Process `pictures` and return one outcome for each that was started, in the same order.

        Ctrl+C stops the run and deletes its jobs.
        """
        remaining = iter(enumerate(pictures))
        outcomes: dict[int, Outcome] = {}

        async def work() -> None:
            for number, picture in remaining:
                outcomes[number] = await self._process(picture)
                if self._stopping:
                    return

        config = self._services.config
        concurrency = min(len(pictures), config.queue_limit, JOBS_PER_THREAD * (config.codec_threads or core_count()))
        with _stop_on_signals(lambda: self.stop(INTERRUPTED)):
            await asyncio.gather(*(work() for _ in range(concurrency)))
        return [outcomes[number] for number in sorted(outcomes)]

    def stop(self, reason: str) -> None:
        """Start no more pictures, and end all waits at once."""
        if not self._stopping:
            self._stopping = True
            self.stop_reason = reason
            self._job_deleted.set()
            self._services.engine.end_waits()

    # ---- one picture ----

    async def _process(self, picture: Path) -> Outcome:
        try:
            job = await self._submit(picture)
        except StorageFailed as error:
            self.stop(error.message)
            return self._refuse(picture, error.message)
        except ServiceError as error:
            return self._refuse(picture, error.message)
        except OSError as error:
            return self._refuse(picture, f"It can't be read: {error.strerror}.")
        if job is None:
            return Outcome(picture, errors=((None, self.stop_reason or INTERRUPTED),), interrupted=True)
        storage_problem = None
        try:
            job = await self._wait_until_final(job)
        except StorageFailed as error:
            storage_problem = error.message
            self.stop(storage_problem)
        outcome = await self._outcome(picture, job, storage_problem)
        try:
            await self._services.engine.delete(job.id, self._account_id)
        except StorageFailed as error:
            self.stop(error.message)
            message = f"Its job {job.id} could not be deleted from the data folder: {error.message}"
            return structs.replace(outcome, errors=(*outcome.errors, (None, message)))
        self._job_deleted.set()
        return outcome

    def _refuse(self, picture: Path, message: str) -> Outcome:
        self._progress.picture_refused()
        return Outcome(picture, errors=((None, message),))

    async def _submit(self, picture: Path) -> Job | None:
        """Queue a job for the picture and return it; None if the run is stopped before that.

        Raises: ServiceError or OSError if the picture is refused; nothing is stored then.
        """
        services = self._services
        while not self._stopping:
            self._job_deleted.clear()
            try:
                await services.jobs.require_room(self._account_id)
                with services.blobs.incoming() as incoming:
                    await asyncio.to_thread(_copy_to_store, picture, incoming, services.config.max_upload_bytes)
                    if self._stopping:
                        return None
                    job, _ = await services.engine.accept(self._account_id, self._plan, incoming, picture.name)
                    return job
            except QueueFull as full:
                await self._wait_for_queue(full.retry_after_s)
        return None

    async def _wait_for_queue(self, retry_after_s: int) -> None:
        """Wait until a job of this run is deleted. At most `retry_after_s`, because older jobs may fill the queue."""
        with suppress(TimeoutError):
            async with asyncio.timeout(retry_after_s):
                await self._job_deleted.wait()

    async def _wait_until_final(self, job: Job) -> Job:
        """The job in its final state, or in its latest state if the run is stopped before that.

        Raises: StorageFailed if the data folder can't store results any more.
        """
        async for state in self._services.engine.follow(job.id, self._account_id, quiet_s=STORAGE_CHECK_S):
            if state is None:
                await self._require_storage(job)
            else:
                self._progress.job_changed(job, state)
                job = state
        return job

    async def _require_storage(self, job: Job) -> None:
        services = self._services
        await services.jobs.test_write()
        if not services.engine.is_claiming:
            raise StorageFailed("The engine has stopped: `imgproc-local doctor` checks the data folder.")
        if services.blobs.free_bytes() < job.original.size_bytes:
            raise StorageFailed("The disk of the data folder is full: the results can't be stored.")

    async def _outcome(self, picture: Path, job: Job, storage_problem: str | None) -> Outcome:
        """Write the results of a completed or failed job, and collect the errors of its stages."""
        errors = [(stage.name.value, stage.error or "") for stage in job.stages if stage.state is StageState.FAILED]
        if storage_problem is not None:
            return Outcome(picture, job, errors=(*errors, (None, storage_problem)))
        if not job.status.final:
            return Outcome(picture, job, errors=((None, self.stop_reason or INTERRUPTED),), interrupted=True)
        try:
            return await asyncio.to_thread(self._write, picture, job, tuple(errors))
        except OSError as error:
            message = _write_problem(error)
            self.stop(message)
            return Outcome(picture, job, errors=(*errors, (None, message)))

    def _write(self, picture: Path, job: Job, errors: tuple[tuple[str | None, str], ...]) -> Outcome:
        path = self._services.blobs.path
        language = self._plan.languages[0]
        # without translations, because analyze failed, the files are named after the original
        fallback = make_slug(picture.stem, language) or "image"
        preferred = job.translations[0].seo_filename if job.translations else fallback
        sources: list[tuple[Path, str]] = []
        ending = original_extension(picture, job.original.format)
        if job.optimized is not None:
            sources.append((path(job.optimized.sha256), ending))
        if job.converted is not None:
            new_ending = "." + FORMATS[job.converted.format].extensions[0]
            # a WebP converted to WebP: the two files need different names
            same = job.optimized is not None and new_ending == ending
            sources.append((path(job.converted.sha256), f"-converted{new_ending}" if same else new_ending))
        files: list[Path] = []
        name = preferred
        if sources:
            name, files = self._results.write(preferred, language, sources)
        written = iter(files)
        return Outcome(
            picture,
            job,
            self._renamed(job.translations, name),
            optimized_file=next(written) if job.optimized is not None else None,
            converted_file=next(written) if job.converted is not None else None,
            errors=errors,
        )

    def _renamed(self, translations: Sequence[Translation], name: str) -> tuple[Translation, ...]:
        """The translations with file names that are unique in this run; `name`, that of the files, is the first one."""
        return tuple(
            Translation(
                one.language_code,
                name if number == 0 else self._results.name(one.seo_filename, one.language_code),
                one.seo_alt_text,
                one.source,
            )
            for number, one in enumerate(translations)
        )


def original_extension(picture: Path, file_format: Format) -> str:
    """The picture's extension in lower case if `file_format` uses it, else the usual extension of that format."""
    ending = picture.suffix.lower()
    extensions = FORMATS[file_format].extensions
    return ending if ending.removeprefix(".") in extensions else f".{extensions[0]}"


def _copy_to_store(picture: Path, incoming: Incoming, max_bytes: int) -> None:
    with picture.open("rb") as file:
        while chunk := file.read(COPY_BYTES):
            if incoming.size_bytes + len(chunk) > max_bytes:
                raise UploadTooLarge(
                    f"Expected at most {max_bytes:,} bytes (setting max_upload_bytes), but the file has more."
                )
            incoming.write(chunk)


def _write_problem(error: OSError) -> str:
    if is_disk_full(error):
        return "The disk of the output folder is full."
    return f"The results can't be written to the output folder ({error.strerror})."


@contextmanager
def _stop_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Inside the block, the first SIGINT or SIGTERM calls `stop`; the second is handled as before the block."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if before[signal.SIGINT] is signal.SIG_IGN:
        del before[signal.SIGINT]  # shells start background jobs like this, so that Ctrl+C does not end them

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)

    def handle(*_: object) -> None:
        restore()
        loop.call_soon_threadsafe(stop)

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()
