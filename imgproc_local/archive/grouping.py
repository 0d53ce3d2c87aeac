"""Groups pictures into tasks of about `TASK_S`, by the durations of the pictures that were processed before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from imgproc_local.archive.picture import PendingPicture
from imgproc_local.archive.store import SourceObject
from imgproc_local.archive.worker import PictureSummary

TASK_S = 30.0
"""Long compared with the overhead of a task in Dask, and short enough that little is lost when a worker is killed."""
MAX_PICTURES = 500
"""The most pictures in a task."""
FIRST_PICTURES = 4
"""The number of pictures in a task before any duration is known."""
MIN_PICTURE_S = 0.05
"""The shortest estimate for a picture; a file that is not a picture takes this long."""
ALL = ""
"""The key of the durations of all pictures, which are used for an extension that has none yet."""


class Durations:
    """How long pictures of each extension take, in seconds per byte."""

    def __init__(self) -> None:
        self._measured: dict[str, tuple[float, int]] = {}

    def add(self, summary: PictureSummary) -> None:
        """Add the duration of a picture that was processed."""
        for extension in (_extension(summary.key), ALL):
            seconds, size_bytes = self._measured.get(extension, (0.0, 0))
            self._measured[extension] = (seconds + summary.total_s, size_bytes + summary.size_bytes)

    def estimate_s(self, picture: SourceObject) -> float | None:
        """The estimated duration of a picture; None before any was processed."""
        seconds, size_bytes = self._measured.get(_extension(picture.key)) or self._measured.get(ALL, (0.0, 0))
        return max(MIN_PICTURE_S, picture.size_bytes * seconds / size_bytes) if size_bytes else None


def grouped(pictures: Iterable[PendingPicture], durations: Durations) -> Iterator[list[PendingPicture]]:
    """The pictures in groups for one task each. A group is formed when it is requested, by the durations known then."""
    group: list[PendingPicture] = []
    group_s = 0.0
    for pending in pictures:
        group.append(pending)
        estimate_s = durations.estimate_s(pending.picture)
        group_s += TASK_S / FIRST_PICTURES if estimate_s is None else estimate_s
        if group_s >= TASK_S or len(group) == MAX_PICTURES:
            yield group
            group, group_s = [], 0.0
    if group:
        yield group


def _extension(key: str) -> str:
    return PurePosixPath(key).suffix.lower()
