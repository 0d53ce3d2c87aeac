"""Results are written completely, under one name, and never over an existing file."""

from __future__ import annotations

import errno
from pathlib import Path

import msgspec
import pytest

from imgproc_local import batch
from imgproc_local.batch import MANIFEST_FILE, BatchRequest, LocalFile, Record, ResultFile
from imgproc_local.cli.discovery import read_manifest
from imgproc_local.cli.process import results_folder
from imgproc_local.cli.process.results_folder import ResultsFolder, delete_leftovers, existing, rename_all, stage


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=[True, False], ids=["hard links", "no hard links"])
def out(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    if not request.param:

        def refuse(self: Path, target: Path) -> None:
            raise OSError(errno.EPERM, "no hard links here")

        monkeypatch.setattr(Path, "hardlink_to", refuse)
    for name, content in (("one", b"one"), ("two", b"two")):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def staged(out: Path) -> list[LocalFile]:
    made = (("one", ".jpg"), ("two", ".webp"))
    return [stage(out, LocalFile("converted", out.with_name(name), ending)) for name, ending in made]


def publish(out: Path, name: str) -> bool:
    return rename_all(out, {f"{name}{file.ending}": file.path for file in staged(out)})


@pytest.mark.parametrize("taken", ["a-dog.jpg", "a-dog.webp"])
@pytest.mark.parametrize("is_link", [False, True])
def test_an_existing_file_is_not_changed(out: Path, tmp_path: Path, taken: str, is_link: bool) -> None:
    elsewhere = tmp_path / "elsewhere"
    (out / taken).symlink_to(elsewhere) if is_link else (out / taken).write_bytes(b"mine")
    assert existing(out, ["a-dog.jpg", "a-dog.webp", "a-dog-2.jpg"]) == (taken,)
    assert not publish(out, "a-dog")
    assert not elsewhere.exists()
    assert is_link or (out / taken).read_bytes() == b"mine"
    delete_leftovers(out)
    assert names(out) == [taken]


def test_a_failure_leaves_no_file_behind(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(results_folder.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        staged(out)
    assert names(out) == []


@pytest.mark.parametrize("path", ["../mine.txt", "deeper/../../mine.txt", "/mine.txt", "a\0b"])
def test_a_manifest_names_no_file_outside_its_folder(tmp_path: Path, path: str) -> None:
    inside, outside = (
        msgspec.json.encode(
            Record(source=name, size_bytes=1, modified_ns=1, sha256="", options="", optimized=ResultFile(file, "", 1))
        )
        for name, file in (("inside", "deeper/a-dog.jpg"), ("outside", path))
    )
    (tmp_path / MANIFEST_FILE).write_bytes(b"\n".join([outside, inside, b'{"source":"\xff"}', b""]))
    assert list(read_manifest(tmp_path)) == ["inside"]


def test_a_manifest_of_too_many_bytes_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "MAX_MANIFEST_BYTES", 1000)
    file = tmp_path / MANIFEST_FILE
    file.write_bytes(b"\n" * 1001)
    for read in (lambda folder: ResultsFolder(folder, BatchRequest((), (), "")), read_manifest):
        with pytest.raises(PermissionError, match=f"{MANIFEST_FILE} has 1,001 bytes; at most 1,000 are read"):
            read(tmp_path)
