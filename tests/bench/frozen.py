"""Compares a frozen program with the same program run from source: size, start, memory, requests and pictures.

Linux only.

Both are measured alternately for several rounds, and the medians are compared, so that other load on the machine
affects both. The CPU time of the server is the most reliable value, because other load affects it least. For a cold
start the caches of the kernel are dropped first, which needs root.

`python -m tests.bench.frozen BINARY [--rounds 5] [--pictures 24]`
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from tests.bench.load import (
    MIB,
    Connection,
    jpeg_of_bytes,
    jpegs,
    print_table,
    submit,
    verdict,
    wait_final,
    with_comment,
)
from tests.bench.memory import start_seconds
from tests.faults.server_process import SOURCE, make_key, serving

POLLS, POSTS = 4000, 30
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
MAX_ONE_FOLDER_MB, MAX_ONE_FILE_MB = 75, 35
"""Limits for the size of the frozen program, in one folder and in one file."""
LIMITS = {
    "warm start to the first response, s": 0.6,
    "cold start to the first response, s": 1.5,
    "idle memory, MB": 60.0,
}
"""Limits for the medians of a frozen program in one folder. Those of a program in one file are not limited."""
MAX_CPU_RATIO = 1.05
"""The largest CPU time of the frozen program, relative to the program run from source."""
Program = tuple[str | Path, ...]


def size_bytes(binary: Path) -> int:
    """The size of the one-file program, or that of the folder of the one-folder program."""
    if not (binary.parent / "_internal").is_dir():
        return binary.stat().st_size
    files = (path for path in binary.parent.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files)


def cpu_ms(pid: int) -> float:
    """CPU milliseconds of the process since its start. Source: proc_pid_stat(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


async def requests(root: str, key: str, pid: int, pictures: list[bytes]) -> dict[str, float]:
    """The values of one server: its first upload, polls, uploads of 3 MB, and pictures that are processed."""
    connection = await Connection.open(root, key)
    values = {}

    async def upload(operation: str, picture: bytes) -> float:
        """Milliseconds until the 202 response. Returns when the job is completed."""
        began = time.perf_counter()
        job_id = await submit(connection, operation, with_comment(picture, str(time.time_ns())))
        took_ms = (time.perf_counter() - began) * 1000
        if await wait_final(connection, job_id) != "completed":
            raise SystemExit(f"a job failed: {(await connection.get(f'/api/v1/jobs/{job_id}'))[1].decode()}")
        return took_ms

    values["first upload after the start, until its response, ms"] = await upload("process", pictures[0])
    job_id = await submit(connection, "analyze", pictures[0])
    await wait_final(connection, job_id)
    before, began = cpu_ms(pid), time.perf_counter()
    for _ in range(POLLS):
        await connection.get(f"/api/v1/jobs/{job_id}")
    values["GET /jobs/{id}, ms"] = (time.perf_counter() - began) * 1000 / POLLS
    values["CPU time of one GET /jobs/{id}, ms"] = (cpu_ms(pid) - before) / POLLS
    large, before = jpeg_of_bytes(3 * MIB), cpu_ms(pid)
    values["upload of 3 MB, until its response, ms"] = statistics.median(
        [await upload("analyze", large) for _ in range(POSTS)]
    )
    values["CPU time of one upload of 3 MB with its analysis, ms"] = (cpu_ms(pid) - before) / POSTS
    before, began = cpu_ms(pid), time.perf_counter()
    for picture in pictures:
        await upload("process", picture)
    values["`process` of a 1.4-megapixel JPEG, ms"] = (time.perf_counter() - began) * 1000 / len(pictures)
    values["CPU time of the service per picture, ms"] = (cpu_ms(pid) - before) / len(pictures)
    connection.close()
    return values


def measure(program: Program, place: Path, pictures: list[bytes]) -> dict[str, float]:
    """The values of one start after another, and of one server."""
    folder = place / "data"
    key = make_key(folder)
    values = {"warm start to the first response, s": start_seconds(folder, program)}
    if os.access(DROP_CACHES, os.W_OK):
        os.sync()
        DROP_CACHES.write_text("3")
        values["cold start to the first response, s"] = start_seconds(folder, program)
    with serving(folder, program=program) as server:
        root = server.wait_ready()
        time.sleep(1)
        values["idle memory, MB"] = server.rss_bytes() / 1e6
        return values | asyncio.run(requests(root, key, server.pid, pictures))


def limit_of(name: str, median: float, ratio: float, *, one_folder: bool) -> str:
    if "CPU time" in name:
        return verdict(ratio, MAX_CPU_RATIO, "×")
    return verdict(median, LIMITS[name], "") if name in LIMITS and one_folder else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pictures", type=int, default=24)
    arguments = parser.parse_args()
    binary = arguments.binary.resolve()
    one_folder = (binary.parent / "_internal").is_dir()
    values: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    with tempfile.TemporaryDirectory() as name:
        files = [file.read_bytes() for file in jpegs(Path(name), 6)]
        pictures = [files[number % len(files)] for number in range(arguments.pictures)]
        for number in range(arguments.rounds):
            for which, program in enumerate(((*SOURCE,), (binary,))):
                for value_name, value in measure(program, Path(name, f"{number}-{which}"), pictures).items():
                    values[value_name][which].append(value)
    size_mb = size_bytes(binary) / 1e6
    rows = [("size, MB", f"{size_mb:.1f}", verdict(size_mb, MAX_ONE_FOLDER_MB if one_folder else MAX_ONE_FILE_MB, ""))]
    for value_name, (source, frozen) in values.items():
        median, ratio = statistics.median(frozen), statistics.median(frozen) / statistics.median(source)
        text = f"{median:.3f} ({min(frozen):.3f} to {max(frozen):.3f}), {ratio:.3f} of source"
        rows.append((value_name, text, limit_of(value_name, median, ratio, one_folder=one_folder)))
    print_table(f"{binary}, median (minimum to maximum)", rows)


if __name__ == "__main__":
    main()
