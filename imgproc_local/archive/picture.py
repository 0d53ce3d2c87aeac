"""One picture of an archive, in a worker process: fetched, run through the stages, and its results written.

The results have the names and the bytes of `process --archive-names`. A picture can be processed again after its worker
was killed: a result that exists with the same content counts as written.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Literal

from msgspec import Struct, structs

from imgproc_local.archive.manifest import FailureKind, PendingPicture, Problem, Row, with_earlier_results
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
from imgproc_local.config import Config
from imgproc_local.domain.errors import BadImage, ServiceError, StorageFailed, UnsupportedImage
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.job import StageName
from imgproc_local.domain.result import Translation
from imgproc_local.domain.slug import archive_name
from imgproc_local.engine.direct import DirectStages, StageResult, run_stages
from imgproc_local.engine.results import TextsWork, write_texts
from imgproc_local.storage.blobs import hash_file
from imgproc_local.system.files import encodable_text, is_disk_full

HEAD_BYTES = 4
"""What announces a TIFF, which may be larger than others."""


class Tools(Struct, frozen=True):
    """What a worker process needs for every picture. `folder` is for temporary files."""

    request: BatchRequest
    config: Config
    direct: DirectStages
    source: Store
    target: Store
    folder: Path


RESULT_FIELDS = ("optimized", "converted", "sidecar")
"""The fields of a row that name a result, and the kinds of results."""


class _Failed(Exception):
    """The picture has no results. The arguments are the outcome, the kind of the failure, and why."""


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
    try:
        with _fetched(tools, picture) as (staged, sha256, info):
            row = structs.replace(row, sha256=sha256, size_bytes=staged.stat().st_size, format=info.format)
            results = {} if pending.described is None else {StageName.ANALYZE: pending.described}
            wanted = [stage for stage in StageName if stage not in results]
            results |= _run_stages(tools, picture, staged, info, wanted)
            row = _write(tools, picture, earlier, _with_stages(row, results), results, staged, info)
    except _Failed as failed:
        outcome, kind, message = failed.args
        row = structs.replace(row, outcome=outcome, failure=kind, problems=(Problem(None, message),))
        row = with_earlier_results(row, earlier)
    return structs.replace(row, total_s=time.monotonic() - began_s)


def describe_picture(tools: Tools, picture: SourceObject) -> StageResult:
    """The result of the analyze stage. Raises: StorageFailed, if the disk of the temporary files is full."""
    try:
        with _fetched(tools, picture) as (staged, _, info):
            return _run_stages(tools, picture, staged, info, [StageName.ANALYZE])[StageName.ANALYZE]
    except _Failed as failed:  # the task that makes the files fails in the same way, and its row says so
        return StageResult(StageName.ANALYZE, None, failed.args[2], 0.0)


# ---- reading ----


@contextmanager
def _fetched(tools: Tools, picture: SourceObject) -> Iterator[tuple[Path, str, ImageInfo]]:
    """A copy of the picture in a folder of its own, its SHA-256, and what its header says.

    Raises: _Failed; StorageFailed.
    """
    accepted = tools.request.accepted
    with tempfile.TemporaryDirectory(dir=tools.folder) as folder:
        staged = Path(folder, "source")
        try:
            if picture.size_bytes > tools.config.max_upload_bytes:
                max_bytes = max_local_bytes(tools.source.read(picture.key, HEAD_BYTES), tools.config.max_upload_bytes)
                if picture.size_bytes > max_bytes:
                    message = f"Expected at most {max_bytes:,} bytes (setting max_upload_bytes), but the file has more."
                    raise _Failed("failed", "picture", message)
            sha256 = tools.source.fetch(picture.key, staged)
        except FileNotFoundError:
            raise _Failed("failed", "source", "It was deleted after it had been listed.") from None
        except OSError as error:
            if is_disk_full(error):
                raise StorageFailed("The disk for temporary files of a worker is full.") from error
            message = f"It can't be read: {str(error.strerror or error).rstrip('.')}."
            raise _Failed("failed", "source", message) from error
        try:
            with opened(staged, accepted) as data:
                detect(data, accepted)
        except UnsupportedImage as error:
            raise _Failed("skipped", "", error.message) from None
        try:
            info = probe(staged, tools.config.max_pixels, accepted)
        except BadImage as error:
            raise _Failed("failed", "picture", error.message) from None
        yield staged, sha256, info


# ---- the stages ----


def _run_stages(
    tools: Tools, picture: SourceObject, staged: Path, info: ImageInfo, wanted: Collection[StageName]
) -> dict[StageName, StageResult]:
    name = PurePosixPath(picture.key).name
    plans = tools.request.plans
    results = (result for plan in plans for result in run_stages(tools.direct, plan, staged, name, info, wanted))
    return {result.stage: result for result in results}


def _with_stages(row: Row, results: dict[StageName, StageResult]) -> Row:
    """The row with what the stages report: their durations and errors, and the private data that was removed."""
    outputs = [result.output for result in results.values() if result.output is not None]
    problems = tuple(Problem(stage.value, result.error) for stage, result in results.items() if result.output is None)
    return structs.replace(
        row,
        problems=problems,
        removed=tuple(sorted({kind for output in outputs for kind in output.removed})),
        **{f"{stage.value}_s": result.duration_s for stage, result in results.items()},
    )


# ---- writing ----


def _write(
    tools: Tools,
    picture: SourceObject,
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
    key = PurePosixPath(picture.key)
    analyzed = results[StageName.ANALYZE].output if StageName.ANALYZE in results else None
    texts = analyzed.texts if analyzed is not None else ()
    same = earlier if earlier is not None and earlier.sha256 == row.sha256 else None
    if same is not None and same.translations and not texts:
        name = same.translations[0].seo_filename
    else:
        chosen = texts[0].seo_filename if texts else fallback_name(key, tools.request.languages[0])
        name = archive_name(chosen, picture.key)
    files, text_problems = _local_files(tools, key, results, texts, staged, info)
    problems = [*row.problems, *text_problems]
    failure: FailureKind = "picture" if problems else ""
    if problems and not files:
        return with_earlier_results(structs.replace(row, outcome="failed", failure=failure), earlier)
    # a sidecar is outdated by new texts
    new = {*(file.kind for file in files), *(("sidecar",) if texts else ())}
    with _target_errors():
        kept = _kept(tools.target, same, new)
        _remove_results(tools.target, earlier, kept)
        written: dict[str, ResultFile] = {}
        for result in files:
            path = str(key.parent / (name + result.ending))
            sha256 = hash_file(result.file)
            if tools.target.create(path, result.file) or tools.target.sha256(path) == sha256:
                size_bytes = result.file.stat().st_size
                written[result.kind] = ResultFile(encodable_text(path), sha256, size_bytes, result.format)
            else:
                message = (
                    f"{path} exists, and was edited or is not a result of this archive. Rename it, and run the command"
                    " again."
                )
                problems.append(Problem(None, message))
                failure = failure or "target"
    removed, translations = row.removed, row.translations
    if same is not None:
        translations = same.translations
        removed = tuple(sorted({*same.removed, *removed})) if kept else removed
    if texts:
        translations = tuple(_recorded(text, picture.key) for text in texts)
    return structs.replace(
        row,
        outcome="failed" if failure else "done",
        failure=failure,
        problems=tuple(problems),
        translations=translations,
        removed=removed,
        **{field: (written | kept).get(field) for field in RESULT_FIELDS},
    )


def _kept(target: Store, same: Row | None, new: Collection[str]) -> dict[str, ResultFile]:
    """The results of an earlier run on the same content that remain, by their field: no `new` one replaces them.

    The user may have edited them. Raises: OSError.
    """
    results = {field: getattr(same, field, None) for field in RESULT_FIELDS if field not in new}
    return {field: file for field, file in results.items() if file is not None and target.exists(file.path)}


def _remove_results(target: Store, earlier: Row | None, kept: dict[str, ResultFile]) -> None:
    """Delete results of an earlier run, except those that are kept or were edited since. Raises: OSError."""
    for file in earlier.files if earlier is not None else ():
        with suppress(FileNotFoundError):
            if file not in kept.values() and target.sha256(file.path) == file.sha256:
                target.remove(file.path)


def _local_files(
    tools: Tools,
    key: PurePosixPath,
    results: dict[StageName, StageResult],
    texts: tuple[Translation, ...],
    staged: Path,
    info: ImageInfo,
) -> tuple[list[_LocalFile], list[Problem]]:
    """The results as local files, and why some have no texts."""
    files: list[_LocalFile] = []
    problems: list[Problem] = []
    ending = optimized_ending(key, info.format)
    for stage in (StageName.OPTIMIZE, StageName.CONVERT):
        output = results[stage].output if stage in results else None
        if output is None:
            continue
        file = staged if output.path is None else Path(output.path).rename(staged.with_name(stage.value))
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
            except StorageFailed:
                raise
            except ServiceError as error:
                problems.append(Problem(None, f"The texts are not in the {result.kind} file: {error.message}"))
    if tools.request.sidecar and (content := sidecar_content(texts)) is not None:
        file = staged.with_name("sidecar")
        file.write_bytes(content)
        files.append(_LocalFile("sidecar", file, SIDECAR_ENDING))
    return files, problems


def _with_texts(tools: Tools, result: _LocalFile, texts: tuple[Translation, ...]) -> Path:
    assert result.format is not None
    work = TextsWork(bytes(result.file), result.format, texts, tools.request.overwrite)
    written = write_texts(tools.direct.workers, tools.direct.timeout_s, work, threading.Event())
    return written.rename(result.file.with_name(f"{result.kind}-with-texts"))


def _recorded(text: Translation, key: str) -> Translation:
    """A text as the manifest has it: with the file name of an archive, and empty if a person has to write it."""
    alt_text = "" if text.needs_text else text.seo_alt_text
    return structs.replace(text, seo_filename=archive_name(text.seo_filename, key), seo_alt_text=alt_text)


@contextmanager
def _target_errors() -> Iterator[None]:
    """Raises the errors of the target as StorageFailed."""
    try:
        yield
    except OSError as error:
        what = "The target is full" if is_disk_full(error) else "The target can't be written"
        raise StorageFailed(f"{what} ({error.strerror or error}).") from error
