"""One picture of an archive, in a worker process: fetched, run through the stages, and its results written.

The results have the names and the bytes of `process --archive-names`. A picture can be processed again after its worker
was killed: a result that exists with the same content counts as written.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Literal, TypeVar

from msgspec import Struct, structs

from imgproc_local.archive.manifest import FailureKind, Outcome, PendingPicture, Problem, Row, with_earlier_results
from imgproc_local.archive.stores import SourceObject, Store
from imgproc_local.batch.files import (
    SIDECAR_ENDING,
    ResultFile,
    converted_ending,
    fallback_name,
    optimized_ending,
    sidecar_content,
)
from imgproc_local.batch.request import BatchRequest
from imgproc_local.codecs.picture.probe import detect, max_local_bytes, opened, probe
from imgproc_local.domain.errors import BadImage, ServiceError, StorageFailed, UnsupportedImage
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.job import StageName
from imgproc_local.domain.result import Translation
from imgproc_local.domain.slug import archive_name
from imgproc_local.engine.direct import DirectStages, StageResult, run_stages
from imgproc_local.engine.results import TextsWork, write_texts
from imgproc_local.storage.blobs import hash_file
from imgproc_local.system.files import encodable_text, is_disk_full

T = TypeVar("T")
HEAD_BYTES = 4
"""What announces a TIFF, which may be larger than others."""


class Tools(Struct, frozen=True):
    """What a worker process needs for every picture. `folder` is for temporary files of one picture at a time."""

    request: BatchRequest
    direct: DirectStages
    source: Store
    target: Store
    folder: Path
    max_pixels: int
    max_upload_bytes: int


class _Failed(Exception):
    """The picture has no results; the message says why."""

    def __init__(self, message: str, kind: FailureKind, outcome: Outcome = "failed") -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.outcome = outcome


RESULT_FIELDS = ("optimized", "converted", "sidecar")
"""The fields of a row that name a result, and the kinds of results."""


class _LocalFile(Struct, frozen=True):
    """A result before it is written to the target, under the `archive_name` of the picture with `ending`."""

    kind: Literal["optimized", "converted", "sidecar"]
    file: Path
    ending: str
    format: Format | None = None


def process_picture(tools: Tools, pending: PendingPicture, earlier: Row | None) -> Row:
    """Write the results of a picture to the target, and return its row. Results of the row `earlier` are replaced.

    Raises: StorageFailed, if the disk of the temporary files or the target is full or can't be written. This says
        nothing about the picture, so it is not recorded as failed.
    """
    began_s = time.monotonic()
    picture = pending.picture
    row = Row(
        source=encodable_text(picture.key),
        version=picture.version,
        size_bytes=picture.size_bytes,
        options=tools.request.options_hash,
        outcome="done",
    )
    staged = tools.folder / "source"
    try:
        with _emptied(tools.folder):
            sha256, info = _fetch(tools, picture, staged)
            row = structs.replace(row, sha256=sha256, size_bytes=staged.stat().st_size, format=info.format)
            results = _run(tools, pending, staged, info)
            row = _write(tools, pending, earlier, _with_stages(row, results), results, staged, info)
    except _Failed as failed:
        row = structs.replace(
            row, outcome=failed.outcome, failure=failed.kind, problems=(Problem(None, failed.message),)
        )
        row = with_earlier_results(row, earlier)
    return structs.replace(row, total_s=time.monotonic() - began_s)


@contextmanager
def _emptied(folder: Path) -> Iterator[None]:
    """Delete the files of the folder before and after the block."""

    def empty() -> None:
        for file in folder.iterdir():
            file.unlink()

    folder.mkdir(exist_ok=True)
    empty()
    try:
        yield
    finally:
        empty()


# ---- reading ----


def _fetch(tools: Tools, picture: SourceObject, staged: Path) -> tuple[str, ImageInfo]:
    """Copy the picture to `staged`, and return its SHA-256 and what its header says. Raises: _Failed; StorageFailed."""
    accepted = tools.request.accepted
    try:
        if picture.size_bytes > tools.max_upload_bytes:
            _require_size(picture.size_bytes, tools.source.read(picture.key, HEAD_BYTES), tools.max_upload_bytes)
        sha256 = tools.source.fetch(picture.key, staged)
        with staged.open("rb") as file:
            _require_size(staged.stat().st_size, file.read(HEAD_BYTES), tools.max_upload_bytes)
    except FileNotFoundError:
        raise _Failed("It was deleted after it had been listed.", "source") from None
    except OSError as error:
        if is_disk_full(error):
            raise StorageFailed("The disk for temporary files of a worker is full.") from error
        raise _Failed(f"It can't be read: {str(error.strerror or error).rstrip('.')}.", "source") from error
    try:
        with opened(staged, accepted) as data:
            detect(data, accepted)
    except UnsupportedImage as error:
        raise _Failed(error.message, "", "skipped") from None
    try:
        return sha256, probe(staged, tools.max_pixels, accepted)
    except BadImage as error:
        raise _Failed(error.message, "picture") from None


def _require_size(size_bytes: int, head: bytes, max_upload_bytes: int) -> None:
    max_bytes = max_local_bytes(head, max_upload_bytes)
    if size_bytes > max_bytes:
        raise _Failed(
            f"Expected at most {max_bytes:,} bytes (setting max_upload_bytes), but the file has more.", "picture"
        )


# ---- the stages ----


def describe_picture(tools: Tools, picture: SourceObject) -> StageResult:
    """The result of the analyze stage. Raises: StorageFailed, if the disk of the temporary files is full."""
    staged = tools.folder / "source"
    try:
        with _emptied(tools.folder):
            _, info = _fetch(tools, picture, staged)
            return _run_stages(tools, picture, staged, info, (StageName.ANALYZE,))[0]
    except _Failed as failed:  # the task that makes the files fails in the same way, and its row says so
        return StageResult(StageName.ANALYZE, None, failed.message, 0.0)


def _run(tools: Tools, pending: PendingPicture, staged: Path, info: ImageInfo) -> dict[StageName, StageResult]:
    wanted = [stage for stage in StageName if stage is not StageName.ANALYZE or pending.described is None]
    results = [] if pending.described is None else [pending.described]
    results += _run_stages(tools, pending.picture, staged, info, wanted)
    return {result.stage: result for result in results}


def _run_stages(
    tools: Tools, picture: SourceObject, staged: Path, info: ImageInfo, wanted: Sequence[StageName]
) -> list[StageResult]:
    name = PurePosixPath(picture.key).name
    plans = tools.request.plans
    return [result for plan in plans for result in run_stages(tools.direct, plan, staged, name, info, wanted)]


def _with_stages(row: Row, results: dict[StageName, StageResult]) -> Row:
    """The row with what the stages report: their durations and errors, and the private data that was removed."""
    outputs = [result.output for result in results.values() if result.output is not None]
    problems = tuple(Problem(stage.value, result.error) for stage, result in results.items() if result.output is None)
    duration_s = {stage: result.duration_s for stage, result in results.items()}
    return structs.replace(
        row,
        outcome="failed" if problems else "done",
        failure="picture" if problems else "",
        problems=problems,
        removed=tuple(sorted({kind for output in outputs for kind in output.removed})),
        analyze_s=duration_s.get(StageName.ANALYZE),
        optimize_s=duration_s.get(StageName.OPTIMIZE),
        convert_s=duration_s.get(StageName.CONVERT),
    )


# ---- writing ----


def _write(
    tools: Tools,
    pending: PendingPicture,
    earlier: Row | None,
    row: Row,
    results: dict[StageName, StageResult],
    staged: Path,
    info: ImageInfo,
) -> Row:
    """Write the results to the target in place of earlier ones, and return the row with them.

    Earlier results remain if the picture failed without any new file, and if no new file takes their place. Raises:
    StorageFailed.
    """
    key = PurePosixPath(pending.picture.key)
    analyzed = results.get(StageName.ANALYZE)
    texts = analyzed.output.texts if analyzed is not None and analyzed.output is not None else ()
    same = earlier if earlier is not None and earlier.sha256 == row.sha256 else None
    name = archive_name(fallback_name(key, tools.request.languages[0]), pending.picture.key)
    if texts:
        name = archive_name(texts[0].seo_filename, pending.picture.key)
    elif same is not None and same.translations:
        name = same.translations[0].seo_filename
    files, problems = _local_files(tools, key, results, texts, staged, info)
    failure: FailureKind = "picture" if row.problems or problems else ""
    if failure and not files:
        return with_earlier_results(row, earlier)
    # a sidecar is outdated by new texts
    kept = _kept(tools.target, same, {*(file.kind for file in files), *(("sidecar",) if texts else ())})
    if earlier is not None:
        _remove_results(tools.target, [file for file in earlier.files if file not in kept.values()])
    written: dict[str, ResultFile] = {}
    for result in files:
        path = str(key.parent / (name + result.ending))
        sha256 = hash_file(result.file)
        if _create(tools.target, path, result.file, sha256):
            size_bytes = result.file.stat().st_size
            written[result.kind] = ResultFile(encodable_text(path), sha256, size_bytes, result.format)
        else:
            message = (
                f"{path} exists, and was edited or is not a result of this archive. Rename it, and run the command"
                " again."
            )
            problems.append(Problem(None, message))
            failure = failure or "target"
    if same is not None:
        removed = tuple(sorted({*same.removed, *row.removed})) if kept else row.removed
        row = structs.replace(row, translations=same.translations, removed=removed)
    if texts:
        row = structs.replace(row, translations=tuple(_recorded(text, pending.picture.key) for text in texts))
    return structs.replace(
        row,
        outcome="failed" if failure else "done",
        failure=failure,
        problems=(*row.problems, *problems),
        **{field: (written | kept).get(field) for field in RESULT_FIELDS},
    )


def _kept(target: Store, same: Row | None, new: Collection[str]) -> dict[str, ResultFile]:
    """The results of an earlier run on the same content that remain, by their field: no `new` one replaces them.

    The user may have edited them. Raises: StorageFailed.
    """
    if same is None:
        return {}
    results = {field: getattr(same, field) for field in RESULT_FIELDS if field not in new}
    return {
        field: file
        for field, file in results.items()
        if file is not None and _call_target(partial(target.exists, file.path))
    }


def _local_files(
    tools: Tools,
    key: PurePosixPath,
    results: dict[StageName, StageResult],
    texts: tuple[Translation, ...],
    staged: Path,
    info: ImageInfo,
) -> tuple[list[_LocalFile], list[Problem]]:
    """The results as local files, and why some are missing or have no texts."""
    files: list[_LocalFile] = []
    problems: list[Problem] = []
    ending = optimized_ending(key, info.format)
    for stage in (StageName.OPTIMIZE, StageName.CONVERT):
        output = results[stage].output if stage in results else None
        if output is None:
            continue
        file = staged if output.path is None else Path(output.path).rename(tools.folder / stage.value)
        result_format = output.format or info.format
        if stage is StageName.OPTIMIZE:
            ending = optimized_ending(key, result_format)
            files.append(_LocalFile("optimized", file, ending, result_format))
        else:
            files.append(_LocalFile("converted", file, converted_ending(result_format, ending), result_format))
    if tools.request.write_metadata and texts:
        for number, result in enumerate(files):
            try:
                files[number] = structs.replace(result, file=_with_texts(tools, result, texts))
            except ServiceError as error:
                if isinstance(error, StorageFailed):
                    raise
                problems.append(Problem(None, f"The texts are not in the {result.kind} file: {error.message}"))
    if tools.request.sidecar and (content := sidecar_content(texts)) is not None:
        file = tools.folder / "sidecar"
        file.write_bytes(content)
        files.append(_LocalFile("sidecar", file, SIDECAR_ENDING))
    return files, problems


def _with_texts(tools: Tools, result: _LocalFile, texts: tuple[Translation, ...]) -> Path:
    assert result.format is not None
    work = TextsWork(bytes(result.file), result.format, texts, tools.request.overwrite)
    written = write_texts(tools.direct.workers, tools.direct.timeout_s, work, threading.Event())
    return written.rename(tools.folder / f"{result.kind}-with-texts")


def _recorded(text: Translation, key: str) -> Translation:
    """A text as the manifest has it: with the file name of an archive, and empty if a person has to write it."""
    alt_text = "" if text.needs_text else text.seo_alt_text
    return structs.replace(text, seo_filename=archive_name(text.seo_filename, key), seo_alt_text=alt_text)


def _create(target: Store, path: str, file: Path, sha256: str) -> bool:
    """Write a result. False if the target has an object of this name with another content. Raises: StorageFailed."""
    return _call_target(lambda: target.create(path, file) or target.sha256(path) == sha256)


def _remove_results(target: Store, files: Iterable[ResultFile]) -> None:
    """Delete results of an earlier run, except those that were edited since. Raises: StorageFailed."""
    for file in files:
        _call_target(partial(_remove_unchanged, target, file))


def _remove_unchanged(target: Store, file: ResultFile) -> None:
    try:
        if target.sha256(file.path) == file.sha256:
            target.remove(file.path)
    except FileNotFoundError:
        return


def _call_target(call: Callable[[], T]) -> T:
    try:
        return call()
    except OSError as error:
        what = "The target is full" if is_disk_full(error) else "The target can't be written"
        raise StorageFailed(f"{what} ({error.strerror or error}).") from error
