"""How many bytes of the disk each part of the data folder occupies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from stat import S_ISDIR

from msgspec import Struct

from imgproc_local.storage.database import Database

MAX_ENTRIES = 200_000
"""The most files of one folder that are counted."""


class Share(Struct, frozen=True):
    """The files of one kind, and their size in bytes."""

    files: int
    size_bytes: int


class JobFiles(Struct, frozen=True):
    """The files that jobs reference, without those that wait for their deletion. `jobs` is the number of all jobs."""

    jobs: int
    originals: Share
    results: Share


async def job_files(database: Database) -> JobFiles:
    """What the jobs of all accounts store."""
    async with database.listing() as read:
        jobs = int(await read.value("count_jobs"))
        kinds = {row["kind"]: Share(row["files"], row["size_bytes"]) for row in await read.all("files_by_kind")}
    return JobFiles(jobs, kinds["originals"], kinds["results"])


def share_of(paths: Sequence[Path]) -> Share:
    """The files at `paths` and in the folders among them, without those that can't be read or have just vanished."""
    files = size_bytes = 0
    waiting = list(paths)
    while waiting and files < MAX_ENTRIES:
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
    return Share(files, size_bytes)
