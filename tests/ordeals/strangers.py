"""Hostile pictures from one account while another works: their effect on the service and on the other account.

`python -m tests.ordeals.strangers [--pictures 300] [--seed N] [--program BINARY]`

The stranger sends every hostile file, and random mutations of them, through three operations. Meanwhile the neighbour
sends ordinary photographs one after another, and /healthz is requested every `HEALTH_INTERVAL_S`.
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
from tests.faults.server_process import ServerProcess, make_key, serving
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


def every_kind() -> dict[str, bytes]:
    """One file of every kind, by name."""
    return hostile_files() | {name: make() for name, make in FLOODS.items()}


def hostile(count: int, seed: int) -> list[tuple[str, bytes]]:
    """`count` files by name: each kind once, then mutations of them in turn."""
    rng = random.Random(seed)
    kinds = sorted(every_kind().items())
    rng.shuffle(kinds)
    files = kinds[:count]
    while len(files) < count:
        name, data = kinds[len(files) % len(kinds)]
        files.append((f"{len(files)}-{name}", mutated(data, rng)))
    rng.shuffle(files)
    return files


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The file with up to 16 random bytes changed, a part of it repeated, or its end cut off."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 16) if out else 0):
        out[rng.randrange(len(out))] = rng.randrange(256)
    way = rng.randrange(4)
    if way == 0:
        del out[rng.randint(len(out) // 2, len(out)) :]
    elif way == 1 and len(out) < MIB:
        at, size = rng.randint(0, len(out)), rng.randint(0, 4096)
        out[at:at] = out[at : at + size] * rng.randint(1, 8)
    return bytes(out)


class Observed:
    """What the threads have seen so far."""

    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()
        self.slowest: tuple[float, str] = (0.0, "")
        self.health_s: list[float] = []
        self.service_bytes = 0
        self.children_bytes = 0
        self.problems: list[str] = []
        self.is_over = threading.Event()


def run_job(service: Service, operation: str, name: str, data: bytes) -> str:
    """Dispatch one picture and wait until its job is final. Returns its status, that of the response, or the error."""
    try:
        answer = service.client.post(f"/images/{operation}", files={"image": (name, data)})
        if answer.status_code != 202:
            return str(answer.status_code)
        return str(service.final(answer.json()["data"]["job_id"], WAIT_S)["status"])
    except (httpx.HTTPError, AssertionError) as error:
        return repr(error)


def send_hostile(root: str, key: str, files: list[tuple[str, bytes]], observed: Observed) -> None:
    """Send files of the list through every operation until the list is empty. All connections share it."""
    with Service(root, key) as service:
        while files:
            try:
                name, data = files.pop()
            except IndexError:
                return
            for operation in OPERATIONS:
                began = time.monotonic()
                answer = run_job(service, operation, name, data)
                observed.answers[answer] += 1
                observed.slowest = max(observed.slowest, (time.monotonic() - began, f"{name}, {operation}"))
                if answer not in ("completed", "failed", "422"):
                    observed.problems.append(f"{name}, {operation}: {answer}")


def work(root: str, key: str, observed: Observed, until: Callable[[int], bool]) -> list[float]:
    """The seconds of each of the neighbour's photographs, sent one after another until their number is enough."""
    photograph, times = pictures.jpeg(640, 480), []
    with Service(root, key) as service:
        while not until(len(times)):
            began = time.monotonic()
            answer = run_job(service, "process", "photo.jpg", with_comment(photograph, f"{began}"))
            times.append(time.monotonic() - began)
            if answer != "completed":
                observed.problems.append(f"the neighbour's picture {len(times)}: {answer}")
    return times


def watch(root: str, server: ServerProcess, observed: Observed) -> None:
    """Record the response times of /healthz, and the peaks of memory."""
    with httpx.Client(timeout=30) as client:
        while not observed.is_over.is_set():
            began = time.monotonic()
            try:
                client.get(f"{root}/healthz").raise_for_status()
            except Exception as error:
                observed.problems.append(f"/healthz: {error!r}")
            observed.health_s.append(time.monotonic() - began)
            observed.service_bytes = max(observed.service_bytes, processes.rss_bytes(server.pid))
            children = sum(processes.rss_bytes(child) for child in processes.descendants(server.pid))
            observed.children_bytes = max(observed.children_bytes, children)
            time.sleep(HEALTH_INTERVAL_S)


def main() -> None:
    options = options_of(__doc__, pictures=300)
    kinds = len(every_kind())
    files = hostile(options.pictures, options.seed)
    observed = Observed()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "data"
        stranger, neighbour = make_key(folder, account="stranger"), make_key(folder, account="neighbour")
        with serving(folder, program=options.program) as server:
            root = server.wait_ready()
            usual_s = statistics.median(work(root, neighbour, observed, lambda sent: sent == ROUNDS_ALONE))
            with ThreadPoolExecutor(STRANGER_CONNECTIONS + 2) as threads:
                strangers = [
                    threads.submit(send_hostile, root, stranger, files, observed) for _ in range(STRANGER_CONNECTIONS)
                ]
                neighbours = threads.submit(work, root, neighbour, observed, lambda _: observed.is_over.is_set())
                watching = threads.submit(watch, root, server, observed)
                for each in strangers:
                    each.result()
                observed.is_over.set()
                neighbour_times_s = neighbours.result()
                watching.result()
            ended = server.process.poll() is not None
            if not ended:
                server.terminate()
        try:
            disk.check_folder(folder)
        except AssertionError as error:
            observed.problems.append(f"the data folder: {error}")
    latest_s = max(neighbour_times_s)
    neighbour_s = ", ".join(f"{each:.2f}" for each in (usual_s, percentile(neighbour_times_s, 50), latest_s))
    health_ms = ", ".join(f"{1000 * percentile(observed.health_s, percent):.0f}" for percent in (50, 99, 100))
    rows = [
        ("hostile pictures, kinds, jobs", f"{options.pictures}, {kinds}, {observed.answers.total()}", "≥ 300, 40"),
        ("answers", ", ".join(f"{count} {answer}" for answer, count in observed.answers.most_common()), ""),
        ("slowest", f"{observed.slowest[0]:.1f} s: {observed.slowest[1]}", ""),
        ("ends of the service", str(int(ended)), "0"),
        ("the neighbour's pictures", str(len(neighbour_times_s)), ""),
        ("  each alone, median, slowest", f"{neighbour_s} s", f"≤ {MAX_LATE_S:g} s late"),
        ("/healthz p50, p99, slowest", f"{health_ms} ms", f"≤ {1000 * MAX_HEALTH_S:g} ms"),
        ("peak memory of the service", f"{observed.service_bytes / MIB:.0f} MiB", ""),
        ("peak memory of its children", f"{observed.children_bytes / MIB:.0f} MiB", ""),
        ("problems", str(len(observed.problems)), "0"),
    ]
    print_table(f"Strangers, {time.monotonic() - began:.0f} s, seed {options.seed}", rows)
    for problem in observed.problems[:20]:
        print("  problem:", problem)
    if ended or observed.problems or latest_s - usual_s > MAX_LATE_S or max(observed.health_s) > MAX_HEALTH_S:
        sys.exit(1)


if __name__ == "__main__":
    main()
