"""`archive`: the files and texts are those of `process --archive-names`, whatever the number of workers."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.archive import run as run_module
from imgproc_local.archive.picture import Problem, Row
from imgproc_local.archive.run import Counts
from tests.cli.conftest import Program
from tests.support import pictures

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

FLAGS = ("--languages", "en,de", "--write-metadata", "--sidecar", "--effort", "fast")
TIMEOUT_S = 240


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of five formats in two folders, among them two of the same name, one that is damaged and no picture."""
    folder = tmp_path_factory.mktemp("archive") / "museum"
    files = {
        "red bicycle.JPG": pictures.jpeg(),
        "old harbour.png": pictures.png(),
        "wrong name.png": pictures.jpeg(seed=3),
        "west wing/red bicycle.jpg": pictures.jpeg(seed=2),
        "west wing/spinning wheel.gif": pictures.gif(),
        "west wing/green hill.webp": pictures.webp(),
        "west wing/damaged.jpg": pictures.broken_jpeg(),
        "west wing/empty.jpg": b"",
        "notes.txt": b"no picture",
        ".hidden/secret.jpg": pictures.jpeg(seed=9),
    }
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    """The files of a folder by path, without hidden ones."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    shown = (path for path in paths if not any(part.startswith(".") for part in path.parts))
    return {path.as_posix(): (folder / path).read_bytes() for path in shown}


def texts(table: Path) -> list[list[str]]:
    """The rows of a table of alt texts, sorted, without the column that has the path of the original."""
    with table.open(encoding="utf-8-sig", newline="") as file:
        return sorted([row[0], *row[2:]] for row in csv.reader(file))


def test_only_the_first_failures_of_a_run_are_printed(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_archive(*arguments: Any) -> Counts:
        on_row, counts = arguments[3], Counts()
        for number in range(1025):
            problems = (Problem(None, "It is damaged."),)
            row = Row(source=f"{number}.jpg", version="", size_bytes=1, options="", outcome="failed", problems=problems)
            counts.add(row)
            on_row(row, counts)
        return counts

    monkeypatch.setattr(run_module, "run_archive", run_archive)
    *shown, more = program.error("archive", "source", "target", exit_code=1).splitlines()
    assert shown == [f"Failed: {number}.jpg: It is damaged." for number in range(20)]
    assert more == "1,005 more failed than are printed here: archive.parquet has the reason of each."


@pytest.fixture(scope="module")
def processed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the results of `process --archive-names`."""
    folder = tmp_path_factory.mktemp("process")
    command = ("process", source, "--archive-names", "--out", folder / "out", "--csv", folder / "alt.csv")
    ended = Program(folder)(*command, *FLAGS)
    assert ended.returncode == 1, ended.stderr  # of the damaged picture
    return folder


@pytest.mark.parametrize("workers", [1, 2])
def test_the_results_are_those_of_process(
    program: Program, source: Path, processed: Path, tmp_path: Path, workers: int
) -> None:
    target = tmp_path / "target"
    ended = program("archive", source, target, "--workers", workers, *FLAGS, timeout_s=TIMEOUT_S)
    assert ended.stdout.startswith("6 done, 0 unchanged since an earlier run, 1 failed, 2 skipped"), ended.stderr
    assert ended.returncode == 1
    assert ended.stdout.splitlines()[-1].endswith(f"archive.parquet are in {target}.")
    (failed,) = [line for line in ended.stderr.splitlines() if line.startswith("Failed: ")]
    assert re.fullmatch(r"Failed: west wing/damaged\.jpg: \w.+\.", failed)
    files, expected = tree(target), tree(processed / "out")
    assert files.keys() == expected.keys() | {"archive.parquet", "alt.csv"}
    assert [name for name in expected if files[name] != expected[name]] == []
    assert texts(target / "alt.csv") == texts(processed / "alt.csv")
