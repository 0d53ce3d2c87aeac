"""What is known of one picture of an archive: before it is processed, and afterwards, as a row of the manifest."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from msgspec import Struct, structs

from imgproc_local.archive.stores import SourceObject, Store
from imgproc_local.batch.files import ResultFile
from imgproc_local.domain.image import Format
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import Translation
from imgproc_local.engine.direct import StageResult
from imgproc_local.system.files import encodable_text

Outcome = Literal["done", "failed", "skipped"]
"""An object is `skipped` if it is not a picture."""
FailureKind = Literal["", "picture", "source", "target", "worker"]
"""What failed: a stage or the picture itself (`picture`), reading it (`source`), writing its results (`target`), or
every worker that processed it (`worker`); "" if nothing did.
"""
RESULT_FIELDS = ("optimized", "converted", "sidecar")
"""The fields of a row that name a result, and the kinds of results."""


class Problem(Struct, frozen=True):
    """An error of one picture. `stage` is None for an error outside a stage."""

    stage: str | None
    message: str


class Row(Struct, frozen=True, kw_only=True):
    """What the last run that processed a picture did.

    `source` is its key: the path below SOURCE. `version` is the ETag of the object, or the size and modification time
    of the file. `options` is the `options_hash` of the `BatchRequest`. `removed` are the kinds of private data that the
    results leave out. A text that a person has to write is empty. The row of a picture that failed has the results of
    an earlier run, if these were not replaced. The duration of a stage is None if it was not run.

    `format` is that of the picture itself, None if it was not read.
    """

    source: str
    version: str
    size_bytes: int
    options: str
    outcome: Outcome
    failure: FailureKind = ""
    problems: tuple[Problem, ...] = ()
    sha256: str = ""
    format: Format | None = None
    optimized: ResultFile | None = None
    converted: ResultFile | None = None
    sidecar: ResultFile | None = None
    translations: tuple[Translation, ...] = ()
    removed: tuple[Removed, ...] = ()
    analyze_s: float | None = None
    optimize_s: float | None = None
    convert_s: float | None = None
    total_s: float = 0.0

    @property
    def files(self) -> tuple[ResultFile, ...]:
        return tuple(file for file in (self.optimized, self.converted, self.sidecar) if file is not None)

    @property
    def needs_text(self) -> bool:
        """Whether a person has to write one of the alt texts."""
        return any(text.needs_text for text in self.translations)


def new_row(picture: SourceObject, options: str) -> Row:
    """The row of a picture as long as nothing is known of its content."""
    source = encodable_text(picture.key)
    return Row(source=source, version=picture.version, size_bytes=picture.size_bytes, options=options, outcome="done")


def with_earlier_results(row: Row, earlier: Row | None, target: Store, new: Collection[str] = ()) -> Row:
    """The row with the texts of an earlier run, and with its results that remain in the target.

    These are all that still exist, also if the user has edited them, except those of the kinds in `new`, which the
    caller replaces. Raises: OSError.
    """
    if earlier is None:
        return row
    files = {kind: getattr(earlier, kind) for kind in RESULT_FIELDS if kind not in new}
    remaining = {kind: file for kind, file in files.items() if file is not None and target.exists(file.path)}
    removed = {*row.removed, *earlier.removed} if remaining else row.removed
    return structs.replace(
        row,
        translations=earlier.translations,
        removed=tuple(sorted(removed)),
        format=row.format or earlier.format,
        **remaining,
    )


class PendingPicture(Struct, frozen=True):
    """A picture that has to be processed, with its row of an earlier run.

    `described` is the result of its analyze stage on a worker that has the vision model; None if there is none yet, or
    if the worker that processes the picture also runs that stage.
    """

    picture: SourceObject
    earlier: Row | None = None
    described: StageResult | None = None
