"""Compares `archive` with two worker processes and with one, on drawn photographs, in alternating runs.

Each run has two tasks of 30 pictures, which have the same content, so that two workers end at the same time. Times are
from the begin of the first task to the end of the last one. A worker may use one core.

`python -m tests.bench.archive_workers [--rounds 2] [--width 1200] [--height 800] [--format webp]`
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from tests.bench.archive_doubles import TIMES_ENDING, TaskTimes, run_timed
from tests.bench.load import jpegs, print_table, with_comment
from tests.faults.server_process import ROOT

PICTURES_PER_TASK = 30
TASKS = 2
DIFFERENT = 10
LEAST_RATIO = 1.8
MOST_OUTSIDE = 0.02


class Measured(Struct, frozen=True):
    """One run. `busy_s` is the time of each worker from its first task to the end of its last, `pictures_s` that of the
    pictures, both added up.
    """

    workers: int
    command_s: float
    span_s: float
    busy_s: float
    pictures_s: float
    cpu_s: float


def write_source(folder: Path, width: int, height: int) -> None:
    """Photographs in the order of the listing: each task has every one of `DIFFERENT` as often."""
    with tempfile.TemporaryDirectory() as drawn:
        contents = [file.read_bytes() for file in jpegs(Path(drawn), DIFFERENT, width, height)]
    folder.mkdir()
    for number in range(TASKS * PICTURES_PER_TASK):
        (folder / f"{number:04}.jpg").write_bytes(with_comment(contents[number % DIFFERENT], str(number)))


def measure(folder: Path, workers: int, number: int, flags: Sequence[str]) -> Measured:
    """One run of the command in a process of its own, on a new target."""
    target = folder / f"target-{number}"
    arguments = ["archive", str(folder / "source"), str(target), "--workers", str(workers), *flags]
    process = multiprocessing.get_context("spawn").Process(target=run_timed, args=(arguments, PICTURES_PER_TASK))
    before, begun_s = _children_cpu_s(), time.monotonic()
    process.start()
    process.join()
    command_s = time.monotonic() - begun_s
    if process.exitcode != 0:
        raise SystemExit(f"The command ended with {process.exitcode}.")
    files = folder.glob(f"{target.name}-*{TIMES_ENDING}")
    tasks = [msgspec.json.decode(file.read_bytes(), type=TaskTimes) for file in files]
    spans = []
    for pid in {task.pid for task in tasks}:
        own = [task for task in tasks if task.pid == pid]
        spans.append((min(task.begun_s for task in own), max(task.ended_s for task in own)))
    if len(tasks) != TASKS or len(spans) != workers:
        raise SystemExit(f"Expected {TASKS} tasks on {workers} workers, but {len(tasks)} ran on {len(spans)}.")
    return Measured(
        workers,
        command_s,
        max(ended for _, ended in spans) - min(begun for begun, _ in spans),
        sum(ended - begun for begun, ended in spans),
        sum(task.pictures_s for task in tasks),
        _children_cpu_s() - before,
    )


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--width", type=int, default=1200)
    parser.add_argument("--height", type=int, default=800)
    parser.add_argument("--format", default="webp")
    options = parser.parse_args()
    os.environ |= {"IMGPROC_MODEL": "none", "PYTHONPATH": str(ROOT)}
    runs: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="archive-workers-") as name:
        folder = Path(name)
        write_source(folder / "source", options.width, options.height)
        flags = ["--format", options.format, "--data-dir", str(folder / "data")]
        for number in range(options.rounds):
            for workers in (1, 2) if number % 2 == 0 else (2, 1):
                load = os.getloadavg()[0]
                run = measure(folder, workers, len(runs), flags)
                runs.append(run)
                print(_described(run, load), flush=True)
    one, two = ([run for run in runs if run.workers == workers] for workers in (1, 2))
    ratios = [before.span_s / after.span_s for before, after in zip(one, two, strict=True)]
    cpu_ratio = sum(run.cpu_s for run in two) / sum(run.cpu_s for run in one)
    ratio = statistics.median(ratios)
    outside = 1 - sum(run.pictures_s for run in runs) / sum(run.busy_s for run in runs)
    task_s = sum(run.pictures_s for run in runs) / (TASKS * len(runs))
    print_table(
        f"Two workers against one, tasks of {task_s:.0f} s",
        [
            (
                "throughput of two relative to one, median of " + " ".join(f"{each:.2f}" for each in ratios),
                f"{ratio:.2f}",
                f"≥ {LEAST_RATIO}: {'met' if ratio >= LEAST_RATIO else 'MISSED'}",
            ),
            ("CPU time of two relative to one", f"{cpu_ratio:.2f}", ""),
            ("time of workers outside pictures", f"{outside:.2%}", f"≤ {MOST_OUTSIDE:.0%}: {_verdict(outside)}"),
        ],
    )
    sys.exit(0 if ratio >= LEAST_RATIO and outside <= MOST_OUTSIDE else 1)


def _described(run: Measured, load: float) -> str:
    return (
        f"{run.workers} workers, load {load:.1f}: {TASKS * PICTURES_PER_TASK} pictures in {run.span_s:.1f} s, command"
        f" {run.command_s:.1f} s; CPU time {run.cpu_s:.1f} s, {run.cpu_s / run.busy_s:.2f} cores per worker; outside"
        f" pictures {1 - run.pictures_s / run.busy_s:.2%}"
    )


def _verdict(outside: float) -> str:
    return "met" if outside <= MOST_OUTSIDE else "MISSED"


if __name__ == "__main__":
    main()
