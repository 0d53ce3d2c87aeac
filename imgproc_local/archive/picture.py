"""One picture of an archive, in a worker process: fetched, run through the stages, and its results written.

The results have the names and the bytes of `process --archive-names`. A picture can be processed again after its worker
was killed: a result that exists with the same content counts as written.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from msgspec import Struct, structs

from imgproc_local import batch
from imgproc_local.archive.stores import SourceObject, Store
from imgproc_local.codecs.picture.formats import HEAD_BYTES
from imgproc_local.config import Config
from imgproc_local.domain.errors import BadImage, StageTimedOut, StorageFailed, UnsupportedImage, UploadTooLarge
from imgproc_local.domain.filename import archive_name
from imgproc_local.domain.image import Format
from imgproc_local.domain.job import StageName
from imgproc_local.domain.plan import STAGES
from imgproc_local.domain.result import Translation
from imgproc_local.engine.pipeline import Pipeline, ReadPicture, StageResult, run_stages
from imgproc_local.system.files import encodable_text, hash_file, is_disk_full

Outcome = Literal["done", "failed", "skipped"]
"""An object is `skipped` if it is not a picture."""


class Problem(Struct, frozen=True):
    """An error of one picture. `stage` is None for an error outside a stage."""

    stage: str | None
    message: str


class Row(batch.Results, frozen=True, kw_only=True):
    """What the last run that processed a picture did: its row in the manifest.

    `source` is its key: the path below SOURCE. `version` is the ETag of the object, or the size and modification time
    of the file. `options` is the `options_hash` of the `BatchRequest`. `format` is that of the picture itself, None if
    it was not read. A text that a person has to write is empty. The row of a picture that failed has the results of an
    earlier run, if these were not replaced.
    """

    source: str
    version: str
    size_bytes: int
    options: str
    outcome: Outcome = "done"
    problems: tuple[Problem, ...] = ()
    sha256: str = ""
    format: Format | None = None


class PendingPicture(Struct, frozen=True):
    """A picture that has to be processed, with its row of an earlier run.

    `described` is the result of its analyze stage on a worker that has the vision model; None if there is none yet, or
    if the worker that processes the picture also runs that stage.
    """

    picture: SourceObject
    earlier: Row | None = None
    described: StageResult | None = None


class Tools(Struct, frozen=True):
    """What a worker process needs for every picture. `folder` is for temporary files."""

    request: batch.BatchRequest
    config: Config
    pipeline: Pipeline
    source: Store
    target: Store
    folder: Path


class _Failed(Exception):
    """The picture has no results. The arguments are why, and the outcome if it is not “failed”."""


def process_picture(tools: Tools, pending: PendingPicture) -> Row:
    """Write the results of a picture to the target in place of those of an earlier run, and return its row.

    Raises: StorageFailed, if the disk of the temporary files or the target is full or can't be written. This says
        nothing about the picture, so it is not recorded as failed.
    """
    picture, request = pending.picture, tools.request
    try:
        with _fetched(tools, picture) as (staged, sha256, read):
            row = _new_row(picture, request.options_hash)
            size_bytes = staged.stat().st_size
            row = structs.replace(row, sha256=sha256, size_bytes=size_bytes, format=read.info.format)
            with batch.writing_to("target"):
                made = batch.make_results(
                    tools.pipeline, request, _name(picture), staged, read, staged.parent, pending.described
                )
                return _write(tools, pending, row, made)
    except _Failed as failed:
        with batch.writing_to("target"):
            return failed_row(pending, request.options_hash, tools.target, *failed.args)


def describe_picture(tools: Tools, picture: SourceObject) -> StageResult:
    """The result of the analyze stage. Raises: StorageFailed, if the disk of the temporary files is full."""
    try:
        with _fetched(tools, picture) as (staged, _, read):
            plan = next(plan for plan in tools.request.plans if StageName.ANALYZE in STAGES[plan.operation])
            return run_stages(tools.pipeline, plan, staged, _name(picture), read, [StageName.ANALYZE])[0]
    except _Failed as failed:  # the task that makes the files fails in the same way, and its row says so
        return StageResult(StageName.ANALYZE, None, failed.args[0], 0.0)


def _new_row(picture: SourceObject, options: str) -> Row:
    """The row of a picture as long as nothing is known of its content."""
    source = encodable_text(picture.key)
    return Row(source=source, version=picture.version, size_bytes=picture.size_bytes, options=options)


def failed_row(pending: PendingPicture, options: str, target: Store, message: str, outcome: Outcome = "failed") -> Row:
    """The row of a picture without results of this run, with those of an earlier run that remain. Raises: OSError."""
    row = _new_row(pending.picture, options)
    row = structs.replace(row, outcome=outcome, problems=(Problem(None, message),))
    return _with_earlier_results(row, pending.earlier, target)


# ---- reading and the stages ----


@contextmanager
def _fetched(tools: Tools, picture: SourceObject) -> Iterator[tuple[Path, str, ReadPicture]]:
    """A copy of the picture in a folder of its own, its SHA-256, and what it says.

    Raises: _Failed; StorageFailed.
    """
    with tempfile.TemporaryDirectory(dir=tools.folder) as folder:
        staged = Path(folder, "source")
        try:
            if picture.size_bytes > tools.config.max_upload_bytes:
                with tools.source.open(picture.key) as file:
                    batch.require_size(picture.size_bytes, file.read(HEAD_BYTES), tools.config)
            sha256 = tools.source.fetch(picture.key, staged)
            read = tools.pipeline.reader.read(staged, tools.request.accepted)
        except OSError as error:
            if is_disk_full(error):
                raise StorageFailed("The disk for temporary files of a worker is full.") from error
            message = f"It can't be read: {str(error.strerror or error).rstrip('.')}."
            raise _Failed(message) from error
        except UnsupportedImage as error:
            raise _Failed(error.message, "skipped") from None
        except (BadImage, StageTimedOut, UploadTooLarge) as error:
            raise _Failed(error.message) from None
        yield staged, sha256, read


def _name(picture: SourceObject) -> str:
    return PurePosixPath(picture.key).name


# ---- writing ----


def _write(tools: Tools, pending: PendingPicture, row: Row, made: batch.Made) -> Row:
    """Write the results to the target in place of earlier ones, and return the row with them.

    Earlier results remain if the picture failed without any new file, and if no new file takes their place. Raises:
    OSError.
    """
    key, earlier = pending.picture.key, pending.earlier
    problems = tuple(Problem(*error) for error in made.errors)
    row = structs.replace(row, removed=made.removed, problems=problems, notes=made.notes)
    if row.problems:
        row = structs.replace(row, outcome="failed")
        if not made.files:
            return _with_earlier_results(row, earlier, tools.target)
    if earlier is not None:
        if earlier.sha256 == row.sha256:
            row = _with_earlier_results(row, earlier, tools.target, made)
        _remove_results(tools.target, earlier, row.files)
    if made.texts:
        texts = tuple(_recorded(text, key) for text in made.texts)
        row = structs.replace(row, translations=texts, suggestion=made.suggestion)
    if row.translations:
        name = row.translations[0].seo_filename
    else:
        name = archive_name(batch.fallback_name(PurePosixPath(key), tools.request.languages[0]), key)
    for file in made.files:
        row = _with_written(tools.target, row, file, str(PurePosixPath(key).with_name(name + file.ending)))
    return row


def _with_earlier_results(row: Row, earlier: Row | None, target: Store, made: batch.Made | None = None) -> Row:
    """The row with the texts of an earlier run, and with its results that remain in the target.

    These are all that still exist, also if the user has edited them, except those that the new ones in `made` replace;
    a sidecar is outdated by new texts. Raises: OSError.
    """
    if earlier is None:
        return row
    replaced = set() if made is None else made.replaced
    remaining: dict[str, Any] = {
        kind: file for kind, file in earlier.by_kind.items() if kind not in replaced and target.exists(file.path)
    }
    removed = {*row.removed, *earlier.removed} if remaining else row.removed
    return structs.replace(
        row,
        translations=earlier.translations,
        suggestion=earlier.suggestion,
        removed=tuple(sorted(removed)),
        format=row.format or earlier.format,
        notes={kind: notes for kind, notes in earlier.notes.items() if kind in remaining} | row.notes,
        variants=tuple(each for each in earlier.variants if "converted" in remaining and target.exists(each.path)),
        **remaining,
    )


def _recorded(text: Translation, key: str) -> Translation:
    """A text as the manifest has it: with the file name of an archive, and empty if a person has to write it."""
    alt_text = "" if text.needs_text else text.seo_alt_text
    return structs.replace(text, seo_filename=archive_name(text.seo_filename, key), seo_alt_text=alt_text)


def _remove_results(target: Store, earlier: Row, remaining: Collection[batch.ResultFile]) -> None:
    """Delete results of an earlier run, except those that remain or were edited since. Raises: OSError."""
    for file in earlier.files:
        with suppress(FileNotFoundError):
            if file not in remaining and target.sha256(file.path) == file.sha256:
                target.remove(file.path)


def _with_written(target: Store, row: Row, result: batch.LocalFile, path: str) -> Row:
    """The row after a result was written; with a problem if the path is taken by another file. Raises: OSError."""
    if target.create(path, result.path) or target.sha256(path) == hash_file(result.path):
        return result.added_to(row, encodable_text(path))
    message = f"{path} exists, and was edited or is not a result of this archive. Rename it, and run the command again."
    problems = (*row.problems, Problem(None, message))
    return structs.replace(row, outcome="failed", problems=problems)
