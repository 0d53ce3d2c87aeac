"""Results are written completely, under one name, and never over an existing file."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from imgproc_local.cli.process import results
from imgproc_local.cli.process.results import Results


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def sources(tmp_path: Path) -> list[tuple[Path, str]]:
    sources = []
    for name, ending in (("one", ".jpg"), ("two", ".webp")):
        (tmp_path / name).write_bytes(name.encode())
        sources.append((tmp_path / name, ending))
    return sources


@pytest.fixture(params=[True, False], ids=["hard links", "no hard links"])
def out(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    if not request.param:

        def refuse(self: Path, target: Path) -> None:
            raise OSError(errno.EPERM, "no hard links here")

        monkeypatch.setattr(Path, "hardlink_to", refuse)
    folder = tmp_path / "out"
    Results(folder).create_folder()
    return folder


def test_both_files_of_a_picture_share_its_name(out: Path, sources: list[tuple[Path, str]]) -> None:
    name, files = Results(out).write("a-dog", "en", sources)
    assert name == "a-dog"
    assert [file.name for file in files] == ["a-dog.jpg", "a-dog.webp"]
    assert [file.read_bytes() for file in files] == [b"one", b"two"]
    assert names(out) == ["a-dog.jpg", "a-dog.webp"]


@pytest.mark.parametrize("taken", ["a-dog.jpg", "a-dog.webp"])
def test_an_existing_file_is_not_changed_and_both_results_get_the_next_number(
    out: Path, sources: list[tuple[Path, str]], taken: str
) -> None:
    (out / taken).write_bytes(b"mine")
    name, files = Results(out).write("a-dog", "en", sources)
    assert name == "a-dog-2"
    assert [file.name for file in files] == ["a-dog-2.jpg", "a-dog-2.webp"]
    assert (out / taken).read_bytes() == b"mine"
    assert len(names(out)) == 3


def test_a_file_that_another_program_creates_meanwhile_is_not_overwritten(
    out: Path, sources: list[tuple[Path, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = results._publish

    def raced(part: Path, target: Path) -> None:
        if target.name == "a-dog.webp":
            target.write_bytes(b"another program's")
        real(part, target)

    monkeypatch.setattr(results, "_publish", raced)
    name, _ = Results(out).write("a-dog", "en", sources)
    assert name == "a-dog-2"
    assert (out / "a-dog.webp").read_bytes() == b"another program's"
    assert names(out) == ["a-dog-2.jpg", "a-dog-2.webp", "a-dog.webp"]


def test_the_name_of_a_broken_link_is_taken(out: Path, sources: list[tuple[Path, str]], tmp_path: Path) -> None:
    (out / "a-dog.jpg").symlink_to(tmp_path / "elsewhere")
    assert Results(out).write("a-dog", "en", sources)[0] == "a-dog-2"
    assert not (tmp_path / "elsewhere").exists()


def test_concurrent_runs_never_overwrite_each_other(out: Path, sources: list[tuple[Path, str]]) -> None:
    runs = [Results(out), Results(out)]
    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(lambda number: runs[number % 2].write("a-dog", "en", sources), range(40)))
    assert len({name for name, _ in written}) == 40
    assert len(names(out)) == 80
    for _, files in written:
        assert [file.read_bytes() for file in files] == [b"one", b"two"]


def test_a_failure_leaves_no_file_behind(
    out: Path, sources: list[tuple[Path, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(part: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(results, "_publish", full)
    with pytest.raises(OSError, match="No space"):
        Results(out).write("a-dog", "en", sources)
    sources[1][0].unlink()
    with pytest.raises(FileNotFoundError):
        Results(out).write("a-dog", "en", sources)
    assert names(out) == []


def test_names_of_one_run_are_unique_per_language(tmp_path: Path) -> None:
    run_results = Results(tmp_path)
    assert [run_results.name("a-dog", "en") for _ in range(3)] == ["a-dog", "a-dog-2", "a-dog-3"]
    # numbered by the engine because of another picture of this run
    assert run_results.name("a-dog-2", "en") == "a-dog-4"
    assert run_results.name("a-dog", "de") == "a-dog"
    # a number that is part of the name
    assert run_results.name("boeing-747", "en") == "boeing-747"
    assert run_results.name("boeing-747", "en") == "boeing-747-2"
