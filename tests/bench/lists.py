"""Measures lists and polls of an account with many jobs: each alone, and polls while lists are read.

Times of lists are of the whole answer with all details: the statements, the bodies, and their JSON. CPU time is that of
all threads of the process. `python -m tests.bench.lists [--jobs 50000] [--limit 500]`
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

import msgspec

from imgproc_local.api.wire import jobs_body
from imgproc_local.domain.job import Status
from imgproc_local.storage.accounts import Keys
from imgproc_local.storage.database import Database, open_database
from imgproc_local.storage.jobs import JobFilters, Jobs

POLLS = 300
AT = "2026-11-01T00:00:00.000Z"
INFO = '{"format": "jpeg", "width_px": 8, "height_px": 8}'
LANGUAGES = ("en", "de", "fr", "ja")
OUTPUTS = {"analyze": None, "optimize": 500, "convert": 400}
LISTS = {
    "all": JobFilters(),
    **{status.value: JobFilters((status,)) for status in Status},
    "project": JobFilters(project_id="p"),
    "needs text": JobFilters(needs_text=True),
    "needs text, completed": JobFilters((Status.COMPLETED,), needs_text=True),
    "language missing": JobFilters(language_missing="ja"),
    "larger than optimized": JobFilters(larger_than_optimized=True),
}


def fill(path: Path, account_id: str, jobs: int) -> None:
    """Store `jobs` finished jobs with texts in four languages.

    The oldest one in a hundred has failed, needs texts and has a larger converted file; the rest is completed.
    """
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO projects VALUES ('p', ?, 'p', ?)", (account_id, AT))
    for number in range(jobs):
        job_id = f"{number:026d}"
        connection.execute(
            "INSERT INTO jobs (id, image_id, account_id, project_id, operation, languages, convert_to,"
            " original_filename, original_sha256, original_size, info, created_at, fingerprint)"
            " VALUES (?, ?, ?, 'p', 'process', '[]', 'webp', 'n', 'x', 1, ?, ?, '')",
            (job_id, f"i{job_id}", account_id, INFO, AT),
        )
        is_special = number < jobs // 100
        connection.executemany(
            "INSERT INTO stages"
            " (job_id, account_id, name, lane, state, price, started_seq, output_sha256, output_size, output_format,"
            " removed) VALUES (?, ?, ?, '', ?, 1, ?, 'x', ?, 'webp', '[\"gps\", \"software\"]')",
            [
                (job_id, account_id, name, "failed" if is_special and name == "analyze" else "done", number, size)
                for name, size in {**OUTPUTS, "convert": 600 if is_special else 400}.items()
            ],
        )
        connection.executemany(
            "INSERT INTO translations VALUES (?, ?, 'p', ?, ?, ?, 'n', ?, ?, ?, 1)",
            [
                (job_id, account_id, code, position, f"name-{number}", number, "A text of some length. " * 4,
                 "pixels" if is_special else "vision")
                for position, code in enumerate(LANGUAGES)
            ],
        )  # fmt: skip
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


async def timed_list(jobs: Jobs, account_id: str, limit: int, name: str, before_id: str | None = None) -> None:
    """Print the median of five."""
    wall, cpu, size = [], [], 0
    for _ in range(5):
        began, began_cpu = time.perf_counter(), time.process_time()
        page = await jobs.page(account_id, limit, LISTS[name], before_id)
        size = len(msgspec.json.encode(jobs_body(page, None, "A", ("removed", "details"))))
        wall.append((time.perf_counter() - began) * 1000)
        cpu.append((time.process_time() - began_cpu) * 1000)
    print(
        f"list {name:<22} {len(page):>4} jobs {size / 1024:6.0f} KiB {statistics.median(wall):8.1f} ms,"
        f" CPU {statistics.median(cpu):8.1f} ms{', in the middle' if before_id else ''}"
    )


async def measure(database: Database, jobs: Jobs, account_id: str, count: int, limit: int) -> None:
    for name in LISTS:
        await timed_list(jobs, account_id, limit, name)
    await timed_list(jobs, account_id, limit, "all", f"{count // 2:026d}")
    for what, read in {"totals": jobs.totals, "count": jobs.count}.items():
        began = time.perf_counter()
        await read(account_id)
        print(f"{what:<27} {(time.perf_counter() - began) * 1000:8.1f} ms")

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


async def run(count: int, limit: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.db"
        database = await open_database(path)
        try:
            account_id = await Keys(database, 1).account_id("a", create=True)
            await asyncio.to_thread(fill, path, account_id, count)
            await measure(database, Jobs(database, 1000), account_id, count, limit)
        finally:
            await database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--limit", type=int, default=500)
    arguments = parser.parse_args()
    asyncio.run(run(arguments.jobs, arguments.limit))


if __name__ == "__main__":
    main()
