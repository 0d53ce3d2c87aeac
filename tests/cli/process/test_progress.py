"""The progress of `process` on a terminal and elsewhere."""

from __future__ import annotations

import io
import logging
import re

import pytest

from imgproc_local.batch.files import ResultFile
from imgproc_local.batch.records import Record
from imgproc_local.cli.process import progress as module
from imgproc_local.cli.process.progress import StageProgress
from imgproc_local.domain.image import Format
from imgproc_local.domain.job import Job, StageName, StageRecord, StageState, StoredFile

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PENDING, RUNNING, DONE, FAILED = StageState
RECORD = Record("a.jpg", 3_000_000, 0, "", "", optimized=ResultFile("a.jpg", "", 1_000_000))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def job(*states: StageState) -> Job:
    stages = tuple(StageRecord(name, state) for name, state in zip(StageName, states, strict=True))
    return Job("j", "i", "a", "p", "process", "x.jpg", StoredFile("", 1, Format.JPEG), stages, "")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def run(stream: io.StringIO) -> None:
    progress = StageProgress(tuple(StageName), stream)
    with progress.shown():
        progress.expect(2)
        progress.job_submitted(job(PENDING, PENDING, PENDING))
        progress.job_changed(job(PENDING, PENDING, PENDING), job(DONE, RUNNING, FAILED))
        progress.picture_finished(RECORD, 3_000_000)
        logging.getLogger("imgproc_local.test").warning("disk [is] slow")


def test_bars_count_stages_and_pictures_and_messages_are_printed_above_them(terminal: Terminal) -> None:
    run(terminal)
    shown = ESCAPE.sub("", terminal.getvalue())
    for line in ("analyze .* 1/2", "optimize .* 1/2", "convert .* 1/2", "pictures .* 1/2 .* 1.9 MB saved"):
        assert re.search(line, shown), line
    assert re.search(r"(^|[\n\r])disk \[is\] slow\n", shown), "a message has a line of its own"
    assert "\x1b[3" in terminal.getvalue(), "bars are coloured"
    logging.getLogger("imgproc_local.test").warning("after the block")
    assert "after the block" not in terminal.getvalue()


def test_without_colours_there_are_none(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    run(terminal)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", terminal.getvalue())


def test_elsewhere_there_is_a_plain_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    run(stream)
    assert stream.getvalue() == ""
    monkeypatch.setattr(module, "REPORT_S", 0.0)
    run(stream)
    assert stream.getvalue().splitlines()[-1].startswith("1 of 2 pictures, 1.9 MB saved, about ")
