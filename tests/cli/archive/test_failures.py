"""`archive`: a picture that kills its workers is listed, and costs no other picture its result."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support import pictures
from tests.support.worker_pool import wait_until

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

from tests.ordeals.archive import Archive

SLOW = """
import pathlib, time

def slow(*_):
    pathlib.Path({begun!r}).touch()
    time.sleep(300)

worker.process_picture = slow
"""


@pytest.mark.skipif("sys.platform != 'linux'")
def test_a_picture_that_kills_its_workers_is_listed_and_the_others_are_done(tmp_path: Path) -> None:
    source = tmp_path / "source" / "wing"
    source.mkdir(parents=True)
    for number in range(3):
        (source / f"stone-{number}.jpg").write_bytes(pictures.jpeg(64, 48, seed=number))
    (source / "poison.jpg").write_bytes(pictures.jpeg(64, 48, seed=9))
    archive = Archive(tmp_path, tmp_path / "source", tmp_path / "target")
    assert archive.run(600) == 1, archive.output.read_text()
    assert "3 done, 0 unchanged since an earlier run, 1 failed" in archive.output.read_text()
    outcomes = {str(row["source"]): row["outcome"] for row in archive.rows()}
    assert outcomes == {
        "wing/poison.jpg": "failed",
        **{f"wing/stone-{number}.jpg": "done" for number in range(3)},
    }
    assert len(archive.files()) == 6


@pytest.mark.skipif("sys.platform != 'linux'")
def test_a_run_that_is_interrupted_twice_ends_at_once_with_two_lines(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "slow.jpg").write_bytes(pictures.jpeg(64, 48))
    archive = Archive(tmp_path, tmp_path / "source", tmp_path / "target")
    with (tmp_path / "preload" / "poisonous_pictures.py").open("a") as preload:
        preload.write(SLOW.format(begun=str(tmp_path / "begun")))
    running = archive.start()
    assert wait_until((tmp_path / "begun").exists, 300)
    running.send_signal(signal.SIGINT)
    assert wait_until(lambda: "Ending after" in archive.output.read_text(), 300)
    running.send_signal(signal.SIGINT)
    assert running.wait(300) == 130
    lines = archive.output.read_text().splitlines()
    assert [line for line in lines if not line.startswith("Waiting up to")] == [  # on a busy machine
        "Ending after the running tasks, if there are any. Press Ctrl+C again to stop at once.",
        "Interrupted. The same command again continues the run.",
    ]
