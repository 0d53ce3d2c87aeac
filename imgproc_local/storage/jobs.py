"""Jobs: submitted, read, listed, deleted, and removed when they are too old. `stages.py` works on their stages.

A job, its stages and the hold of their credits are written in one transaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from imgproc_local.domain.errors import IdempotencyConflict, NotFound, QueueFull
from imgproc_local.domain.image import ImageInfo
from imgproc_local.domain.job import Job, Project, StageName, Status
from imgproc_local.domain.plan import Plan
from imgproc_local.storage.accounts import move_credits, project_of_plan, require_credits, require_project
from imgproc_local.storage.blobs import Blobs
from imgproc_local.storage.database import Database, Transaction, new_id, rfc3339

_READ_AT_ONCE = 500
"""Jobs that one statement reads at most; between two statements, other lists are read."""


class Submission(Struct, frozen=True):
    """An upload to be queued. `record` is what its metadata says, packed by `codecs.metadata`.

    `prices` are those of its stages, in order; `lanes` says where each stage runs.
    """

    account_id: str
    plan: Plan
    original_filename: str
    sha256: str
    size_bytes: int
    info: ImageInfo
    prices: Mapping[StageName, int]
    lanes: Mapping[StageName, str]
    idempotency_key: str | None = None
    record: bytes | None = None

    @property
    def fingerprint(self) -> str:
        """Equal for two requests with the same body. It is stored, so it holds a hash of the context, not its words.

        Size limits that were not sent are left out, as in fingerprints of earlier versions.
        """
        sizes = (("max_width_px", None), ("max_height_px", None))
        plan = {name: value for name, value in self.plan.hashed.items() if (name, value) not in sizes}
        context = plan.pop("context")
        body = [plan, self.original_filename, self.sha256]
        if context and self.idempotency_key is not None:
            body.append(hashlib.sha256(f"{self.sha256} {context}".encode()).hexdigest())
        return msgspec.json.encode(body).decode()


class JobFilters(Struct, frozen=True):
    """Which jobs a list has: those that match every filter that is set.

    `needs_text`: a person has to write an alt text. `language_missing`: the job has no text in this language, or a
    person has to write it. `larger_than_optimized`: the converted file is not smaller than the optimized one.
    """

    statuses: tuple[Status, ...] | None = None
    project_id: str | None = None
    needs_text: bool = False
    language_missing: str | None = None
    larger_than_optimized: bool = False


_NO_FILTERS = JobFilters()


_decode_job = msgspec.json.Decoder(Job, strict=False).decode  # SQLite's truth values are 0 and 1


async def read_job(tx: Transaction, job_id: str, account_id: str | None = None) -> Job:
    """The present state of the job. Raises: NotFound, also for a job of another account than `account_id`."""
    jobs = await _read_jobs(tx, [job_id], account_id)
    if not jobs:
        raise NotFound(f"No job {job_id!r} in this account.")
    return jobs[0]


async def _read_jobs(tx: Transaction, job_ids: Sequence[str], account_id: str | None = None) -> list[Job]:
    """The jobs that exist, newest first; with `account_id`, only those of this account."""
    rows = await tx.all("jobs_by_id", {"ids": job_ids, "account_id": account_id})
    return [_decode_job(row["job"]) for row in rows]


class Jobs:
    """The jobs of all accounts. `queue_limit` is how many may be unfinished, all together; above it, an account without
    any may still have one.
    """

    def __init__(self, database: Database, queue_limit: int) -> None:
        self._database = database
        self._queue_limit = queue_limit

    # ---- submitting ----

    async def submit(self, submission: Submission) -> tuple[Job, bool]:
        """The queued job, and whether it is new: a repeated idempotency key with the same body gives the earlier job.

        Raises:
            IdempotencyConflict, QueueFull, InsufficientCredits, InvalidRequest: nothing was stored.
        """
        async with self._database.transaction() as tx:
            earlier = await self._earlier(tx, submission)
            if earlier is not None:
                return earlier, False
            await self._require_room(tx, submission.account_id)
            await require_credits(tx, submission.account_id, sum(submission.prices.values()))
            project_id = await project_of_plan(tx, submission.account_id, submission.plan)
            job_id = new_id(tx.now, above=await tx.value("highest_job_id"))
            job = asdict(submission) | msgspec.to_builtins(submission.plan) | {"project_id": project_id}
            job |= {"id": job_id, "image_id": new_id(), "fingerprint": submission.fingerprint}
            await tx.run("insert_job", job)
            if submission.record is not None:
                await tx.run("insert_record", {"job_id": job_id, "record": submission.record})
            if submission.plan.context:
                await tx.run("insert_context", {"job_id": job_id, "context": submission.plan.context})
            for stage, price in submission.prices.items():
                values = {"account_id": submission.account_id, "job_id": job_id, "name": stage.value}
                await tx.run("insert_stage", {**values, "lane": submission.lanes[stage], "price": price})
                await move_credits(tx, submission.account_id, "hold", -price, job_id, stage.value)
            return await read_job(tx, job_id), True

    async def _earlier(self, tx: Transaction, submission: Submission) -> Job | None:
        if submission.idempotency_key is None:
            return None
        since = rfc3339(tx.now - timedelta(hours=24))
        sent = {"account_id": submission.account_id, "idempotency_key": submission.idempotency_key, "since": since}
        row = await tx.one("job_by_idempotency_key", sent)
        if row is None:
            return None
        if row["fingerprint"] != submission.fingerprint:
            raise IdempotencyConflict(
                "This Idempotency-Key was sent with another body in the last 24 hours; use a new key for a new request."
            )
        return await read_job(tx, row["id"])

    async def require_room(self, account_id: str) -> None:
        """For a check before an upload is read; `submit` checks again. Raises: QueueFull."""
        async with self._database.reading() as read:
            await self._require_room(read, account_id)

    async def _require_room(self, tx: Transaction, account_id: str) -> None:
        """Raises: QueueFull, if the limit is reached and the account has unfinished jobs: each may have one."""
        queue = await tx.row("queue_length", {"account_id": account_id})
        if queue["total"] >= self._queue_limit and queue["own"]:
            raise QueueFull(self._queue_limit, "unfinished jobs")

    async def require_project(self, account_id: str, project_id: str) -> None:
        """Raises `InvalidRequest` where the account has no such project."""
        async with self._database.reading() as read:
            await require_project(read, account_id, project_id)

    # ---- reading ----

    async def get(self, job_id: str, account_id: str | None = None) -> Job:
        """The present state of the job. Raises: NotFound, also for a job of another account than `account_id`."""
        async with self._database.reading() as read:
            return await read_job(read, job_id, account_id)

    async def by_image(self, image_id: str, account_id: str) -> Job:
        """The job of an image. Raises `NotFound`."""
        async with self._database.reading() as read:
            job_id = await read.value("job_id_by_image", {"image_id": image_id, "account_id": account_id})
            if job_id is None:
                raise NotFound(f"No image {image_id!r} in this account.")
            return await read_job(read, job_id, account_id)

    async def page(
        self, account_id: str, limit: int, filters: JobFilters = _NO_FILTERS, before_id: str | None = None
    ) -> list[Job]:
        """At most `limit` jobs that match `filters`, newest first, older than `before_id` where it is given."""
        parameters = asdict(filters) | {"statuses": filters.statuses or (), "account_id": account_id, "limit": limit}
        parameters["before_id"] = before_id or "~"  # after every ULID
        async with self._database.listing() as read:
            ids = {row["id"] for query in _list_queries(filters) for row in await read.all(query, parameters)}
            return await _read_jobs(read, sorted(ids, reverse=True)[:limit], account_id)

    async def several(self, job_ids: Sequence[str], account_id: str) -> list[Job]:
        """The jobs of `job_ids` that exist in the account, in this order."""
        found: dict[str, Job] = {}
        for start in range(0, len(job_ids), _READ_AT_ONCE):
            async with self._database.listing() as read:
                jobs = await _read_jobs(read, job_ids[start : start + _READ_AT_ONCE], account_id)
            found.update((job.id, job) for job in jobs)
        return [found[job_id] for job_id in job_ids if job_id in found]

    async def ids_of_images(self, image_ids: Sequence[str], account_id: str) -> dict[str, str]:
        """The ids of the jobs of those images that the account has, by the id of the image."""
        rows = await self._database.list_all("job_ids_of_images", {"account_id": account_id, "image_ids": image_ids})
        return {row["image_id"]: row["id"] for row in rows}

    async def finished_ids(self, account_id: str, project_id: str | None, limit: int) -> list[str]:
        """The ids of at most `limit` finished jobs of the account, or of one of its projects, oldest first."""
        parameters = {"account_id": account_id, "project_id": project_id, "limit": limit}
        return [row["id"] for row in await self._database.list_all("finished_job_ids", parameters)]

    async def count(self, account_id: str) -> int:
        """The number of all jobs of the account."""
        async with self._database.listing() as read:
            return int(await read.value("count_jobs_of_account", {"account_id": account_id}))

    async def projects(self, account_id: str) -> list[Project]:
        """The projects of the account, by name."""
        rows = await self._database.list_all("list_projects", {"account_id": account_id})
        return [Project(row["id"], row["name"], row["pictures"]) for row in rows]

    # ---- changing ----

    async def record_thumbnail(self, job_id: str, sha256: str, size_bytes: int) -> bool:
        """Store the thumbnail of a job, which the blobs already hold; False where the upload has been removed."""
        async with self._database.transaction() as tx:
            values = {"job_id": job_id, "sha256": sha256, "size": size_bytes}
            return await tx.value("set_thumbnail", values) is not None

    async def delete(self, job_id: str, account_id: str) -> list[str]:
        """Delete the job, release the credits of what has not started, and return the SHA-256 sums of its files.

        Raises:
            NotFound: no such job in this account.
        """
        async with self._database.transaction() as tx:
            await read_job(tx, job_id, account_id)  # raises if the account has no such job
            for stage in await tx.all("pending_stages_of_job", {"job_id": job_id}):
                await move_credits(tx, account_id, "release", stage["price"], job_id, stage["paid_as"])
            files = [row["sha256"] for row in await tx.all("files_of_job", {"job_id": job_id})]
            await tx.run("delete_job", {"job_id": job_id})
        return files

    async def referenced_files(self) -> set[str]:
        return {row["sha256"] for row in await self._database.list_all("referenced_files")}

    async def is_referenced(self, sha256: str) -> bool:
        return bool(await self._database.read_value("file_referenced", {"sha256": sha256}))

    async def queue_depths(self) -> list[tuple[str, str, int]]:
        """The stages that wait or run: lane, state (`pending` or `running`), count."""
        return [(row["lane"], row["state"], row["stages"]) for row in await self._database.read_all("queue_depths")]

    async def stored_bytes(self) -> int:
        """The size of all files that jobs reference; a file of several jobs counts once."""
        return int(await self._database.read_value("stored_bytes"))

    async def check_writable(self) -> None:
        """Write to the database, to check that it can be written. Raises: StorageFailed."""
        async with self._database.transaction() as tx:
            await tx.run("beat")


def _list_queries(filters: JobFilters) -> list[str]:
    """The names of the statements that together list the jobs that match `filters`."""
    if filters.needs_text:
        return ["list_jobs_needing_text"]
    all_jobs = "list_jobs" if filters.project_id is None else "list_jobs_of_project"
    queries = {Status.COMPLETED: all_jobs, Status.FAILED: "list_failed_jobs"}
    # most jobs are completed, so that an index of these would not shorten the search
    return list({queries.get(status, "list_open_jobs") for status in filters.statuses or (Status.COMPLETED,)})


# ---- retention ----

_BATCH = 200
"""Jobs, or files, of one transaction; few, so that uploads do not wait long for it."""
_CHANGES = {
    "is_old": (None, "delete_job"),
    "has_old_original": ("original", "detach_original"),
    "has_old_results": ("result", "detach_results"),
}
"""For each column of the statement `too_old`: the kind of files that are removed, and what removes them from rows."""


class MaxAge(Struct, frozen=True):
    """How old finished jobs, and the originals and results of those that remain, may become. None is no limit."""

    jobs: timedelta | None = None
    originals: timedelta | None = None
    results: timedelta | None = None

    @property
    def is_limited(self) -> bool:
        return not (self.jobs is None and self.originals is None and self.results is None)

    def limits(self, now: datetime, max_jobs: int = -1) -> dict[str, str | int]:
        """The parameters of `too_old`: the instants before which something is too old. -1 jobs is no limit."""
        return {
            "limit": max_jobs,
            "jobs_before": _before(now, self.jobs),
            "originals_before": _before(now, self.originals),
            "results_before": _before(now, self.results),
        }


def _before(now: datetime, age: timedelta | None) -> str:
    """The instant that was `age` ago; "", which sorts before every stored instant, if there is none."""
    try:
        return "" if age is None else rfc3339(now - age)
    except OverflowError:
        return ""


class Removable(Struct, frozen=True):
    """What is too old: jobs, and all files that no row would reference after the removal."""

    jobs: int
    files: int
    size_bytes: int


class Retention:
    """Removes jobs, or only their files, that are older than a limit. The ledger keeps every movement of credits.

    Only finished jobs are removed. Rows are changed by any process; files are deleted by the process that owns the data
    folder, because only it knows which files an upload is about to reference. So the SHA-256 sums of these files are
    queued in a table.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def removable(self, age: MaxAge) -> Removable:
        """What `remove` would remove now."""
        async with self._database.listing() as read:
            return Removable(*await read.row("removable", age.limits(read.now)))

    async def remove(self, age: MaxAge) -> None:
        """Delete the jobs that are too old, and mark files of younger jobs as removed that are too old for them.

        `delete_files` deletes the files.
        """
        while True:
            async with self._database.transaction() as tx:
                rows = await tx.all("too_old", age.limits(tx.now, _BATCH))
                if not rows:
                    return
                for row in rows:
                    for column, (kind, statement) in _CHANGES.items():
                        if row[column]:
                            await tx.run("queue_files", {"job_id": row["id"], "kind": kind})
                            await tx.run(statement, {"job_id": row["id"]})

    async def delete_files(self, blobs: Blobs) -> int:
        """Delete those of the queued files that no row references, and return how many were queued.

        Only for the owner of the data folder.
        """
        count = 0
        while rows := await self._database.read_all("queued_removals", {"limit": _BATCH}):
            waiting = [row["sha256"] for row in rows]
            await blobs.remove(waiting)
            async with self._database.transaction() as tx:
                await tx.run("unqueue_removals", {"removed": waiting})
            count += len(waiting)
        return count
