"""Makes one archive while it is sent, with the tables of its images and texts.

Each entry is made as a whole, in memory or, above `MAX_MEMORY_BYTES`, in a temporary file, and sent when it is
complete: its header has its size and CRC-32, because programs that unpack a stream, such as Java's and the local page,
can't read a stored entry whose size follows it.

Invariant: a complete archive contains every planned file, undamaged. Every stored file is compared with its SHA-256
before its first byte is sent; if one is missing or damaged, the archive is broken off before its end.
"""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import logging
import os
import re
import tempfile
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import ServiceError
from imgproc_local.domain.export import MissingFile, Variant
from imgproc_local.domain.image import Format
from imgproc_local.domain.job import Job
from imgproc_local.domain.result import TextSource
from imgproc_local.engine.export_plan import (
    DATA_NAME,
    EARLIEST,
    TABLE_NAME,
    ExportPlan,
    PlannedFile,
    PlannedImage,
    requested_languages,
)
from imgproc_local.engine.results import TextsWork
from imgproc_local.engine.workers import WorkerError
from imgproc_local.storage.blobs import Blobs

log = logging.getLogger(__name__)

CHUNK_BYTES = 512 * 1024
MAX_MEMORY_BYTES = 8 * 1024 * 1024
"""A larger entry is in a temporary file until it is sent."""
REGULAR_FILE_0644 = 0o100644 << 16
MADE_BY_UNIX = 3
"""The system whose file attributes the archive has. Programs on other systems ignore the attributes."""

COLUMNS = ("file", "original_filename", "language", "seo_filename", "alt_text", "source", "needs_text", "variant")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Without it, Excel reads a table as text in the system's own encoding."""
_FORMULA = re.compile(r"""(^|[;\t\r\n]"*)(?=[=+\-@＝＋－＠])|^(?=[\t\r\n])""")
"""Where a spreadsheet would find a formula: at the start of a cell, and inside it after a character that separates
cells or rows. If the list separator is `;`, as in German and French, Excel splits the line there, quoted or not.
Source: OWASP, "CSV Injection".
"""

WriteTexts = Callable[[TextsWork, threading.Event], Path]
"""Writes texts into a copy of a picture and returns its temporary file. Blocks; raises soon after the event is set.

Raises: ServiceError, WorkerError.
"""
Send = Callable[[bytes], Awaitable[None]]
"""Sends a piece of the archive, and returns when the next one may follow."""


class ExportBroken(Exception):
    """The archive can't be completed; the message says why. What was sent must not look complete to the client."""


class Export:
    """One archive. Its files stay leased until `close`, which must be called."""

    def __init__(self, plan: ExportPlan, blobs: Blobs, write_texts: WriteTexts, resources: AsyncExitStack) -> None:
        self.plan = plan
        self._blobs = blobs
        self._write_texts = write_texts
        self._resources = resources
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
        await self._resources.aclose()

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
                    entry.writelines(_json_data(images, exported, failures, self.plan.problems.missing))
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


# ---- tables ----
#
# `alt.csv` is for spreadsheets, `alt.json` for programs. In both, the alt text is empty if its source is `pixels`: such
# a text says nothing about the content, so a person has to write one.


class ExportedFile(Struct, frozen=True):
    """A file as it is in the archive. `texts_written` says that alt texts were written into it."""

    file: str
    variant: Variant
    format: Format
    size: int
    sha256: str
    texts_written: bool


class TextsFailure(Struct, frozen=True):
    """A file that was exported without its texts, and why they could not be written."""

    file: str
    message: str


class ExportedText(Struct, frozen=True):
    """The text of an image in a requested language. If it was not written, the source is None."""

    language_code: str
    seo_filename: str = ""
    seo_alt_text: str = ""
    source: TextSource | None = None
    needs_text: bool = True


def csv_table(images: Sequence[PlannedImage]) -> Iterator[bytes]:
    """One row per file and language, in the format of RFC 4180. Formulas are escaped.

    If no texts were requested for an image, each of its files has one row whose cells for texts are empty.
    """
    yield BYTE_ORDER_MARK + _csv_rows([COLUMNS])
    for planned in images:
        texts = [
            (text.language_code, text.seo_filename, text.seo_alt_text, text.source or "", str(text.needs_text).lower())
            for text in _texts(planned.job)
        ]
        yield _csv_rows(
            [
                (file.name, planned.job.original_filename, *cells, file.variant)
                for file in planned.files
                for cells in texts or [("",) * 5]
            ]
        )


def _json_data(
    images: Sequence[PlannedImage],
    exported: Sequence[Sequence[ExportedFile]],
    failures: Sequence[TextsFailure],
    missing: Sequence[MissingFile],
) -> Iterator[bytes]:
    """The images with their `exported` files and texts."""
    yield b'{"images": ['
    for number, (planned, files) in enumerate(zip(images, exported, strict=True)):
        job = planned.job
        image = {
            "image_id": job.image_id,
            "job_id": job.id,
            "original_filename": job.original_filename,
            "project": planned.project,
            "created_at": job.created_at,
            "files": files,
            "translations": _texts(job),
        }
        yield (b",\n" if number else b"\n") + msgspec.json.encode(image)
    yield b'\n],\n"problems": ' + msgspec.json.encode(failures)
    yield b',\n"missing": ' + msgspec.json.encode(missing) + b"}\n"


def _texts(job: Job) -> list[ExportedText]:
    """The texts in the requested languages."""
    texts = {
        text.language_code: ExportedText(
            text.language_code,
            text.seo_filename,
            "" if text.needs_text else text.seo_alt_text,
            text.source,
            text.needs_text,
        )
        for text in job.translations
    }
    return [texts.get(code, ExportedText(code)) for code in requested_languages(job)]


def _csv_rows(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([escape_formula(cell) for cell in row] for row in rows)
    return text.getvalue().encode()


def escape_formula(cell: str) -> str:
    """The cell, with an apostrophe before each part that a spreadsheet would evaluate as a formula."""
    return _FORMULA.sub(r"\1'", cell)
