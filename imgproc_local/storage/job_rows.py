"""Reads jobs with their stages and texts. The statement `jobs_by_id` makes the JSON of each."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from imgproc_local.domain.errors import NotFound
from imgproc_local.domain.job import Job
from imgproc_local.storage.database import Transaction

_decode_job = msgspec.json.Decoder(Job, strict=False).decode  # SQLite's truth values are 0 and 1


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
    return [_decode_job(row["job"]) for row in await tx.all("jobs_by_id", parameters)]
