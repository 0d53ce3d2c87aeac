"""Groups pictures into tasks that take about as long as `TASK_S`, by the durations of the pictures before them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from imgproc_local.archive.picture import Task
from imgproc_local.archive.worker import PictureSummary

TASK_S = 30.0
"""Long enough that what Dask takes for a task does not matter, short enough that a killed worker loses little."""
MAX_PICTURES = 500
FIRST_PICTURES = 4
"""The most pictures of a task before any duration is known."""
LEAST_S = 0.05
"""What a picture takes at least, such as a file that is not a picture."""


class Durations:
    """How long pictures of each extension take, in seconds per byte."""

    def __init__(self) -> None:
        self._measured: dict[str, tuple[float, int]] = {}

    def add(self, summary: PictureSummary) -> None:
        """Learn from a picture that was processed."""
        for kind in (_kind(summary.key), ""):
            seconds, size_bytes = self._measured.get(kind, (0.0, 0))
            self._measured[kind] = (seconds + summary.total_s, size_bytes + summary.size_bytes)

    def estimate_s(self, task: Task) -> float | None:
        """The estimated duration of a picture; None before any was processed."""
        seconds, size_bytes = self._measured.get(_kind(task.picture.key)) or self._measured.get("", (0.0, 0))
        return max(LEAST_S, task.picture.size_bytes * seconds / size_bytes) if size_bytes else None


def grouped(tasks: Iterable[Task], durations: Durations) -> Iterator[list[Task]]:
    """The pictures in groups for one task each. Each group is made when it is asked for."""
    group: list[Task] = []
    group_s = 0.0
    for task in tasks:
        group.append(task)
        estimate_s = durations.estimate_s(task)
        group_s += TASK_S / FIRST_PICTURES if estimate_s is None else estimate_s
        if group_s >= TASK_S or len(group) == MAX_PICTURES:
            yield group
            group, group_s = [], 0.0
    if group:
        yield group


def _kind(key: str) -> str:
    return PurePosixPath(key).suffix.lower()
