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
RECORDED = ("MiB of the service", "MiB of its children", "handles")


class Clients(Fleet):
    """A fleet that also lists, downloads, deletes and makes mistakes. `latencies_ms` are those of each GET."""

    def __init__(self, key: str, seed: int) -> None:
        super().__init__(key, seed, clients=CLIENTS, open_jobs=OPEN_JOBS)
        self.latencies_ms: list[float] = []
        self.deleted = 0

    def step(self, client: httpx.Client, root: str, rng: random.Random, mine: list[str]) -> None:
        if rng.random() > OTHER_SHARE:
            super().step(client, root, rng, mine)
            return
        url, done = f"{root}/api/v1", [job_id for job_id in mine if job_id in self.finals]
        match rng.choice(("list", "mistake", "download", "delete")):
            case "list":
                self._request(client, "GET", f"{url}/jobs", 200, params={"limit": rng.randint(1, 50)})
            case "mistake":
                broken = rng.choice([b"", b"no picture", pictures.jpeg()[:300]])
                self._request(client, "POST", f"{url}/images/optimize", 422, files={"image": ("broken.jpg", broken)})
                self._request(client, "GET", f"{url}/jobs/01JUNKJUNKJUNKJUNKJUNKJUNK", 404)
            case "download" if done:
                image_id = self.finals[rng.choice(done)]["image"]["id"]
                self._request(client, "GET", f"{url}/images/{image_id}/optimized", 200, 404)
            case "delete" if done[20:]:
                job_id = rng.choice(done)
                self._request(client, "DELETE", f"{url}/jobs/{job_id}", 204)
                self.deleted += 1
                self.forget(job_id)

    def _has_texts(self, job_id: str) -> bool:
        """No text is written anew: file names of deleted pictures are free again, so other texts would change."""
        return False

    def _request(self, client: httpx.Client, method: str, url: str, *expected: int, **options: Any) -> None:
        began = time.monotonic()
        answer = client.request(method, url, **options)
        if method == "GET":
            self.latencies_ms.append(1000 * (time.monotonic() - began))
        if answer.status_code not in expected:
            self.surprises.append(f"{method} {url}: {answer.status_code} {answer.text[:200]}")


def record(pid: int) -> tuple[float, float, float]:
    """What `RECORDED` names, now."""
    children = sum(map(processes.rss_bytes, processes.descendants(pid)))
    return processes.rss_bytes(pid) / MIB, children / MIB, processes.open_handles(pid)


def main() -> None:
    options = options_of(__doc__, jobs=3000)
    records: dict[int, tuple[float, float, float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "data"
        key = make_key(folder)
        began = time.monotonic()
        with serving(folder, program=options.program) as server, Clients(key, options.seed) as clients:
            clients.root = server.wait_ready()
            while (finished := len(clients.finals) + clients.deleted) < options.jobs:
                time.sleep(0.2)
                if finished >= max(records, default=0) + SAMPLE_JOBS:
                    records[finished] = record(server.pid)
            clients.stop_dispatching()
            assert server.terminate() == 0, server.output()
        seconds = time.monotonic() - began
        interrupted = finish_and_check(clients, folder, key, options.program)
    jobs = list(records)[int(len(records) * WARM_UP_SHARE) :]
    columns = list(zip(*(records[number] for number in jobs), strict=True))
    slopes = [1000 * statistics.linear_regression(jobs, column).slope for column in columns]
    half = len(clients.latencies_ms) // 2
    rows = [("jobs: final and checked, deleted", f"{len(clients.finals)}, {clients.deleted}", "")]
    for name, column, slope in zip(RECORDED, columns, slopes, strict=True):
        text = f"{column[0]:.1f} to {column[-1]:.1f}, {slope:+.2f} per 1,000 jobs"
        rows.append((name, text, f"< {MAX_SLOPE:g}"))
    for part in (clients.latencies_ms[:half], clients.latencies_ms[half:]):
        rows.append(("GET p50, p99 of a half", f"{percentile(part, 50):.1f}, {percentile(part, 99):.1f} ms", "level"))
    print_table(f"Soak of {seconds:.0f} s, seed {options.seed}", rows)
    if interrupted or max(slopes) >= MAX_SLOPE:
        sys.exit(1)


if __name__ == "__main__":
    main()
