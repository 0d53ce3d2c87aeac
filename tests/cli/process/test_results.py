"""Results are written completely, under one name, and never over an existing file."""

from __future__ import annotations

import errno
from contextlib import closing
from pathlib import Path, PurePosixPath

import msgspec
import pytest

from imgproc_local import batch
from imgproc_local.batch import MANIFEST_FILE, BatchRequest, LocalFile, Made, ManifestLine, ResultFile
from imgproc_local.cli.discovery import SourceFile, read_manifest
from imgproc_local.cli.process import results_folder
from imgproc_local.cli.process.results_folder import (
    ResultsFolder,
    _delete_leftovers,
    _rename_all,
    existing,
    hidden_copy,
    source_key,
)
from imgproc_local.domain.image import Format


@pytest.mark.parametrize("has_hard_links", [True, False])
def test_an_existing_file_is_not_changed_and_a_failure_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_hard_links: bool
) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()

    def staged() -> list[LocalFile]:
        return [hidden_copy(out, LocalFile("converted", tmp_path / "made", ending)) for ending in (".jpg", ".webp")]

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "refused")

    if not has_hard_links:
        monkeypatch.setattr(Path, "hardlink_to", refuse)
    (tmp_path / "made").write_bytes(b"made")
    for taken in ("a-dog.jpg", "a-dog.webp"):
        for is_link in (False, True):
            (out / taken).symlink_to(elsewhere) if is_link else (out / taken).write_bytes(b"mine")
            assert existing(out, ["a-dog.jpg", "a-dog.webp", "a-dog-2.jpg"]) == (taken,)
            assert not _rename_all(out, {f"a-dog{file.ending}": file.path for file in staged()})
            assert not elsewhere.exists()
            assert is_link or (out / taken).read_bytes() == b"mine"
            _delete_leftovers(out)
            assert [path.name for path in out.iterdir()] == [taken]
            (out / taken).unlink()
    monkeypatch.setattr(results_folder.os, "fsync", refuse)
    with pytest.raises(OSError, match="refused"):
        staged()
    assert list(out.iterdir()) == []


def test_a_manifest_names_no_file_outside_its_folder_and_is_read_up_to_a_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = ["deeper/a-dog.jpg", "../mine.txt", "deeper/../../mine.txt", "/mine.txt", "a\0b"]
    fields = {"size_bytes": 1, "modified_ns": 1, "sha256": "", "options": ""}
    records = [ManifestLine(source=path, optimized=ResultFile(path, "", 1), **fields) for path in paths]
    content = b"\n".join([*map(msgspec.json.encode, records), b'{"source":"\xff"}', b""])
    (tmp_path / MANIFEST_FILE).write_bytes(content)
    assert list(read_manifest(tmp_path)) == paths[:1]
    monkeypatch.setattr(batch, "_MAX_MANIFEST_BYTES", len(content) - 1)
    for read in (lambda folder: ResultsFolder(folder, BatchRequest((), (), "")), read_manifest):
        with pytest.raises(PermissionError, match=f"{MANIFEST_FILE} has {len(content):,} bytes; at most"):
            read(tmp_path)


def test_widths_are_named_kept_and_replaced_with_the_converted_file(tmp_path: Path) -> None:
    """One run makes two files, one only the optimized file, and one the converted file without widths."""
    out, picture = tmp_path / "out", tmp_path / "a dog.jpg"
    picture.write_bytes(b"a picture")
    source = SourceFile(picture, PurePosixPath(), 9, 1)

    def publish(folder: ResultsFolder, *files: LocalFile) -> ManifestLine:
        made = Made(tuple(hidden_copy(out, file) for file in files), notes={file.kind: () for file in files})
        record = folder.publish(source, "sum", made).record
        assert record is not None
        return record

    (tmp_path / "made").write_bytes(b"made")
    optimized = LocalFile("optimized", tmp_path / "made", ".jpg", Format.JPEG)
    converted = LocalFile("converted", tmp_path / "made", ".webp", Format.WEBP)
    sized = LocalFile("converted", tmp_path / "made", "-480.webp", Format.WEBP, 480, 320)
    with closing(ResultsFolder(out, BatchRequest((), ("en",), ""))) as folder:
        (variant,) = publish(folder, converted, sized).variants
        assert (variant.path, variant.width_px, variant.height_px) == ("a-dog-480.webp", 480, 320)
        assert publish(folder, optimized).variants == (variant,)
    with closing(ResultsFolder(out, BatchRequest((), ("en",), ""))) as folder:
        assert folder.records[source_key(picture, out)].variants == (variant,), "the manifest has it"
        assert publish(folder, converted).variants == ()
    assert sorted(path.name for path in out.glob("[!.]*")) == ["a-dog.jpg", "a-dog.webp"]
