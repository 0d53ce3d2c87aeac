"""The progress of an archive: what is known of the run at each moment, on a terminal and elsewhere."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable

import pytest

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

from imgproc_local.archive.run import Counts
from imgproc_local.cli.archive.command import ArchiveProgress, progress_text


def test_the_line_has_what_is_known() -> None:
    assert progress_text(Counts(), 3.0) == "0 pictures processed"
    counts = Counts(done=7, failed=3, unchanged=2000)
    assert progress_text(counts, 60.0) == "10 pictures processed, 10 a minute, 2,000 unchanged, 3 failed"
    assert progress_text(Counts(done=6000), 60.0) == "6,000 pictures processed, 100 a second"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def clock(*times_s: float) -> Callable[[], float]:
    return iter(times_s).__next__


def test_without_a_terminal_a_line_is_printed_every_15_seconds() -> None:
    stream = io.StringIO()
    progress = ArchiveProgress(stream, clock(0, 10, 15, 29, 30))
    with progress.shown():
        for done in (1, 2, 3, 5):
            progress.update(Counts(done=done))
    assert stream.getvalue() == "2 pictures processed, 8 a minute.\n5 pictures processed, 10 a minute.\n"


def test_on_a_terminal_the_line_is_below_the_messages_and_removed_at_the_end() -> None:
    terminal = Terminal()
    progress = ArchiveProgress(terminal, clock(0, 60, 120))
    with progress.shown():
        progress.update(Counts(done=1))
        logging.getLogger("imgproc_local.test").warning("The scheduler was lost.")
        progress.update(Counts(done=4))
    lines = terminal.getvalue().split("\r")
    assert "The scheduler was lost.\n1 picture processed, 1 a minute" in lines
    assert [line.strip() for line in lines[-3:]] == ["4 pictures processed, 2 a minute", "", ""]
