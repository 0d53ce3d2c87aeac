"""A long run: thousands of jobs and requests on one server, and whether memory, handles and latencies stay level.

`python -m tests.ordeals.soak [--jobs 3000] [--seed N] [--program BINARY]`

Four clients dispatch pictures of every format and operation, poll, list, download, delete and make mistakes. After
every `SAMPLE_JOBS` jobs the memory and the handles of the service and of its children are recorded. The trends are the
least-squares slopes of these records without the first fifth, in which libraries are loaded and caches fill.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
from msgspec import Struct

from tests.bench.load import MIB, percentile, print_table
from tests.faults.fleet import Fleet, finish_and_check
from tests.faults.server_process import make_key, serving
from tests.ordeals.options import options_of
from tests.support import pictures, processes

CLIENTS, OPEN_JOBS = 4, 5
SAMPLE_JOBS = 50
WARM_UP_SHARE = 0.2
MAX_SLOPE = 1.0
"""MiB, or handles, per 1,000 jobs."""
OTHER_SHARE = 0.6
"""The share of steps in which a client neither dispatches nor polls."""


class Record(Struct, frozen=True):
    """The processes after `jobs` finished jobs: resident memory in MiB, and open handles of the service."""

    jobs: int
    service_mib: float
    children_mib: float
    handles: int


class Clients(Fleet):
    """A fleet that also lists, downloads, deletes and makes mistakes. `latencies_ms` are those of each GET."""

    def __init__(self, key: str, seed: int) -> None:
        super().__init__(key, seed, clients=CLIENTS, open_jobs=OPEN_JOBS)
        self.latencies_ms: list[float] = []
        self.requests = 0
        self.deleted = 0

    def step(self, client: httpx.Client, root: str, rng: random.Random, mine: list[str]) -> None:
        if rng.random() > OTHER_SHARE:
            super().step(client, root, rng, mine)
            return
        done = [job_id for job_id in mine if job_id in self.finals]
        ways = [self._list, self._mistake, *([self._download] if done else []), *([self._delete] if done[20:] else [])]
        rng.choice(ways)(client, f"{root}/api/v1", rng, done)

    def _has_texts(self, job_id: str) -> bool:
        """No text is written anew: file names of deleted pictures are free again, so other texts would change."""
        return False

    def _request(self, client: httpx.Client, method: str, url: str, *expected: int, **options: Any) -> httpx.Response:
        began = time.monotonic()
        answer = client.request(method, url, **options)
        self.requests += 1
        if method == "GET":
            self.latencies_ms.append(1000 * (time.monotonic() - began))
        if answer.status_code not in expected:
            self.surprises.append(f"{method} {url}: {answer.status_code} {answer.text[:200]}")
        return answer

    def _list(self, client: httpx.Client, url: str, rng: random.Random, _: list[str]) -> None:
        self._request(client, "GET", f"{url}/jobs", 200, params={"limit": rng.randint(1, 50)})

    def _download(self, client: httpx.Client, url: str, rng: random.Random, done: list[str]) -> None:
        image_id = self.finals[rng.choice(done)]["image"]["id"]
        answer = self._request(client, "GET", f"{url}/images/{image_id}/optimized", 200, 404)
        if answer.status_code == 200 and int(answer.headers["Content-Length"]) != len(answer.content):
            self.surprises.append(f"image {image_id}: a short download")

    def _delete(self, client: httpx.Client, url: str, rng: random.Random, done: list[str]) -> None:
        job_id = rng.choice(done)
        self._request(client, "DELETE", f"{url}/jobs/{job_id}", 204)
        self.deleted += 1
        self.forget(job_id)

    def _mistake(self, client: httpx.Client, url: str, rng: random.Random, _: list[str]) -> None:
        broken = rng.choice([b"", b"no picture", pictures.jpeg()[:300]])
        self._request(client, "POST", f"{url}/images/optimize", 422, files={"image": ("broken.jpg", broken)})
        self._request(client, "GET", f"{url}/jobs/01JUNKJUNKJUNKJUNKJUNKJUNK", 404)


def record(pid: int, jobs: int) -> Record:
    """The memory and handles of the service and the processes it started, now."""
    children = sum(map(processes.rss_bytes, processes.descendants(pid)))
    return Record(jobs, processes.rss_bytes(pid) / MIB, children / MIB, processes.open_handles(pid))


def slope_per_1000(records: list[Record], field: str) -> float:
    """The least-squares slope of a field over 1,000 jobs."""
    if len(records) < 3:
        return 0.0
    line = statistics.linear_regression([r.jobs for r in records], [getattr(r, field) for r in records])
    return 1000 * line.slope


def main() -> None:
    options = options_of(__doc__, jobs=3000)
    records: list[Record] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "data"
        key = make_key(folder)
        began = time.monotonic()
        with serving(folder, program=options.program) as server, Clients(key, options.seed) as clients:
            clients.root = server.wait_ready()
            while (finished := len(clients.finals) + clients.deleted) < options.jobs:
                time.sleep(0.2)
                if finished >= (records[-1].jobs if records else 0) + SAMPLE_JOBS:
                    records.append(record(server.pid, finished))
            clients.stop_dispatching()
            assert server.terminate() == 0, server.output()
        seconds = time.monotonic() - began
        interrupted = finish_and_check(clients, folder, key, options.program)
    steady = records[int(len(records) * WARM_UP_SHARE) :]
    half = len(clients.latencies_ms) // 2
    slopes = {field: slope_per_1000(steady, field) for field in ("service_mib", "children_mib", "handles")}
    rows = [
        ("jobs: final and checked, deleted", f"{len(clients.finals)}, {clients.deleted}", ""),
        ("requests besides dispatches and polls", str(clients.requests), ""),
        *((f"slope of {name}", f"{slope:+.2f} per 1,000 jobs", f"< {MAX_SLOPE:g}") for name, slope in slopes.items()),
    ]
    for part in (clients.latencies_ms[:half], clients.latencies_ms[half:]):
        rows.append(("GET p50, p99 of a half", f"{percentile(part, 50):.1f}, {percentile(part, 99):.1f} ms", "level"))
    print_table(f"Soak of {seconds:.0f} s, seed {options.seed}", rows)
    for r in records[:: max(1, len(records) // 12)]:
        print(
            f"  after {r.jobs:5d} jobs: service {r.service_mib:6.1f} MiB, children {r.children_mib:6.1f} MiB,"
            f" {r.handles} handles"
        )
    if interrupted or max(slopes.values()) >= MAX_SLOPE:
        sys.exit(1)


if __name__ == "__main__":
    main()
