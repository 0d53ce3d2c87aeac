"""The line that tells how far a run is."""

from __future__ import annotations

import io

from imgproc_local.cli.progress import Progress, Transfer
from imgproc_local.domain.image import Format
from imgproc_local.domain.job import Job, Stage, StageName, StageState, StoredFile


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def job(*states: StageState) -> Job:
    stages = tuple(Stage(name, state) for name, state in zip(StageName, states, strict=True))
    return Job("j", "i", "a", "p", "process", "x.jpg", StoredFile("", 1, Format.JPEG), stages, "")


def test_the_progress_line_has_a_bar_per_stage_and_goes_without_a_trace() -> None:
    terminal = Terminal()
    progress = Progress(2, terminal)
    waiting = job(StageState.PENDING, StageState.PENDING, StageState.PENDING)
    moved = job(StageState.DONE, StageState.RUNNING, StageState.FAILED)
    progress.moved(waiting, moved)
    line = terminal.getvalue().split("\r")[-1]
    assert line.split("  ") == ["analyze [#####.....] 1/2", "optimize [..........] 0/2", "convert [#####.....] 1/2"]
    progress.dropped()
    assert "analyze [##########] 1/1" in terminal.getvalue().split("\r")[-1]
    progress.clear()
    assert terminal.getvalue().split("\r")[-2].strip() == ""


def test_no_terminal_no_progress_line() -> None:
    stream = io.StringIO()
    Progress(2, stream).moved(job(*[StageState.PENDING] * 3), job(*[StageState.DONE] * 3))
    assert stream.getvalue() == ""


def test_a_transfer_tells_its_share_and_its_end_in_place() -> None:
    terminal = Terminal()
    transfer = Transfer(terminal)
    transfer("copying a.gguf", 512, 2048)
    assert terminal.getvalue().split("\r")[-1] == "[##........] copying a.gguf: 512 B of 2.0 kB, 25%"
    transfer("copying a.gguf", 2048, 2048)
    assert "2.0 kB of 2.0 kB, 100%" in terminal.getvalue().split("\r")[-1]
    transfer.clear()
    assert terminal.getvalue().split("\r")[-2].strip() == ""


def test_a_short_transfer_says_nothing_where_no_terminal_looks_on() -> None:
    stream = io.StringIO()
    transfer = Transfer(stream)
    transfer("copying a.gguf", 512, 2048)
    transfer("copying a.gguf", 2048, 2048)
    assert stream.getvalue() == ""
