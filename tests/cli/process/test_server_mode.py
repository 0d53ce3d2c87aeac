"""`process` beside a server: the same output through it, no key, session or job left, and clear refusals."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from imgproc_local.cli.process import server_jobs
from imgproc_local.cli.process.server_jobs import SESSION_NAME
from tests.cli.conftest import Program
from tests.cli.process.test_process import names, wait_for
from tests.cli.process.test_resume import content
from tests.faults.server_process import ServerProcess, serving
from tests.support import pictures


@pytest.fixture
def server(program: Program) -> Iterator[ServerProcess]:
    with serving(program.data) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "pictures"
    for number in range(12):
        file = root / str(number // 4) / f"{number:02}" / "green stone.jpg"
        file.parent.mkdir(parents=True)
        file.write_bytes(pictures.jpeg(64, 48, seed=number % 8))
    (root / "spinning wheel.gif").write_bytes(pictures.gif())
    (root / "broken.jpg").write_bytes(pictures.broken_jpeg())
    return root


def assert_nothing_is_left(program: Program) -> None:
    """The server has no job, and the command's key and session have ended."""
    checks = {check["name"]: check for check in program.in_process_json("doctor")["checks"]}
    assert checks["jobs"]["detail"] == "none"
    keys = program.in_process_json("keys", "list")
    own = [key for key in keys if key["name"].startswith(SESSION_NAME)]
    assert own, keys
    assert all(key["revoked_at"] for key in own), own
    assert program.in_process_json("sessions", "list") == [], "sessions are left"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no POSIX signals")
def test_a_killed_run_continues_with_and_without_a_server_and_writes_the_same(
    program: Program, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    arguments = ("process", folder, "--languages", "de,en", "--project", "Stones", "--out", out)
    with serving(program.data):
        with program.start(*arguments, "--jobs", 1) as process:
            wait_for(lambda: len(names(out)) >= 2, process)
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=30)
        result = program(*arguments)
        assert result.returncode == 1, result.stderr
        assert "Working through the server at http://127.0.0.1:" in result.stderr
        assert f"Failed: {folder / 'broken.jpg'}: " in result.stderr
        assert_nothing_is_left(program)
        through_server = content(out)
    expected = program(*arguments[:-1], tmp_path / "expected")
    assert expected.returncode == 1
    assert through_server == content(tmp_path / "expected")
    assert "13 unchanged" in program(*arguments).stdout


def test_a_run_waits_for_a_server_that_is_restarted_and_can_be_continued_after_one_that_is_not(
    program: Program, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    arguments = ("process", folder, "--languages", "de,en", "--project", "Stones", "--out", out)
    monkeypatch.setattr(server_jobs, "RECONNECT_S", 0.2)
    with serving(program.data, codec_threads=1) as first:

        def kill_after_the_first_result() -> None:
            deadline = time.monotonic() + 60
            while not names(out) and time.monotonic() < deadline:
                time.sleep(0.01)
            first.kill()

        killer = threading.Thread(target=kill_after_the_first_result)
        killer.start()
        stopped = program.in_process(*arguments)
        killer.join()
    assert stopped.exit_code == 1
    assert "The server that owns the data folder does not answer" in stopped.stderr
    assert "To continue, run the same command again" in stopped.stderr
    before = len(names(out))
    with serving(program.data, codec_threads=1) as second, program.start(*arguments) as process:
        wait_for(lambda: len(names(out)) > before, process)
        second.kill()
        with serving(program.data):
            _, messages = process.communicate(timeout=60)
            assert_nothing_is_left(program)
    assert (process.returncode, "does not answer" in messages) == (1, False), messages
    assert program.in_process(*arguments[:-1], tmp_path / "expected").exit_code == 1
    assert content(out) == content(tmp_path / "expected")


def test_settings_of_the_server_can_not_be_changed(program: Program, server: ServerProcess, folder: Path) -> None:
    refused = program("process", folder, "--quality", "small", "--effort", "fast")
    assert refused.returncode == 2
    assert f"The data folder belongs to the server at {server.root}, which has its own settings." in refused.stderr
    assert "Leave out --quality and --effort, stop the server" in refused.stderr
    air_gapped = program("process", folder, air_gapped="true")
    assert air_gapped.returncode == 2
    assert "In air-gapped mode" in air_gapped.stderr
