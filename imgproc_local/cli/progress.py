"""The progress of a command, one line on the terminal with log messages printed above it, and its interruption."""

from __future__ import annotations

import logging
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

import click

_REDRAW_S = 0.1
"""On a terminal, the shortest time between two updates."""
REPORT_S = 15.0
"""The same where the output is not a terminal and each update is a new line."""


class StatusLine:
    """The last line of a terminal, which is redrawn in place. Its methods may be called from any thread."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._text = ""
        self._lock = threading.Lock()

    def draw(self, text: str) -> None:
        """Replace the line by `text`, cut to the width of the terminal."""
        text = text[: shutil.get_terminal_size().columns - 1]
        with self._lock:
            self._stream.write("\r" + text.ljust(len(self._text)))
            self._stream.flush()
            self._text = text

    def clear(self) -> None:
        """Remove the line, so that other output can follow."""
        with self._lock:
            self._erase()
            self._stream.flush()
            self._text = ""

    def print_above(self, message: str) -> None:
        """Print `message` in place of the line, and the line again below it."""
        with self._lock:
            self._erase()
            self._stream.write(f"{message}\n{self._text}")
            self._stream.flush()

    def _erase(self) -> None:
        if self._text:
            self._stream.write("\r" + " " * len(self._text) + "\r")


@contextmanager
def _log_above(print_above: Callable[[str], None] | None) -> Iterator[None]:
    """Inside the block, pass log messages to `print_above` too. If that is None, logging is not changed."""
    if print_above is None:
        yield
        return
    handler = _LogAbove(print_above)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


class _LogAbove(logging.Handler):
    def __init__(self, print_above: Callable[[str], None]) -> None:
        super().__init__()
        self._print_above = print_above

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._print_above(self.format(record))
        except Exception:  # as in `logging.StreamHandler.emit`
            self.handleError(record)


class RunProgress:
    """Shows how far a run is: one line on a terminal, redrawn in place; elsewhere a line every `REPORT_S` seconds."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self.line = StatusLine(stream) if stream.isatty() else None
        self._next_update_s = 0.0 if self.line else time.monotonic() + REPORT_S

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Inside the block, print log messages above the line, which is removed at the end."""
        try:
            with _log_above(self.print if self.line is not None else None):
                yield
        finally:
            self.clear()

    def update(self, text: str, *, is_last: bool = False) -> None:
        """Show `text`, unless it is too soon after another one. The last one is always shown on a terminal."""
        now_s = time.monotonic()
        if now_s < self._next_update_s and not (is_last and self.line):
            return
        self._next_update_s = now_s + (_REDRAW_S if self.line else REPORT_S)
        if self.line is not None:
            self.line.draw(text)
        else:
            self.print(text)

    def print(self, message: str) -> None:
        """Print a message, above the line if it is shown."""
        if self.line is not None:
            self.line.print_above(message)
        else:
            self._stream.write(f"{message}\n")
            self._stream.flush()

    def clear(self) -> None:
        if self.line is not None:
            self.line.clear()


class TransferProgress(RunProgress):
    """Shows how many bytes have been downloaded, copied or hashed."""

    def __call__(self, activity: str, done_bytes: int, total_bytes: int) -> None:
        from imgproc_local.cli.output import printable, size_text

        share = done_bytes / total_bytes if total_bytes else 1.0
        bar = f"[{'#' * int(10 * share):.<10}] " if self.line is not None else ""
        text = f"{printable(activity)}: {size_text(done_bytes)} of {size_text(total_bytes)}, {share:.0%}"
        self.update(bar + text, is_last=done_bytes >= total_bytes)


@contextmanager
def interruptible(stop: threading.Event, message: str) -> Iterator[None]:
    """Inside the block, the first SIGINT or SIGTERM sets `stop` and prints `message`; the second is KeyboardInterrupt.

    The thread of the block must not wait for `stop`: the handler runs on it. SIGINT remains ignored where it is, as in
    jobs that a shell starts in the background.
    """

    def handle(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        click.echo(message, err=True)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handled = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    for number in handled:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler or signal.SIG_DFL)
