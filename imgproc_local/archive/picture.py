"""One picture of an archive, in a worker process: fetched, run through the stages, and its results written.

The results have the names and the bytes of `process --archive-names`. A picture can be processed again after its worker
was killed: a result that exists with the same content counts as written.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct, structs

from imgproc_local.archive.row import PendingPicture, Problem, Row, new_row, with_earlier_results
from imgproc_local.archive.stores import SourceObject, Store
from imgproc_local.batch.files import LocalFile, ResultFile, fallback_name, result_files, texts_of
from imgproc_local.batch.request import BatchRequest
from imgproc_local.codecs.picture.formats import HEAD_BYTES, max_local_bytes
from imgproc_local.config import Config
from imgproc_local.domain.errors import BadImage, StorageFailed, UnsupportedImage
from imgproc_local.domain.job import StageName
from imgproc_local.domain.result import Translation
from imgproc_local.domain.slug import archive_name
from imgproc_local.engine.direct import DirectStages, StageResult, run_stages
from imgproc_local.engine.reading import ReadPicture
from imgproc_local.storage.blobs import hash_file
from imgproc_local.system.files import encodable_text, is_disk_full


class Tools(Struct, frozen=True):
    """What a worker process needs for every picture. `folder` is for temporary files."""

    request: BatchRequest
    config: Config
    direct: DirectStages
    source: Store
    target: Store
    folder: Path


class _Failed(Exception):
    """The picture has no results. The arguments are the outcome, the kind of the failure, and why."""


def process_picture(tools: Tools, pending: PendingPicture) -> Row:
    """Write the results of a picture to the target in place of those of an earlier run, and return its row.

    Raises: StorageFailed, if the disk of the temporary files or the target is full or can't be written. This says
        nothing about the picture, so it is not recorded as failed.
    """
    began_s = time.monotonic()
    picture = pending.picture
    row = new_row(picture, tools.request.options_hash)
    try:
        with _fetched(tools, picture) as (staged, sha256, read):
            row = structs.replace(row, sha256=sha256, size_bytes=staged.stat().st_size, format=read.info.format)
            described = [] if pending.described is None else [pending.described]
            wanted = [stage for stage in StageName if not (described and stage is StageName.ANALYZE)]
            results = described + _run_stages(tools, picture, staged, read, wanted)
            with _target_errors():
                row = _write(tools, pending, _with_stages(row, results), results, staged)
    except _Failed as failed:
        outcome, kind, message = failed.args
        row = structs.replace(row, outcome=outcome, failure=kind, problems=(Problem(None, message),))
        with _target_errors():
            row = with_earlier_results(row, pending.earlier, tools.target)
    return structs.replace(row, total_s=time.monotonic() - began_s)


def describe_picture(tools: Tools, picture: SourceObject) -> StageResult:
    """The result of the analyze stage. Raises: StorageFailed, if the disk of the temporary files is full."""
    try:
        with _fetched(tools, picture) as (staged, _, read):
            return _run_stages(tools, picture, staged, read, [StageName.ANALYZE])[0]
    except _Failed as failed:  # the task that makes the files fails in the same way, and its row says so
        return StageResult(StageName.ANALYZE, None, failed.args[2], 0.0)


# ---- reading and the stages ----


@contextmanager
def _fetched(tools: Tools, picture: SourceObject) -> Iterator[tuple[Path, str, ReadPicture]]:
    """A copy of the picture in a folder of its own, its SHA-256, and what it says.

    Raises: _Failed; StorageFailed.
    """
    accepted = tools.request.accepted
    with tempfile.TemporaryDirectory(dir=tools.folder) as folder:
        staged = Path(folder, "source")
        try:
            max_bytes = tools.config.max_upload_bytes
            if picture.size_bytes > max_bytes:
                with tools.source.open(picture.key) as file:
                    max_bytes = max_local_bytes(file.read(HEAD_BYTES), max_bytes)
            if picture.size_bytes > max_bytes:
                message = f"Expected at most {max_bytes:,} bytes (setting max_upload_bytes), but the file has more."
                raise _Failed("failed", "picture", message)
            sha256 = tools.source.fetch(picture.key, staged)
        except OSError as error:
            if is_disk_full(error):
                raise StorageFailed("The disk for temporary files of a worker is full.") from error
            message = f"It can't be read: {str(error.strerror or error).rstrip('.')}."
            raise _Failed("failed", "source", message) from error
        try:
            read = tools.direct.reader.read(staged, accepted)
        except UnsupportedImage as error:
            raise _Failed("skipped", "", error.message) from None
        except BadImage as error:
            raise _Failed("failed", "picture", error.message) from None
        yield staged, sha256, read


def _run_stages(
    tools: Tools, picture: SourceObject, staged: Path, read: ReadPicture, wanted: Collection[StageName]
) -> list[StageResult]:
    name = PurePosixPath(picture.key).name
    plans = tools.request.plans
    return [result for plan in plans for result in run_stages(tools.direct, plan, staged, name, read, wanted)]


def _with_stages(row: Row, results: list[StageResult]) -> Row:
    """The row with what the stages report: their durations and errors, and the private data that was removed."""
    problems = tuple(Problem(result.stage.value, result.error) for result in results if result.output is None)
    removed = {kind for result in results if result.output is not None for kind in result.output.removed}
    durations: dict[str, Any] = {f"{result.stage.value}_s": result.duration_s for result in results}
    return structs.replace(row, problems=problems, removed=tuple(sorted(removed)), **durations)


# ---- writing ----


def _write(tools: Tools, pending: PendingPicture, row: Row, results: list[StageResult], staged: Path) -> Row:
    """Write the results to the target in place of earlier ones, and return the row with them.

    Earlier results remain if the picture failed without any new file, and if no new file takes their place. Raises:
    OSError of the target; StorageFailed.
    """
    key, earlier = pending.picture.key, pending.earlier
    same = earlier if earlier is not None and earlier.sha256 == row.sha256 else None
    assert row.format is not None
    texts = texts_of(results)
    files, problems = result_files(
        tools.direct, tools.request, PurePosixPath(row.source), staged, row.format, results, staged.parent
    )
    row = structs.replace(row, problems=(*row.problems, *(Problem(None, problem) for problem in problems)))
    if row.problems:
        row = structs.replace(row, outcome="failed", failure="picture")
        if not files:
            return with_earlier_results(row, earlier, tools.target)
    # a sidecar is outdated by new texts
    replaced = {*(file.kind for file in files), *(("sidecar",) if texts else ())}
    row = with_earlier_results(row, same, tools.target, replaced)
    if earlier is not None:
        _remove_results(tools.target, earlier, row.files)
    if texts:
        row = structs.replace(row, translations=tuple(_recorded(text, key) for text in texts))
    if row.translations:
        name = row.translations[0].seo_filename
    else:
        name = archive_name(fallback_name(PurePosixPath(key), tools.request.languages[0]), key)
    for file in files:
        row = _with_written(tools.target, row, file, str(PurePosixPath(key).with_name(name + file.ending)))
    return row


def _recorded(text: Translation, key: str) -> Translation:
    """A text as the manifest has it: with the file name of an archive, and empty if a person has to write it."""
    alt_text = "" if text.needs_text else text.seo_alt_text
    return structs.replace(text, seo_filename=archive_name(text.seo_filename, key), seo_alt_text=alt_text)


def _remove_results(target: Store, earlier: Row, remaining: Collection[ResultFile]) -> None:
    """Delete results of an earlier run, except those that remain or were edited since. Raises: OSError."""
    for file in earlier.files:
        with suppress(FileNotFoundError):
            if file not in remaining and target.sha256(file.path) == file.sha256:
                target.remove(file.path)


def _with_written(target: Store, row: Row, result: LocalFile, path: str) -> Row:
    """The row after a result was written; with a problem if the path is taken by another file. Raises: OSError."""
    sha256 = hash_file(result.path)
    if target.create(path, result.path) or target.sha256(path) == sha256:
        file: Any = ResultFile(encodable_text(path), sha256, result.path.stat().st_size, result.format)
        return structs.replace(row, **{result.kind: file})
    message = f"{path} exists, and was edited or is not a result of this archive. Rename it, and run the command again."
    problems = (*row.problems, Problem(None, message))
    return structs.replace(row, outcome="failed", failure=row.failure or "target", problems=problems)


@contextmanager
def _target_errors() -> Iterator[None]:
    """Raises the errors of the target as StorageFailed."""
    try:
        yield
    except OSError as error:
        what = "The target is full" if is_disk_full(error) else "The target can't be written"
        raise StorageFailed(f"{what} ({error.strerror or error}).") from error
