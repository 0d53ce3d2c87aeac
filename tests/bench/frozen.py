"""Measures size, start, memory, requests and pictures of a frozen program, against the same program run from source.

`python -m tests.bench.frozen [BINARY] [--rounds 5] [--pictures 24]`. Linux only. Without BINARY, of the source alone.

Both are measured alternately for several rounds, and the medians are compared, so that other load on the machine
affects both. The CPU time of the server is the most reliable value, because other load affects it least. For a cold
start the caches of the kernel are dropped first, which needs root.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.bench.load import MIB, photograph, photographs, print_table, verdict, with_comment
from tests.faults.server_process import SOURCE, ServerProcess, make_key, serving
from tests.support.processes import cpu_s, memory_bytes, reset_peak
from tests.support.service import Service

POLLS, POSTS = 2000, 30
UPLOADS, UPLOAD_MIB = 8, 24
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
MAX_ONE_FOLDER_MB, MAX_ONE_FILE_MB = 75, 35
"""Limits for the size of the frozen program, in one folder and in one file."""
LIMITS = {
    "warm start to the first response, s": 0.6,
    "cold start to the first response, s": 1.5,
    "idle memory, MB": 60.0,
    f"growth while {UPLOADS} uploads of {UPLOAD_MIB} MiB arrive, MB": 64.0,
}
"""Limits for the medians of the source and of a program in one folder. Those of one in one file are not limited."""
MAX_CPU_RATIO = 1.05
"""The largest CPU time of the frozen program, relative to the program run from source."""
Program = tuple[str | Path, ...]


def size_bytes(binary: Path) -> int:
    """The size of the one-file program, or that of the folder of the one-folder program."""
    if not (binary.parent / "_internal").is_dir():
        return binary.stat().st_size
    files = (path for path in binary.parent.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files)


def start_seconds(folder: Path, program: Program) -> float:
    """Seconds from the start of the process to its first response, to within 50 ms."""
    began_at = time.perf_counter()
    with serving(folder, program=program):
        return time.perf_counter() - began_at


def growth_bytes(server: ServerProcess, service: Service) -> int:
    """How much memory the server needs at most for large uploads at once, which are refused for their language."""
    files = {"image": ("a.jpg", photograph(320, 240, 1) + bytes(UPLOAD_MIB * MIB))}
    reset_peak(server.pid)
    before = server.rss_bytes()
    with ThreadPoolExecutor(UPLOADS) as pool:
        send = partial(service.client.post, "/images/analyze", files=files, data={"languages": "xx"})
        answers = [sent.result() for sent in [pool.submit(send) for _ in range(UPLOADS)]]
    assert {answer.status_code for answer in answers} == {422}, answers[0].text
    return memory_bytes(server.pid, "VmHWM") - before


def requests(service: Service, pid: int, pictures: list[bytes]) -> dict[str, float]:
    """The values of one server: its first upload, polls, uploads of 3 MB, and pictures that are processed."""
    values = {}

    def upload(operation: str, picture: bytes) -> tuple[float, str]:
        """Milliseconds until the 202 response, and the job. Returns when the job is completed."""
        began_at = time.perf_counter()
        job_id = service.dispatch(operation, with_comment(picture, str(time.time_ns())))["job_id"]
        took_ms = 1000 * (time.perf_counter() - began_at)
        job = service.final(job_id)
        assert job["status"] == "completed", job
        return took_ms, job_id

    values["first upload after the start, until its response, ms"], job_id = upload("process", pictures[0])
    before_s, began_at = cpu_s(pid), time.perf_counter()
    for _ in range(POLLS):
        service.job(job_id)
    values["GET /jobs/{id}, ms"] = (time.perf_counter() - began_at) * 1000 / POLLS
    values["CPU time of one GET /jobs/{id}, ms"] = (cpu_s(pid) - before_s) * 1000 / POLLS
    large, before_s = photograph(2400, 1600, 7, quality=95), cpu_s(pid)
    times_ms = [upload("analyze", large)[0] for _ in range(POSTS)]
    values["upload of 3 MB, until its response, ms"] = statistics.median(times_ms)
    values["CPU time of one upload of 3 MB with its analysis, ms"] = (cpu_s(pid) - before_s) * 1000 / POSTS
    before_s, began_at = cpu_s(pid), time.perf_counter()
    for picture in pictures:
        upload("process", picture)
    values["`process` of a 1.4-megapixel JPEG, ms"] = (time.perf_counter() - began_at) * 1000 / len(pictures)
    values["CPU time of the service per picture, ms"] = (cpu_s(pid) - before_s) * 1000 / len(pictures)
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
    with serving(folder, program=program) as server, Service(server.wait_ready(), key) as service:
        time.sleep(1)
        values["idle memory, MB"] = server.rss_bytes() / 1e6
        values[f"growth while {UPLOADS} uploads of {UPLOAD_MIB} MiB arrive, MB"] = growth_bytes(server, service) / 1e6
        return values | requests(service, server.pid, pictures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pictures", type=int, default=24)
    arguments = parser.parse_args()
    programs: list[Program] = [SOURCE]
    rows, is_limited = [], True
    if arguments.binary:
        binary = arguments.binary.resolve()
        programs.append((binary,))
        is_limited = (binary.parent / "_internal").is_dir()
        size_mb = size_bytes(binary) / 1e6
        rows.append(
            ("size, MB", f"{size_mb:.1f}", verdict(size_mb, MAX_ONE_FOLDER_MB if is_limited else MAX_ONE_FILE_MB, ""))
        )
    values: dict[str, list[list[float]]] = defaultdict(lambda: [[] for _ in programs])
    with tempfile.TemporaryDirectory() as name:
        files = photographs(6)
        pictures = [files[number % len(files)] for number in range(arguments.pictures)]
        for number in range(arguments.rounds):
            for which, program in enumerate(programs):
                for value_name, value in measure(program, Path(name, f"{number}-{which}"), pictures).items():
                    values[value_name][which].append(value)
    for value_name, (source, *frozen) in values.items():
        measured = (frozen or [source])[0]
        median, ratio = statistics.median(measured), statistics.median(measured) / statistics.median(source)
        text = f"{median:.3f} ({min(measured):.3f} to {max(measured):.3f}), {ratio:.3f} of source"
        limit = verdict(median, LIMITS[value_name], "") if value_name in LIMITS and is_limited else ""
        rows.append((value_name, text, verdict(ratio, MAX_CPU_RATIO, "×") if "CPU time" in value_name else limit))
    print_table(f"{arguments.binary or 'The source'}, median (minimum to maximum)", rows)


if __name__ == "__main__":
    main()
