"""The progress line on a terminal."""

from __future__ import annotations

import io
import logging

import pytest

from imgproc_local.cli import output
from imgproc_local.cli.output import RunProgress, TransferProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_transfer_is_redrawn_in_place_on_a_terminal_and_elsewhere_printed_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for stream in (Terminal(), io.StringIO()):
        transfer = TransferProgress(stream)
        transfer("copying a.gguf", 512, 2048)
        transfer("copying a.gguf", 2048, 2048)
        transfer.clear()
        shown = stream.getvalue().split("\r")
        if not stream.isatty():
            assert shown == [""]
            monkeypatch.setattr(output, "_REPORT_S", 0.0)
            TransferProgress(stream)("copying a.gguf", 512, 2048)
            assert stream.getvalue() == "copying a.gguf: 512 B of 2.0 kB, 25%\n"
            continue
        assert shown[-3] == "[##########] copying a.gguf: 2.0 kB of 2.0 kB, 100%"
        assert shown[-2].strip() == ""
        assert "[##........] copying a.gguf: 512 B of 2.0 kB, 25%" in shown


def test_a_log_message_is_printed_above_the_line_and_the_line_again_below_it() -> None:
    terminal = Terminal()
    progress = RunProgress(terminal)
    log = logging.getLogger("imgproc_local.test")
    with progress.shown():
        progress.update("a long line of progress")
        log.warning("disk is slow")
        progress.update("done", is_last=True)
    blank = " " * len("a long line of progress")
    shown = terminal.getvalue().split("\r")
    assert shown[1:5] == ["a long line of progress", blank, "disk is slow\na long line of progress", "done".ljust(23)]
    log.warning("after the block")
    assert "after the block" not in terminal.getvalue()
