"""Exports: ZIP files of results with their texts, made while they are sent. It is one long file, because what an
archive contains, the names and tables in it and its sending depend on each other.

What an archive contains is decided before its first byte is sent (`make_plan`). Each entry is made as a whole, in
memory or, above `_MAX_MEMORY_BYTES`, in a temporary file, and sent when it is complete: its header has its size and
CRC-32, because programs that unpack a stream, such as Java's and the local page, can't read a stored entry whose size
follows it.

Invariants: a complete archive contains every planned file, undamaged. Every stored file is compared with its SHA-256
before its first byte is sent; if one is missing or damaged, the archive is broken off before its end. Every system can
unpack the archive: a name can be created everywhere (`domain.filename`), and two names differ in more than the case or
the Unicode form of their letters.
"""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import logging
import re
import tempfile
import threading
import unicodedata
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import ZipFile, ZipInfo

import msgspec
from msgspec import Struct

from imgproc_local.domain import errors
from imgproc_local.domain.export import MAX_IMAGES, ExportFields, MissingFile, MissingReason, NeededText
from imgproc_local.domain.filename import download_name
from imgproc_local.domain.job import MADE_BY, VARIANTS, Job, SizedFile, StageName, StageState, StoredFile, Variant
from imgproc_local.domain.result import Note, Words
from imgproc_local.engine.results import TextsWork
from imgproc_local.engine.workers import WorkerError
from imgproc_local.storage.blobs import Blobs
from imgproc_local.storage.jobs import Jobs

log = logging.getLogger(__name__)

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Without it, Excel reads a table as text in the system's own encoding."""
_TEXT_COLUMNS = ("language", "seo_filename", "alt_text", "source", "needs_text")
_COLUMNS = ("file", "original_filename", *_TEXT_COLUMNS, "variant", "needs_text_reason", "folder")
_SHOPIFY_COLUMNS = ("URL handle", "Product image URL", "Image position", "Image alt text")
"""Source: Shopify Help Center, "Using CSV files to import and export products", the columns of July 2026."""
_FORMULA = re.compile(r"""(^|[;\t\r\n]"*)(?=[=+\-@＝＋－＠])|^(?=[\t\r\n])""")
"""Where a spreadsheet would find a formula: at the start of a cell, and inside it after a character that separates
cells or rows. If the list separator is `;`, as in German and French, Excel splits the line there, quoted or not.
Source: OWASP, "CSV Injection".
"""
_EARLIEST = datetime(1980, 1, 1, tzinfo=UTC)
"""The earliest time that a ZIP entry can have. Entries have no time zone; theirs is UTC."""
_CLOSED = "The connection was closed."
"""Why an archive was broken off whose client has left, or whose connection the stopping service has closed."""
_CHUNK_BYTES = 512 * 1024
_MAX_MEMORY_BYTES = 8 * 1024 * 1024

_FindDamage = Callable[[StoredFile], MissingReason | None]
_WriteTexts = Callable[[TextsWork, threading.Event], Path]
"""Writes texts into a copy of a picture and returns its temporary file. Blocks; raises soon after the event is set.

Raises: ServiceError, WorkerError.
"""


# ---- what an archive contains ----


class _PlannedFile(Struct, frozen=True):
    """A stored file and its name in the archive. `gets_texts` says whether texts or words are to be written into it."""

    name: str
    variant: Variant
    stored: StoredFile
    gets_texts: bool


class _PlannedImage(Struct, frozen=True):
    """The image of a job, and its files in the archive."""

    job: Job
    files: tuple[_PlannedFile, ...]

    @property
    def created_at(self) -> datetime:
        return max(datetime.fromisoformat(self.job.created_at), _EARLIEST)


class ExportPlan(Struct, frozen=True):
    """The content of one archive, and what is missing from it. The same request and data give the same plan.

    A plan in which something is missing can still be exported.
    """

    images: tuple[_PlannedImage, ...]
    needs_text: tuple[NeededText, ...]
    missing: tuple[MissingFile, ...]
    request: ExportFields

    @property
    def files(self) -> list[_PlannedFile]:
        return [file for image in self.images for file in image.files]

    @property
    def stored_bytes(self) -> int:
        """The size of all files as they are stored, without texts and tables."""
        return sum(file.stored.size_bytes for file in self.files)


def make_plan(request: ExportFields, jobs: Sequence[Job], find_damage: _FindDamage) -> ExportPlan:
    """The plan for the images of `jobs`, in their order. `find_damage` says whether a file is missing or damaged."""
    needs_text: list[NeededText] = []
    missing: list[MissingFile] = []
    chosen = [(job, _choose_files(job, request, find_damage, missing)) for job in jobs]
    exported = [job for job, files in chosen if files]
    has_projects, digits = len({job.project_name for job in exported}) > 1, len(str(len(exported)))
    names, number = _Names(), 0
    images = []
    for job, files in chosen:
        reasons = {text["language_code"]: text["needs_text_reason"] for text in _texts(job) if text["needs_text"]}
        if files and reasons:
            needs_text.append(NeededText(job.image_id, job.original_filename, tuple(reasons), reasons))
        number += bool(files)
        stem, endings = _stem(job, request, f"{number:0{digits}}"), _endings(files, request.variants)
        folders = [job.project_name] if has_projects else []
        folders += job.folder.split("/") if request.folders else []
        named = [
            (variant, stored, f"-{stored.width_px}{ending}" if isinstance(stored, SizedFile) else ending)
            for variant, ending in endings.items()
            for stored in job.files(variant)
        ]
        stem = names.add(folders, stem, [ending for *_, ending in named]) if files else stem
        # originals are exported as they were uploaded
        has_texts = any(text.belongs_in_files or text.long_description for text in job.translations)
        gets_texts = request.write_texts and (has_texts or job.words != Words())
        planned = (
            _PlannedFile(stem + ending, variant, stored, gets_texts and variant != "original")
            for variant, stored, ending in named
        )
        images.append(_PlannedImage(job, tuple(planned)))
    return ExportPlan(tuple(images), tuple(needs_text), tuple(missing), request)


def require_complete(request: ExportFields, plan: ExportPlan) -> None:
    """Raises `ExportIncomplete` if texts or files are missing and the request does not allow that."""
    needs_text = () if request.allow_needs_text else plan.needs_text
    missing = () if request.allow_missing else plan.missing
    if needs_text or missing:
        raise errors.ExportIncomplete(needs_text, missing)


def _requested_files(request: ExportFields, jobs: Iterable[Job]) -> dict[str, int]:
    """The sizes of the requested files by their SHA-256, without files that were removed because of their age."""
    files = [file for job in jobs for variant in _variants(job, request) for file in job.files(variant)]
    return {file.sha256: file.size_bytes for file in files if not file.expired}


def _choose_files(
    job: Job, request: ExportFields, find_damage: _FindDamage, missing: list[MissingFile]
) -> dict[Variant, StoredFile]:
    """The files of `job` for the archive, by variant. Those that are missing from it are added to `missing`."""
    reasons = {variant: _reason(job, variant, find_damage) for variant in _variants(job, request)}
    files = {variant: file for variant, reason in reasons.items() if not reason and (file := job.file(variant))}
    missing.extend(
        MissingFile(job.image_id, job.original_filename, variant, reason)
        for variant, reason in reasons.items()
        # a job of one operation lacks the other results on purpose; a requested image without any file is reported
        if reason and (reason != "not_requested" or not (files or request.images is None))
    )
    return files


def _reason(job: Job, variant: Variant, find_damage: _FindDamage) -> MissingReason | None:
    """Why a file of `job` can't be exported; None if it can."""
    if files := job.files(variant):
        return "removed" if files[0].expired else next(filter(None, map(find_damage, files)), None)
    state = _states(job).get(variant)
    return "not_requested" if state is None else "failed" if state is StageState.FAILED else "unfinished"


def _variants(job: Job, request: ExportFields) -> list[Variant]:
    """The variants of `job` that the request asks for. `best` is resolved to one of them.

    It is the smaller of the job's results. One that is not finished is preferred, so that it is reported as missing.
    """
    wanted = set(request.variants)
    if "best" in wanted:
        states = _states(job)
        made = [variant for variant in states if states[variant] is not StageState.FAILED]
        candidates: list[Variant] = made or list(states) or ["optimized"]
        best: Variant = min(candidates, key=lambda variant: file.size_bytes if (file := job.file(variant)) else 0)
        wanted.add(best)
    return [variant for variant in VARIANTS if variant in wanted]


def _states(job: Job) -> dict[Variant, StageState]:
    """The states of the stages that make files, by the variant that they make; without one that was not to be kept."""
    states = {stage.name: stage.state for stage in job.stages if Note.NOT_SMALLER not in stage.notes}
    return {variant: states[name] for variant, name in MADE_BY.items() if name in states}


# ---- names ----


class _Names:
    """The names that are used in one archive. Each folder has another name than its neighbours and the files there."""

    def __init__(self) -> None:
        self._used = {"alt.csv", "alt.json", "shopify.csv"}
        self._last_number: dict[str, int] = {}
        self._folders: dict[tuple[str, ...], str] = {(): ""}

    def add(self, folders: Sequence[str], stem: str, endings: Iterable[str]) -> str:
        """The common stem of the names of one image's files, which differ in their endings, in its folder.

        If one of the names is taken by another image, `-2`, `-3` … is added to the stem.
        """
        stem = download_name(_cut(stem, 120), ".x").removesuffix(".x")
        return self._numbered(self._folder(tuple(filter(None, folders))) + stem, list(endings))

    def _folder(self, path: tuple[str, ...]) -> str:
        if path not in self._folders:
            # names are shorter than file systems allow: Windows limits a whole path to 259 characters
            name = download_name(_cut(path[-1], 60).rstrip(". "), "")
            self._folders[path] = self._numbered(self._folder(path[:-1]) + name, [""]) + "/"
        return self._folders[path]

    def _numbered(self, stem: str, endings: Sequence[str]) -> str:
        """`stem`, numbered if it is taken with one of `endings`. Marks the resulting names as used."""
        key = _comparable(stem)
        number = self._last_number.get(key, 0)
        while True:
            number += 1
            candidate = stem if number == 1 else f"{stem}-{number}"
            names = {_comparable(candidate + ending) for ending in endings}
            if not names & self._used:
                self._used |= names
                self._last_number[key] = number
                return candidate


def _endings(files: Mapping[Variant, StoredFile], requested: Sequence[str]) -> dict[Variant, str]:
    """What follows the stem: `.jpg`, or `-converted.jpg` for a second file with the same extension.

    The names of originals end in `-original` if results were requested, too.
    """
    from imgproc_local.codecs.picture.formats import FORMATS

    endings: dict[Variant, str] = {}
    for variant, stored in files.items():
        plain = f".{FORMATS[stored.format].extensions[0]}"
        is_marked = plain in endings.values() or (variant == "original" and set(requested) != {"original"})
        endings[variant] = f"-{variant}{plain}" if is_marked else plain
    return endings


def _seo_filename(job: Job, language: str | None) -> str:
    """The file name in `language`, else in the first language that has one; "" if none has."""
    names = {text.language_code: text.seo_filename for text in job.translations if text.seo_filename}
    return names.get(language or "") or next(iter(names.values()), "")


def _stem(job: Job, request: ExportFields, number: str) -> str:
    """The stem of the names of an image's files, by the template. Without a file name, its words are the name of the
    uploaded file.
    """
    original = PurePosixPath(job.original_filename).stem
    words = _seo_filename(job, request.language) or original
    parts = {"words": words, "date": (job.info.taken_at or job.created_at)[:10], "n": number, "original": original}
    return re.sub(r"{(\w+)}", lambda part: parts[part[1]], request.name_template)


def _comparable(name: str) -> str:
    """The same for all names that some file system does not distinguish."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _cut(text: str, max_bytes: int) -> str:
    return text.encode()[:max_bytes].decode("utf-8", "ignore")


# ---- tables: `alt.csv` is for spreadsheets, `alt.json` for programs ----


def _texts(job: Job) -> list[dict[str, Any]]:
    """The text in each requested language. If it was not written, the source is None.

    An alt text that a person has to write is empty.
    """
    texts = {text.language_code: text for text in job.translations}
    has_analysis = any(stage.name is StageName.ANALYZE for stage in job.stages)
    described = [(code, texts.get(code)) for code in (job.languages if has_analysis else ())]
    return [
        {
            "language_code": code,
            "seo_filename": text.seo_filename if text else "",
            "seo_alt_text": text.seo_alt_text if text and not text.needs_text else "",
            "source": text.source if text else None,
            "needs_text": text.needs_text if text else True,
            "needs_text_reason": text.needs_text_reason if text else None,
            "long_description": text.long_description if text else "",
        }
        for code, text in described
    ]


def csv_table(images: Iterable[_PlannedImage]) -> Iterator[bytes]:
    """One row per file and language, in pieces.

    If no texts were requested for an image, each of its files has one row whose cells for texts are empty.
    """
    yield csv_bytes((), _COLUMNS)
    for planned in images:
        texts = [
            (*words, source or "", str(needs_text).lower(), reason or "")
            for *words, source, needs_text, reason, _ in (text.values() for text in _texts(planned.job))
        ]
        yield csv_bytes(
            (file.name, planned.job.original_filename, *cells, file.variant, reason, planned.job.folder)
            for file in planned.files
            for *cells, reason in texts or [("",) * (len(_TEXT_COLUMNS) + 1)]
        )


def _shopify_table(plan: ExportPlan) -> Iterator[bytes]:
    """One row per image, with its first file and its alt text in the requested language, or in its first one if none is
    requested. The handle is the file name that the files have by default.
    """
    yield csv_bytes([_SHOPIFY_COLUMNS])
    language = plan.request.language
    for planned in plan.images:
        text = next((each for each in _texts(planned.job) if language in (None, each["language_code"])), {})
        handle, alt_text = _seo_filename(planned.job, language), text.get("seo_alt_text", "")
        yield csv_bytes((handle, file.name, "1", alt_text) for file in planned.files[:1])


def _json_table(
    plan: ExportPlan, exported: Sequence[Sequence[Mapping[str, Any]]], failures: Sequence[Mapping[str, str]]
) -> Iterator[bytes]:
    """The images with their `exported` files and texts, the `failures` to write texts, and what is missing: an object
    of JSON in pieces.
    """
    yield b'{"images": ['
    for number, (planned, files) in enumerate(zip(plan.images, exported, strict=True)):
        image = {
            "image_id": planned.job.image_id,
            "job_id": planned.job.id,
            "original_filename": planned.job.original_filename,
            "project": planned.job.project_name,
            "folder": planned.job.folder,
            "created_at": planned.job.created_at,
            "words": planned.job.words,
            "files": files,
            "translations": _texts(planned.job),
        }
        yield (b",\n" if number else b"\n") + msgspec.json.encode(image)
    yield b'\n],\n"problems": ' + msgspec.json.encode(failures)
    yield b',\n"missing": ' + msgspec.json.encode(plan.missing) + b"}\n"


def csv_bytes(rows: Iterable[Sequence[str]], columns: Sequence[str] = ()) -> bytes:
    """The rows in the format of RFC 4180; with `columns`, after a byte order mark and these names.

    Each part of a cell that a spreadsheet would evaluate as a formula is preceded by an apostrophe.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    if columns:
        writer.writerow(columns)
    writer.writerows([_FORMULA.sub(r"\1'", cell) for cell in row] for row in rows)
    content = text.getvalue().encode("utf-8", "backslashreplace")  # a path need not be text
    return _BYTE_ORDER_MARK + content if columns else content


# ---- one archive ----


class ExportBroken(Exception):
    """The archive can't be completed; the message says why. What was sent must not look complete to the client."""


class Export:
    """One archive. Its files stay leased until `close`, which must be called and closes the `resources`."""

    def __init__(self, plan: ExportPlan, resources: AsyncExitStack, blobs: Blobs, write_texts: _WriteTexts) -> None:
        self.plan = plan
        self.close = resources.aclose
        self._blobs = blobs
        self._write_texts = write_texts
        self._cancelled = threading.Event()
        self._failures: list[dict[str, str]] = []
        """Why texts were not written into a file, by its name."""

    async def write(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Send the archive; while a piece is sent, the next one is made. Raises: ExportBroken, what `send` raises.

        `send` returns when the next piece may follow. After `stop`, no further piece is sent.
        """
        pieces = self._pieces()
        ahead = _next_of(pieces)
        try:
            while piece := await asyncio.shield(ahead):
                if self._cancelled.is_set():
                    raise ExportBroken(_CLOSED)
                ahead = _next_of(pieces)
                await send(piece)
        finally:
            self._cancelled.set()
            await asyncio.gather(ahead, return_exceptions=True)
            await asyncio.to_thread(pieces.close)

    def stop(self) -> None:
        """Break the archive off soon, also where texts are being written: its connection was closed."""
        self._cancelled.set()

    def _pieces(self) -> Generator[bytes]:
        """The archive in pieces. Runs on threads, one after the other. Raises: ExportBroken."""
        images = self.plan.images
        newest = max((planned.created_at for planned in images), default=_EARLIEST)
        exported: list[list[dict[str, Any]]] = []
        try:
            folder = str(self._blobs.incoming_folder)
            with _Window(_MAX_MEMORY_BYTES, dir=folder) as window, ZipFile(window, "w") as archive:
                for planned in images:
                    exported.append([])
                    for file in planned.files:
                        exported[-1].append(self._add(archive, planned, file))
                        yield from window.complete()
                tables = {"alt.csv": csv_table(images), "alt.json": _json_table(self.plan, exported, self._failures)}
                tables |= {f"{shop}.csv": _shopify_table(self.plan) for shop in self.plan.request.tables}
                for name, content in tables.items():
                    with archive.open(_entry(name, newest), "w") as entry:
                        entry.writelines(content)
                    yield from window.complete()
                archive.close()
                yield from window.complete()
        except OSError as error:
            raise ExportBroken(f"It can't be made ({error.strerror}).") from error

    def _add(self, archive: ZipFile, planned: _PlannedImage, file: _PlannedFile) -> dict[str, Any]:
        """Add a file, with its texts if it gets some and they can be written.

        Returns what `alt.json` says about the file.
        """
        sha256 = file.stored.sha256
        with_texts = self._with_texts(planned, file) if file.gets_texts else None
        path = with_texts or self._blobs.path(sha256)
        digest = hashlib.sha256()
        try:
            size_bytes = path.stat().st_size
            entry = _entry(file.name, planned.created_at, size_bytes)
            with path.open("rb") as source, archive.open(entry, "w") as target:
                while chunk := source.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    target.write(chunk)
        except OSError as error:
            raise ExportBroken(f"The file {sha256} can't be exported ({error.strerror}).") from error
        finally:
            if with_texts is not None:
                with_texts.unlink(missing_ok=True)
        if with_texts is None and digest.hexdigest() != sha256:
            raise ExportBroken(f"The file {sha256} is damaged in the data folder.")
        return {
            "file": file.name,
            "variant": file.variant,
            "width": file.stored.width_px if isinstance(file.stored, SizedFile) else None,
            "format": file.stored.format,
            "size": size_bytes,
            "sha256": digest.hexdigest(),
            "texts_written": with_texts is not None,
        }

    def _with_texts(self, planned: _PlannedImage, file: _PlannedFile) -> Path | None:
        """A temporary file with the texts, None if they can't be written. Raises: ExportBroken."""
        stored = file.stored
        damage = self._blobs.find_damage(stored)
        if damage is not None:
            raise ExportBroken(f"The file {stored.sha256} is {damage} in the data folder.")
        path, job = self._blobs.path(stored.sha256), planned.job
        work = TextsWork(path, stored.format, job.translations, words=job.words)
        try:
            return self._write_texts(work, self._cancelled)
        except (errors.ServiceError, WorkerError) as error:
            if self._cancelled.is_set():
                raise ExportBroken(_CLOSED) from error
            log.warning("No texts were written into the exported file %s: %s", stored.sha256, error)
            message = error.message if isinstance(error, errors.ServiceError) else "An unexpected error; see the log."
            self._failures.append({"file": file.name, "message": message})
            return None


def _next_of(pieces: Iterator[bytes]) -> asyncio.Task[bytes]:
    """Make the next piece on a thread; b"" after the last one."""
    return asyncio.create_task(asyncio.to_thread(next, pieces, b""))


def _entry(name: str, at: datetime, size_bytes: int = 0) -> ZipInfo:
    entry = ZipInfo(name, at.timetuple()[:6])
    entry.external_attr = 0o100644 << 16  # a regular file that everybody may read
    entry.file_size = size_bytes  # zipfile makes room for a ZIP64 record if it is large
    return entry


class _Window(tempfile.SpooledTemporaryFile[bytes]):
    """The end of the archive, in which `ZipFile` can seek: what was not sent yet."""

    _sent_bytes = 0

    def complete(self) -> Iterator[bytes]:
        """Everything up to the present position, in pieces. It can't be changed afterwards."""
        super().seek(0)
        while piece := self.read(_CHUNK_BYTES):
            self._sent_bytes += len(piece)
            yield piece
        super().seek(0)
        self.truncate()

    def tell(self) -> int:
        return self._sent_bytes + super().tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        assert whence == io.SEEK_SET
        super().seek(offset - self._sent_bytes)
        return offset


# ---- all archives ----


class Exporter:
    """The exports of all accounts."""

    def __init__(self, jobs: Jobs, blobs: Blobs, write_texts: _WriteTexts) -> None:
        self._jobs = jobs
        self._blobs = blobs
        self._write_texts = write_texts
        self._planning = asyncio.Semaphore(2)  # of all accounts: a call of `plan` may read every file of its plan
        self.running: Counter[str] = Counter()
        """The number of open exports by account."""
        self._ended = False

    async def plan(self, account_id: str, request: ExportFields) -> ExportPlan:
        """What an archive would contain. Raises: InvalidRequest, NotFound, ServiceStopping."""
        async with self._planning:
            return await self._plan(request, await self._requested_jobs(account_id, request))

    def require_room(self, account_id: str) -> None:
        """Check that `open` would start an export now. Raises: TooManyExports, ServiceStopping."""
        most_per_account = 2
        if self._ended:
            raise errors.ServiceStopping
        if self.running[account_id] >= most_per_account:
            raise errors.TooManyExports(most_per_account)

    async def open(self, account_id: str, request: ExportFields) -> Export:
        """An archive to be sent, which the caller closes.

        Raises:
            InvalidRequest, NotFound: the request names too many images, or something that the account does not have.
            ExportIncomplete: texts or files are missing, and the request does not allow that.
            TooManyExports, ServiceStopping: try again later.
        """
        self.require_room(account_id)
        async with AsyncExitStack() as resources:
            self.running[account_id] += 1
            resources.callback(self.running.subtract, [account_id])
            leased: dict[str, int] = {}
            for _ in range(5):  # a result may be replaced between reading the jobs and leasing its file
                jobs = await self._requested_jobs(account_id, request)
                if (wanted := _requested_files(request, jobs)) == leased:
                    break
                await resources.enter_async_context(self._blobs.leased(wanted))
                leased = wanted
            plan = await self._plan(request, jobs)
            require_complete(request, plan)
            return Export(plan, resources.pop_all(), self._blobs, self._write_texts)

    def end(self) -> None:
        """Refuse new exports: the service is stopping. Those that are sent end when the server closes connections."""
        self._ended = True

    async def _requested_jobs(self, account_id: str, request: ExportFields) -> list[Job]:
        """The jobs of the requested images, in the order of the request, else oldest first."""
        if request.images is not None:
            wanted = list(dict.fromkeys(image_id.lower() for image_id in request.images))
            found = await self._jobs.ids_of_images(wanted, account_id)
            unknown = [image_id for image_id in wanted if image_id not in found]
            if unknown:
                others = f" (and {len(unknown) - 1} more of the requested ones)" if len(unknown) > 1 else ""
                raise errors.NotFound(f"No image {unknown[0]!r}{others} in this account.")
            return await self._jobs.several([found[image_id] for image_id in wanted], account_id)
        project_id = None if request.project_id is None else request.project_id.lower()
        if project_id is not None:
            try:
                await self._jobs.require_project(account_id, project_id)
            except errors.InvalidRequest as error:
                raise errors.NotFound(error.message) from error
        job_ids = await self._jobs.finished_ids(account_id, project_id, MAX_IMAGES + 1)
        if len(job_ids) > MAX_IMAGES:
            problem = f"An export may have at most {MAX_IMAGES} images; there are more. Send project_id or images."
            raise errors.InvalidRequest({"images": [problem]})
        return await self._jobs.several(job_ids, account_id)

    async def _plan(self, request: ExportFields, jobs: Sequence[Job]) -> ExportPlan:
        return await asyncio.to_thread(make_plan, request, jobs, self._find_damage)

    def _find_damage(self, stored: StoredFile) -> MissingReason | None:
        """Whether a file is missing or damaged. Reads it unless it was compared with its SHA-256 before."""
        if self._ended:
            raise errors.ServiceStopping
        damage = self._blobs.find_damage(stored)
        if damage is not None:
            log.error("The file %s of an export is %s in the data folder", stored.sha256, damage)
        return damage
