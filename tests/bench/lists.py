"""Measures lists and polls of an account with many jobs: each alone, and polls while lists are read.

`python -m tests.bench.lists [--jobs 50000]`
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

from imgproc_local.domain.job import Status
from imgproc_local.storage.accounts import Keys
from imgproc_local.storage.database import Database, open_database
from imgproc_local.storage.job_filters import JobFilters
from imgproc_local.storage.jobs import Jobs

POLLS = 300
AT = "2026-11-01T00:00:00.000Z"
INFO = '{"format": "jpeg", "width_px": 8, "height_px": 8}'


def fill(path: Path, account_id: str, jobs: int) -> None:
    """Store `jobs` finished jobs. The oldest one in a hundred has failed; the rest is completed."""
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO projects VALUES ('p', ?, 'p', ?)", (account_id, AT))
    for number in range(jobs):
        job_id = f"{number:026d}"
        connection.execute(
            "INSERT INTO jobs VALUES"
            " (?, ?, ?, 'p', 'process', '[]', 'webp', 'n', 'x', 1, ?, ?, NULL, '', NULL, NULL, NULL)",
            (job_id, f"i{job_id}", account_id, INFO, AT),
        )
        state = "failed" if number < jobs // 100 else "done"
        connection.executemany(
            "INSERT INTO stages (job_id, account_id, name, lane, state, price, started_seq)"
            " VALUES (?, ?, ?, '', ?, 1, ?)",
            [(job_id, account_id, name, state, number) for name in ("analyze", "optimize", "convert")],
        )
    connection.commit()
    connection.close()


async def timed_polls(jobs: Jobs, job_id: str) -> list[float]:
    """Milliseconds of each of many polls, one after the other."""
    times = []
    for _ in range(POLLS):
        began = time.perf_counter()
        await jobs.get(job_id)
        times.append((time.perf_counter() - began) * 1000)
    return times


async def measure(database: Database, jobs: Jobs, account_id: str, count: int) -> None:
    for status in (None, *Status):
        filters = JobFilters(statuses=None if status is None else (status,))
        began = time.perf_counter()
        page = await jobs.page(account_id, 101, filters)
        print(f"list {status or 'all':<11} {len(page):>4} jobs  {(time.perf_counter() - began) * 1000:8.1f} ms")
    deep = f"{count // 2:026d}"
    began = time.perf_counter()
    await jobs.page(account_id, 101, before_id=deep)
    print(f"list, page in the middle    {(time.perf_counter() - began) * 1000:8.1f} ms")

    newest = f"{count - 1:026d}"
    alone = await timed_polls(jobs, newest)
    stop = asyncio.Event()

    async def list_on() -> None:
        while not stop.is_set():
            await jobs.page(account_id, 101, JobFilters((Status.FAILED, Status.COMPLETED, Status.PENDING)))

    lists = [asyncio.create_task(list_on()) for _ in range(8)]
    beside = await timed_polls(jobs, newest)
    stop.set()
    await asyncio.gather(*lists)
    for name, times in (("alone", alone), ("beside 8 lists", beside)):
        quantiles = statistics.quantiles(times, n=100)
        print(f"poll {name:<15} p50 {quantiles[49]:6.2f} ms  p99 {quantiles[98]:6.2f} ms")


async def run(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.db"
        database = await open_database(path)
        try:
            account_id = await Keys(database, 1).account_id("a", create=True)
            await asyncio.to_thread(fill, path, account_id, count)
            await measure(database, Jobs(database, 1000), account_id, count)
        finally:
            await database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=50_000)
    asyncio.run(run(parser.parse_args().jobs))


if __name__ == "__main__":
    main()
