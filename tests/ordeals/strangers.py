"""Hostile pictures from one account while another works: their effect on the service and on the other account.

`python -m tests.ordeals.strangers [--pictures 300] [--seed N] [--program BINARY]`

The stranger sends every hostile file, and mutations of them, through three operations. Meanwhile the neighbour sends
ordinary photographs one after another, and /healthz is requested every `HEALTH_INTERVAL_S`.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.bench.load import MIB, percentile, print_table, with_comment
from tests.faults import disk
from tests.faults.floods import FLOODS
from tests.faults.hostile import hostile_files
from tests.faults.server_process import make_key, serving
from tests.fuzz.mutate import mutated
from tests.ordeals.options import options_of
from tests.support import pictures, processes
from tests.support.service import Service

OPERATIONS = ("optimize", "convert", "analyze")
STRANGER_CONNECTIONS = 4
HEALTH_INTERVAL_S = 0.05
MAX_HEALTH_S = 0.5
MAX_LATE_S = 10.0
WAIT_S = 200
ROUNDS_ALONE = 5


def hostile(count: int, seed: int) -> list[tuple[str, bytes]]:
    """`count` files by name: each kind once, then mutations of them in turn."""
    rng = random.Random(seed)
    kinds = sorted((hostile_files() | {name: make() for name, make in FLOODS.items()}).items())
    files = kinds[:count]
    for number in range(len(files), count):
        name, data = kinds[number % len(kinds)]
        files.append((f"{number}-{name}", mutated(data, rng)))
    rng.shuffle(files)
    return files


class Observed:
    """What the threads have seen so far. Times are in seconds."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.answers: Counter[str] = Counter()
        self.slowest: tuple[float, str] = (0.0, "")
        self.health_s: list[float] = []
        self.service_bytes = 0
        self.problems: list[str] = []
        self.is_over = threading.Event()

    def run(self, service: Service, operation: str, name: str, data: bytes) -> tuple[str, float]:
        """The end of one picture, which is the status of its job or of the refusal, or an error; and its seconds."""
        began = time.monotonic()
        try:
            answer = service.client.post(f"/images/{operation}", files={"image": (name, data)})
            status = str(answer.status_code)
            if answer.status_code == 202:
                status = service.final(answer.json()["data"]["job_id"], WAIT_S)["status"]
        except (httpx.HTTPError, AssertionError) as error:
            status = repr(error)
        return status, time.monotonic() - began

    def send_hostile(self, key: str, files: list[tuple[str, bytes]]) -> None:
        """Send every file through every operation."""
        with Service(self.root, key) as service:
            for name, data in files:
                for operation in OPERATIONS:
                    status, seconds = self.run(service, operation, name, data)
                    self.answers[status] += 1
                    self.slowest = max(self.slowest, (seconds, f"{name}, {operation}"))
                    if status not in ("completed", "failed", "422"):
                        self.problems.append(f"{name}, {operation}: {status}")

    def work(self, key: str, until: Callable[[int], bool]) -> list[float]:
        """The seconds of each of the neighbour's photographs, sent one after another until their number is enough."""
        photograph, times = pictures.jpeg(640, 480), list[float]()
        with Service(self.root, key) as service:
            while not until(len(times)):
                status, seconds = self.run(service, "process", "photo.jpg", with_comment(photograph, str(len(times))))
                times.append(seconds)
                if status != "completed":
                    self.problems.append(f"the neighbour's picture {len(times)}: {status}")
        return times

    def watch(self, pid: int) -> None:
        """Record the response times of /healthz, and the peak of the service's memory."""
        with httpx.Client(timeout=30) as client:
            while not self.is_over.wait(HEALTH_INTERVAL_S):
                began = time.monotonic()
                try:
                    client.get(f"{self.root}/healthz").raise_for_status()
                except httpx.HTTPError as error:
                    self.problems.append(f"/healthz: {error!r}")
                self.health_s.append(time.monotonic() - began)
                self.service_bytes = max(self.service_bytes, processes.rss_bytes(pid))


def main() -> None:
    options = options_of(__doc__, pictures=300)
    files = hostile(options.pictures, options.seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "data"
        stranger, neighbour = make_key(folder, account="stranger"), make_key(folder, account="neighbour")
        with serving(folder, program=options.program) as server:
            observed = Observed(server.wait_ready())
            usual_s = statistics.median(observed.work(neighbour, lambda sent: sent == ROUNDS_ALONE))
            with ThreadPoolExecutor(STRANGER_CONNECTIONS + 2) as threads:
                parts = [files[number::STRANGER_CONNECTIONS] for number in range(STRANGER_CONNECTIONS)]
                strangers = [threads.submit(observed.send_hostile, stranger, part) for part in parts]
                working = threads.submit(observed.work, neighbour, lambda _: observed.is_over.is_set())
                threads.submit(observed.watch, server.pid)
                for each in strangers:
                    each.result()
                observed.is_over.set()
                times_s = working.result()
            assert server.terminate() == 0, server.output()[-2000:]
        disk.check_folder(folder)

    def shown(times: list[float]) -> str:
        return ", ".join(f"{1000 * percentile(times, percent):.0f}" for percent in (50, 99, 100)) + " ms"

    rows = [
        ("answers", ", ".join(f"{count} {answer}" for answer, count in observed.answers.most_common()), ""),
        ("slowest", f"{observed.slowest[0]:.1f} s: {observed.slowest[1]}", ""),
        ("the neighbour's pictures: number, alone", f"{len(times_s)}, {usual_s:.2f} s", ""),
        ("  p50, p99, slowest", shown(times_s), f"≤ {MAX_LATE_S:g} s late"),
        ("/healthz p50, p99, slowest", shown(observed.health_s), f"≤ {1000 * MAX_HEALTH_S:g} ms"),
        ("peak memory of the service", f"{observed.service_bytes / MIB:.0f} MiB", ""),
        ("problems", str(len(observed.problems)), "0"),
    ]
    print_table(
        f"{options.pictures} pictures of strangers, {time.monotonic() - began:.0f} s, seed {options.seed}", rows
    )
    print(*observed.problems[:20], sep="\n")
    if observed.problems or max(times_s) - usual_s > MAX_LATE_S or max(observed.health_s) > MAX_HEALTH_S:
        sys.exit(1)


if __name__ == "__main__":
    main()
