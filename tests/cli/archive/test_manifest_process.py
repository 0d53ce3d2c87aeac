"""The process of the client that loads PyArrow: how it ends, and what the run says of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from imgproc_local.archive import manifest_process
from imgproc_local.archive.manifest_process import COMMAND, ManifestProcess
from imgproc_local.domain.errors import ServiceError
from tests.cli.conftest import Program
from tests.support import pictures, processes
from tests.support.clusters import scheduler_with_tls

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

HELD = """
import sys
from pathlib import Path

folder = Path(__file__).parent

def hold(*arguments):
    (folder / "held").touch()
    while not (folder / "continue").exists():
        time.sleep(0.02)
    return write_tables(*arguments)

if sys.orig_argv[-1] == "archive-manifest":
    import time
    from imgproc_local.archive import manifest_steps

    write_tables = manifest_steps.write_tables
    manifest_steps.write_tables = hold
"""
"""Makes the manifest process wait, before it writes the tables, until the test continues it."""


def children(pid: int) -> list[int]:
    return [each for each in processes.descendants(pid) if processes.command_line(each).rstrip().endswith(COMMAND)]


def test_errors_of_a_step_are_those_of_the_process(tmp_path: Path) -> None:
    with ManifestProcess() as process:
        assert process.call(len, [1, 2]) == 2
        with pytest.raises(FileExistsError) as raised:
            process.call(os.mkdir, str(tmp_path))
        assert raised.value.filename == str(tmp_path)
        with pytest.raises(RuntimeError, match="ValueError: invalid literal"):
            process.call(int, "x")
        with pytest.raises(ServiceError, match=r"ended early \(SIGKILL\)\. Run the same command again"):
            process.call(signal.raise_signal, signal.SIGKILL)


def test_a_step_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with ManifestProcess() as process:
        process.call(len, [])
        monkeypatch.setattr(manifest_process, "CALL_S", 0.1)
        with pytest.raises(ServiceError, match="Expected an answer"):
            process.call(time.sleep, 300)
        assert len(children(os.getpid())) == 1
    assert children(os.getpid()) == []


class Runs:
    """Runs of the command on one picture, whose manifest process waits before it writes the tables."""

    def __init__(self, folder: Path, program: Program, scheduler: str) -> None:
        self.preload, self.target = folder / "preload", folder / "target"
        self._program, self._arguments = program, ("archive", folder / "source", self.target, "--scheduler", scheduler)

    def held(self) -> tuple[subprocess.Popen[str], int]:
        """A run, and its manifest process, which waits."""
        (self.preload / "held").unlink(missing_ok=True)
        running = self._program.start(*self._arguments, "--only", "optimize")
        wait_for(lambda: (self.preload / "held").exists() or running.poll() is not None)
        assert running.poll() is None, running.communicate()
        return running, children(running.pid)[0]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def interrupt(running: subprocess.Popen[str]) -> None:
    running.send_signal(signal.SIGINT)
    assert running.stderr is not None
    while not running.stderr.readline().startswith("Ending after"):
        assert running.poll() is None


def test_the_client_never_loads_pyarrow_and_its_child_ends_when_it_should(
    tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "stone.jpg").write_bytes(pictures.jpeg(64, 48))
    (tmp_path / "preload").mkdir()
    (tmp_path / "preload" / "sitecustomize.py").write_text(HELD)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "preload"), os.environ.get("PYTHONPATH", "")]))
    with scheduler_with_tls() as scheduler:
        runs = Runs(tmp_path, program, scheduler)

        running, child = runs.held()
        assert "libarrow" in Path(f"/proc/{child}/maps").read_text()
        assert "libarrow" not in Path(f"/proc/{running.pid}/maps").read_text()
        os.kill(child, signal.SIGKILL)
        _, errors = running.communicate(timeout=60)
        assert running.returncode == 2
        assert "The process for the manifest ended early (SIGKILL). Run the same command again to continue." in errors

        running, child = runs.held()
        os.kill(child, signal.SIGTERM)  # as a service manager does
        interrupt(running)
        assert children(running.pid) == [child]
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)
        assert (running.returncode, errors) == (130, "Interrupted. The same command again continues the run.\n")
        wait_for(lambda: not Path(f"/proc/{child}").exists())
        assert not (runs.target / "archive.parquet").exists()

        running, _ = runs.held()
        interrupt(running)
        (runs.preload / "continue").touch()
        out, _ = running.communicate(timeout=60)
        assert running.returncode == 130
        assert out.startswith("0 done, 1 unchanged")
        assert (runs.target / "archive.parquet").exists()
