"""Starts of the server that are refused: how soon, and where the reason is shown."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Program


@pytest.fixture
def used_port() -> Iterator[int]:
    """A port that this process, a Python program, listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def browser(tmp_path: Path) -> Path:
    """A program in place of a browser, which writes the address that it should open to the file `opened`."""
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" > {tmp_path / "opened"}\n')
    script.chmod(0o755)
    return script


def log(program: Program) -> str:
    return (program.data / "logs" / "imgproc.log").read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows which program listens")
def test_a_port_that_another_python_uses_is_refused_without_waiting(program: Program, used_port: int) -> None:
    result = program("serve", "--no-browser", "--port", used_port)
    assert result.returncode == 1
    assert f"(process {os.getpid()})" in result.stderr
    assert "Waiting" not in result.stderr


def test_the_reason_is_in_the_log_file(program: Program, used_port: int) -> None:
    program("serve", "--no-browser", "--port", used_port)
    assert f"ERROR imgproc_local.lifecycle: not started: Can't listen on 127.0.0.1 port {used_port}" in log(program)
    result = program("serve", "--no-browser", rate_limit_per_minute=-1)
    assert result.returncode == 2
    assert "not started: rate_limit_per_minute" in log(program)


def test_invalid_settings_create_no_data_folder(program: Program) -> None:
    assert program("serve", "--no-browser", rate_limit_per_minute=-1).returncode == 2
    assert not program.data.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="the browser is a shell script")
def test_a_start_from_the_desktop_shows_the_reason_in_the_browser(
    program: Program, used_port: int, browser: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER", str(browser))
    program("serve", "--no-browser", "--port", used_port)
    assert not (tmp_path / "opened").exists()
    program("serve", "--browser", "--port", used_port)
    page = program.data / "logs" / "not-started.html"
    assert (tmp_path / "opened").read_text().strip() == page.as_uri()
    text = page.read_text(encoding="utf-8")
    assert f"127.0.0.1 port {used_port}" in text
    assert str(program.data / "logs" / "imgproc.log") in text
