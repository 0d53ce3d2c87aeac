"""Compares a frozen program with the same program run from source: size, start, memory, requests and pictures.

Linux only.

Both are measured alternately for several rounds, and the medians are compared, so that other load on the machine
affects both. The CPU time of the server is the most reliable value, because other load affects it least. For a cold
start the caches of the kernel are dropped first, which needs root.

`python -m tests.bench.frozen BINARY [--rounds 5] [--seconds 4] [--pictures 24]`
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.load import MIB, Connection, jpeg_of_bytes, jpegs, submit, wait_final, with_comment
from tests.bench.memory import start_seconds
from tests.faults.server_process import SOURCE, make_key, serving

CONNECTIONS = 8
STARTS = 5
POSTS = 30
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
MAX_ONE_FOLDER_MB, MAX_ONE_FILE_MB = 75, 35
"""Limits for the size of the frozen program, in one folder and in one file."""
Program = tuple[str | Path, ...]
Values = dict[str, tuple[list[float], list[float]]]
"""By name, the measurements of the program run from source, and those of the frozen program."""


def size_bytes(binary: Path) -> int:
    """The size of the one-file program, or that of the folder of the one-folder program."""
    if not (binary.parent / "_internal").is_dir():
        return binary.stat().st_size
    files = (path for path in binary.parent.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files)


def cold_start_seconds(folder: Path, program: Program) -> float:
    os.sync()
    DROP_CACHES.write_text("3")
    return start_seconds(folder, program)


def cpu_seconds(pid: int) -> float:
    """CPU seconds of the process since its start. Source: proc_pid_stat(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def count_polls(root: str, key: str, job_id: str, seconds: float) -> int:
    """How many `GET /jobs/{id}` an otherwise idle server answers within `seconds`, over `CONNECTIONS` connections."""
    count = 0
    ends_at = time.perf_counter() + seconds

    async def poll() -> None:
        nonlocal count
        connection = await Connection.open(root, key)
        while time.perf_counter() < ends_at:
            status, _ = await connection.get(f"/api/v1/jobs/{job_id}")
            if status != 200:
                raise SystemExit(f"a poll was answered with {status}")
            count += 1
        connection.close()

    await asyncio.gather(*(poll() for _ in range(CONNECTIONS)))
    return count


async def first_post_milliseconds(root: str, key: str, picture: bytes) -> float:
    """Time from the first byte of the first upload after the server's start until the 202 response."""
    connection = await Connection.open(root, key)
    started_at = time.perf_counter()
    job_id = await submit(connection, "process", picture)
    first_ms = (time.perf_counter() - started_at) * 1000
    await wait_final(connection, job_id)
    connection.close()
    return first_ms


async def post_milliseconds(root: str, key: str) -> float:
    """Median time from the first byte of a 3 MB upload until the 202 response."""
    picture = jpeg_of_bytes(3 * MIB)
    connection = await Connection.open(root, key)
    times_ms = []
    for number in range(POSTS):
        another = with_comment(picture, f"{number} of {time.time_ns()}")
        started_at = time.perf_counter()
        job_id = await submit(connection, "analyze", another)
        times_ms.append((time.perf_counter() - started_at) * 1000)
        await wait_final(connection, job_id)
    connection.close()
    return statistics.median(times_ms)


async def picture_milliseconds(root: str, key: str, pictures: list[bytes]) -> float:
    """Time per picture of a batch that is queued at once for `process`."""
    connection = await Connection.open(root, key)
    started_at = time.perf_counter()
    ids = [await submit(connection, "process", with_comment(each, f"{time.time_ns()}")) for each in pictures]
    for job_id in ids:
        if await wait_final(connection, job_id) != "completed":
            _, body = await connection.get(f"/api/v1/jobs/{job_id}")
            raise SystemExit(f"a job failed: {body.decode()}")
    connection.close()
    return (time.perf_counter() - started_at) * 1000 / len(pictures)


def measure_serving(program: Program, place: Path, pictures: list[bytes], seconds: float) -> dict[str, float]:
    """Measures one server: its idle memory, then uploads, polls and the processing of pictures."""
    folder = place / "data"
    key = make_key(folder)
    with serving(folder, program=program) as server:
        root = server.wait_ready()
        time.sleep(1)
        idle_mb = server.rss_bytes() / 1e6
        first_ms = asyncio.run(first_post_milliseconds(root, key, pictures[0]))
        asyncio.run(picture_milliseconds(root, key, pictures[:2]))  # loads the libraries

        async def analyzed_job() -> str:
            connection = await Connection.open(root, key)
            job_id = await submit(connection, "analyze", pictures[0])
            await wait_final(connection, job_id)
            connection.close()
            return job_id

        job_id = asyncio.run(analyzed_job())
        cpu_s = [cpu_seconds(server.pid)]
        polls = asyncio.run(count_polls(root, key, job_id, seconds))
        cpu_s.append(cpu_seconds(server.pid))
        post_ms = asyncio.run(post_milliseconds(root, key))
        cpu_s.append(cpu_seconds(server.pid))
        picture_ms = asyncio.run(picture_milliseconds(root, key, pictures))
        cpu_s.append(cpu_seconds(server.pid))
    return {
        "idle memory, MB": idle_mb,
        "first upload after the start, until its response, ms": first_ms,
        "GET /jobs/{id}, per second": polls / seconds,
        "  CPU time of one, ms": (cpu_s[1] - cpu_s[0]) * 1000 / polls,
        "upload of 3 MB, until its response, ms": post_ms,
        "  CPU time of one, with its analysis, ms": (cpu_s[2] - cpu_s[1]) * 1000 / POSTS,
        "`process` of a 1.4-megapixel JPEG, ms": picture_ms,
        "  CPU time of one picture, ms": (cpu_s[3] - cpu_s[2]) * 1000 / len(pictures),
    }


def measure(binary: Path, rounds: int, seconds: float, picture_count: int) -> Values:
    """Measures both programs in alternation."""
    values: Values = {}
    programs: tuple[Program, Program] = (SOURCE, (binary.resolve(),))

    def record(name: str, program_index: int, value: float) -> None:
        values.setdefault(name, ([], []))[program_index].append(value)

    def starts(name: str, start: Callable[[Path, Program], float], folder: Path) -> None:
        for _ in range(STARTS):
            for program_index, program in enumerate(programs):
                record(name, program_index, start(folder, program))

    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        files = [file.read_bytes() for file in jpegs(place, 6)]
        pictures = [files[number % len(files)] for number in range(picture_count)]
        starts("warm start to the first response, s", start_seconds, place / "starts")
        if os.access(DROP_CACHES, os.W_OK):
            starts("cold start to the first response, s", cold_start_seconds, place / "starts")
        for number in range(rounds):
            for program_index, program in enumerate(programs):
                here = place / f"{number}-{program_index}"
                here.mkdir()
                for name, value in measure_serving(program, here, pictures, seconds).items():
                    record(name, program_index, value)
    return values


LIMITS = {
    "warm start to the first response, s": 0.6,
    "cold start to the first response, s": 1.5,
    "idle memory, MB": 60.0,
}
"""Limits for the medians of a frozen program in one folder. Those of a program in one file are not limited."""
MAX_EXTRA_CPU_SHARE = 0.05
"""The share by which the CPU time of the frozen program may exceed that of the program run from source."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--pictures", type=int, default=24)
    arguments = parser.parse_args()
    values = measure(arguments.binary, arguments.rounds, arguments.seconds, arguments.pictures)
    one_folder = (arguments.binary.parent / "_internal").is_dir()
    limit_mb = MAX_ONE_FOLDER_MB if one_folder else MAX_ONE_FILE_MB
    size_mb = size_bytes(arguments.binary) / 1e6
    rows = [("size, MB", "", f"{size_mb:.1f}", "", f"≤ {limit_mb}: {_verdict_text(size_mb <= limit_mb)}")]
    for name, (source, frozen) in values.items():
        frozen_median = statistics.median(frozen)
        ratio = frozen_median / statistics.median(source)
        limit = ""
        if name in LIMITS:
            limit = f"≤ {LIMITS[name]}: {_verdict_text(frozen_median <= LIMITS[name])}" if one_folder else ""
        elif "CPU time" in name:
            limit = f"≤ {MAX_EXTRA_CPU_SHARE:.0%} more: {_verdict_text(ratio <= 1 + MAX_EXTRA_CPU_SHARE)}"
        rows.append((name, _summary(source), _summary(frozen), f"{ratio:.3f}", limit))
    print(
        f"\n{arguments.binary}  ({os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}); median (minimum to maximum)\n"
    )
    headings = ("what", "source", "frozen", "ratio", "limit")
    widths = [max(len(row[column]) for row in [headings, *rows]) for column in range(len(headings))]
    for row in (headings, tuple("-" * width for width in widths), *rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")


def _verdict_text(met: bool) -> str:
    return "met" if met else "MISSED"


def _summary(values: list[float]) -> str:
    digits = 3 if max(values) < 10 else 1
    median, minimum, maximum = (
        f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values))
    )
    return f"{median} ({minimum} to {maximum})"


if __name__ == "__main__":
    main()
