"""Imports of models from every kind of source, and the errors that a source can have."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from imgproc_local.domain.errors import ModelUnusable, StorageFailed
from imgproc_local.vision.models.catalogue import CatalogueFile, Entry
from imgproc_local.vision.models.install import ImportOptions, import_model
from imgproc_local.vision.models.manifest import Manifest, ModelFile
from imgproc_local.vision.models.model import ChatFormat, VisionModel
from imgproc_local.vision.models.store import ModelStore
from tests.support.gguf_files import projector, text_model, write_pair
from tests.support.installed import check_folder, ignore_progress, import_files, install, skip_self_test


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def manifest_for(**changes: object) -> Manifest:
    """The manifest in a folder from another machine, with some fields changed."""
    text, mmproj = text_model(), projector()
    manifest = Manifest(
        name="moved",
        text=ModelFile("T.gguf", len(text), sha256(text)),
        mmproj=ModelFile("M.gguf", len(mmproj), sha256(mmproj)),
        chat=ChatFormat(99, "chatml", "…"),
        origin="someone/some@main",
        licence="MIT",
    )
    return msgspec.structs.replace(manifest, **changes)


def tar_of(path: Path, members: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


PAIR = {"x/text": text_model(), "x/mmproj": projector()}
MEMBERS = {f"{name}.gguf": data for name, data in PAIR.items()}


def as_files(folder: Path) -> list[Path]:
    return list(write_pair(folder))


def as_files_in_reverse_order(folder: Path) -> list[Path]:
    return as_files(folder)[::-1]


def as_misnamed_files(folder: Path) -> list[Path]:
    text, mmproj = write_pair(folder)
    return [text.rename(folder / "mmproj-f16.gguf"), mmproj.rename(folder / "Model-Q4_K_M")]


def as_a_folder(folder: Path) -> list[Path]:
    write_pair(folder)
    (folder / "README.md").write_text("read me")
    return [folder]


def as_a_tar(folder: Path) -> list[Path]:
    return [tar_of(folder / "model.tar", {"./README.md": b"read me", **MEMBERS})]


def as_a_compressed_tar(folder: Path) -> list[Path]:
    return [tar_of(folder / "model.tar.gz", MEMBERS, "w:gz")]


SOURCES = [
    as_files,
    as_files_in_reverse_order,
    as_misnamed_files,
    as_a_folder,
    as_a_tar,
    as_a_compressed_tar,
]


@pytest.mark.parametrize("source", SOURCES)
def test_a_model_is_imported_from_any_source(
    models: ModelStore, tmp_path: Path, source: Callable[[Path], list[Path]]
) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    manifest = import_files(models, *source(folder), name="a")
    model = models.model("a")
    assert model.text_path.read_bytes() == text_model()
    assert model.mmproj_path.read_bytes() == projector()
    assert manifest.text.sha256 == sha256(text_model())
    assert models.manifest("a") == manifest
    check_folder(models, ["a"])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a": text_model()}, "vision encoder.*a.gguf"),
        ({"a": projector()}, "one text model.*a.gguf"),
        ({"a": text_model(), "b": text_model(seed=1)}, "a.gguf .a text model., b.gguf .a text model"),
        ({"a": text_model(), "b": projector(), "c": projector(seed=1)}, "more were given: .*c.gguf.* Name the two"),
        ({}, "given: none"),
        ({"a": text_model(64), "b": projector(128)}, "don't belong together"),
        ({"a": text_model()[:-1], "b": projector()}, "a.gguf is truncated"),
        ({"a": text_model(), "b": projector()[:300]}, "b.gguf is truncated"),
        ({"a": text_model(), "b": b"<html>not found</html>"}, "b.gguf is neither a GGUF"),
        ({"a": text_model(), "b": b""}, "b.gguf is neither a GGUF"),
    ],
)
def test_an_incomplete_or_damaged_pair_is_rejected_and_nothing_is_installed(
    models: ModelStore, tmp_path: Path, files: dict[str, bytes], message: str
) -> None:
    install(models, "before", seed=9)
    folder = tmp_path / "given"
    folder.mkdir()
    for name, data in files.items():
        (folder / f"{name}.gguf").write_bytes(data)
    with pytest.raises(ModelUnusable, match=message):
        import_files(models, folder, name="a")
    check_folder(models, ["before"])


def test_name_and_chat_format_come_from_the_manifest_of_a_folder(models: ModelStore, tmp_path: Path) -> None:
    folder = tmp_path / "given"
    write_pair(folder)
    (folder / "manifest.json").write_bytes(msgspec.json.encode(manifest_for()))
    manifest = import_files(models, folder)
    assert (manifest.name, manifest.origin, manifest.licence) == ("moved", "someone/some@main", "MIT")
    assert models.model("moved").chat == ChatFormat(99, "chatml", "…")
    other = import_files(models, folder, name="other", template="gemma", image_tokens=7)
    assert other.chat == ChatFormat(7, "gemma", "…")
    third = import_files(models, folder, name="third", answer_opening="")
    assert third.chat == ChatFormat(99, "chatml", "")
    check_folder(models, ["moved", "other", "third"])


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (msgspec.json.encode(manifest_for(text=ModelFile("T.gguf", 1, "0" * 64))), "not the file that its manifest"),
        (b"{}", "manifest.json of the model"),
        (b"not json", "manifest.json of the model"),
        (msgspec.json.encode(manifest_for(name="../up")), "model's name"),
        (msgspec.json.encode(manifest_for(name="none")), "model's name"),
        (msgspec.json.encode(manifest_for(chat=ChatFormat(10**9))), "<= 4096"),
        (b'{"name": "\xff"}', "manifest.json of the model"),
    ],
)
def test_a_folder_with_an_invalid_manifest_is_rejected(
    models: ModelStore, tmp_path: Path, manifest: bytes, message: str
) -> None:
    folder = tmp_path / "given"
    write_pair(folder)
    (folder / "manifest.json").write_bytes(manifest)
    with pytest.raises(ModelUnusable, match=message):
        import_files(models, folder)
    check_folder(models, [])


def test_a_given_sha256_must_be_that_of_a_file(models: ModelStore, tmp_path: Path) -> None:
    pair = write_pair(tmp_path / "given")
    with pytest.raises(ModelUnusable, match=r"No file has the SHA-256 00.*one-0.gguf has"):
        import_files(models, *pair, name="a", sha256=("00" * 32,))
    check_folder(models, [])
    import_files(models, *pair, name="a", sha256=(sha256(projector()).upper(), sha256(text_model())))
    check_folder(models, ["a"])


def entry(text: bytes = text_model(), mmproj: bytes = projector()) -> Entry:
    return Entry(
        repository="someone/some",
        text=CatalogueFile("T.gguf", len(text), sha256(text)),
        mmproj=CatalogueFile("M.gguf", len(mmproj), sha256(mmproj)),
        licence="MIT",
        image_tokens=33,
    )


def test_a_model_of_the_catalogue_is_recognised_by_its_files(models: ModelStore, tmp_path: Path) -> None:
    pair = write_pair(tmp_path / "given")
    catalogue = {"other": entry(text=b"other"), "known": entry()}
    manifest = import_model(models, pair, ImportOptions(), catalogue, skip_self_test, ignore_progress)
    assert (manifest.name, manifest.licence, manifest.chat.image_tokens) == ("known", "MIT", 33)
    renamed = import_model(models, pair, ImportOptions(name="mine"), catalogue, skip_self_test, ignore_progress)
    assert (renamed.name, renamed.licence) == ("mine", "MIT")
    with pytest.raises(ModelUnusable, match=r"one-0.gguf is not the file that the catalogue's 'other' names"):
        import_model(models, pair, ImportOptions(name="other"), catalogue, skip_self_test, ignore_progress)
    check_folder(models, ["known", "mine"])


def test_an_unknown_model_needs_a_name(models: ModelStore, tmp_path: Path) -> None:
    with pytest.raises(ModelUnusable, match="--name"):
        import_files(models, *write_pair(tmp_path / "given"))
    check_folder(models, [])


def test_a_name_that_is_taken_is_rejected(models: ModelStore, tmp_path: Path) -> None:
    install(models, "a")
    with pytest.raises(ModelUnusable, match="'a' is installed already"):
        import_files(models, *write_pair(tmp_path / "given", seed=1), name="a")
    check_folder(models, ["a"])
    assert models.model("a").text_path.read_bytes() == text_model()


def test_a_model_that_does_not_work_is_not_installed(models: ModelStore, tmp_path: Path) -> None:
    def fail(model: VisionModel) -> None:
        assert model.text_path.read_bytes() == text_model(), "the self-test runs on complete files"
        raise ModelUnusable("It does not work.")

    with pytest.raises(ModelUnusable, match="It does not work"):
        import_model(models, write_pair(tmp_path / "given"), ImportOptions(name="a"), {}, fail, ignore_progress)
    check_folder(models, [])
    assert models.selected() == ""


# ---- archives ----


def special_file(name: str, kind: bytes) -> Callable[[tarfile.TarFile], None]:
    """Adds a link, pipe or device to an archive."""

    def add(tar: tarfile.TarFile) -> None:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member)

    return add


def regular_file(name: str) -> Callable[[tarfile.TarFile], None]:
    """Adds a GGUF file with this name to an archive."""

    def add(tar: tarfile.TarFile) -> None:
        member = tarfile.TarInfo(name)
        member.size = 4
        tar.addfile(member, io.BytesIO(b"GGUF"))

    return add


@pytest.mark.parametrize(
    "hostile",
    [
        special_file("text.gguf", tarfile.SYMTYPE),
        special_file("text.gguf", tarfile.LNKTYPE),
        special_file("pipe", tarfile.FIFOTYPE),
        special_file("disk", tarfile.BLKTYPE),
        regular_file("../text.gguf"),
        regular_file("/tmp/text.gguf"),
        regular_file("a/../../text.gguf"),
        regular_file("..\\text.gguf"),
    ],
)
def test_a_hostile_archive_is_rejected_and_writes_no_file(
    models: ModelStore, tmp_path: Path, hostile: Callable[[tarfile.TarFile], None]
) -> None:
    folder = tmp_path / "deep" / "given"
    folder.mkdir(parents=True)
    with tarfile.open(folder / "model.tar", "w") as tar:
        hostile(tar)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ModelUnusable, match="a link, a device or a path outside the archive"):
        import_files(models, folder / "model.tar", name="a")
    check_folder(models, [])
    assert [path for path in sorted(tmp_path.rglob("*")) if models.folder not in (path, *path.parents)] == before


def test_an_archive_of_more_than_1000_files_is_rejected(models: ModelStore, tmp_path: Path) -> None:
    path = tar_of(tmp_path / "model.tar", {f"{number}": b"" for number in range(1001)})
    with pytest.raises(ModelUnusable, match="more than 1000 files"):
        import_files(models, path, name="a")


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_truncated_archive_is_rejected(models: ModelStore, tmp_path: Path, mode: str) -> None:
    path = tar_of(tmp_path / "model.tar", MEMBERS, mode)
    whole = path.read_bytes()
    larger = len(whole) // 2 if mode == "w:gz" else 512 + len(text_model()) // 2
    for size in (larger, larger // 2):
        path.write_bytes(whole[:size])
        with pytest.raises(ModelUnusable, match=r"truncated|damaged|neither"):
            import_files(models, path, name="a")
        check_folder(models, [])


def test_an_archive_with_a_huge_extended_header_is_rejected(models: ModelStore, tmp_path: Path) -> None:
    path = tmp_path / "model.tar.gz"
    member = tarfile.TarInfo("pax")
    member.type = tarfile.XHDTYPE
    member.size = 100 * 1024 * 1024
    import gzip

    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(member.tobuf(tarfile.USTAR_FORMAT))
        file.write(bytes(8 * 1024 * 1024))
    with pytest.raises(ModelUnusable, match="one of its headers is too large"):
        import_files(models, path, name="a")
    check_folder(models, [])


# ---- disks ----


def test_a_full_disk_leaves_no_incomplete_model(
    models: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(models, "before", seed=9)
    pair = write_pair(tmp_path / "given")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("imgproc_local.vision.models.sources.os.fsync", full)
    with pytest.raises(StorageFailed, match="full"):
        import_files(models, *pair, name="a")
    monkeypatch.undo()
    check_folder(models, ["before"])
    import_files(models, *pair, name="a")


def test_a_model_larger_than_the_free_space_is_not_copied(
    models: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = write_pair(tmp_path / "given")
    usage = __import__("shutil").disk_usage(tmp_path)._replace(free=100)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(StorageFailed, match="MB free"):
        import_files(models, *pair, name="a")
    check_folder(models, [])
