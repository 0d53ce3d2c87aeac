"""Reads jobs with their stages and translations: as they are, as claimed stages to run, and as images to export."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import NotFound
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.job import Job, JobDetails, StageName, StageRecord, StageState, StoredFile
from imgproc_local.domain.plan import Operation, Plan
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import TextSource, TextState, Translation
from imgproc_local.storage.database import Database, Row, Transaction

EXPORT_BATCH = 500
"""Jobs of an export that one statement reads; between two statements, other lists are read."""
MAX_ATTEMPTS = 3
"""A stage fails after the process has ended this many times while the stage was running."""


class _StageRow(Struct):
    name: StageName
    state: StageState
    started_seq: int | None
    error: str | None
    output_sha256: str | None
    output_size: int | None
    output_format: Format | None
    output_removed_at: str | None
    removed: tuple[Removed, ...] | None

    @property
    def output(self) -> StoredFile | None:
        if self.output_sha256 is None or self.output_size is None or self.output_format is None:
            return None
        return StoredFile(
            self.output_sha256, self.output_size, self.output_format, expired=self.output_removed_at is not None
        )


class _TextRow(Struct):
    """A translation and its state. Boolean columns are 0 or 1."""

    language_code: str
    seo_filename: str
    seo_alt_text: str
    source: TextSource
    can_undo: int
    can_redo: int
    regeneration: str | None
    error: str | None

    @property
    def text(self) -> Translation:
        return Translation(self.language_code, self.seo_filename, self.seo_alt_text, self.source)

    @property
    def state(self) -> TextState:
        is_waiting = self.regeneration in ("pending", "running")
        return TextState(bool(self.can_undo), bool(self.can_redo), is_waiting, self.error)


_decode_stages = msgspec.json.Decoder(tuple[_StageRow, ...]).decode
_decode_texts = msgspec.json.Decoder(tuple[_TextRow, ...]).decode
_decode_languages = msgspec.json.Decoder(tuple[str, ...]).decode
_decode_info = msgspec.json.Decoder(ImageInfo).decode


async def read_job(tx: Transaction, job_id: str, account_id: str | None = None) -> Job:
    """The present state of the job. Raises: NotFound, also for a job of another account than `account_id`."""
    jobs = await read_jobs(tx, [job_id], account_id)
    if not jobs:
        raise NotFound(f"No job {job_id!r} in this account.")
    return jobs[0]


async def read_jobs(tx: Transaction, job_ids: Sequence[str], account_id: str | None = None) -> list[Job]:
    """The jobs that exist, newest first; with `account_id`, only those of this account."""
    parameters = {
        "ids": msgspec.json.encode(job_ids).decode(),
        "account_id": account_id,
        "uncommitted": int(tx.has_changes),
    }
    return [_to_job(row) for row in await tx.all("jobs_by_id", parameters)]


def _to_job(row: Row) -> Job:
    stages: tuple[_StageRow, ...] = _decode_stages(row["stages"])
    texts: tuple[_TextRow, ...] = _decode_texts(row["translations"])
    outputs: dict[str, Any] = {stage.name: stage.output for stage in stages}
    info = _decode_info(row["info"])
    return Job(
        id=row["id"],
        image_id=row["image_id"],
        account_id=row["account_id"],
        project_id=row["project_id"],
        operation=Operation(row["operation"]).value,
        original_filename=row["original_filename"],
        original=StoredFile(
            row["original_sha256"], row["original_size"], info.format, expired=row["original_removed_at"] is not None
        ),
        stages=tuple(
            StageRecord(stage.name, stage.state, stage.started_seq, stage.error, stage.removed or ())
            for stage in stages
        ),
        created_at=row["created_at"],
        optimized=outputs.get(StageName.OPTIMIZE),
        converted=outputs.get(StageName.CONVERT),
        translations=tuple(text.text for text in texts),
        text_states={text.language_code: text.state for text in texts},
        revision=row["revision"],
        details=JobDetails(
            project_name=row["project_name"],
            languages=_decode_languages(row["languages"]),
            info=info,
            max_width_px=row["max_width_px"],
            max_height_px=row["max_height_px"],
            thumbnail=_thumbnail(row),
        ),
    )


def _thumbnail(row: Row) -> StoredFile | None:
    sha256, size_bytes = row["thumbnail_sha256"], row["thumbnail_size"]
    return None if sha256 is None else StoredFile(sha256, size_bytes, Format.WEBP)


class ClaimedStage(Struct, frozen=True):
    """A stage to run, and what it needs to know. `attempts` includes this run.

    `regeneration_id` is that of a request to write one text anew; None for a stage of the job itself.
    """

    job: Job
    stage: StageName
    attempts: int
    info: ImageInfo
    plan: Plan
    regeneration_id: int | None = None


async def read_claimed(
    tx: Transaction,
    job_id: str,
    stage: StageName,
    attempts: int,
    languages: tuple[str, ...] | None = None,
    regeneration_id: int | None = None,
) -> ClaimedStage:
    """The stage, which was claimed in this transaction. Without `languages`, it has those of the job."""
    work = await tx.one("work_of_job", {"job_id": job_id})
    assert work is not None
    return ClaimedStage(
        job=await read_job(tx, job_id),
        stage=stage,
        attempts=attempts,
        info=_decode_info(work["info"]),
        plan=Plan(
            operation=Operation(work["operation"]),
            languages=languages or _decode_languages(work["languages"]),
            format=Format(work["convert_to"]),
            project_name=work["project_name"],
            context=work["context"],
            max_width_px=work["max_width_px"],
            max_height_px=work["max_height_px"],
        ),
        regeneration_id=regeneration_id,
    )


# ---- exports ----


class ExportImage(Struct, frozen=True):
    """An image to be exported: its job, the name of its project, and the languages that were requested."""

    job: Job
    project: str
    languages: tuple[str, ...]

    @property
    def has_analysis(self) -> bool:
        """Whether texts were requested for the image."""
        return any(stage.name is StageName.ANALYZE for stage in self.job.stages)


async def job_ids_of_images(database: Database, account_id: str, image_ids: Sequence[str]) -> dict[str, str]:
    """The ids of the jobs of those images that the account has, by the id of the image."""
    parameters = {"account_id": account_id, "image_ids": msgspec.json.encode(image_ids).decode()}
    async with database.listing() as read:
        rows = await read.all("job_ids_of_images", parameters)
    return {row["image_id"]: row["id"] for row in rows}


async def finished_job_ids(database: Database, account_id: str, project_id: str | None, limit: int) -> list[str]:
    """The ids of at most `limit` finished jobs of the account, or of one of its projects, oldest first."""
    parameters = {"account_id": account_id, "project_id": project_id, "limit": limit}
    async with database.listing() as read:
        return [row["id"] for row in await read.all("finished_job_ids", parameters)]


async def read_export_images(database: Database, account_id: str, job_ids: Sequence[str]) -> list[ExportImage]:
    """The images of the jobs that exist, in the order of `job_ids`."""
    images: dict[str, ExportImage] = {}
    for start in range(0, len(job_ids), EXPORT_BATCH):
        batch = job_ids[start : start + EXPORT_BATCH]
        async with database.listing() as read:
            for job in await read_jobs(read, batch, account_id):
                assert job.details is not None
                images[job.id] = ExportImage(job, job.details.project_name, job.details.languages)
    return [images[job_id] for job_id in job_ids if job_id in images]
