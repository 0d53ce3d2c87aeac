"""A job and its stages. The status of a job is not stored: the view `job_status` derives it from the stages."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, get_args

from msgspec import Struct

from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import Note, RoleSuggestion, TextState, Translation, Words, conversion_notes


class StageName(StrEnum):
    ANALYZE = "analyze"
    OPTIMIZE = "optimize"
    CONVERT = "convert"


Variant = Literal["optimized", "converted", "original"]
"""One of the files of an image."""
VARIANTS: tuple[Variant, ...] = get_args(Variant)
MADE_BY: dict[Variant, StageName] = {"optimized": StageName.OPTIMIZE, "converted": StageName.CONVERT}
"""The stages that make files."""


class StageState(StrEnum):
    """A stage is pending, then running, then done or failed. A restart makes a running stage pending again."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class Status(StrEnum):
    """The status of a job in the HTTP interface ("Set A" in api/README.md, "Status")."""

    PENDING = "pending"
    ANALYZING = "analyzing"
    OPTIMIZING = "optimizing"
    CONVERTING = "converting"
    COMPLETED = "completed"
    FAILED = "failed"

    @property
    def final(self) -> bool:
        """Whether the status never changes again."""
        return self in (Status.COMPLETED, Status.FAILED)


class StageRecord(Struct, frozen=True):
    """A stage of a job as stored.

    `file` is its result, if that is a file. `removed` are the kinds of private data that the upload holds and the
    result does not; empty before the stage is done. `score` is that of a lossy result by SSIMULACRA 2.1, None if it was
    not measured. `notes` are those on the result.
    """

    name: StageName
    state: StageState
    error: str | None = None
    removed: tuple[Removed, ...] = ()
    file: StoredFile | None = None
    score: float | None = None
    notes: tuple[Note, ...] = ()


class StoredFile(Struct, frozen=True):
    """A file of a job. `sha256` is the hexadecimal hash of its content, under which it is stored.

    An `expired` file was removed because of its age; its size and format remain known.
    """

    sha256: str
    size_bytes: int
    format: Format
    expired: bool = False


class SizedFile(StoredFile, frozen=True, kw_only=True):
    """The converted picture at another width."""

    width_px: int
    height_px: int


class Project(Struct, frozen=True):
    """A project of an account; `pictures` is the number of its jobs."""

    id: str
    name: str
    pictures: int


class Job(Struct, frozen=True):
    """A job with what was requested, its stages and results. Times are RFC 3339 in UTC.

    `info` describes the upload. `max_width_px` and `max_height_px` limit the size of results; None is no limit.
    `thumbnail` is None until it was asked for. `text_states` has an entry for the language of each translation. `role`
    is one of `domain.plan.Role`. `suggestion` is None until the picture is analyzed. `folder` is where the upload was
    on the sender's disk, "" if that is not known. `quality_target` is None for that of the service. `remaking` says
    that a result is being made anew; `remake_error` is why that failed the last time. With `only_smaller`, a converted
    file that is not smaller is not kept. `variants` are the converted picture at those of the requested `widths` that
    are smaller than its own, the smallest first.
    """

    id: str
    image_id: str
    account_id: str
    project_id: str
    operation: str
    original_filename: str
    original: StoredFile
    stages: tuple[StageRecord, ...]
    created_at: str
    project_name: str
    languages: tuple[str, ...]
    info: ImageInfo
    status: Status
    max_width_px: int | None = None
    max_height_px: int | None = None
    thumbnail: StoredFile | None = None
    translations: tuple[Translation, ...] = ()
    text_states: Mapping[str, TextState] = {}
    role: str = "informative"
    suggestion: RoleSuggestion | None = None
    folder: str = ""
    quality_target: str | float | None = None
    words: Words = Words()
    remaking: bool = False
    remake_error: str | None = None
    only_smaller: bool = False
    widths: tuple[int, ...] = ()
    variants: tuple[SizedFile, ...] = ()

    def file(self, variant: Variant) -> StoredFile | None:
        """One of the files; None if it is not made."""
        if variant == "original":
            return self.original
        return next((stage.file for stage in self.stages if stage.name is MADE_BY[variant]), None)

    def files(self, variant: Variant) -> tuple[StoredFile, ...]:
        """One of the files, and that at other widths; none if it is not made."""
        file = self.file(variant)
        return () if file is None else (file, *(self.variants if variant == "converted" else ()))

    def notes(self, variant: Variant) -> tuple[Note, ...]:
        """The notes on one of the results."""
        notes = next((stage.notes for stage in self.stages if stage.name is MADE_BY[variant]), ())
        is_converted = variant == "converted"
        return conversion_notes(notes, self.file("converted"), self.file("optimized")) if is_converted else notes

    @property
    def removed(self) -> tuple[Removed, ...]:
        """The kinds of private data that at least one result does not carry, sorted."""
        return tuple(sorted({kind for stage in self.stages for kind in stage.removed}))
