"""What commands print and how they end: aligned columns for people, one UTF-8 JSON document for programs, a line of
progress, exit codes.

Text from files and metadata is printed without control characters, so that a file name can't control the terminal.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from imgproc_local.domain.filename import JOINERS

EXIT_PROBLEM = 1
"""Part of the work failed, or a check found a problem."""
EXIT_REFUSED = 2
"""An argument, a setting or the data folder can't be used. click uses the same code."""
EXIT_INTERRUPTED = 130
"""Ended by Ctrl+C. Shells expect 128 plus the number of the signal, which is 2 for SIGINT."""

_REDRAW_S = 0.1
"""On a terminal, the shortest time between two updates."""
_REPORT_S = 15.0
"""The same where the output is not a terminal and each update is a new line."""
_NAMED_FOLDER = "imgproc_local.named_folder"
"""The key in `click.Context.meta` of the data folder, which is there unless it is the default."""


class Refused(click.ClickException):
    """Ends the command with `EXIT_REFUSED` and a message on standard error, without a traceback."""

    exit_code = EXIT_REFUSED

    def __init__(self, message: str) -> None:
        super().__init__(with_data_dir(message))


def name_folder(ctx: click.Context, data_dir: Path) -> None:
    """Have `with_data_dir` name this folder until the program ends."""
    folder = printable(path_text(data_dir))
    # the quotes of the shell that is usual on this system
    ctx.meta[_NAMED_FOLDER] = subprocess.list2cmdline([folder]) if os.name == "nt" else shlex.quote(folder)


def with_data_dir(message: str) -> str:
    """`message`, with --data-dir in the commands that it tells people to run, unless the default folder is in use.

    Such a command is in backticks and begins with the program's name. One that only says what a process does, or that
    belongs on another machine, is written without that name.
    """
    context = click.get_current_context(silent=True)
    folder = context and context.meta.get(_NAMED_FOLDER)
    named = f"`imgproc-local --data-dir {folder} "
    return re.sub("`imgproc-local (?!--data-dir )", lambda _: named, message) if folder else message


def say(message: str, *, err: bool = False) -> None:
    """Print a message for people that may name commands."""
    click.echo(with_data_dir(message), err=err)


def echo_json(document: Any) -> None:
    """Print `document` as JSON in UTF-8, whatever the encoding of the terminal. Source: RFC 8259, section 8.1."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))


def path_text(path: Path) -> str:
    """The path as text that UTF-8 can encode: bytes that are not UTF-8 become `\\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def printable(text: str) -> str:
    """`text` with its control, formatting and surrogate characters written as escapes.

    The joiners remain, so that emoji and Persian words can be copied from the terminal.
    """
    return "".join(
        char.encode("unicode_escape").decode()
        if unicodedata.category(char) in ("Cc", "Cf", "Cs") and char not in JOINERS
        else char
        for char in text
    )


def size_text(size_bytes: int) -> str:
    """`size_bytes` in powers of 1024, for people: 999 B, 12.3 kB, 4.5 MB."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"


def duration_text(seconds: float) -> str:
    """`seconds` in the unit that fits, for people: 45 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def table(rows: Sequence[Sequence[str]], right_aligned: Iterable[int] = ()) -> list[str]:
    """One line per row, with aligned columns. `right_aligned` are the indexes of the columns that are aligned right."""
    right = set(right_aligned)
    widths = [max(_width(cell) for cell in column) for column in zip(*rows, strict=True)]

    def aligned(column: int, cell: str) -> str:
        gap = " " * (widths[column] - _width(cell))
        return gap + cell if column in right else cell + gap

    return ["  ".join(aligned(column, cell) for column, cell in enumerate(row)).rstrip() for row in rows]


def _width(text: str) -> int:
    """The terminal columns that `text` takes.

    Two for wide characters (East Asian, emoji); none for combining marks, joiners, and what a joiner adds to an emoji.
    """
    columns = 0
    for before, char in zip(" " + text, text, strict=False):
        if unicodedata.category(char).startswith("M") or char in JOINERS:
            continue
        # the second character that a zero-width joiner adds to an emoji takes no column
        wide = unicodedata.east_asian_width(char) in "WF"
        if not (wide and before == "\u200d"):
            columns += 2 if wide else 1
    return columns


def flush_output() -> None:
    """Write buffered output. Output that can't be written is discarded: Python would try again, and exit with 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def exit_command(ctx: click.Context, exit_code: int, has_unstopped_threads: bool) -> None:
    """End the command with `exit_code`, without waiting for threads that did not stop when asked."""
    if has_unstopped_threads:
        flush_output()  # `os._exit` does not
        os._exit(exit_code)
    ctx.exit(exit_code)


# ---- progress: one line on the terminal, with log messages printed above it


class RunProgress:
    """Shows how far a run is: one line on a terminal, redrawn in place; elsewhere a line every `_REPORT_S` seconds.

    With `quiet`, it shows only problems. Its methods may be called from any thread.
    """

    def __init__(self, stream: IO[str], *, quiet: bool = False) -> None:
        self._stream = stream
        self._quiet = quiet
        self._text = ""
        self._lock = threading.Lock()
        self.is_terminal = stream.isatty()
        self._next_update_s = 0.0 if self.is_terminal else time.monotonic() + _REPORT_S

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Inside the block, print log messages above the line, which is removed at the end."""
        handler, root = logging.StreamHandler(self), logging.getLogger()
        if self.is_terminal:
            root.addHandler(handler)
        try:
            yield
        finally:
            root.removeHandler(handler)
            self.clear()

    def update(self, text: str, *, is_last: bool = False) -> None:
        """Show `text`, unless it is too soon after another one. The last one is always shown on a terminal."""
        now_s = time.monotonic()
        if self._quiet or (now_s < self._next_update_s and not (is_last and self.is_terminal)):
            return
        self._next_update_s = now_s + (_REDRAW_S if self.is_terminal else _REPORT_S)
        if not self.is_terminal:
            self.print(text)
            return
        text = text[: shutil.get_terminal_size().columns - 1]
        with self._lock:
            self._stream.write("\r" + text.ljust(len(self._text)))
            self._stream.flush()
            self._text = text

    def print(self, message: str) -> None:
        """Print a message, above the line if one is shown."""
        self.write(f"{message}\n")

    def write(self, lines: str) -> None:
        """As `print`, of lines with their ends."""
        with self._lock:
            self._erase()
            self._stream.write(lines + self._text)
            self._stream.flush()

    def notify(self, message: str) -> None:
        """Print a message that reports no problem."""
        if not self._quiet:
            self.print(message)

    def clear(self) -> None:
        """Remove the line, so that other output can follow."""
        with self._lock:
            self._erase()
            self._text = ""
            self._stream.flush()

    def _erase(self) -> None:
        if self._text:
            self._stream.write("\r" + " " * len(self._text) + "\r")


class TransferProgress(RunProgress):
    """Shows how many bytes have been downloaded, copied or hashed."""

    def __call__(self, activity: str, done_bytes: int, total_bytes: int) -> None:
        share = done_bytes / total_bytes if total_bytes else 1.0
        bar = f"[{'#' * int(10 * share):.<10}] " if self.is_terminal else ""
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

    signals = (signal.SIGINT, signal.SIGTERM)
    handled = {each: before for each in signals if (before := signal.getsignal(each)) is not signal.SIG_IGN}
    for number in handled:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler or signal.SIG_DFL)
