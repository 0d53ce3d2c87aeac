"""Installing the networks: from a wheel, from a folder, and from a package index that fails in several ways."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.management import tasks
from imgproc_local.vision.models.catalogue import ModelFile
from imgproc_local.vision.models.install import ImportOptions
from imgproc_local.vision.models.store import ModelStore
from imgproc_local.vision.ocr import model_files
from tests.support.hub import Hub, hub_with
from tests.support.installed import ignore_progress, skip_self_test

CONTENTS = {model_files.DETECTOR_FILE: b"detector" * 400, model_files.RECOGNISER_FILE: b"recogniser" * 900}


def file_of(name: str, content: bytes) -> ModelFile:
    return ModelFile(name, len(content), hashlib.sha256(content).hexdigest())


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel with small files in place of the networks, which the module expects from now on."""
    networks = {name: file_of(model_files.NETWORKS[name].file, content) for name, content in CONTENTS.items()}
    path = tmp_path / "rapidocr-3.10.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in CONTENTS.items():
            archive.writestr(networks[name].file, content)
    monkeypatch.setattr(model_files, "NETWORKS", networks)
    monkeypatch.setattr(model_files, "WHEEL", file_of(path.name, path.read_bytes()))
    return path


@pytest.fixture
def index(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A package index that offers the wheel."""
    monkeypatch.setattr("imgproc_local.vision.models.download.RETRY_PAUSE_S", 0)
    for variable in model_files.INDEX_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    page = f'<a href="/store/{wheel.name}#sha256=00">{wheel.name}</a>'.encode()
    with hub_with({wheel.name: wheel.read_bytes()}, {"/simple/rapidocr/": page}) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
        yield server


def import_wheel(models: ModelStore, path: Path) -> None:
    tasks.import_(models, [path], ImportOptions(), skip_self_test, ignore_progress)


def check_installed(models: ModelStore) -> None:
    folder = model_files.installed_folder(models.folder)
    assert folder is not None
    assert {name: (folder / name).read_bytes() for name in CONTENTS} == CONTENTS
    tasks.verify(models, model_files.NAME, ignore_progress)
    assert models.names() == [], "the networks are no vision model"


def check_nothing_installed(models: ModelStore) -> None:
    assert model_files.installed_folder(models.folder) is None
    assert list(models.folder.glob(".building-*")) == []


@pytest.mark.parametrize("in_folder", [False, True])
def test_the_networks_are_imported_verified_and_removed(models: ModelStore, wheel: Path, in_folder: bool) -> None:
    path = wheel.parent if in_folder else wheel
    import_wheel(models, path)
    check_installed(models)
    with pytest.raises(ModelUnusable, match="installed already"):
        import_wheel(models, path)
    (models.folder / "ocr" / model_files.DETECTOR_FILE).write_bytes(b"x" * len(CONTENTS[model_files.DETECTOR_FILE]))
    with pytest.raises(ModelUnusable, match="has changed"):
        tasks.verify(models, model_files.NAME, ignore_progress)
    models.remove(model_files.NAME)
    check_nothing_installed(models)


def test_a_download_is_resumed_and_may_be_for_another_machine(models: ModelStore, index: Hub, tmp_path: Path) -> None:
    index.cut_after = [300, 0]
    with pytest.raises(ModelUnusable, match="again to resume"):
        model_files.pull(models, ignore_progress)
    check_nothing_installed(models)
    model_files.pull(models, ignore_progress)
    check_installed(models)
    assert index.ranges() == ["", "bytes=300-", "bytes=300-"]
    models.remove(model_files.NAME)
    model_files.pull_to(tmp_path / "usb", ignore_progress)
    import_wheel(models, tmp_path / "usb")
    check_installed(models)


@pytest.mark.parametrize(
    ("failure", "problem"),
    [
        ("not offered", "does not offer"),
        ("no server", "can't be reached"),
    ],
)
def test_a_failing_index_installs_nothing(
    models: ModelStore, index: Hub, monkeypatch: pytest.MonkeyPatch, failure: str, problem: str
) -> None:
    if failure == "not offered":
        index.pages["/simple/rapidocr/"] = b"<a href='rapidocr-1.0-py3-none-any.whl'>"
    else:
        monkeypatch.setenv("PIP_INDEX_URL", "http://user:secret@127.0.0.1:9/simple")
    with pytest.raises(ModelUnusable, match=problem) as raised:
        model_files.pull(models, ignore_progress)
    assert "secret" not in raised.value.message
    check_nothing_installed(models)
