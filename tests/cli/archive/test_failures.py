"""`archive`: a picture that kills its workers is listed, and costs no other picture its result."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import pictures

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

from imgproc_local.archive import run
from imgproc_local.archive.local_store import LocalStore
from imgproc_local.archive.manifest import MARKS_FOLDER, mark_key
from tests.cli.conftest import Program
from tests.ordeals.archive import Archive


@pytest.mark.skipif("sys.platform != 'linux'")
def test_a_picture_that_kills_its_workers_is_listed_and_the_others_are_done(tmp_path: Path) -> None:
    source = tmp_path / "source" / "wing"
    source.mkdir(parents=True)
    for number in range(3):
        (source / f"stone-{number}.jpg").write_bytes(pictures.jpeg(64, 48, seed=number))
    (source / "poison.jpg").write_bytes(pictures.jpeg(64, 48, seed=9))
    archive = Archive(tmp_path, tmp_path / "source", tmp_path / "target")
    assert archive.run(120) == 1, archive.output.read_text()
    assert "3 done, 0 unchanged since an earlier run, 1 failed" in archive.output.read_text()
    outcomes = {str(row["source"]): (row["outcome"], row["failure"]) for row in archive.rows()}
    assert outcomes == {
        "wing/poison.jpg": ("failed", "worker"),
        **{f"wing/stone-{number}.jpg": ("done", "") for number in range(3)},
    }
    assert len(archive.files()) == 6


@pytest.mark.skipif("sys.platform != 'linux'")
def test_a_run_that_is_interrupted_twice_ends_at_once_with_two_lines(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "slow.jpg").write_bytes(pictures.jpeg(64, 48))
    archive = Archive(tmp_path, tmp_path / "source", tmp_path / "target")
    with (tmp_path / "preload" / "poisonous_pictures.py").open("a") as preload:
        preload.write("import time\nworker.process_picture = lambda *_: time.sleep(300)\n")
    running = archive.start()
    wait_for(lambda: any((tmp_path / "target" / MARKS_FOLDER).glob("*")))
    running.send_signal(signal.SIGINT)
    wait_for(lambda: "Ending after" in archive.output.read_text())
    running.send_signal(signal.SIGINT)
    assert running.wait(120) == 130
    lines = archive.output.read_text().splitlines()
    assert [line for line in lines if not line.startswith("Waiting up to")] == [  # on a busy machine
        "Ending after the running tasks, if there are any. Press Ctrl+C again to stop at once.",
        "Interrupted. The same command again continues the run.",
    ]


def test_a_mark_that_a_worker_of_a_killed_client_writes_late_is_deleted(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source").mkdir()
    target = LocalStore(tmp_path / "target")
    monkeypatch.setattr(run, "finish", lambda *_: target.replace(mark_key("000001-0"), b"a.jpg"))
    ended = program.in_process("archive", tmp_path / "source", tmp_path / "target", "--workers", "1")
    assert "There is no picture in SOURCE." in ended.stderr
    assert target.keys(MARKS_FOLDER) == []


def wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
