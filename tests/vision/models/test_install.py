"""Imports of models from every kind of source, and the errors that a source can have."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from imgproc_local.domain.errors import ModelUnusable, StorageFailed
from imgproc_local.vision.models.model import ChatFormat, ModelFile
from imgproc_local.vision.models.store import ModelStore
from tests.support.gguf_files import projector, text_model, write_pair
from tests.support.hub import entry_of, offer
from tests.support.installed import check_folder, import_files, install


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def manifest_for(**changes: object) -> bytes:
    """The manifest in a folder from another machine, with some fields changed."""
    manifest = entry_of(text_model(), projector(), name="moved", chat=ChatFormat(99, "chatml", "…"))
    return msgspec.json.encode(msgspec.structs.replace(manifest, **changes))


def test_a_model_is_imported_from_files_in_any_order_and_under_any_names(models: ModelStore, tmp_path: Path) -> None:
    text, mmproj = write_pair(tmp_path / "given")
    misnamed = text.with_name("mmproj-f16.gguf"), mmproj.with_name("Model-Q4_K_M")
    shutil.copy(text, misnamed[0])
    shutil.copy(mmproj, misnamed[1])
    for name, sources in (("a", (text, mmproj)), ("b", (mmproj, text)), ("c", misnamed)):
        manifest = import_files(models, *sources, name=name)
        model = models.model(name)
        assert (model.text_path.read_bytes(), model.mmproj_path.read_bytes()) == (text_model(), projector())
        assert manifest.text.sha256 == sha256(text_model())
        assert models.manifest(name) == manifest
    check_folder(models, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.gguf": text_model()}, "vision encoder.*a.gguf"),
        ({"a.gguf": text_model(), "b.gguf": text_model(1)}, "a.gguf .a text model., b.gguf .a text model"),
        ({"a.gguf": text_model(), "b.gguf": projector(), "c.gguf": projector(1)}, "c.gguf .a vision encoder.. Name"),
        ({}, "given: none"),
        ({"a.gguf": text_model(), "b.gguf": projector()[:50]}, "b.gguf is not a GGUF file, or is damaged"),
        ({"a.gguf": text_model(), "b.gguf": b"<html>not found</html>"}, "b.gguf is not a GGUF"),
        ({"manifest.json": manifest_for(text=ModelFile("T.gguf", 1, "0" * 64))}, "not the file that its manifest"),
        ({"manifest.json": manifest_for(name="../up")}, "model's name"),
        ({"manifest.json": manifest_for(chat=ChatFormat(10**9))}, "manifest.json of the model"),
        ({"manifest.json": b'{"name": "\xff"}'}, "manifest.json of the model"),
        ({"manifest.json": b'{"x":' + b"[" * 30_000 + b"]" * 30_000 + b"}"}, "manifest.json of the model"),
    ],
)
def test_an_incomplete_or_damaged_source_is_rejected_and_nothing_is_installed(
    models: ModelStore, tmp_path: Path, files: dict[str, bytes], message: str
) -> None:
    install(models, "before", seed=9)
    folder = tmp_path / "given"
    folder.mkdir()
    if "manifest.json" in files:
        write_pair(folder)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    with pytest.raises(ModelUnusable, match=message):
        import_files(models, folder, name=None if "manifest.json" in files else "a")
    check_folder(models, ["before"])


def test_name_and_chat_format_come_from_the_manifest_of_a_folder(models: ModelStore, tmp_path: Path) -> None:
    folder = tmp_path / "given"
    write_pair(folder)
    (folder / "manifest.json").write_bytes(manifest_for())
    manifest = import_files(models, folder)
    assert (manifest.name, manifest.licence) == ("moved", "MIT")
    assert models.model("moved").chat == ChatFormat(99, "chatml", "…")
    other = import_files(models, folder, name="other", template="gemma", image_tokens=7, answer_opening="")
    assert other.chat == ChatFormat(7, "gemma", "")
    check_folder(models, ["moved", "other"])


def test_a_given_sha256_must_be_that_of_a_file(models: ModelStore, tmp_path: Path) -> None:
    pair = write_pair(tmp_path / "given")
    with pytest.raises(ModelUnusable, match=r"No file has the SHA-256 00.*one-0.gguf has"):
        import_files(models, *pair, name="a", sha256=("00" * 32,))
    check_folder(models, [])
    import_files(models, *pair, name="a", sha256=(sha256(projector()).upper(), sha256(text_model())))
    check_folder(models, ["a"])


def test_a_model_of_the_catalogue_is_recognised_by_its_files(
    models: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = write_pair(tmp_path / "given")
    with pytest.raises(ModelUnusable, match="--name"):
        import_files(models, *pair)
    known = entry_of(text_model(), projector(), chat=ChatFormat(33))
    offer(monkeypatch, other=entry_of(b"other", projector()), known=known)
    manifest = import_files(models, *pair)
    assert (manifest.name, manifest.licence, manifest.chat.image_tokens) == ("known", "MIT", 33)
    assert import_files(models, *pair, name="mine").licence == "MIT"
    with pytest.raises(ModelUnusable, match=r"one-0.gguf is not the file that the catalogue's 'other' names"):
        import_files(models, *pair, name="other")
    with pytest.raises(ModelUnusable, match="'known' is installed already"):
        import_files(models, *pair)
    check_folder(models, ["known", "mine"])


@pytest.mark.parametrize("message", ["is full", "MB free"])
def test_a_full_disk_leaves_no_incomplete_model(
    models: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    install(models, "before", seed=9)
    pair = write_pair(tmp_path / "given")
    usage = shutil.disk_usage(tmp_path)._replace(free=100)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if message == "is full":
        monkeypatch.setattr("imgproc_local.system.files.os.fsync", full)
    else:
        monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(StorageFailed, match=message):
        import_files(models, *pair, name="a")
    monkeypatch.undo()
    check_folder(models, ["before"])
    import_files(models, *pair, name="a")
