"""Results are written completely, under one name, and never over an existing file."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

import msgspec
import pytest

from imgproc_local.batch import records
from imgproc_local.batch.files import ResultFile
from imgproc_local.batch.records import MANIFEST_FILE, Record
from imgproc_local.cli.process import manifest, results
from imgproc_local.cli.process.manifest import Manifest, read_manifest
from imgproc_local.cli.process.results import Names, Results, StagedFile

TOP = PurePosixPath()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=[True, False], ids=["hard links", "no hard links"])
def out(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Results:
    if not request.param:

        def refuse(self: Path, target: Path) -> None:
            raise OSError(errno.EPERM, "no hard links here")

        monkeypatch.setattr(Path, "hardlink_to", refuse)
    folder = Results(tmp_path / "out")
    folder.create_folder()
    return folder


def staged(out: Results) -> list[StagedFile]:
    return [out.stage([content], ending) for content, ending in ((b"one", ".jpg"), (b"two", ".webp"))]


def publish(out: Results, name: str) -> bool:
    return out.publish([(one, f"{name}{one.ending}") for one in staged(out)])


def test_staged_files_get_their_names_together(out: Results, tmp_path: Path) -> None:
    assert publish(out, "deeper/a-dog")
    folder = tmp_path / "out" / "deeper"
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {"a-dog.jpg": b"one", "a-dog.webp": b"two"}
    assert names(tmp_path / "out") == ["deeper"]


@pytest.mark.parametrize("taken", ["a-dog.jpg", "a-dog.webp"])
def test_an_existing_file_is_not_changed(out: Results, tmp_path: Path, taken: str) -> None:
    (tmp_path / "out" / taken).write_bytes(b"mine")
    assert not out.is_free(TOP, "a-dog", [".jpg", ".webp"])
    assert out.is_free(TOP, "a-dog-2", [".jpg", ".webp"])
    assert not publish(out, "a-dog")
    assert (tmp_path / "out" / taken).read_bytes() == b"mine"
    assert [name for name in names(tmp_path / "out") if not name.startswith(".")] == [taken]


def test_a_file_that_another_program_creates_meanwhile_is_not_overwritten(
    out: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = results.rename_to_new

    def raced(part: Path, target: Path) -> None:
        if target.name == "a-dog.webp":
            target.write_bytes(b"another program's")
        real(part, target)

    monkeypatch.setattr(results, "rename_to_new", raced)
    assert not publish(out, "a-dog")
    out.delete_leftovers()
    assert names(tmp_path / "out") == ["a-dog.webp"]
    assert (tmp_path / "out" / "a-dog.webp").read_bytes() == b"another program's"


def test_the_name_of_a_broken_link_is_taken(out: Results, tmp_path: Path) -> None:
    (tmp_path / "out" / "a-dog.jpg").symlink_to(tmp_path / "elsewhere")
    assert not out.is_free(TOP, "a-dog", [".jpg"])
    assert not publish(out, "a-dog")
    assert not (tmp_path / "elsewhere").exists()


def test_two_runs_at_once_never_overwrite_each_other(out: Results, tmp_path: Path) -> None:
    def write(number: int) -> str:
        return next(name for name in (f"a-dog-{each}" for each in range(100)) if publish(out, name))

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(write, range(20)))) == 20
    out.delete_leftovers()
    assert len(names(tmp_path / "out")) == 40


def test_a_failure_leaves_no_file_behind(out: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(results.os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            staged(out)
    assert names(tmp_path / "out") == []


def test_only_files_with_the_content_that_was_written_are_removed(out: Results, tmp_path: Path) -> None:
    one, two = staged(out)
    files = [ResultFile(f"a-dog{each.ending}", each.sha256, each.size_bytes) for each in (one, two)]
    assert out.publish([(one, files[0].path), (two, files[1].path)])
    assert out.are_present(files)
    (tmp_path / "out" / "a-dog.webp").write_bytes(b"TWO")
    out.remove_own(files)
    assert names(tmp_path / "out") == ["a-dog.webp"]
    assert not out.are_present(files)


@pytest.mark.parametrize("path", ["../mine.txt", "deeper/../../mine.txt", "/mine.txt", "a\0b"])
def test_a_manifest_names_no_file_outside_its_folder(tmp_path: Path, path: str) -> None:
    inside, outside = (
        msgspec.json.encode(Record(name, 1, 1, "", "", ResultFile(file, "", 1)))
        for name, file in (("inside", "deeper/a-dog.jpg"), ("outside", path))
    )
    (tmp_path / MANIFEST_FILE).write_bytes(b"\n".join([outside, inside, b'{"source":"\xff"}', b""]))
    assert list(read_manifest(tmp_path)) == ["inside"]


def test_a_manifest_of_too_many_bytes_is_neither_written_nor_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (manifest, records):
        monkeypatch.setattr(module, "MAX_MANIFEST_BYTES", 1000)
    opened = Manifest(tmp_path)
    with pytest.raises(OSError, match="more than 1,000 bytes"):
        for number in range(100):
            opened.append(Record(str(number), 1, 1, "", ""))
    opened.close()
    assert 1 < len(opened.records) == len(read_manifest(tmp_path))
    file = tmp_path / MANIFEST_FILE
    file.write_bytes(file.read_bytes().ljust(1001, b"\n"))
    for read in (Manifest, read_manifest):
        with pytest.raises(PermissionError, match=f"{MANIFEST_FILE} has 1,001 bytes; at most 1,000 are read"):
            read(tmp_path)


def test_names_of_one_run_are_unique_per_language() -> None:
    taken = Names()

    def take(base: str, language: str) -> str:
        name = next(taken.free(base, language))
        taken.take(language, name)
        return name

    assert [take("a-dog", "en") for _ in range(3)] == ["a-dog", "a-dog-2", "a-dog-3"]
    assert take("a-dog", "de") == "a-dog"
    # a number that is part of the name
    assert [take("boeing-747", "en") for _ in range(2)] == ["boeing-747", "boeing-747-2"]
    taken.release("en", "a-dog-2")
    assert take("a-dog", "en") == "a-dog-2"
    taken.take(Names.FILES, "a-dog")
    assert next(taken.free("a-dog", "fr", Names.FILES)) == "a-dog-2"
