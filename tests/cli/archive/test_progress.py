"""The progress of an archive: what is known of the run at each moment, on a terminal and elsewhere."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable

import pytest

from imgproc_local.archive.run import Counts
from imgproc_local.cli.archive.progress import ArchiveProgress, progress_text

MB = 1024 * 1024


@pytest.mark.parametrize(
    ("counts", "elapsed_s", "text"),
    [
        (Counts(), 3.0, "0 pictures"),
        (Counts(done=10, before_bytes=30 * MB, after_bytes=10 * MB), 60.0, "10 pictures, 10 a minute, 20.0 MB saved"),
        (Counts(unchanged=2000, listed=2000), 5.0, "2,000 of 2,000 pictures"),
        (Counts(done=600, unchanged=400, listed=1800), 60.0, "1,000 of 1,800 pictures, 10 a second, at most 80 s left"),
        (Counts(done=60, listed=60 * 61), 60.0, "60 of 3,660 pictures, 60 a minute, at most 60 min left"),
        (Counts(done=1, listed=1), 60.0, "1 of 1 picture, 1 a minute, at most 0 s left"),
        (Counts(done=30, listed=10), 60.0, "30 of 10 pictures, 30 a minute, at most 0 s left"),
        (
            Counts(done=7, failed=3, failures={"source": 1, "picture": 2}, before_bytes=1, after_bytes=2),
            60.0,
            "10 pictures, 10 a minute, 3 failed (2 unusable, 1 unreadable)",
        ),
    ],
    ids=["none", "saved", "unchanged", "left", "hour", "one", "source changed", "failures"],
)
def test_the_line_has_what_is_known(counts: Counts, elapsed_s: float, text: str) -> None:
    assert progress_text(counts, elapsed_s) == text


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
    assert stream.getvalue() == "2 pictures, 8 a minute.\n5 pictures, 10 a minute.\n"


def test_on_a_terminal_the_line_is_below_the_messages_and_removed_at_the_end() -> None:
    terminal = Terminal()
    progress = ArchiveProgress(terminal, clock(0, 60, 120))
    with progress.shown():
        progress.update(Counts(done=1))
        logging.getLogger("imgproc_local.test").warning("The scheduler was lost.")
        progress.update(Counts(done=4))
    lines = terminal.getvalue().split("\r")
    assert "The scheduler was lost.\n1 picture, 1 a minute" in lines
    assert [line.strip() for line in lines[-3:]] == ["4 pictures, 2 a minute", "", ""]


def test_the_dashboard_is_named_once_and_again_when_it_moves() -> None:
    stream, terminal = io.StringIO(), Terminal()
    for each in (stream, terminal):
        progress = ArchiveProgress(each, clock(0, 1, 2, 3))
        for link in ("http://a/status", "http://a/status", "http://b/status"):
            progress.update(Counts(dashboard=link))
    assert stream.getvalue() == "Dashboard of Dask: http://a/status\nDashboard of Dask: http://b/status\n"
    assert terminal.getvalue().count("Dashboard of Dask: http://a/status\n") == 1
