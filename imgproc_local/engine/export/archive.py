"""Sends one archive while it is made: while a file is sent, only the next one is prepared.

Invariant: a complete archive contains every planned file, undamaged. Every stored file is compared with its SHA-256
before its first byte is sent; if one is missing or damaged, the archive is broken off before its end.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import threading
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import ServiceError, StorageFailed
from imgproc_local.engine.export.names import DATA_NAME, TABLE_NAME
from imgproc_local.engine.export.plan import ExportPlan, PlannedFile, PlannedImage
from imgproc_local.engine.export.tables import TextsFailure, WrittenFile, csv_table, json_data
from imgproc_local.engine.export.texts import TextsWork
from imgproc_local.engine.export.zip_records import Entry, ZipRecords, archive_size
from imgproc_local.engine.workers import WorkerError
from imgproc_local.storage.blobs import Blobs

log = logging.getLogger(__name__)

CHUNK_BYTES = 512 * 1024
TABLE_CHUNK_BYTES = 32 * 1024
"""Small, because the tables are made on the event loop: one chunk blocks it for a few milliseconds."""

WriteTexts = Callable[[TextsWork, threading.Event], Path]
"""Writes texts into a copy of a picture and returns its temporary file. Blocks; raises soon after the event is set.

Raises: ServiceError, WorkerError.
"""
Send = Callable[[bytes], Awaitable[None]]
"""Sends a piece of the archive, and returns when the next one may follow."""


class ExportBroken(Exception):
    """The archive can't be completed; the message says why. What was sent must not look complete to the client."""


class PreparedFile(Struct, frozen=True):
    """A file that was read once to compute `written` and `crc32`, and is open at its beginning.

    `close` deletes the file `temporary`. `texts_error` says why texts could not be written into the file.
    """

    file: IO[bytes]
    written: WrittenFile
    crc32: int
    temporary: Path | None = None
    texts_error: str | None = None

    def close(self) -> None:
        self.file.close()
        if self.temporary is not None:
            self.temporary.unlink(missing_ok=True)


class Export:
    """One archive. Its files stay leased until `close`, which must be called.

    `size_bytes` is the size of the archive; None if texts are written into files, which changes their sizes.
    """

    def __init__(
        self,
        plan: ExportPlan,
        size_bytes: int | None,
        blobs: Blobs,
        write_texts: WriteTexts,
        resources: AsyncExitStack,
    ) -> None:
        self.plan = plan
        self.size_bytes = size_bytes
        self._blobs = blobs
        self._write_texts = write_texts
        self._resources = resources
        self._cancelled = threading.Event()
        self._timeout: asyncio.Timeout | None = None
        self._stopped_because: str | None = None

    async def write(self, send: Send) -> None:
        """Send the archive. Raises: ExportBroken."""
        try:
            async with asyncio.timeout(None) as self._timeout:
                if self._stopped_because is not None:
                    raise TimeoutError
                await self._write(send)
        except TimeoutError:
            raise ExportBroken(self._stopped_because or "It was stopped.") from None
        except StorageFailed as error:
            raise ExportBroken(error.message) from error
        finally:
            self._timeout = None

    def stop(self, reason: str) -> None:
        """Break off the archive: now, or when `write` is called. The first call counts."""
        if self._stopped_because is not None:
            return
        self._stopped_because = reason
        if self._timeout is not None:
            self._timeout.reschedule(asyncio.get_running_loop().time())

    async def close(self) -> None:
        await self._resources.aclose()

    async def _write(self, send: Send) -> None:
        records = ZipRecords()
        written: dict[str, WrittenFile] = {}
        failures: list[TextsFailure] = []
        files = [(planned, file) for planned in self.plan.images for file in planned.files]
        ahead = self._start(*files[0]) if files else None
        try:
            for number, (planned, file) in enumerate(files):
                assert ahead is not None
                prepared = await asyncio.shield(ahead)
                try:
                    ahead = self._start(*files[number + 1]) if number + 1 < len(files) else None
                    written[file.name] = prepared.written
                    if prepared.texts_error is not None:
                        failures.append(TextsFailure(file.name, prepared.texts_error))
                    entry = Entry(file.name, prepared.written.size_bytes, prepared.crc32, planned.created_at)
                    await send(records.header(entry))
                    await _send_file(file, prepared, send)
                finally:
                    prepared.close()
        finally:
            self._cancelled.set()
            if ahead is not None:
                (unsent,) = await asyncio.gather(ahead, return_exceptions=True)
                if isinstance(unsent, PreparedFile):
                    unsent.close()
        for name, pieces in _tables(self.plan, written, failures):
            await _send_pieces(records, name, pieces, self.plan.newest_upload_at, send)
        await send(records.end())

    def _start(self, planned: PlannedImage, file: PlannedFile) -> asyncio.Task[PreparedFile]:
        """Start to prepare the file on a thread."""
        return asyncio.create_task(asyncio.to_thread(self._prepare, planned, file))

    def _prepare(self, planned: PlannedImage, file: PlannedFile) -> PreparedFile:
        """The file for the archive, with its texts. Raises: ExportBroken; ServiceError or WorkerError if cancelled."""
        path = self._blobs.path(file.stored.sha256)
        prepared = _open_stored(file, path)
        if not file.gets_texts:
            return prepared
        try:
            work = TextsWork(os.fsencode(path), file.stored.format, planned.image.job.translations)
            with_texts = self._write_texts(work, self._cancelled)
        except (ServiceError, WorkerError) as error:
            if self._cancelled.is_set():
                prepared.close()
                raise
            message = error.message if isinstance(error, ServiceError) else "An unexpected error; see the log."
            log.warning("No texts were written into the exported file %s: %s", file.stored.sha256, error)
            return msgspec.structs.replace(prepared, texts_error=message)
        prepared.close()
        return _open_temporary(with_texts)


Pieces = Callable[[], Iterator[bytes]]
"""Makes the content of a table in pieces. Every call makes the same ones."""


def _tables(
    plan: ExportPlan, written: Mapping[str, WrittenFile], failures: Sequence[TextsFailure]
) -> list[tuple[str, Pieces]]:
    return [
        (TABLE_NAME, lambda: csv_table(plan.images)),
        (DATA_NAME, lambda: json_data(plan.images, written, failures, plan.problems.missing)),
    ]


def size_of_archive(plan: ExportPlan) -> int:
    """The size of the archive if no texts are written into files."""
    written = {file.name: WrittenFile(file.stored.size_bytes, file.stored.sha256) for file in plan.files}
    tables = [(name, sum(map(len, pieces()))) for name, pieces in _tables(plan, written, ())]
    return archive_size([*((file.name, file.stored.size_bytes) for file in plan.files), *tables])


def _open_stored(file: PlannedFile, path: Path) -> PreparedFile:
    """The stored file, compared with its SHA-256. Raises: ExportBroken."""
    try:
        prepared = _open(path)
    except OSError as error:
        raise ExportBroken(f"The file {file.stored.sha256} can't be read ({error.strerror}).") from error
    if prepared.written.sha256 != file.stored.sha256:
        prepared.close()
        raise ExportBroken(f"The file {file.stored.sha256} is damaged in the data folder.")
    return prepared


def _open_temporary(path: Path) -> PreparedFile:
    """The file with texts, which `close` deletes. Raises: ExportBroken."""
    try:
        prepared = _open(path)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise ExportBroken(f"A file with texts can't be read ({error.strerror}).") from error
    written = msgspec.structs.replace(prepared.written, has_texts=True)
    return msgspec.structs.replace(prepared, written=written, temporary=path)


def _open(path: Path) -> PreparedFile:
    """The file at its beginning, after it was read once. Raises: OSError."""
    file = path.open("rb")
    try:
        written, crc32 = _read_through(file)
    except BaseException:
        file.close()
        raise
    return PreparedFile(file, written, crc32)


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
