"""Pictures through the engine, a few at a time: stored, submitted, waited for, written out, and their jobs deleted.

Invariant: when `run` returns, no job that it queued is left, whether it was finished, failed or interrupted – except
where the data folder itself refuses, and then the outcome says so.
"""

from __future__ import annotations

import asyncio
import errno
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from imgproc_local.cli.process.results import Results
from imgproc_local.cli.progress import Progress
from imgproc_local.compose import Services, core_count
from imgproc_local.domain.errors import QueueFull, ServiceError, StorageFailed, UploadTooLarge
from imgproc_local.domain.image import TRAITS, Format
from imgproc_local.domain.job import Job, StageState, Status
from imgproc_local.domain.plan import Plan
from imgproc_local.domain.result import Translation
from imgproc_local.domain.slug import make_slug
from imgproc_local.storage.blobs import Incoming

JOBS_PER_THREAD = 4
"""Enough in flight that no lane runs dry, few enough that the data folder holds only some pictures at a time."""
CHECK_S = 5.0
"""How long a job may show no change until it is asked whether the store still takes results."""
COPY_BYTES = 1024 * 1024
INTERRUPTED = "Interrupted."


class Outcome(Struct, frozen=True):
    """What became of one picture. `job` is its last state, None where it never became one.

    `errors` are (stage or None, message) pairs; `translations` carry the names as they were given to the files.
    """

    picture: Path
    job: Job | None = None
    translations: tuple[Translation, ...] = ()
    optimized_file: Path | None = None
    converted_file: Path | None = None
    errors: tuple[tuple[str | None, str], ...] = ()
    interrupted: bool = False

    @property
    def done(self) -> bool:
        return self.job is not None and self.job.status is Status.COMPLETED and not self.errors


class Batch:
    """One run over some pictures for one account. `stopped` says why it ended early, None where it did not."""

    def __init__(self, services: Services, account_id: str, plan: Plan, results: Results, progress: Progress) -> None:
        self._services = services
        self._account_id = account_id
        self._plan = plan
        self._results = results
        self._progress = progress
        self._room = asyncio.Event()
        self._stopping = False
        self.stopped: str | None = None

    async def run(self, pictures: Sequence[Path]) -> list[Outcome]:
        """One outcome per picture that was begun, in the order given. Ctrl+C ends it early but orderly."""
        waiting = iter(enumerate(pictures))
        outcomes: dict[int, Outcome] = {}

        async def work() -> None:
            for number, picture in waiting:
                outcomes[number] = await self._one(picture)
                if self._stopping:
                    return

        config = self._services.config
        width = min(len(pictures), config.queue_limit, JOBS_PER_THREAD * (config.codec_threads or core_count()))
        with _signals_to(lambda: self.stop(INTERRUPTED)):
            await asyncio.gather(*(work() for _ in range(width)))
        return [outcomes[number] for number in sorted(outcomes)]

    def stop(self, reason: str) -> None:
        """Begin nothing more and let what waits come back at once."""
        if not self._stopping:
            self._stopping = True
            self.stopped = reason
            self._room.set()
            self._services.engine.end_waits()

    # ---- one picture ----

    async def _one(self, picture: Path) -> Outcome:
        try:
            job = await self._submit(picture)
        except StorageFailed as error:
            self.stop(error.message)
            return self._refused(picture, error.message)
        except ServiceError as error:
            return self._refused(picture, error.message)
        except OSError as error:
            return self._refused(picture, f"It can't be read: {error.strerror}.")
        if job is None:
            return Outcome(picture, errors=((None, self.stopped or INTERRUPTED),), interrupted=True)
        stuck = None
        try:
            job = await self._finish(job)
        except StorageFailed as error:
            stuck = error.message
            self.stop(stuck)
        outcome = await self._outcome(picture, job, stuck)
        try:
            await self._services.engine.delete(job.id, self._account_id)
        except StorageFailed as error:
            self.stop(error.message)
            message = f"Its job {job.id} could not be removed from the data folder: {error.message}"
            return Outcome(
                picture, job, outcome.translations, outcome.optimized_file, outcome.converted_file,
                (*outcome.errors, (None, message)), outcome.interrupted,
            )  # fmt: skip
        self._room.set()
        return outcome

    def _refused(self, picture: Path, message: str) -> Outcome:
        self._progress.dropped()
        return Outcome(picture, errors=((None, message),))

    async def _submit(self, picture: Path) -> Job | None:
        """The queued job, None where the run ends first. Raises `ServiceError` or `OSError`; nothing is stored then."""
        services = self._services
        while not self._stopping:
            self._room.clear()
            try:
                await services.jobs.require_room()
                with services.blobs.incoming() as incoming:
                    await asyncio.to_thread(_copy_in, picture, incoming, services.config.max_upload_bytes)
                    if self._stopping:
                        return None
                    job, _ = await services.engine.accept(self._account_id, self._plan, incoming, picture.name)
                    return job
            except QueueFull as full:
                await self._wait_for_room(full.retry_after_s)
        return None

    async def _wait_for_room(self, retry_after_s: int) -> None:
        """Until a job of this run went, or as long as the queue asks: earlier jobs of others may fill it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(retry_after_s):
                await self._room.wait()

    async def _finish(self, job: Job) -> Job:
        """The job once it is final, or as it stands when the run ends.

        Raises:
            StorageFailed: the data folder takes no more results.
        """
        async for state in self._services.engine.follow(job.id, self._account_id, quiet_s=CHECK_S):
            if state is None:
                await self._require_working(job)
            else:
                self._progress.moved(job, state)
                job = state
        return job

    async def _require_working(self, job: Job) -> None:
        services = self._services
        await services.jobs.beat()
        if not services.engine.is_claiming:
            raise StorageFailed("The engine has stopped taking work.")
        if services.blobs.free_bytes() < job.original.size_bytes:
            raise StorageFailed("The disk that holds the data folder is full; the results can't be kept.")

    async def _outcome(self, picture: Path, job: Job, stuck: str | None) -> Outcome:
        """Write what the job has made and tell what it has not."""
        errors = [(stage.name.value, stage.error or "") for stage in job.stages if stage.state is StageState.FAILED]
        if stuck is not None:
            return Outcome(picture, job, errors=(*errors, (None, stuck)))
        if not job.status.final:
            return Outcome(picture, job, errors=((None, self.stopped or INTERRUPTED),), interrupted=True)
        try:
            return await asyncio.to_thread(self._write, picture, job, tuple(errors))
        except OSError as error:
            message = _write_problem(error)
            self.stop(message)
            return Outcome(picture, job, errors=(*errors, (None, message)))

    def _write(self, picture: Path, job: Job, errors: tuple[tuple[str | None, str], ...]) -> Outcome:
        path = self._services.blobs.path
        language = self._plan.languages[0]
        # where analyze failed the other results still count, and go by the picture's own name
        own_name = make_slug(picture.stem, language) or "image"
        wanted = job.translations[0].seo_filename if job.translations else own_name
        sources: list[tuple[Path, str]] = []
        ending = original_ending(picture, job.original.format)
        if job.optimized is not None:
            sources.append((path(job.optimized.sha256), ending))
        if job.converted is not None:
            new_ending = "." + TRAITS[job.converted.format].extensions[0]
            # a WebP converted to WebP: the two results need two names
            same = job.optimized is not None and new_ending == ending
            sources.append((path(job.converted.sha256), f"-converted{new_ending}" if same else new_ending))
        files: list[Path] = []
        name = wanted
        if sources:
            name, files = self._results.write(wanted, language, sources)
        waiting = iter(files)
        return Outcome(
            picture,
            job,
            self._renamed(job.translations, name),
            optimized_file=next(waiting) if job.optimized is not None else None,
            converted_file=next(waiting) if job.converted is not None else None,
            errors=errors,
        )

    def _renamed(self, translations: Sequence[Translation], name: str) -> tuple[Translation, ...]:
        """The translations with the names that are free: the first language's is the files', `name`."""
        return tuple(
            Translation(
                one.language_code,
                name if number == 0 else self._results.name(one.seo_filename, one.language_code),
                one.seo_alt_text,
                one.source,
            )
            for number, one in enumerate(translations)
        )


def original_ending(picture: Path, file_format: Format) -> str:
    """The file's own ending in lower case where it fits its format, else the format's."""
    ending = picture.suffix.lower()
    extensions = TRAITS[file_format].extensions
    return ending if ending.removeprefix(".") in extensions else f".{extensions[0]}"


def _copy_in(picture: Path, incoming: Incoming, max_bytes: int) -> None:
    with picture.open("rb") as file:
        while chunk := file.read(COPY_BYTES):
            if incoming.size_bytes + len(chunk) > max_bytes:
                raise UploadTooLarge(
                    f"A picture may have {max_bytes:,} bytes (setting max_upload_bytes); this one has more."
                )
            incoming.write(chunk)


def _write_problem(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "The disk that holds the output folder is full."
    return f"The results can't be written to the output folder: {error.strerror}."


@contextmanager
def _signals_to(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl+C and an orderly kill call `stop`, once; a second one ends the process in the system's own way."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if before[signal.SIGINT] is signal.SIG_IGN:
        del before[signal.SIGINT]  # started in the background, where Ctrl+C is for others

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)

    def caught(*_: object) -> None:
        restore()
        loop.call_soon_threadsafe(stop)

    for number in before:
        signal.signal(number, caught)
    try:
        yield
    finally:
        restore()
