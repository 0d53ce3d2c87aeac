"""Exports: ZIP files of results, made while they are sent.

Each entry is made as a whole, in memory or, above `MAX_MEMORY_BYTES`, in a temporary file, and sent when it is
complete: its header has its size and CRC-32, because programs that unpack a stream, such as Java's and the local page,
can't read a stored entry whose size follows it.

Invariant: a complete archive contains every planned file, undamaged. Every stored file is compared with its SHA-256
before its first byte is sent; if one is missing or damaged, the archive is broken off before its end.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import logging
import os
import tempfile
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

from imgproc_local.domain.errors import (
    ExportIncomplete,
    InvalidRequest,
    NotFound,
    ServiceError,
    ServiceStopping,
    TooManyExports,
)
from imgproc_local.domain.export import MAX_IMAGES, ExportFields, ExportProblems, MissingReason
from imgproc_local.domain.job import Job
from imgproc_local.engine.export_plan import (
    DATA_NAME,
    EARLIEST,
    TABLE_NAME,
    ExportedFile,
    ExportPlan,
    PlannedFile,
    PlannedImage,
    TextsFailure,
    csv_table,
    json_data,
    make_plan,
    requested_files,
)
from imgproc_local.engine.results import TextsWork
from imgproc_local.engine.workers import WorkerError
from imgproc_local.storage.blobs import Blobs
from imgproc_local.storage.jobs import Jobs

log = logging.getLogger(__name__)

MAX_EXPORTS_PER_ACCOUNT = 2
RETRY_AFTER_S = 10
PLANS_AT_ONCE = 2
"""Calls of `plan` that run at once, of all accounts; further ones wait. A call may read every file of its plan."""
CHUNK_BYTES = 512 * 1024
MAX_MEMORY_BYTES = 8 * 1024 * 1024
"""A larger entry is in a temporary file until it is sent."""
REGULAR_FILE_0644 = 0o100644 << 16
MADE_BY_UNIX = 3
"""The system whose file attributes the archive has. Programs on other systems ignore the attributes."""

WriteTexts = Callable[[TextsWork, threading.Event], Path]
"""Writes texts into a copy of a picture and returns its temporary file. Blocks; raises soon after the event is set.

Raises: ServiceError, WorkerError.
"""
Send = Callable[[bytes], Awaitable[None]]
"""Sends a piece of the archive, and returns when the next one may follow."""


class Exporter:
    """The exports of all accounts."""

    def __init__(self, jobs: Jobs, blobs: Blobs, write_texts: WriteTexts) -> None:
        self._jobs = jobs
        self._blobs = blobs
        self._write_texts = write_texts
        self._planning = asyncio.Semaphore(PLANS_AT_ONCE)
        self._exports: list[tuple[str, Export]] = []
        """The exports that are open, with their accounts."""
        self._ended = False

    async def plan(self, account_id: str, request: ExportFields) -> ExportPlan:
        """What an archive would contain. Raises: InvalidRequest, NotFound, ServiceStopping."""
        async with self._planning:
            return await self._plan(request, await self._requested_jobs(account_id, request))

    def require_room(self, account_id: str) -> None:
        """Check that `open` would start an export now. Raises: TooManyExports, ServiceStopping."""
        if self._ended:
            raise ServiceStopping
        if sum(account_id == owner for owner, _ in self._exports) >= MAX_EXPORTS_PER_ACCOUNT:
            raise TooManyExports(MAX_EXPORTS_PER_ACCOUNT, RETRY_AFTER_S)

    async def open(self, account_id: str, request: ExportFields) -> Export:
        """An archive to be sent, which the caller closes.

        Raises:
            InvalidRequest, NotFound: the request names too many images, or something that the account does not have.
            ExportIncomplete: texts or files are missing, and the request does not allow that.
            TooManyExports, ServiceStopping: try again later.
        """
        self.require_room(account_id)
        export = Export(self._blobs, self._write_texts)
        opened = account_id, export
        self._exports.append(opened)
        export.resources.callback(self._exports.remove, opened)
        try:
            jobs = await self._requested_jobs(account_id, request)
            await export.resources.enter_async_context(self._blobs.leased(requested_files(request, jobs)))
            export.plan = await self._plan(request, jobs)
            require_complete(request, export.plan)
        except BaseException:
            await export.close()
            raise
        return export

    def end(self) -> None:
        """Break off every export and refuse new ones: the service is stopping."""
        self._ended = True
        for _, export in self._exports:
            export.stop("The service is stopping.")

    async def _requested_jobs(self, account_id: str, request: ExportFields) -> list[Job]:
        """The jobs of the requested images, in the order of the request, else oldest first."""
        if request.images is not None:
            wanted = list(dict.fromkeys(image_id.lower() for image_id in request.images))
            found = await self._jobs.ids_of_images(wanted, account_id)
            unknown = [image_id for image_id in wanted if image_id not in found]
            if unknown:
                others = f" (and {len(unknown) - 1} more of the requested ones)" if len(unknown) > 1 else ""
                raise NotFound(f"No image {unknown[0]!r}{others} in this account.")
            return await self._jobs.several([found[image_id] for image_id in wanted], account_id)
        project_id = None if request.project_id is None else request.project_id.lower()
        if project_id is not None:
            try:
                await self._jobs.require_project(account_id, project_id)
            except InvalidRequest as error:
                raise NotFound(error.message) from error
        job_ids = await self._jobs.finished_ids(account_id, project_id, MAX_IMAGES + 1)
        if len(job_ids) > MAX_IMAGES:
            problem = f"An export may have at most {MAX_IMAGES} images; there are more. Send project_id or images."
            raise InvalidRequest({"images": [problem]})
        return await self._jobs.several(job_ids, account_id)

    async def _plan(self, request: ExportFields, jobs: Sequence[Job]) -> ExportPlan:
        unusable = await asyncio.to_thread(self._find_unusable, requested_files(request, jobs))
        return await asyncio.to_thread(make_plan, request, jobs, unusable)

    def _find_unusable(self, files: Mapping[str, int]) -> dict[str, MissingReason]:
        """The files that are missing or damaged. Reads those that were not yet compared with their SHA-256."""
        unusable: dict[str, MissingReason] = {}
        for sha256, size_bytes in files.items():
            if self._ended:
                raise ServiceStopping
            damage = self._blobs.find_damage(sha256, size_bytes)
            if damage is not None:
                log.error("The file %s of an export is %s in the data folder", sha256, damage)
                unusable[sha256] = damage
        return unusable


def require_complete(request: ExportFields, plan: ExportPlan) -> None:
    """Raises `ExportIncomplete` if texts or files are missing and the request does not allow that."""
    problems = ExportProblems(
        needs_text=() if request.allow_needs_text else plan.problems.needs_text,
        missing=() if request.allow_missing else plan.problems.missing,
    )
    if problems.needs_text or problems.missing:
        raise ExportIncomplete(problems)


# ---- one archive ----


class ExportBroken(Exception):
    """The archive can't be completed; the message says why. What was sent must not look complete to the client."""


class Export:
    """One archive. Its files stay leased until `close`, which must be called and closes the `resources`."""

    def __init__(self, blobs: Blobs, write_texts: WriteTexts) -> None:
        self.plan = ExportPlan()
        self.resources = AsyncExitStack()
        self._blobs = blobs
        self._write_texts = write_texts
        self._cancelled = threading.Event()
        self._timeout: asyncio.Timeout | None = None
        self._stopped_because: str | None = None

    async def write(self, send: Send) -> None:
        """Send the archive; while a piece is sent, the next one is made. Raises: ExportBroken."""
        pieces = self._pieces()
        ahead: asyncio.Task[bytes] | None = None
        try:
            async with asyncio.timeout(None) as self._timeout:
                if self._stopped_because is not None:
                    raise TimeoutError
                ahead = _next_of(pieces)
                while piece := await asyncio.shield(ahead):
                    ahead = _next_of(pieces)
                    await send(piece)
        except TimeoutError:
            raise ExportBroken(self._stopped_because or "It was stopped.") from None
        finally:
            self._timeout = None
            self._cancelled.set()
            if ahead is not None:
                await asyncio.gather(ahead, return_exceptions=True)
            await asyncio.to_thread(pieces.close)

    def stop(self, reason: str) -> None:
        """Break off the archive: now, or when `write` is called. The first call counts."""
        if self._stopped_because is not None:
            return
        self._stopped_because = reason
        if self._timeout is not None:
            self._timeout.reschedule(asyncio.get_running_loop().time())

    async def close(self) -> None:
        await self.resources.aclose()

    def _pieces(self) -> Generator[bytes]:
        """The archive in pieces. Runs on threads, one after the other. Raises: ExportBroken."""
        images = self.plan.images
        newest = max((planned.created_at for planned in images), default=EARLIEST)
        exported: list[list[ExportedFile]] = []
        failures: list[TextsFailure] = []
        try:
            with _Window(self._blobs.incoming_folder) as window, ZipFile(window, "w") as archive:
                for planned in images:
                    exported.append([])
                    for file in planned.files:
                        exported[-1].append(self._add(archive, planned, file, failures))
                        yield from window.complete()
                with archive.open(_entry(TABLE_NAME, newest), "w") as entry:
                    entry.writelines(csv_table(images))
                yield from window.complete()
                with archive.open(_entry(DATA_NAME, newest), "w") as entry:
                    entry.writelines(json_data(images, exported, failures, self.plan.problems.missing))
                yield from window.complete()
                archive.close()
                yield from window.complete()
        except OSError as error:
            raise ExportBroken(f"It can't be made ({error.strerror}).") from error

    def _add(
        self, archive: ZipFile, planned: PlannedImage, file: PlannedFile, failures: list[TextsFailure]
    ) -> ExportedFile:
        """Add a file, with its texts if it gets some; a failure to write them is added to `failures`."""
        sha256 = file.stored.sha256
        with_texts = self._with_texts(planned, file, failures) if file.gets_texts else None
        path = with_texts or self._blobs.path(sha256)
        digest = hashlib.sha256()
        try:
            size_bytes = path.stat().st_size
            entry = _entry(file.name, planned.created_at, size_bytes)
            with path.open("rb") as source, archive.open(entry, "w") as target:
                while chunk := source.read(CHUNK_BYTES):
                    digest.update(chunk)
                    target.write(chunk)
        except OSError as error:
            raise ExportBroken(f"The file {sha256} can't be exported ({error.strerror}).") from error
        finally:
            if with_texts is not None:
                with_texts.unlink(missing_ok=True)
        if with_texts is None and digest.hexdigest() != sha256:
            raise ExportBroken(f"The file {sha256} is damaged in the data folder.")
        return ExportedFile(
            file.name, file.variant, file.stored.format, size_bytes, digest.hexdigest(), with_texts is not None
        )

    def _with_texts(self, planned: PlannedImage, file: PlannedFile, failures: list[TextsFailure]) -> Path | None:
        """A temporary file with the texts, None if they can't be written.

        Raises: ExportBroken; ServiceError or WorkerError, if the export was stopped.
        """
        stored = file.stored
        damage = self._blobs.find_damage(stored.sha256, stored.size_bytes)
        if damage is not None:
            raise ExportBroken(f"The file {stored.sha256} is {damage} in the data folder.")
        work = TextsWork(os.fsencode(self._blobs.path(stored.sha256)), stored.format, planned.job.translations)
        try:
            return self._write_texts(work, self._cancelled)
        except (ServiceError, WorkerError) as error:
            if self._cancelled.is_set():
                raise
            log.warning("No texts were written into the exported file %s: %s", stored.sha256, error)
            message = error.message if isinstance(error, ServiceError) else "An unexpected error; see the log."
            failures.append(TextsFailure(file.name, message))
            return None


def _next_of(pieces: Iterator[bytes]) -> asyncio.Task[bytes]:
    """Make the next piece on a thread; b"" after the last one."""
    return asyncio.create_task(asyncio.to_thread(next, pieces, b""))


def _entry(name: str, at: datetime, size_bytes: int = 0) -> ZipInfo:
    entry = ZipInfo(name, at.timetuple()[:6])
    entry.create_system = MADE_BY_UNIX
    entry.external_attr = REGULAR_FILE_0644
    entry.file_size = size_bytes  # zipfile makes room for a ZIP64 record if it is large
    return entry


class _Window(io.RawIOBase):
    """The end of the archive, in which `ZipFile` can seek: what was not sent yet."""

    def __init__(self, folder: Path) -> None:
        self._sent_bytes = 0
        # closed in `close`
        self._file = tempfile.SpooledTemporaryFile(MAX_MEMORY_BYTES, dir=str(folder))  # noqa: SIM115

    def complete(self) -> Iterator[bytes]:
        """Everything up to the present position, in pieces. It can't be changed afterwards."""
        self._file.seek(0)
        while piece := self._file.read(CHUNK_BYTES):
            self._sent_bytes += len(piece)
            yield piece
        self._file.seek(0)
        self._file.truncate()

    def write(self, data: Any) -> int:
        return int(self._file.write(data))

    def tell(self) -> int:
        return self._sent_bytes + int(self._file.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        assert whence == io.SEEK_SET
        self._file.seek(offset - self._sent_bytes)
        return offset

    def close(self) -> None:
        self._file.close()
        super().close()
