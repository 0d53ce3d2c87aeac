"""Measures how well one client and one scheduler of `archive` use many workers.

`python -m tests.bench.archive_scale [--most 128] [--seconds 3]` has 1, 2, 4 … workers sleep, given their tasks by the
client of the command, and prints which share of their time they slept. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

from distributed import Client, Worker

from imgproc_local.archive import run as archive_run
from imgproc_local.archive.row import PendingPicture, Row
from imgproc_local.archive.run import Submitter
from imgproc_local.archive.stores import LocalStore, SourceObject
from imgproc_local.archive.worker import RunSpec
from imgproc_local.batch.request import BatchRequest
from tests.faults.server_process import ROOT
from tests.support import processes

LEAST_EFFICIENCY = 0.95
ROUNDS = 8
WORKERS_PER_PROCESS = 32
START_S = 120
SPAWN = multiprocessing.get_context("spawn")
SCHEDULER_SETTINGS = {
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_SATURATION": "1.0",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "false",
    "DASK_LOGGING__DISTRIBUTED": "error",
}
"""As in packaging/cluster/cluster.env, and without the profiler of workers that are threads of one process."""


@contextmanager
def scheduler(folder: Path) -> Iterator[tuple[str, int]]:
    """The address and the process of a real scheduler."""
    file = folder / "scheduler.json"
    command = [sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    with subprocess.Popen(
        [*command, "--scheduler-file", str(file)],
        cwd=ROOT,
        env={**os.environ, **SCHEDULER_SETTINGS},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            ends_s = time.monotonic() + START_S
            while not file.exists():
                if time.monotonic() > ends_s:
                    raise SystemExit(f"Expected a scheduler within {START_S} s.")
                time.sleep(0.05)
            yield json.loads(file.read_text())["address"], process.pid
        finally:
            process.terminate()


def start_workers(address: str, count: int) -> list[BaseProcess]:
    os.environ.update(SCHEDULER_SETTINGS)
    counts = [min(WORKERS_PER_PROCESS, count - first) for first in range(0, count, WORKERS_PER_PROCESS)]
    started = [SPAWN.Process(target=host_workers, args=(address, some), daemon=True) for some in counts]
    for process in started:
        process.start()
    return started


def host_workers(address: str, count: int) -> None:
    """A process with many workers of Dask, each with a thread for its tasks."""

    async def run() -> None:
        names = (f"{os.getpid()}-{number}" for number in range(count))
        workers = [await Worker(address, nthreads=1, memory_limit=0, name=name, dashboard=False) for name in names]
        await asyncio.gather(*(worker.finished() for worker in workers))

    asyncio.run(run())


def sleep(spec: RunSpec, pending: PendingPicture) -> Row:
    """In place of `process`: waits for as long as the options of the run say."""
    time.sleep(float(spec.request.options_hash))
    return Row(source=pending.picture.key, version="1", size_bytes=1, options="", outcome="done")


def measure(most: int, task_s: float) -> float:
    """Print the efficiency of 1, 2, 4 … workers, and return the last."""
    archive_run.process = sleep  # type: ignore[assignment] # the same signature, another function
    efficiency = 0.0
    running: list[BaseProcess] = []
    counts = [count for count in (1 << power for power in range(20)) if count <= most]
    with tempfile.TemporaryDirectory(prefix="archive-scale-") as name, scheduler(Path(name)) as (address, pid):
        try:
            with Client(address, set_as_default=False) as client:
                for before, workers in itertools.pairwise([0, *counts]):
                    running += start_workers(address, workers - before)
                    client.wait_for_workers(workers, timeout=START_S)
                    run_tasks(client, Path(name), 2 * workers, 0.1)  # connects all of them
                    tasks = ROUNDS * workers
                    scheduler_s, client_s, began_s = processes.cpu_s(pid), time.process_time(), time.monotonic()
                    run_tasks(client, Path(name), tasks, task_s)
                    wall_s = time.monotonic() - began_s
                    scheduler_s, client_s = processes.cpu_s(pid) - scheduler_s, time.process_time() - client_s
                    efficiency = tasks * task_s / (workers * wall_s)
                    print(
                        f"{workers:4} workers, {tasks:5} tasks of {task_s:g} s in {wall_s:.1f} s: efficiency"
                        f" {efficiency:.3f}; CPU time of a task {1000 * scheduler_s / tasks:.1f} ms in the scheduler"
                        f" and {1000 * client_s / tasks:.1f} ms in the client",
                        flush=True,
                    )
        finally:
            for process in running:
                process.terminate()
                process.join()
    return efficiency


def run_tasks(client: Client, folder: Path, tasks: int, task_s: float) -> None:
    spec = RunSpec("/source", str(folder), BatchRequest((), ("en",), str(task_s)), {})
    objects = (SourceObject(f"museum/IMG_{number:07d}.jpg", 1, "1") for number in range(tasks))
    submitter = Submitter(client, spec, LocalStore(folder), threading.Event())
    done = list(submitter.rows(PendingPicture(each) for each in objects))
    if len(done) != tasks:
        raise SystemExit(f"Expected {tasks} results, but there are {len(done)}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the processes that it started end too
    if measure(options.most, options.seconds) < LEAST_EFFICIENCY:
        raise SystemExit(f"Expected an efficiency of at least {LEAST_EFFICIENCY}.")


if __name__ == "__main__":
    main()
