"""The progress of `archive`: one line on a terminal, redrawn in place; elsewhere a line every `REPORT_S` seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from imgproc_local.cli.progress import REPORT_S, StatusLine, log_above

if TYPE_CHECKING:
    from imgproc_local.archive.run import Counts


class ArchiveProgress:
    """Shows the counts of a run on `stream` while `shown` is active. `clock` returns seconds."""

    def __init__(self, stream: IO[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._line = StatusLine(stream) if stream.isatty() else None
        self._begun_s = self._reported_s = clock()

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
        """Show the counts, after each task."""
        now = self._clock()
        text = progress_text(counts, now - self._begun_s)
        if self._line is not None:
            self._line.draw(text)
        elif now >= self._reported_s + REPORT_S:
            self._reported_s = now
            self._stream.write(f"{text}.\n")
            self._stream.flush()


def progress_text(counts: Counts, elapsed_s: float) -> str:
    """What a run has done after `elapsed_s`, the most important first, because a terminal cuts the end."""
    parts = [f"{counts.processed:,} {'picture' if counts.processed == 1 else 'pictures'} processed"]
    if counts.processed and elapsed_s > 0:
        per_s = counts.processed / elapsed_s
        parts.append(f"{per_s * 60:,.0f} a minute" if per_s < 10 else f"{per_s:,.0f} a second")
    if counts.unchanged:
        parts.append(f"{counts.unchanged:,} unchanged")
    if counts.failed:
        parts.append(f"{counts.failed:,} failed")
    return ", ".join(parts)
