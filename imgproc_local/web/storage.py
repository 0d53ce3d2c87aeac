"""The page's endpoints for the disk: what occupies it, and removing old jobs or their files."""

from __future__ import annotations

import asyncio
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from litestar import Request, post
from msgspec import Meta, Struct

from imgproc_local.api.json_body import read_json
from imgproc_local.compose import DATABASE_FILE, Services
from imgproc_local.domain.errors import InvalidRequest
from imgproc_local.storage.database import rfc3339
from imgproc_local.storage.disk_usage import FileTotals, JobFiles, job_files, totals_of
from imgproc_local.storage.inspection import WORK_FOLDER
from imgproc_local.storage.retention import LATEST, MaxAge, Removable, Retention
from imgproc_local.storage.sessions import PageSession
from imgproc_local.system.audit import audit
from imgproc_local.web.guard import get

DEFAULT_DAYS = 90
MAX_DAYS = 36_500
REMOVE_ROWS_S, DELETE_FILES_S = 10.0, 8.0
"""How long the steps of a prune may take: the page waits for 30 seconds, and repeats the request if rows are left."""

Only = Literal["jobs", "originals", "results"]
ONLY: dict[str, Only] = {"jobs": "jobs", "originals": "originals", "results": "results"}


class Prune(Struct, frozen=True, forbid_unknown_fields=True):
    """What to remove: finished jobs with their files, or only the originals or the results of finished jobs.

    `older_than_days` counts from the upload; 0 is every finished job. With the `counted_at` of an earlier
    `GET /local/storage`, jobs that have finished since then are left as they are.
    """

    older_than_days: Annotated[int, Meta(ge=0, le=MAX_DAYS)]
    only: Only = "jobs"
    counted_at: Annotated[datetime, Meta(tz=True)] | None = None


class PruneResult(Struct, frozen=True):
    """What a prune would remove, or has removed. `jobs` is 0 if only files are removed.

    `is_complete` is false if the prune ran out of time: the same request removes the rest.
    """

    older_than_days: int
    only: Only
    jobs: int
    files: int
    size_bytes: int
    is_complete: bool = True


class Storage(Struct, frozen=True):
    """The parts of the data folder and of the models folder.

    `backups` are copies of the database from before a migration; `temporary` are uploads and pictures in progress.
    `free_bytes` and `disk_bytes` are of the disk that holds the data folder. `retention_days` are the settings that
    remove jobs, originals and results automatically; 0 is never. `prune` is what the prune of the query would remove,
    counted at `counted_at`.
    """

    data_dir: str
    jobs: int
    originals: FileTotals
    results: FileTotals
    thumbnails: FileTotals
    models: FileTotals
    database: FileTotals
    backups: FileTotals
    logs: FileTotals
    temporary: FileTotals
    free_bytes: int
    disk_bytes: int
    retention_days: dict[Only, int]
    counted_at: str
    prune: PruneResult


class StorageBody(Struct, frozen=True):
    data: Storage


class PruneBody(Struct, frozen=True):
    data: PruneResult


@get("/local/storage")
async def storage(request: Request[Any, Any, Any]) -> StorageBody:
    """What occupies the disk, and what the prune that the query describes would remove."""
    services: Services = request.app.state.services
    planned = _prune_of_query(request)
    async with services.store.database.reading() as read:
        counted_at = read.at
    stored = await job_files(services.store.database)
    removable = await Retention(services.store.database).removable(_max_age(planned))
    return StorageBody(await asyncio.to_thread(_storage, services, stored, counted_at, _result(planned, removable)))


@post("/local/storage/prune", status_code=200)
async def prune(request: Request[Any, Any, Any]) -> PruneBody:
    """Remove finished jobs, or only files of them, for good."""
    services: Services = request.app.state.services
    expected = (
        f"a JSON object with older_than_days (0 to {MAX_DAYS}) and optionally only (jobs, originals or results) and"
        " counted_at (a time with its offset)"
    )
    planned = await read_json(request, Prune, expected)
    session: PageSession = request.scope["user"]
    retention, age = Retention(services.store.database), _max_age(planned)
    finished_before = LATEST if planned.counted_at is None else rfc3339(planned.counted_at)
    found = await retention.removable(age, finished_before=finished_before)
    is_complete = await retention.remove(age, REMOVE_ROWS_S, finished_before=finished_before)
    left = Removable(0, 0, 0) if is_complete else await retention.removable(age, finished_before=finished_before)
    removed = Removable(found.jobs - left.jobs, found.files - left.files, found.size_bytes - left.size_bytes)
    audit("data.prune", kind=planned.only, jobs=removed.jobs, files=removed.files, session=session.id)
    await retention.delete_files(services.blobs, DELETE_FILES_S)  # the upkeep deletes the rest
    services.engine.reset_account_changes()
    return PruneBody(_result(planned, removed, is_complete=is_complete))


def _prune_of_query(request: Request[Any, Any, Any]) -> Prune:
    """Raises: InvalidRequest."""
    days = request.query_params.get("older_than_days", str(DEFAULT_DAYS))
    only = ONLY.get(request.query_params.get("only", "jobs"))
    errors = {}
    if not (days.isascii() and days.isdecimal() and len(days) <= 6 and int(days) <= MAX_DAYS):
        errors["older_than_days"] = [
            f"older_than_days must be an integer from 0 to {MAX_DAYS}; received {days[:40]!r}."
        ]
    if only is None:
        errors["only"] = ["only must be jobs, originals or results."]
    if errors or only is None:
        raise InvalidRequest(errors)
    return Prune(int(days), only)


def _max_age(planned: Prune) -> MaxAge:
    return MaxAge(**{planned.only: timedelta(days=planned.older_than_days)})


def _result(planned: Prune, removable: Removable, *, is_complete: bool = True) -> PruneResult:
    counts = (removable.jobs, removable.files, removable.size_bytes)
    return PruneResult(planned.older_than_days, planned.only, *counts, is_complete)


def _storage(services: Services, stored: JobFiles, counted_at: str, expected: PruneResult) -> Storage:
    config, blobs = services.config, services.blobs
    folder = config.data_dir
    database = folder / DATABASE_FILE
    backups = sorted(folder.glob(f"{DATABASE_FILE}.schema-*"))
    disk = shutil.disk_usage(folder)
    return Storage(
        data_dir=str(folder),
        jobs=stored.jobs,
        originals=stored.originals,
        results=stored.results,
        thumbnails=totals_of([blobs.thumbnail_folder]),
        models=totals_of([config.models_folder]),
        database=totals_of([database, *(_with_ending(database, ending) for ending in ("-wal", "-shm"))]),
        backups=totals_of(backups),
        logs=totals_of([folder / "logs"]),
        temporary=totals_of([blobs.incoming_folder, folder / WORK_FOLDER]),
        free_bytes=disk.free,
        disk_bytes=disk.total,
        retention_days={
            "jobs": config.retention_jobs_days,
            "originals": config.retention_originals_days,
            "results": config.retention_results_days,
        },
        counted_at=counted_at,
        prune=expected,
    )


def _with_ending(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


HANDLERS = [storage, prune]
