"""`archive`: a picture that kills its workers is listed, and costs no other picture its result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import pictures

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

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
