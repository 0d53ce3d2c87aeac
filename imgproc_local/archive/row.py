"""What the manifest of an archive says about one picture. Rows are stored as Parquet (`manifest`)."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, structs

from imgproc_local.batch.files import ResultFile
from imgproc_local.domain.image import Format
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import Translation

Outcome = Literal["done", "failed", "skipped"]
"""An object is `skipped` if it is not a picture."""
FailureKind = Literal["", "picture", "source", "target", "worker"]
"""What failed: a stage or the picture itself (`picture`), reading it (`source`), writing its results (`target`), or
every worker that processed it (`worker`); "" if nothing did.
"""


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

    `format` is that of the picture itself, None if it was not read. `cpu_s` is the CPU time of the worker and its
    processes, None if it was not measured.
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
    cpu_s: float | None = None

    @property
    def files(self) -> tuple[ResultFile, ...]:
        return tuple(file for file in (self.optimized, self.converted, self.sidecar) if file is not None)

    @property
    def needs_text(self) -> bool:
        """Whether a person has to write one of the alt texts."""
        return any(text.needs_text for text in self.translations)


def with_earlier_results(row: Row, earlier: Row | None) -> Row:
    """The row of a picture without new results, with those of an earlier run, which are still in the target."""
    if earlier is None or not earlier.files:
        return row
    return structs.replace(
        row,
        optimized=earlier.optimized,
        converted=earlier.converted,
        sidecar=earlier.sidecar,
        translations=earlier.translations,
        removed=earlier.removed,
        format=row.format or earlier.format,
    )
