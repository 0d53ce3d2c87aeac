"""Hostile pictures from one account while another works: their effect on the service and on the other account.

`python -m tests.ordeals.strangers [--pictures 300] [--seed N] [--program BINARY]`

The stranger sends every hostile file, and random mutations of them, through three operations. Meanwhile the neighbour
sends ordinary photographs one after another, and /healthz is requested every `HEALTH_INTERVAL_S`.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import httpx

from imgproc_local.compose import open_store
from imgproc_local.config import Config
from tests.bench.load import MIB, percentile, print_table, with_comment
from tests.faults import disk
from tests.faults.floods import FLOODS
from tests.faults.hostile import hostile_files
from tests.faults.server_process import SOURCE, ServerProcess, serving
from tests.support import pictures, processes

OPERATIONS = ("optimize", "convert", "analyze")
STRANGER_CONNECTIONS = 4
HEALTH_INTERVAL_S = 0.05
MAX_HEALTH_S = 0.5
MAX_LATE_S = 10.0
WAIT_S = 200
ROUNDS_ALONE = 5
FINAL = ("completed", "failed")


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


def make_keys(folder: Path) -> tuple[str, str]:
    """Keys of the accounts of the stranger and the neighbour."""

    async def create() -> tuple[str, str]:
        async with open_store(Config(data_dir=folder), create=True) as store:
            stranger = await store.keys.create("stranger", account="stranger", rate_limit=0)
            neighbour = await store.keys.create("neighbour", account="neighbour", rate_limit=0)
            return stranger[1], neighbour[1]

    return asyncio.run(create())


class Observed:
    """What the threads have seen so far."""

    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()
        self.slowest: tuple[float, str] = (0.0, "")
        self.neighbour_s: list[float] = []
        self.health_s: list[float] = []
        self.service_bytes = 0
        self.children_bytes = 0
        self.problems: list[str] = []
        self.is_over = threading.Event()


def run_job(client: httpx.Client, operation: str, name: str, data: bytes) -> str:
    """Dispatch one picture and wait until its job is final. Returns the status of the job, or that of the response."""
    answer = client.post(f"/images/{operation}", files={"image": (name, data)})
    if answer.status_code != 202:
        return str(answer.status_code)
    job_id = answer.json()["data"]["job_id"]
    ends_at = time.monotonic() + WAIT_S
    while time.monotonic() < ends_at:
        job = client.get(f"/jobs/{job_id}", headers={"Prefer": "wait=20"}).json()["data"]
        if job["status"] in FINAL:
            return str(job["status"])
    return "unfinished"


def send_hostile(root: str, key: str, files: list[tuple[str, bytes]], observed: Observed) -> None:
    """Send files of the list through every operation until the list is empty. All connections share it."""
    with httpx.Client(base_url=f"{root}/api/v1", headers={"X-API-Key": key}, timeout=WAIT_S) as client:
        while files:
            try:
                name, data = files.pop()
            except IndexError:
                return
            for operation in OPERATIONS:
                began = time.monotonic()
                try:
                    answer = run_job(client, operation, name, data)
                except Exception as error:
                    answer = type(error).__name__
                    observed.problems.append(f"{name}, {operation}: {error!r}")
                observed.answers[answer] += 1
                observed.slowest = max(observed.slowest, (time.monotonic() - began, f"{name}, {operation}"))
                if answer not in ("completed", "failed", "422"):
                    observed.problems.append(f"{name}, {operation}: {answer}")


def work_beside(root: str, key: str, observed: Observed) -> None:
    """Send ordinary photographs, one after another, until the hostile files are done."""
    photograph = pictures.jpeg(640, 480)
    with httpx.Client(base_url=f"{root}/api/v1", headers={"X-API-Key": key}, timeout=WAIT_S) as client:
        number = 0
        while not observed.is_over.is_set():
            number += 1
            began = time.monotonic()
            try:
                answer = run_job(client, "process", f"{number}.jpg", with_comment(photograph, f"number {number}"))
            except Exception as error:
                answer = repr(error)
            observed.neighbour_s.append(time.monotonic() - began)
            if answer != "completed":
                observed.problems.append(f"the neighbour's picture {number}: {answer}")


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


def alone(root: str, key: str) -> float:
    """The seconds that the neighbour's picture takes on an idle service."""
    photograph, times = pictures.jpeg(640, 480), []
    with httpx.Client(base_url=f"{root}/api/v1", headers={"X-API-Key": key}, timeout=WAIT_S) as client:
        for number in range(ROUNDS_ALONE):
            began = time.monotonic()
            run_job(client, "process", "alone.jpg", with_comment(photograph, f"alone {number}"))
            times.append(time.monotonic() - began)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 2**31))
    parser.add_argument("--program", type=Path, help="a frozen program, instead of the source")
    options = parser.parse_args()
    kinds = len(every_kind())
    files = hostile(options.pictures, options.seed)
    observed = Observed()
    program = (options.program.resolve(),) if options.program else SOURCE
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "data"
        stranger, neighbour = make_keys(folder)
        with serving(folder, program=program) as server:
            root = server.wait_ready()
            usual_s = alone(root, neighbour)
            strangers = [
                threading.Thread(target=send_hostile, args=(root, stranger, files, observed))
                for _ in range(STRANGER_CONNECTIONS)
            ]
            others = [
                threading.Thread(target=work_beside, args=(root, neighbour, observed)),
                threading.Thread(target=watch, args=(root, server, observed)),
            ]
            for thread in [*strangers, *others]:
                thread.start()
            for thread in strangers:
                thread.join()
            observed.is_over.set()
            for thread in others:
                thread.join()
            ended = server.process.poll() is not None
            if not ended:
                server.terminate()
        try:
            disk.check_folder(folder)
        except AssertionError as error:
            observed.problems.append(f"the data folder: {error}")
    latest_s = max(observed.neighbour_s)
    neighbour_s = ", ".join(f"{each:.2f}" for each in (usual_s, percentile(observed.neighbour_s, 50), latest_s))
    health_ms = ", ".join(f"{1000 * percentile(observed.health_s, percent):.0f}" for percent in (50, 99, 100))
    rows = [
        ("hostile pictures, kinds, jobs", f"{options.pictures}, {kinds}, {observed.answers.total()}", "≥ 300, 40"),
        ("answers", ", ".join(f"{count} {answer}" for answer, count in observed.answers.most_common()), ""),
        ("slowest", f"{observed.slowest[0]:.1f} s: {observed.slowest[1]}", ""),
        ("ends of the service", str(int(ended)), "0"),
        ("the neighbour's pictures", str(len(observed.neighbour_s)), ""),
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
