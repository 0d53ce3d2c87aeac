"""What an archive contains, decided before its first byte is sent: files and their names. And its tables.

Invariant: every system can unpack the archive. A name can be created everywhere (`domain.filename`), and two names
differ in more than the case or the Unicode form of their letters.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath

import msgspec
from msgspec import Struct

from imgproc_local.domain.export import (
    VARIANTS,
    ExportFields,
    ExportProblems,
    MissingFile,
    MissingReason,
    NeededText,
    Variant,
)
from imgproc_local.domain.filename import download_name
from imgproc_local.domain.image import Format
from imgproc_local.domain.job import Job, StageName, StageState, StoredFile
from imgproc_local.domain.result import TextSource

TABLE_NAME, DATA_NAME = "alt.csv", "alt.json"
"""The files at the top of an archive that list its images and their texts."""
MAX_STEM_BYTES = 120
MAX_FOLDER_BYTES = 60
"""Shorter than file systems allow, because Windows limits the length of a whole path to 259 characters."""
EARLIEST, LATEST = datetime(1980, 1, 1, tzinfo=UTC), datetime(2107, 12, 31, 23, 59, 58, tzinfo=UTC)
"""The earliest and latest time that a ZIP entry can have. Entries have no time zone; theirs is UTC."""

STAGE_OF_VARIANT: dict[Variant, StageName] = {"optimized": StageName.OPTIMIZE, "converted": StageName.CONVERT}


COLUMNS = ("file", "original_filename", "language", "seo_filename", "alt_text", "source", "needs_text", "variant")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Without it, Excel reads a table as text in the system's own encoding."""
_FORMULA = re.compile(r"""(^|[;\t\r\n]"*)(?=[=+\-@＝＋－＠])|^(?=[\t\r\n])""")
"""Where a spreadsheet would find a formula: at the start of a cell, and inside it after a character that separates
cells or rows. If the list separator is `;`, as in German and French, Excel splits the line there, quoted or not.
Source: OWASP, "CSV Injection".
"""


class PlannedFile(Struct, frozen=True):
    """A stored file and its name in the archive. `gets_texts` says whether alt texts are to be written into it."""

    name: str
    variant: Variant
    stored: StoredFile
    gets_texts: bool


class PlannedImage(Struct, frozen=True):
    """The image of a job, and its files in the archive."""

    job: Job
    files: tuple[PlannedFile, ...]

    @property
    def project(self) -> str:
        return _project(self.job)

    @property
    def created_at(self) -> datetime:
        return min(max(datetime.fromisoformat(self.job.created_at), EARLIEST), LATEST)


class ExportPlan(Struct, frozen=True):
    """The content of one archive, and what is missing from it. The same request and data give the same plan.

    A plan that has `problems` can still be exported.
    """

    images: tuple[PlannedImage, ...] = ()
    problems: ExportProblems = ExportProblems()

    @property
    def files(self) -> list[PlannedFile]:
        return [file for image in self.images for file in image.files]

    @property
    def stored_bytes(self) -> int:
        """The size of all files as they are stored, without texts and tables."""
        return sum(file.stored.size_bytes for file in self.files)


def make_plan(request: ExportFields, jobs: Sequence[Job], unusable: Mapping[str, MissingReason]) -> ExportPlan:
    """The plan for the images of `jobs`, in their order. `unusable` has missing and damaged files, by their SHA-256."""
    chosen = [(job, *_choose_files(job, request, unusable)) for job in jobs]
    names = ArchiveNames(
        [_project(job) for job, files, _ in chosen if files],
        mark_originals=any(variant != "original" for variant in request.variants),
    )
    needs_text = [
        NeededText(job.image_id, job.original_filename, languages)
        for job, files, _ in chosen
        if files and (languages := _languages_needing_text(job))
    ]
    return ExportPlan(
        images=tuple(PlannedImage(job, _named_files(names, job, files, request)) for job, files, _ in chosen),
        problems=ExportProblems(tuple(needs_text), tuple(file for _, _, missing in chosen for file in missing)),
    )


def requested_files(request: ExportFields, jobs: Sequence[Job]) -> dict[str, int]:
    """The sizes of the requested files by their SHA-256, without files that were removed because of their age."""
    return {
        stored.sha256: stored.size_bytes
        for job in jobs
        for variant in _variants(job, request)
        if (stored := _stored_file(job, variant)) is not None and not stored.expired
    }


def requested_languages(job: Job) -> tuple[str, ...]:
    """The languages of an image; none if no texts were requested for it."""
    assert job.details is not None
    has_analysis = any(stage.name is StageName.ANALYZE for stage in job.stages)
    return job.details.languages if has_analysis else ()


def _project(job: Job) -> str:
    assert job.details is not None
    return job.details.project_name


def _choose_files(
    job: Job, request: ExportFields, unusable: Mapping[str, MissingReason]
) -> tuple[dict[Variant, StoredFile], list[MissingFile]]:
    """The files of `job` for the archive, by variant, and those that are missing from it."""
    files: dict[Variant, StoredFile] = {}
    missing: list[MissingFile] = []
    for variant in _variants(job, request):
        stored = _stored_file(job, variant)
        reason = _missing_reason(job, variant, stored, unusable)
        if reason is not None:
            missing.append(MissingFile(job.image_id, job.original_filename, variant, reason))
        elif stored is not None:
            files[variant] = stored
    # a job of one operation lacks the other results on purpose; a requested image without any file is reported
    if files or request.images is None:
        missing = [file for file in missing if file.reason != "not_requested"]
    return files, missing


def _variants(job: Job, request: ExportFields) -> list[Variant]:
    """The variants of `job` that the request asks for. `best` is resolved to one of them."""
    wanted = set(request.variants)
    if "best" in wanted:
        wanted.add(_best_variant(job))
    return [variant for variant in VARIANTS if variant in wanted]


def _best_variant(job: Job) -> Variant:
    """The smaller of the job's results. One that is not finished is preferred, so that it is reported as missing."""
    states = {stage.name: stage.state for stage in job.stages}
    requested = [variant for variant, stage in STAGE_OF_VARIANT.items() if stage in states]
    not_failed = [variant for variant in requested if states[STAGE_OF_VARIANT[variant]] is not StageState.FAILED]

    def size_bytes(variant: Variant) -> int:
        stored = _stored_file(job, variant)
        return 0 if stored is None else stored.size_bytes

    return min(not_failed or requested or ["optimized"], key=size_bytes)


def _stored_file(job: Job, variant: Variant) -> StoredFile | None:
    return {"optimized": job.optimized, "converted": job.converted, "original": job.original}[variant]


def _missing_reason(
    job: Job, variant: Variant, stored: StoredFile | None, unusable: Mapping[str, MissingReason]
) -> MissingReason | None:
    """Why a file of `job` can't be exported; None if it can."""
    if stored is not None:
        return "removed" if stored.expired else unusable.get(stored.sha256)
    state = next((stage.state for stage in job.stages if stage.name is STAGE_OF_VARIANT[variant]), None)
    if state is None:
        return "not_requested"
    return "failed" if state is StageState.FAILED else "unfinished"


def _named_files(
    names: ArchiveNames, job: Job, files: Mapping[Variant, StoredFile], request: ExportFields
) -> tuple[PlannedFile, ...]:
    from imgproc_local.codecs.picture.formats import FORMATS

    if not files:
        return ()
    extensions = {variant: FORMATS[stored.format].extensions[0] for variant, stored in files.items()}
    named = names.add(_project(job), stem_of(job, request.language), extensions)
    gets_texts = request.write_texts and any(text.belongs_in_files for text in job.translations)
    return tuple(
        # originals are exported as they were uploaded
        PlannedFile(named[variant], variant, stored, gets_texts and variant != "original")
        for variant, stored in files.items()
    )


def _languages_needing_text(job: Job) -> tuple[str, ...]:
    """The requested languages that have no text, or one that says nothing about the content."""
    complete = {text.language_code for text in job.translations if not text.needs_text}
    return tuple(language for language in requested_languages(job) if language not in complete)


# ---- names ----


class ArchiveNames:
    """The names that are used in one archive. If there are several projects, each has a folder of its own.

    With `mark_originals`, the names of originals end in `-original`, because the archive has results too.
    """

    def __init__(self, projects: Sequence[str], *, mark_originals: bool) -> None:
        self._mark_originals = mark_originals
        self._used = {_comparable(TABLE_NAME), _comparable(DATA_NAME)}
        self._last_number: dict[str, int] = {}
        self._folders: dict[str, str] = {}
        if len(set(projects)) > 1:
            for project in dict.fromkeys(projects):
                folder = download_name(_cut(project, MAX_FOLDER_BYTES).rstrip(". "), "")
                self._folders[project] = self._numbered(folder, ("",)) + "/"

    def add(self, project: str, stem: str, extensions: Mapping[Variant, str]) -> dict[Variant, str]:
        """The names of the files of one image, which differ only in what follows the stem.

        If one of the names is taken by another image, `-2`, `-3` … is added to the stem.
        """
        endings = self._endings(extensions)
        stem = download_name(_cut(stem, MAX_STEM_BYTES), ".x").removesuffix(".x")
        stem = self._numbered(self._folders.get(project, "") + stem, tuple(endings.values()))
        return {variant: stem + ending for variant, ending in endings.items()}

    def _endings(self, extensions: Mapping[Variant, str]) -> dict[Variant, str]:
        """What follows the stem: `.jpg`, or `-converted.jpg` for a second file with the same extension."""
        endings: dict[Variant, str] = {}
        for variant, extension in extensions.items():
            plain = f".{extension}"
            marked = plain in endings.values() or (variant == "original" and self._mark_originals)
            endings[variant] = f"-{variant}{plain}" if marked else plain
        return endings

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


def stem_of(job: Job, language: str | None) -> str:
    """The stem of the names of an image's files: its file name in `language`, else in its first language with one.

    An image without any keeps the name of the uploaded file.
    """
    names = {text.language_code: text.seo_filename for text in job.translations if text.seo_filename}
    return names.get(language or "") or next(iter(names.values()), "") or PurePosixPath(job.original_filename).stem


def _comparable(name: str) -> str:
    """The same for all names that some file system does not distinguish."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _cut(text: str, max_bytes: int) -> str:
    return text.encode()[:max_bytes].decode("utf-8", "ignore")


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


def json_data(
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
