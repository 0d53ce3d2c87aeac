"""A job and its stages. The status of a job is derived from its stages and not stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Literal, get_args

from msgspec import Struct

from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import RoleSuggestion, TextState, Translation


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


_STATUS_OF_STAGE = {
    StageName.ANALYZE: Status.ANALYZING,
    StageName.OPTIMIZE: Status.OPTIMIZING,
    StageName.CONVERT: Status.CONVERTING,
}
"""The status of an unfinished job, by the stage that was started last."""


class StageRecord(Struct, frozen=True):
    """A stage of a job as stored.

    `started_seq` is None before the first start. At each start it gets the next number of a counter that all jobs
    share, so of several stages the one with the highest number was started last. A stage that was running when the
    process was killed is pending again and retains its number. `file` is its result, if that is a file. `removed` are
    the kinds of private data that the upload holds and the result does not; empty before the stage is done.
    """

    name: StageName
    state: StageState
    started_seq: int | None = None
    error: str | None = None
    removed: tuple[Removed, ...] = ()
    file: StoredFile | None = None


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
    is one of `domain.plan.Role`. `suggestion` is None until the picture is analyzed.
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
    max_width_px: int | None = None
    max_height_px: int | None = None
    thumbnail: StoredFile | None = None
    translations: tuple[Translation, ...] = ()
    text_states: Mapping[str, TextState] = {}
    role: str = "informative"
    suggestion: RoleSuggestion | None = None

    @property
    def status(self) -> Status:
        return derive_status(self.stages)

    @property
    def optimized(self) -> StoredFile | None:
        return self._file_of(StageName.OPTIMIZE)

    @property
    def converted(self) -> StoredFile | None:
        return self._file_of(StageName.CONVERT)

    def _file_of(self, name: StageName) -> StoredFile | None:
        return next((stage.file for stage in self.stages if stage.name is name), None)

    @property
    def removed(self) -> tuple[Removed, ...]:
        """The kinds of private data that at least one result does not carry, sorted."""
        return tuple(sorted({kind for stage in self.stages for kind in stage.removed}))


def derive_status(stages: Sequence[StageRecord]) -> Status:
    """The status of a job with these stages. Source: api/README.md, "Status"."""
    started = [stage for stage in stages if stage.started_seq is not None]
    open_stages = [stage for stage in stages if stage.state in (StageState.PENDING, StageState.RUNNING)]
    if not open_stages:
        failed = any(stage.state is StageState.FAILED for stage in stages)
        return Status.FAILED if failed else Status.COMPLETED
    if not started:
        return Status.PENDING
    return _STATUS_OF_STAGE[max(started, key=lambda stage: stage.started_seq or 0).name]
