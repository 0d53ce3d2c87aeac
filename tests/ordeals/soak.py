"""A long run: thousands of jobs and requests on one server, and whether memory, handles and latencies stay level.

`python -m tests.ordeals.soak [--jobs 3000] [--requests 20000] [--seed N] [--program BINARY]`

Four clients dispatch pictures of every format and operation, poll, list, download, delete and make mistakes. After
every `SAMPLE_JOBS` jobs the memory and the handles of the service and of its children are recorded. The trends are the
least-squares slopes of these records without the first fifth, in which libraries are loaded and caches fill.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
from msgspec import Struct

from tests.bench.load import MIB, percentile, print_table, with_comment
from tests.faults import disk
from tests.faults.server_process import SOURCE, make_key, serving
from tests.support import pictures, processes

CLIENTS = 4
MAX_OPEN_JOBS = 5
"""Per client."""
SAMPLE_JOBS = 50
WARM_UP_SHARE = 0.2
FINAL = ("completed", "failed")
DRAIN_TIMEOUT_S = 300
MAX_MIB_PER_1000_JOBS = 1.0


class Record(Struct, frozen=True):
    """The processes after `jobs` finished jobs: resident memory in bytes, and open handles of the service."""

    jobs: int
    service_bytes: int
    children_bytes: int
    children: int
    handles: int


class Counts:
    """What all clients have seen so far."""

    def __init__(self, jobs: int, requests: int) -> None:
        self.lock = threading.Lock()
        self.accepted: dict[str, str] = {}
        self.finished: dict[str, str] = {}
        self.deleted: set[str] = set()
        self.requests = 0
        self.problems: list[str] = []
        self.latencies_ms: list[tuple[float, str, float]] = []
        self._jobs, self._requests = jobs, requests

    def wants_jobs(self) -> bool:
        return len(self.accepted) < self._jobs

    def is_over(self) -> bool:
        return not self.wants_jobs() and self.requests >= self._requests


class Client(threading.Thread):
    """Dispatches jobs and makes every other kind of request until the counts are reached."""

    def __init__(self, root: str, key: str, counts: Counts, seed: int) -> None:
        super().__init__()
        self._http = httpx.Client(base_url=f"{root}/api/v1", headers={"X-API-Key": key}, timeout=60)
        self._root, self._counts, self._rng = root, counts, random.Random(seed)
        self._numbers = itertools.count()
        self._open: list[str] = []
        self._done: list[dict[str, Any]] = []
        self._seed = seed
        stills = [pictures.jpeg(480, 320, seed), pictures.jpeg(320, 240, seed + 1), pictures.png(160, 120, seed)]
        others = [pictures.gif(), pictures.webp()]
        self._pictures = {
            "analyze": stills + others,
            "optimize": [*stills, *others, pictures.avif()],
            "convert": stills,
            "process": stills,
        }

    def run(self) -> None:
        try:
            while not self._counts.is_over():
                self._step()
            ends_at = time.monotonic() + DRAIN_TIMEOUT_S
            while self._open and time.monotonic() < ends_at:
                self._poll()
        except Exception as error:
            self._counts.problems.append(f"a client ended: {error!r}")
        finally:
            self._http.close()

    def _step(self) -> None:
        if self._counts.wants_jobs() and len(self._open) < MAX_OPEN_JOBS and self._rng.random() < 0.4:
            self._dispatch()
            return
        if not self._counts.wants_jobs():
            time.sleep(0.002)
        ways = [
            self._poll,
            self._poll,
            self._poll,
            self._list,
            self._download,
            self._delete_job,
            self._mistake,
            self._health,
        ]
        self._rng.choice(ways)()

    def _request(self, method: str, path: str, *expected: int, **options: Any) -> httpx.Response:
        began = time.monotonic()
        response = self._http.request(method, path, **options)
        with self._counts.lock:
            self._counts.requests += 1
            self._counts.latencies_ms.append((began, method, 1000 * (time.monotonic() - began)))
            if response.status_code not in expected:
                self._counts.problems.append(f"{method} {path}: {response.status_code} {response.text[:200]}")
        return response

    def _dispatch(self) -> None:
        operation = self._rng.choice(["analyze", "optimize", "convert", "process"])
        picture = self._rng.choice(self._pictures[operation])
        if picture[:2] == b"\xff\xd8":  # other formats are uploaded again as the same bytes
            picture = with_comment(picture, f"{self._seed} {next(self._numbers)}")
        response = self._request("POST", f"/images/{operation}", 202, files={"image": ("picture", picture)})
        if response.status_code == 202:
            job_id = response.json()["data"]["job_id"]
            with self._counts.lock:
                self._counts.accepted[job_id] = operation
            self._open.append(job_id)

    def _poll(self) -> None:
        if not self._open:
            return
        job_id = self._rng.choice(self._open)
        headers = {"Prefer": "wait=2"} if len(self._open) >= MAX_OPEN_JOBS else {}
        response = self._http.get(f"/jobs/{job_id}", headers=headers)
        with self._counts.lock:
            self._counts.requests += 1
        job = response.json()["data"]
        if job["status"] in FINAL:
            self._open.remove(job_id)
            self._done.append(job)
            with self._counts.lock:
                self._counts.finished[job_id] = job["status"]
                if job["status"] == "failed":
                    self._counts.problems.append(f"job {job_id} failed: {json.dumps(job.get('errors'))[:300]}")

    def _list(self) -> None:
        self._request("GET", "/jobs", 200, params={"limit": self._rng.randint(1, 50)})

    def _download(self) -> None:
        if self._done:
            image_id = self._rng.choice(self._done)["image"]["id"]
            response = self._request("GET", f"/images/{image_id}/optimized", 200, 404)
            if response.status_code == 200 and int(response.headers["Content-Length"]) != len(response.content):
                self._counts.problems.append(f"image {image_id}: a short download")

    def _delete_job(self) -> None:
        if len(self._done) > 20:
            job = self._done.pop(self._rng.randrange(len(self._done)))
            self._request("DELETE", f"/jobs/{job['job_id']}", 204)
            with self._counts.lock:
                self._counts.deleted.add(job["job_id"])

    def _mistake(self) -> None:
        broken = self._rng.choice([b"", b"no picture", pictures.jpeg()[:300]])
        self._request("POST", "/images/optimize", 422, files={"image": ("broken.jpg", broken)})
        self._request("GET", "/jobs/01JUNKJUNKJUNKJUNKJUNKJUNK", 404)

    def _health(self) -> None:
        self._request("GET", f"{self._root}/healthz", 200)


def record(pid: int, jobs: int) -> Record:
    """The memory and handles of the service and the processes it started, now."""
    children = processes.descendants(pid)
    return Record(
        jobs,
        processes.rss_bytes(pid),
        sum(processes.rss_bytes(child) for child in children),
        len(children),
        processes.open_handles(pid),
    )


def slope_per_1000(records: list[Record], field: str) -> float:
    """The least-squares slope of a field over 1,000 jobs."""
    if len(records) < 3:
        return 0.0
    line = statistics.linear_regression([r.jobs for r in records], [getattr(r, field) for r in records])
    return 1000 * line.slope


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=3000)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 2**31))
    parser.add_argument("--program", type=Path, help="a frozen program, instead of the source")
    options = parser.parse_args()
    counts = Counts(options.jobs, options.requests)
    records: list[Record] = []
    program = (options.program.resolve(),) if options.program else SOURCE
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "data"
        key = make_key(folder)
        began = time.monotonic()
        with serving(folder, program=program) as server:
            clients = [Client(server.wait_ready(), key, counts, options.seed + n) for n in range(CLIENTS)]
            for client in clients:
                client.start()
            while any(client.is_alive() for client in clients):
                time.sleep(0.2)
                if len(counts.finished) >= (records[-1].jobs if records else 0) + SAMPLE_JOBS:
                    records.append(record(server.pid, len(counts.finished)))
            server.terminate()
            log_bytes = server.log.stat().st_size
        seconds = time.monotonic() - began
        try:
            disk.check_folder(folder)
        except AssertionError as error:
            counts.problems.append(f"the data folder: {error}")
    report(options.seed, seconds, counts, records, log_bytes)


def report(seed: int, seconds: float, counts: Counts, records: list[Record], log_bytes: int) -> None:
    steady = records[int(len(records) * WARM_UP_SHARE) :]
    lost = counts.accepted.keys() - counts.finished.keys()
    middle = sorted(began for began, _, _ in counts.latencies_ms)[len(counts.latencies_ms) // 2]
    halves = [
        [ms for began, method, ms in counts.latencies_ms if method == "GET" and (began < middle) == first]
        for first in (True, False)
    ]
    growth = {field: slope_per_1000(steady, field) / MIB for field in ("service_bytes", "children_bytes")}
    handles = slope_per_1000(steady, "handles")
    rows = [
        ("jobs finished, lost, deleted", f"{len(counts.finished)}, {len(lost)}, {len(counts.deleted)}", "0 lost"),
        ("requests", str(counts.requests), ""),
        ("memory of the service, slope", f"{growth['service_bytes']:+.2f} MiB per 1,000 jobs", "< 1"),
        ("memory of its children, slope", f"{growth['children_bytes']:+.2f} MiB per 1,000 jobs", "< 1"),
        ("handles, slope", f"{handles:+.2f} per 1,000 jobs", "< 1"),
        *((f"GET p50, p99 of half {n}", f"{percentile(h, 50):.1f}, {percentile(h, 99):.1f} ms", "level")
          for n, h in enumerate(halves, 1)),
        ("log", f"{log_bytes / 1000:.0f} kB", ""),
        ("problems", str(len(counts.problems)), "0"),
    ]  # fmt: skip
    print_table(f"Soak of {seconds:.0f} s, seed {seed}", rows)
    for r in records[:: max(1, len(records) // 12)]:
        print(
            f"  after {r.jobs:5d} jobs: service {r.service_bytes / MIB:6.1f} MiB, {r.children} children"
            f" {r.children_bytes / MIB:6.1f} MiB, {r.handles} handles"
        )
    for problem in counts.problems[:20]:
        print("  problem:", problem)
    if counts.problems or lost or max(*growth.values(), handles) >= MAX_MIB_PER_1000_JOBS:
        sys.exit(1)


if __name__ == "__main__":
    main()
