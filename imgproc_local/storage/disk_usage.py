"""The number and the sizes of the files in each part of the data folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from stat import S_ISDIR

from msgspec import Struct

from imgproc_local.storage.database import Database

MAX_FILES = 200_000
"""The most files that one call of `totals_of` counts."""


class FileTotals(Struct, frozen=True):
    """The number of files of one kind, and their bytes together."""

    files: int
    size_bytes: int


class JobFiles(Struct, frozen=True):
    """The files that jobs reference, without those that wait for their deletion. `jobs` is the number of all jobs."""

    jobs: int
    originals: FileTotals
    results: FileTotals


async def job_files(database: Database) -> JobFiles:
    """What the jobs of all accounts store."""
    async with database.listing() as read:
        jobs = int(await read.value("count_jobs"))
        kinds = {row["kind"]: FileTotals(row["files"], row["size_bytes"]) for row in await read.all("files_by_kind")}
    return JobFiles(jobs, kinds["originals"], kinds["results"])


def totals_of(paths: Sequence[Path]) -> FileTotals:
    """The totals of the files at `paths` and in folders among them, without those that can't be read."""
    files = size_bytes = 0
    waiting = list(paths)
    while waiting and files < MAX_FILES:
        path = waiting.pop()
        try:
            stat = path.lstat()
            if S_ISDIR(stat.st_mode):
                waiting.extend(path.iterdir())
            else:
                size_bytes += stat.st_size
                files += 1
        except OSError:
            continue
    return FileTotals(files, size_bytes)
