"""Removes jobs, or only their files, that are older than a limit. The ledger keeps every movement of credits.

Only finished jobs are removed. Rows are changed by any process; files are deleted by the process that owns the data
folder, because only it knows which files an upload is about to reference. So the SHA-256 sums of these files are queued
in a table.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from imgproc_local.storage.blobs import Blobs
from imgproc_local.storage.database import Database, rfc3339

BATCH = 200
"""Jobs, or files, of one transaction; few, so that uploads do not wait long for it."""
CHANGES = {
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
    def __init__(self, database: Database) -> None:
        self._database = database

    async def removable(self, age: MaxAge) -> Removable:
        """What `remove` would remove now."""
        async with self._database.listing() as read:
            row = await read.one("removable", age.limits(read.now))
        assert row is not None
        return Removable(*row)

    async def remove(self, age: MaxAge) -> None:
        """Delete the jobs that are too old, and mark files of younger jobs as removed that are too old for them.

        `delete_files` deletes the files.
        """
        found = True
        while found:
            async with self._database.transaction() as tx:
                rows = await tx.all("too_old", age.limits(tx.now, BATCH))
                for row in rows:
                    for column, (kind, statement) in CHANGES.items():
                        if row[column]:
                            await tx.run("queue_files", {"job_id": row["id"], "kind": kind})
                            await tx.run(statement, {"job_id": row["id"], "at": tx.at})
            found = bool(rows)

    async def delete_files(self, blobs: Blobs) -> int:
        """Delete those of the queued files that no row references, and return how many were queued.

        Only for the owner of the data folder.
        """
        count = 0
        while True:
            async with self._database.reading() as read:
                waiting = [row["sha256"] for row in await read.all("queued_removals", {"limit": BATCH})]
            if not waiting:
                return count
            count += len(waiting)
            await blobs.remove(waiting)
            async with self._database.transaction() as tx:
                for sha256 in waiting:
                    await tx.run("unqueue_removal", {"sha256": sha256})
