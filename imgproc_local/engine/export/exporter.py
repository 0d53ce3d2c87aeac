"""Makes archives of many images and sends them while they are made: only one file at a time is prepared.

Invariant: an archive that has its end contains every planned file with the content that the database names. Every file
is compared with its address before its first byte is sent; where one is missing or damaged, the archive is broken off.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

from msgspec import Struct

from imgproc_local.domain.errors import (
    ExportIncomplete,
    InvalidRequest,
    NotFound,
    ServiceStopping,
    StorageFailed,
    TooManyExports,
)
from imgproc_local.domain.export import MAX_IMAGES, ExportProblems, ExportRequest, MissingReason
from imgproc_local.engine.export.names import DATA_NAME, TABLE_NAME
from imgproc_local.engine.export.plan import ExportPlan, PlannedFile, make_plan, requested_files
from imgproc_local.engine.export.tables import Problem, WrittenFile, csv_table, json_data
from imgproc_local.engine.export.zip_records import Entry, ZipRecords, archive_size
from imgproc_local.storage.blobs import Blobs
from imgproc_local.storage.database import Database
from imgproc_local.storage.export_images import (
    ExportImage,
    finished_job_ids,
    job_ids_of_images,
    read_export_images,
)

log = logging.getLogger(__name__)

MAX_EXPORTS_PER_ACCOUNT = 2
RETRY_AFTER_S = 10
CHUNK_BYTES = 512 * 1024
TABLE_CHUNK_BYTES = 32 * 1024
"""Small, because the event loop makes the tables: this takes a few milliseconds."""

Send = Callable[[bytes], Awaitable[None]]
"""Sends a piece of the archive, and returns when the next one may follow."""


class ExportBroken(Exception):
    """The archive can't be completed. Its message says why; what was sent must not look complete."""


class PreparedFile(Struct, frozen=True):
    """A file that is open at its beginning, after it was read once."""

    file: IO[bytes]
    written: WrittenFile
    crc32: int


class Export:
    """One archive. Its files are not removed before `close`, which must be called.

    `size_bytes` is the size of the archive.
    """

    def __init__(self, plan: ExportPlan, size_bytes: int, blobs: Blobs, resources: AsyncExitStack) -> None:
        self.plan = plan
        self.size_bytes = size_bytes
        self._blobs = blobs
        self._resources = resources
        self._limit: asyncio.Timeout | None = None
        self._stopped_because: str | None = None

    async def write(self, send: Send) -> None:
        """Send the archive. Raises: ExportBroken."""
        try:
            async with asyncio.timeout(None) as self._limit:
                if self._stopped_because is not None:
                    raise TimeoutError
                await self._write(send)
        except TimeoutError:
            raise ExportBroken(self._stopped_because or "It was stopped.") from None
        except StorageFailed as error:
            raise ExportBroken(error.message) from error
        finally:
            self._limit = None

    def stop(self, reason: str) -> None:
        """Break `write` off, now or when it begins."""
        self._stopped_because = reason
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time())

    async def close(self) -> None:
        await self._resources.aclose()

    async def _write(self, send: Send) -> None:
        records = ZipRecords()
        written: dict[str, WrittenFile] = {}
        problems: list[Problem] = []
        files = [(planned, file) for planned in self.plan.images for file in planned.files]
        ahead = self._start(files[0][1]) if files else None
        try:
            for number, (planned, file) in enumerate(files):
                assert ahead is not None
                prepared = await asyncio.shield(ahead)
                ahead = self._start(files[number + 1][1]) if number + 1 < len(files) else None
                written[file.name] = prepared.written
                with prepared.file:
                    entry = Entry(file.name, prepared.written.size_bytes, prepared.crc32, planned.created_at)
                    await send(records.header(entry))
                    await _send_file(file, prepared, send)
        finally:
            if ahead is not None:
                (unsent,) = await asyncio.gather(ahead, return_exceptions=True)
                if isinstance(unsent, PreparedFile):
                    unsent.file.close()
        for name, pieces in _tables(self.plan, written, problems):
            await _send_pieces(records, name, pieces, self.plan.newest, send)
        await send(records.end())

    def _start(self, file: PlannedFile) -> asyncio.Task[PreparedFile]:
        return asyncio.create_task(asyncio.to_thread(_prepare, file, self._blobs.path(file.stored.sha256)))


class Exporter:
    """The exports of all accounts."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self._database = database
        self._blobs = blobs
        self._running: Counter[str] = Counter()
        self._exports: set[Export] = set()
        self._ended = False

    async def plan(self, account_id: str, request: ExportRequest) -> ExportPlan:
        """What an archive would contain. Raises: InvalidRequest, NotFound, TooManyExports, ServiceStopping."""
        with self._slot(account_id):
            return await self._plan(request, await self._images(account_id, request))

    async def open(self, account_id: str, request: ExportRequest) -> Export:
        """An archive to be sent, which the caller closes.

        Raises:
            InvalidRequest, NotFound: the request names too many images, or something that the account does not have.
            ExportIncomplete: texts or files are missing, and the request does not allow that.
            TooManyExports, ServiceStopping: try again later.
        """
        resources = AsyncExitStack()
        try:
            resources.enter_context(self._slot(account_id))
            images = await self._images(account_id, request)
            await resources.enter_async_context(self._blobs.leased(requested_files(request, images)))
            plan = await self._plan(request, images)
            require_complete(request, plan)
            export = Export(plan, await asyncio.to_thread(_archive_size, plan), self._blobs, resources)
        except BaseException:
            await resources.aclose()
            raise
        self._exports.add(export)
        resources.callback(self._exports.discard, export)
        return export

    def end(self) -> None:
        """Break off every export and refuse new ones: the service is stopping."""
        self._ended = True
        for export in self._exports:
            export.stop("The service is stopping.")

    @contextmanager
    def _slot(self, account_id: str) -> Iterator[None]:
        """One of the exports that an account may run at once."""
        if self._ended:
            raise ServiceStopping
        if self._running[account_id] >= MAX_EXPORTS_PER_ACCOUNT:
            raise TooManyExports(MAX_EXPORTS_PER_ACCOUNT, RETRY_AFTER_S)
        self._running[account_id] += 1
        try:
            yield
        finally:
            self._running[account_id] -= 1
            self._running = +self._running

    async def _images(self, account_id: str, request: ExportRequest) -> list[ExportImage]:
        """The requested images, in the order of the request, else oldest first."""
        if request.images is not None:
            wanted = list(dict.fromkeys(image_id.lower() for image_id in request.images))
            found = await job_ids_of_images(self._database, account_id, wanted)
            unknown = [image_id for image_id in wanted if image_id not in found]
            if unknown:
                others = f" and {len(unknown) - 1} other requested images" if len(unknown) > 1 else ""
                raise NotFound(f"No image {unknown[0]!r}{others} in this account.")
            job_ids = [found[image_id] for image_id in wanted]
        else:
            job_ids = await finished_job_ids(self._database, account_id, request.project_id, MAX_IMAGES + 1)
            if len(job_ids) > MAX_IMAGES:
                problem = f"An export may have at most {MAX_IMAGES} images; there are more. Send project_id or images."
                raise InvalidRequest({"images": [problem]})
        return await read_export_images(self._database, account_id, job_ids)

    async def _plan(self, request: ExportRequest, images: Sequence[ExportImage]) -> ExportPlan:
        files = requested_files(request, images)
        unusable = await asyncio.to_thread(self._find_unusable, files)
        return await asyncio.to_thread(make_plan, request, images, unusable)

    def _find_unusable(self, files: dict[str, int]) -> dict[str, MissingReason]:
        """The files that are missing or damaged. Reads those that have not been compared with their address."""
        unusable: dict[str, MissingReason] = {}
        for sha256, size_bytes in files.items():
            if self._ended:
                raise ServiceStopping
            damage = self._blobs.find_damage(sha256, size_bytes)
            if damage is not None:
                log.error("The file %s of an export is %s in the data folder", sha256, damage)
                unusable[sha256] = damage
        return unusable


def require_complete(request: ExportRequest, plan: ExportPlan) -> None:
    """Raises `ExportIncomplete` if texts or files are missing and the request does not allow that."""
    problems = ExportProblems(
        needs_text=() if request.allow_needs_text else plan.problems.needs_text,
        missing=() if request.allow_missing else plan.problems.missing,
    )
    if problems.needs_text or problems.missing:
        raise ExportIncomplete(problems)


Pieces = Callable[[], Iterator[bytes]]
"""Makes a file in pieces, the same ones at each call."""


def _tables(
    plan: ExportPlan, written: Mapping[str, WrittenFile], problems: Sequence[Problem]
) -> list[tuple[str, Pieces]]:
    return [
        (TABLE_NAME, lambda: csv_table(plan.images)),
        (DATA_NAME, lambda: json_data(plan.images, written, problems, plan.problems.missing)),
    ]


def _archive_size(plan: ExportPlan) -> int:
    """The size of the archive if no file is changed."""
    written = {file.name: WrittenFile(file.stored.size_bytes, file.stored.sha256) for file in plan.files}
    tables = [(name, sum(map(len, pieces()))) for name, pieces in _tables(plan, written, ())]
    return archive_size([*((file.name, file.stored.size_bytes) for file in plan.files), *tables])


def _prepare(file: PlannedFile, path: Path) -> PreparedFile:
    """The stored file, open and compared with its address. Raises: ExportBroken."""
    try:
        opened = path.open("rb")
    except OSError as error:
        raise ExportBroken(f"The file {file.stored.sha256} can't be opened ({error.strerror}).") from error
    try:
        written, crc32 = _read_through(opened)
        if written.sha256 != file.stored.sha256:
            raise ExportBroken(f"The file {file.stored.sha256} is damaged in the data folder.")
    except BaseException as error:
        opened.close()
        if isinstance(error, OSError):
            raise ExportBroken(f"The file {file.stored.sha256} can't be read ({error.strerror}).") from error
        raise
    return PreparedFile(opened, written, crc32)


def _read_through(file: IO[bytes]) -> tuple[WrittenFile, int]:
    """The size, SHA-256 and CRC-32 of a file, which is at its beginning before and after."""
    digest, crc32, size = hashlib.sha256(), 0, 0
    while chunk := file.read(CHUNK_BYTES):
        digest.update(chunk)
        crc32 = zlib.crc32(chunk, crc32)
        size += len(chunk)
    file.seek(0)
    return WrittenFile(size, digest.hexdigest()), crc32


async def _send_file(file: PlannedFile, prepared: PreparedFile, send: Send) -> None:
    """Send the content. Raises: ExportBroken, if it is not what `prepared` says."""
    left, crc32 = prepared.written.size_bytes, 0
    while left:
        try:
            chunk = await asyncio.to_thread(prepared.file.read, min(left, CHUNK_BYTES))
        except OSError as error:
            raise ExportBroken(f"The file {file.stored.sha256} can't be read ({error.strerror}).") from error
        crc32 = zlib.crc32(chunk, crc32)
        left -= len(chunk)
        if not chunk or (not left and crc32 != prepared.crc32):
            raise ExportBroken(f"The file {file.stored.sha256} was changed while it was exported.")
        await send(chunk)


async def _send_pieces(records: ZipRecords, name: str, pieces: Pieces, modified_at: datetime, send: Send) -> None:
    size_bytes, crc32 = await asyncio.to_thread(_measure, pieces())
    await send(records.header(Entry(name, size_bytes, crc32, modified_at)))
    collected = bytearray()
    for piece in pieces():
        collected += piece
        if len(collected) >= TABLE_CHUNK_BYTES:
            await send(bytes(collected))
            collected.clear()
    await send(bytes(collected))


def _measure(pieces: Iterator[bytes]) -> tuple[int, int]:
    """The size and the CRC-32 of all pieces together."""
    size_bytes, crc32 = 0, 0
    for piece in pieces:
        size_bytes += len(piece)
        crc32 = zlib.crc32(piece, crc32)
    return size_bytes, crc32
