"""A job and its stages. The status of a job is derived from its stages and not stored."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from imgproc_local.domain.image import Format
from imgproc_local.domain.result import Translation


class StageName(StrEnum):
    ANALYZE = "analyze"
    OPTIMIZE = "optimize"
    CONVERT = "convert"


class StageState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class Status(StrEnum):
    """Set A of the published interface."""

    PENDING = "pending"
    ANALYZING = "analyzing"
    OPTIMIZING = "optimizing"
    CONVERTING = "converting"
    COMPLETED = "completed"
    FAILED = "failed"

    @property
    def final(self) -> bool:
        return self in (Status.COMPLETED, Status.FAILED)


VERBS = {
    StageName.ANALYZE: Status.ANALYZING,
    StageName.OPTIMIZE: Status.OPTIMIZING,
    StageName.CONVERT: Status.CONVERTING,
}


class Stage(Struct, frozen=True):
    """One stage as stored. `started_seq` counts starts over the whole service: the highest started last.

    A stage that was running when the process was killed is pending again, with the same `started_seq`.
    """

    name: StageName
    state: StageState
    started_seq: int | None = None
    error: str | None = None


class StoredFile(Struct, frozen=True):
    """A file of a job: its content address, size in bytes and format."""

    sha256: str
    size_bytes: int
    format: Format


class Job(Struct, frozen=True):
    """A job as clients see it."""

    id: str
    image_id: str
    account_id: str
    project_id: str
    operation: str
    original_filename: str
    original: StoredFile
    stages: tuple[Stage, ...]
    created_at: str
    optimized: StoredFile | None = None
    converted: StoredFile | None = None
    translations: tuple[Translation, ...] = ()

    @property
    def status(self) -> Status:
        return derive_status(self.stages)


def is_newer(job: Job, seen: Job) -> bool:
    """Whether `job` is a later state of the same job than `seen`: more stages started or ended, none fewer."""
    now, before = _progress(job.stages), _progress(seen.stages)
    return now != before and now[0] >= before[0] and now[1] >= before[1]


def _progress(stages: Sequence[Stage]) -> tuple[int, int]:
    ended = sum(stage.state in (StageState.DONE, StageState.FAILED) for stage in stages)
    return ended, max((stage.started_seq or 0 for stage in stages), default=0)


def derive_status(stages: Sequence[Stage]) -> Status:
    """The status of a job with these stages. Source: api/README.md, "Status"."""
    started = [stage for stage in stages if stage.started_seq is not None]
    open_stages = [stage for stage in stages if stage.state in (StageState.PENDING, StageState.RUNNING)]
    if not open_stages:
        failed = any(stage.state is StageState.FAILED for stage in stages)
        return Status.FAILED if failed else Status.COMPLETED
    if not started:
        return Status.PENDING
    return VERBS[max(started, key=lambda stage: stage.started_seq or 0).name]
