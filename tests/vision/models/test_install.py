"""Imports of models from every kind of source, and the errors that a source can have."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from imgproc_local.domain.errors import ModelUnusable, StorageFailed
from imgproc_local.vision.models.catalogue import CatalogueFile, Entry
from imgproc_local.vision.models.install import ImportOptions, import_model
from imgproc_local.vision.models.model import ChatFormat, Manifest, ModelFile, VisionModel
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


SOURCES = [
    as_files,
    as_files_in_reverse_order,
    as_misnamed_files,
    as_a_folder,
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
        ({"a": text_model(), "b": projector()[:50]}, "b.gguf is not a GGUF file, or is damaged"),
        ({"a": text_model(), "b": b"<html>not found</html>"}, "b.gguf is not a GGUF"),
        ({"a": text_model(), "b": b""}, "b.gguf is not a GGUF"),
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


def test_a_full_disk_leaves_no_incomplete_model(
    models: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(models, "before", seed=9)
    pair = write_pair(tmp_path / "given")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("imgproc_local.vision.models.install.os.fsync", full)
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
