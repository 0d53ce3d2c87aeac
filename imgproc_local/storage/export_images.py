"""Reads the images of an export: their jobs, projects and languages."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from imgproc_local.domain.job import Job, StageName
from imgproc_local.storage.database import Database
from imgproc_local.storage.job_rows import read_jobs

BATCH = 500
"""Jobs that one statement reads; between two statements, other lists are read."""


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
    for start in range(0, len(job_ids), BATCH):
        batch = job_ids[start : start + BATCH]
        async with database.listing() as read:
            jobs = await read_jobs(read, batch, account_id)
            rows = await read.all("export_details", {"ids": msgspec.json.encode(batch).decode()})
        details = {row["id"]: row for row in rows}
        for job in jobs:
            if (row := details.get(job.id)) is not None:  # None: deleted between the two statements
                languages = msgspec.json.decode(row["languages"], type=tuple[str, ...])
                images[job.id] = ExportImage(job, row["project"], languages)
    return [images[job_id] for job_id in job_ids if job_id in images]
