"""Compares 500 queued jobs in the engine and its worker processes with the same codec calls on threads.

Half of the direct calls run before the jobs and half after them, so that other load on the machine affects both. Half
of the jobs optimize, half convert to WebP. A task that wakes up every millisecond shows stalls of the event loop.

`python -m tests.bench.throughput [--jobs 500] [--threads 2] [--folder JPEGS]`
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from imgproc_local.codecs.optimize import optimize_file
from imgproc_local.codecs.picture.probe import probe
from imgproc_local.compose import Services, open_services
from imgproc_local.config import Config
from imgproc_local.domain.plan import Operation, Plan
from imgproc_local.engine.worker import NICENESS
from tests.bench.load import jpegs, percentile, print_table, verdict
from tests.codecs.operations import to_webp

MAX_PIXELS = 200_000_000
TICK_S = 0.001
MAX_STALL_MS = 50
LEAST_THROUGHPUT = 0.97
"""The least throughput of the engine, as a share of that of the direct calls on threads."""
Call = tuple[Operation, Path]


def direct(calls: list[Call], threads: int) -> tuple[float, float]:
    """Wall and CPU seconds of the direct codec calls."""

    def run(call: Call) -> None:
        operation, file = call
        info = probe(file, MAX_PIXELS)
        (optimize_file if operation is Operation.OPTIMIZE else to_webp)(file, info, lambda: None)

    started_at, cpu_before = time.perf_counter(), _cpu_s()
    with ThreadPoolExecutor(threads, initializer=_lower_priority) as pool:
        for _ in pool.map(run, calls):
            pass
    return time.perf_counter() - started_at, _cpu_s() - cpu_before


def _lower_priority() -> None:
    """Give this thread the priority of the engine's worker processes. On Linux only."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


async def tick(late_s: list[float]) -> None:
    """Record how late a task of the loop wakes up, until it is cancelled."""
    while True:
        began_at = time.perf_counter()
        await asyncio.sleep(TICK_S)
        late_s.append(time.perf_counter() - began_at - TICK_S)


async def through_engine(calls: list[Call], threads: int, folder: Path) -> tuple[float, float, list[float]]:
    """Wall and CPU seconds of the jobs, and by how many seconds each tick of the event loop was late."""
    config = Config(data_dir=folder, codec_threads=threads, queue_limit=len(calls) + 1)
    cpu_before = _cpu_s()
    late_s: list[float] = []
    async with open_services(config, "bench") as services:
        account_id = await services.store.keys.account_id(create=True)
        ticking = asyncio.create_task(tick(late_s))
        started_at = time.perf_counter()
        jobs = [await _submit(services, account_id, call) for call in calls]
        for job_id in jobs:
            job = await services.engine.wait(job_id, 3600)
            if job.status != "completed":
                raise SystemExit(f"a job ended as {job.status}: {job.stages}")
        elapsed = time.perf_counter() - started_at
        ticking.cancel()
    # the CPU time of the workers counts once they have ended
    return elapsed, _cpu_s() - cpu_before, late_s


def _cpu_s() -> float:
    """CPU seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


async def _submit(services: Services, account_id: str, call: Call) -> str:
    """Store, probe and queue a file like an upload."""
    operation, file = call
    with services.blobs.incoming() as incoming:
        await asyncio.to_thread(incoming.write, await asyncio.to_thread(file.read_bytes))
        job, _ = await services.engine.accept(account_id, Plan(operation), incoming, file.name)
        return job.id


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="use the JPEGs of this folder instead of synthetic ones")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = sorted(arguments.folder.glob("*.jp*g")) if arguments.folder else jpegs(folder, 6)
        picked = [files[number % len(files)] for number in range(arguments.jobs)]
        random.Random(1).shuffle(picked)
        calls = [(Operation.OPTIMIZE if n % 2 else Operation.CONVERT, file) for n, file in enumerate(picked)]
        direct(calls[:4], arguments.threads)  # loads the libraries
        half = len(calls) // 2
        first = direct(calls[:half], arguments.threads)
        engine_s, engine_cpu_s, late_s = asyncio.run(through_engine(calls, arguments.threads, folder / "data"))
        second = direct(calls[half:], arguments.threads)
    direct_s, direct_cpu_s = first[0] + second[0], first[1] + second[1]
    late_ms = [late * 1000 for late in late_s]
    throughput = direct_s / engine_s
    print_table(
        f"{len(calls)} jobs, {arguments.threads} threads, {len(files)} JPEGs",
        [
            ("direct calls, before + after", f"{first[0]:.1f} + {second[0]:.1f} = {direct_s:.1f} s", ""),
            ("engine, from the first submission to the last result", f"{engine_s:.1f} s", ""),
            (
                "throughput of the engine, relative to threads",
                f"{throughput:.3f}",
                "met" if throughput >= LEAST_THROUGHPUT else f"MISSED, at least {LEAST_THROUGHPUT}",
            ),
            ("CPU time, direct and engine", f"{direct_cpu_s:.1f} and {engine_cpu_s:.1f} s", ""),
            ("longest stall of the event loop", f"{max(late_ms):.1f} ms", verdict(max(late_ms), MAX_STALL_MS, "ms")),
            ("99.9 % of ticks are late by at most", f"{percentile(late_ms, 99.9):.1f} ms", ""),
            ("ticks", f"{len(late_ms)}", ""),
        ],
    )


if __name__ == "__main__":
    main()
