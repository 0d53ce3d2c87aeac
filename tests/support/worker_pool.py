"""Worker processes for tests: a pool with its files in a folder of the test, a work item, and waiting for processes."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.plan import Operation, Plan
from imgproc_local.engine.pipeline import CancellationToken
from imgproc_local.engine.stage import Options, Output, WorkItem
from imgproc_local.engine.workers import Workers, memory_limit_bytes
from imgproc_local.system.piped_child import program
from tests.support import pictures
from tests.support.reading import probe

StageFunction = Callable[[WorkItem, CheckStop], Output]
TIMEOUT_S = 60.0
WAIT_S = 60.0
"""How long a test waits for what happens soon on a quiet machine: a busy one may be a hundred times slower."""


@contextlib.contextmanager
def worker_pool(folder: Path, idle_s: float = 60.0, timeout_s: float = TIMEOUT_S) -> Iterator[Workers]:
    """Workers whose results go to `folder/results`."""
    results = folder / "results"
    results.mkdir(parents=True, exist_ok=True)
    workers = Workers(folder / "work", results, program("codec-worker"), os.environ, timeout_s, idle_s=idle_s)
    try:
        yield workers
    finally:
        workers.close()


def work_item(folder: Path, project_name: str = "") -> WorkItem:
    """Work on a small picture in `folder`."""
    path = folder / "picture.jpg"
    path.write_bytes(pictures.jpeg(320, 240))
    plan = Plan(Operation.PROCESS, project_name=project_name)
    options = Options(target_score=85.0)
    return WorkItem(path, probe(path), plan, path.name, options)


def run(workers: Workers, function: StageFunction, work: WorkItem, timeout_s: float = TIMEOUT_S) -> Output:
    """The result of the function in a worker. Raises: StageTimedOut after `timeout_s`."""
    return workers.run(function, work, memory_limit_bytes(work.info), CancellationToken(timeout_s).check)


def is_running(pid: int) -> bool:
    """Whether the process exists and has not ended; a child that nobody waited for counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def ends(pid: int, timeout_s: float = WAIT_S) -> bool:
    """Whether the process ended in time."""
    return wait_until(lambda: not is_running(pid), timeout_s)


def wait_until(condition: Callable[[], bool], timeout_s: float = WAIT_S, interval_s: float = 0.01) -> bool:
    """Whether the condition became true in time. It is looked at every `interval_s`."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(interval_s)
    return True
