"""Limits how often a log handler writes messages of one kind, so that clients can't fill the disk with log lines."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextvars import Context

from msgspec import Struct

WINDOW_S = 60.0
MAX_RECORDS = 30
"""The most messages of one kind that are written in a window."""
MAX_TRACEBACKS = 5
"""The same for messages with an exception, whose tracebacks are long."""

Kind = tuple[str, int, str | None]
"""The file and line that logged a message, and the type of the exception."""


class Window(Struct):
    """The messages of one kind since `begun_s`. `suppressed` of them were not written, the latest is `example`."""

    begun_s: float
    count: int = 0
    suppressed: int = 0
    example: logging.LogRecord | None = None


class LimitedHandler(logging.Handler):
    """Passes records to `target`: of each kind at most `MAX_RECORDS`, or `MAX_TRACEBACKS`, in `WINDOW_S` seconds.

    The number of suppressed records is logged once the window is over: before the next record of any kind, or when the
    handler is closed.
    """

    def __init__(self, target: logging.Handler, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.target = target
        self._monotonic = monotonic
        self._windows: dict[Kind, Window] = {}
        self._checked_s = monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._pass_on(record)
        except Exception:
            self.handleError(record)

    def _pass_on(self, record: logging.LogRecord) -> None:
        now_s = self._monotonic()
        if now_s - self._checked_s >= 1:  # not for every record of a flood
            self._checked_s = now_s
            self._end_windows(now_s - WINDOW_S)
        exception = record.exc_info[0] if record.exc_info else None
        kind = record.pathname, record.lineno, exception.__name__ if exception else None
        window = self._windows.setdefault(kind, Window(now_s))
        window.count += 1
        if window.count <= (MAX_TRACEBACKS if exception else MAX_RECORDS):
            self.target.handle(record)
        else:
            window.suppressed += 1
            window.example = record

    def close(self) -> None:
        """Log how many records were suppressed, and close the target."""
        self._end_windows(self._monotonic())
        self.target.close()
        super().close()

    def _end_windows(self, begun_until_s: float) -> None:
        """Forget windows that began at `begun_until_s` or earlier, and log how many records they suppressed."""
        for kind, window in list(self._windows.items()):
            if window.begun_s > begun_until_s:
                continue
            del self._windows[kind]
            if window.example is not None:
                # an empty context: the summary is not about the request that is being logged
                Context().run(self.target.handle, _summary(window.suppressed, window.example))


def _summary(suppressed: int, example: logging.LogRecord) -> logging.LogRecord:
    message = "%d more messages of this kind were not logged within %d seconds; the last one: %s"
    values = (suppressed, WINDOW_S, example.getMessage())
    return logging.LogRecord(example.name, example.levelno, __file__, 0, message, values, None)
