"""The progress of `archive`: one line on a terminal, redrawn in place; elsewhere a line every `REPORT_S` seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from imgproc_local.cli.output import duration_text, size_text
from imgproc_local.cli.progress import REPORT_S, StatusLine, log_above

if TYPE_CHECKING:
    from imgproc_local.archive.run import Counts


FAILURES = {"picture": "unusable", "source": "unreadable", "target": "not written", "worker": "ended their workers"}
"""What a number of failed pictures is called, by `FailureKind`."""


class ArchiveProgress:
    """Shows the counts of a run on `stream` while `shown` is active. `clock` returns seconds."""

    def __init__(self, stream: IO[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._line = StatusLine(stream) if stream.isatty() else None
        self._begun_s = self._reported_s = clock()
        self._dashboard: str | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Inside the block, print log messages above the line, which is removed at the end."""
        try:
            with log_above(self._line.print_above if self._line is not None else None):
                yield
        finally:
            if self._line is not None:
                self._line.clear()

    def update(self, counts: Counts) -> None:
        """Show the counts, after each task, and the address of the dashboard once."""
        now = self._clock()
        if counts.dashboard is not None and counts.dashboard != self._dashboard:
            self._dashboard = counts.dashboard
            self._print(f"Dashboard of Dask: {counts.dashboard}")
        if self._line is not None:
            self._line.draw(progress_text(counts, now - self._begun_s))
        elif now >= self._reported_s + REPORT_S:
            self._reported_s = now
            self._stream.write(f"{progress_text(counts, now - self._begun_s)}.\n")
            self._stream.flush()

    def _print(self, message: str) -> None:
        if self._line is not None:
            self._line.print_above(message)
        else:
            self._stream.write(f"{message}\n")
            self._stream.flush()


def progress_text(counts: Counts, elapsed_s: float) -> str:
    """What a run has done after `elapsed_s`, the most important first, because a terminal cuts the end.

    The time left is known when the whole source has been counted. It is the longest that is expected: pictures that
    were not compared with the manifest yet may be unchanged.
    """
    seen = counts.processed + counts.unchanged
    total = f" of {counts.listed:,}" if counts.listed is not None else ""
    parts = [f"{seen:,}{total} {'picture' if (counts.listed or seen) == 1 else 'pictures'}"]
    if counts.processed and elapsed_s > 0:
        per_s = counts.processed / elapsed_s
        parts.append(f"{per_s * 60:,.0f} a minute" if per_s < 10 else f"{per_s:,.0f} a second")
        if counts.listed is not None:
            parts.append(f"at most {duration_text(max(0, counts.listed - seen) / per_s)} left")
    if counts.failed:
        kinds = ", ".join(f"{number:,} {FAILURES[kind]}" for kind, number in sorted(counts.failures.items()))
        parts.append(f"{counts.failed:,} failed ({kinds})")
    if counts.before_bytes > counts.after_bytes:
        parts.append(f"{size_text(counts.before_bytes - counts.after_bytes)} saved")
    return ", ".join(parts)
