"""Measures what limits the size of an archive: memory at a million pictures, and how well 128 workers are used.

`python -m tests.bench.archive_scale memory [--pictures 1000000]` runs the command on a source of so many objects, which
an HTTP server invents page by page, with a real scheduler and four workers whose tasks only store invented rows. It
prints the memory of client and scheduler at each tenth of the time, and the peaks of both and of the client's child.

`python -m tests.bench.archive_scale workers [--most 128] [--seconds 3] [--plot FILE.svg]` has 1, 2, 4 … workers sleep,
given their tasks by the client of the command, and prints which share of their time they slept. Linux only.
"""

from __future__ import annotations

import argparse
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

from msgspec import Struct

from imgproc_local.archive import client as archive_client
from imgproc_local.archive.client import Submitter
from imgproc_local.archive.local_store import LocalStore
from imgproc_local.archive.picture import PendingPicture
from imgproc_local.archive.store import SourceObject
from imgproc_local.archive.worker import PictureSummary, RunSpec
from imgproc_local.batch.request import BatchRequest
from tests.bench.archive_doubles import host_workers, serve_listing, sleep
from tests.bench.archive_manifest import SIZE_BYTES
from tests.bench.archive_memory import started, watch
from tests.bench.load import print_table, verdict
from tests.faults.server_process import ROOT
from tests.support import processes

MAX_CLIENT_MB, MAX_SCHEDULER_MB = 150, 300
LEAST_EFFICIENCY = 0.95
ROUNDS = 8
WORKERS_PER_PROCESS = 32
START_S = 120
SPAWN = multiprocessing.get_context("spawn")
SCHEDULER_SETTINGS = {
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_SATURATION": "1.0",
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "false",
    "DASK_LOGGING__DISTRIBUTED": "error",
}
"""As in packaging/cluster/cluster.env, and without the profiler of workers that are threads of one process."""


class Measured(Struct, frozen=True):
    """What a number of workers needed for their tasks."""

    workers: int
    tasks: int
    wall_s: float
    task_s: float
    scheduler_cpu_s: float
    client_cpu_s: float

    @property
    def efficiency(self) -> float:
        return self.tasks * self.task_s / (self.workers * self.wall_s)


# ---- processes ----


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
            _wait_for(file)
            yield json.loads(file.read_text())["address"], process.pid
        finally:
            process.terminate()


def _wait_for(file: Path) -> None:
    ends_s = time.monotonic() + START_S
    while not file.exists():
        if time.monotonic() > ends_s:
            raise SystemExit(f"Expected {file.name} within {START_S} s.")
        time.sleep(0.05)


def _start_workers(address: str, count: int) -> list[BaseProcess]:
    os.environ.update(SCHEDULER_SETTINGS)
    started: list[BaseProcess] = []
    while count > 0:
        some = min(count, WORKERS_PER_PROCESS)
        process = SPAWN.Process(target=host_workers, args=(address, some), daemon=True)
        process.start()
        started.append(process)
        count -= some
    return started


def _end(running: Sequence[BaseProcess]) -> None:
    for process in running:
        process.terminate()
        process.join()


# ---- memory ----


def measure_memory(pictures: int) -> list[tuple[str, str, str]]:
    """The rows of the table of memory."""
    with (
        tempfile.TemporaryDirectory(prefix="archive-scale-") as name,
        scheduler(Path(name)) as (address, scheduler_pid),
    ):
        folder = Path(name)
        running = _start_workers(address, 4)
        running.append(SPAWN.Process(target=serve_listing, args=(pictures, folder / "port"), daemon=True))
        running[-1].start()
        try:
            _wait_for(folder / "port")
            environment = {
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{(folder / 'port').read_text()}",
                "AWS_ACCESS_KEY_ID": "testing",
                "AWS_SECRET_ACCESS_KEY": "testing",
                "AWS_DEFAULT_REGION": "us-east-1",
                "IMGPROC_DATA_DIR": str(folder / "data"),
                "IMGPROC_MODEL": "none",
            }
            arguments = ["archive", "s3://bucket/museum", folder / "target", "--scheduler", address]
            function = "archive_doubles:run_rows_only"
            with started(folder, function, *arguments, "--only", "optimize", environment=environment) as client:
                began_s = time.monotonic()
                samples = watch(client, scheduler_pid)
                wall_s = time.monotonic() - began_s
            peak_mb = processes.peak_rss_bytes(scheduler_pid) / 1e6
        finally:
            _end(running)
    tenths = [samples[len(samples) * tenth // 10] for tenth in range(10)] + [samples[-1]]
    client_mb, child_mb = max(sample.client for sample in samples), max(sample.child for sample in samples)
    private_mb = max(sample.private for sample in samples)
    return [
        ("pictures, time of the run", f"{pictures:,}", f"{wall_s:.0f} s"),
        ("client at each tenth of the time, MB", " ".join(f"{each.client:.0f}" for each in tenths), ""),
        ("scheduler at each tenth of the time, MB", " ".join(f"{each.other:.0f}" for each in tenths), ""),
        ("client, most", f"{client_mb:.0f} MB", verdict(client_mb, MAX_CLIENT_MB, "MB")),
        ("client, most without files of libraries", f"{private_mb:.0f} MB", ""),
        ("child of the client, peak", f"{child_mb:.0f} MB", verdict(child_mb, MAX_CLIENT_MB, "MB")),
        ("scheduler, peak", f"{peak_mb:.0f} MB", verdict(peak_mb, MAX_SCHEDULER_MB, "MB")),
    ]


# ---- sleeping workers ----


def measure_workers(most: int, task_s: float) -> list[Measured]:
    """1, 2, 4 … workers."""
    from distributed import Client

    archive_client.run_task = sleep  # type: ignore[assignment] # the same signature, another function
    measured = []
    running: list[BaseProcess] = []
    counts = [count for count in (1 << power for power in range(20)) if count <= most]
    with tempfile.TemporaryDirectory(prefix="archive-scale-") as name, scheduler(Path(name)) as (address, pid):
        try:
            with Client(address, set_as_default=False) as client:
                for before, workers in itertools.pairwise([0, *counts]):
                    running += _start_workers(address, workers - before)
                    client.wait_for_workers(workers, timeout=START_S)
                    _run_tasks(client, Path(name), 2 * workers, 0.1)  # connects all of them
                    tasks = ROUNDS * workers
                    scheduler_s, client_s, began_s = processes.cpu_s(pid), time.process_time(), time.monotonic()
                    _run_tasks(client, Path(name), tasks, task_s)
                    wall_s = time.monotonic() - began_s
                    scheduler_s, client_s = processes.cpu_s(pid) - scheduler_s, time.process_time() - client_s
                    measured.append(Measured(workers, tasks, wall_s, task_s, scheduler_s, client_s))
                    print(_described(measured[-1]), flush=True)
        finally:
            _end(running)
    return measured


def _run_tasks(client: object, folder: Path, tasks: int, task_s: float) -> None:
    spec = RunSpec("/source", str(folder), BatchRequest((), ("en",), str(task_s)), {})
    done: list[PictureSummary] = []

    def on_done(_: str, summaries: Sequence[PictureSummary]) -> None:
        done.extend(summaries)

    submitter = Submitter(spec, LocalStore(folder), f"{time.monotonic_ns()}", on_done, threading.Event())
    objects = (SourceObject(f"museum/IMG_{number:07d}.jpg", SIZE_BYTES, "1") for number in range(tasks))
    submitter.run(client, ([PendingPicture(each)] for each in objects))  # type: ignore[arg-type] # not annotated
    if len(done) != tasks:
        raise SystemExit(f"Expected {tasks} results, but there are {len(done)}.")


def _described(measured: Measured) -> str:
    return (
        f"{measured.workers:4} workers, {measured.tasks:5} tasks of {measured.task_s:g} s in {measured.wall_s:.1f} s:"
        f" efficiency {measured.efficiency:.3f}; {measured.tasks / measured.wall_s:.1f} tasks a second, CPU time of a"
        f" task {1000 * measured.scheduler_cpu_s / measured.tasks:.1f} ms in the scheduler and"
        f" {1000 * measured.client_cpu_s / measured.tasks:.1f} ms in the client"
    )


# ---- the plot ----

WIDTH, HEIGHT = 640, 340
LEFT, RIGHT, TOP, BOTTOM = 56, 616, 48, 284
LOWEST = 0.8


def plot(measured: Sequence[Measured]) -> str:
    """The efficiency by the number of workers, as SVG."""

    def x(number: int) -> float:
        return LEFT + (RIGHT - LEFT) * number / max(1, len(measured) - 1)

    def y(efficiency: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * (max(efficiency, LOWEST) - LOWEST) / (1 - LOWEST)

    def text(left: float, top: float, content: str, anchor: str = "middle") -> str:
        return f'<text x="{left:.1f}" y="{top:.1f}" text-anchor="{anchor}">{content}</text>'

    task_s = measured[0].task_s
    points = [(x(number), y(each.efficiency)) for number, each in enumerate(measured)]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        ' font-family="sans-serif" font-size="13" fill="#333">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        text(LEFT, 24, f"Share of their time that workers spend in tasks of {task_s:g} s", "start"),
    ]
    for percent in range(round(100 * LOWEST), 101, 5):
        height = y(percent / 100)
        dashes = ' stroke-dasharray="6 4" stroke="#b33"' if percent / 100 == LEAST_EFFICIENCY else ' stroke="#ddd"'
        lines.append(f'<path d="M{LEFT} {height:.1f}H{RIGHT}"{dashes}/>')
        lines.append(text(LEFT - 8, height + 4, f"{percent} %", "end"))
    lines.append(f'<polyline points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in points)}" fill="none" stroke="#246"/>')
    for each, (left, top) in zip(measured, points, strict=True):
        lines.append(f'<circle cx="{left:.1f}" cy="{top:.1f}" r="4" fill="#246"/>')
        lines.append(text(left, top + 20, f"{each.efficiency:.3f}"))
        lines.append(text(left, BOTTOM + 20, str(each.workers)))
    lines += [text((LEFT + RIGHT) / 2, BOTTOM + 42, "workers"), "</svg>"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("memory", "workers"))
    parser.add_argument("--pictures", type=int, default=1_000_000)
    parser.add_argument("--most", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the processes that it started end too
    if options.what == "memory":
        print_table("Memory of a large archive", measure_memory(options.pictures))
        return
    measured = measure_workers(options.most, options.seconds)
    if options.plot:
        options.plot.write_text(plot(measured), encoding="utf-8")
    if measured[-1].efficiency < LEAST_EFFICIENCY:
        raise SystemExit(f"Expected an efficiency of at least {LEAST_EFFICIENCY}.")


if __name__ == "__main__":
    main()
