"""Installing the networks: from a wheel, from a folder, and from a package index that fails in several ways."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.models import install, networks
from imgproc_local.vision.models.install import ImportOptions
from imgproc_local.vision.models.model import ModelFile
from imgproc_local.vision.models.store import ModelStore
from tests.support.hub import Hub, hub_with
from tests.support.installed import ignore_progress, skip_self_test

CONTENTS = {networks.DETECTOR_FILE: b"detector" * 400, networks.RECOGNISER_FILE: b"recogniser" * 900}


def file_of(name: str, content: bytes) -> ModelFile:
    return ModelFile(name, len(content), hashlib.sha256(content).hexdigest())


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel with small files in place of the networks, which the module expects from now on."""
    small = {name: file_of(networks.NETWORKS[name].file, content) for name, content in CONTENTS.items()}
    path = tmp_path / "rapidocr-3.10.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in CONTENTS.items():
            archive.writestr(small[name].file, content)
    monkeypatch.setattr(networks, "NETWORKS", small)
    monkeypatch.setattr(networks, "WHEEL", file_of(path.name, path.read_bytes()))
    return path


@pytest.fixture
def index(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A package index that offers the wheel."""
    monkeypatch.setattr("time.sleep", lambda _: None)  # the pause before a retry
    for variable in networks._INDEX_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    page = f'<a href="/store/{wheel.name}#sha256=00">{wheel.name}</a>'.encode()
    with hub_with({wheel.name: wheel.read_bytes()}, {"/simple/rapidocr/": page}) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
        yield server


def import_wheel(models: ModelStore, path: Path) -> None:
    install.import_(models, [path], ImportOptions(), skip_self_test, ignore_progress)


def check_installed(models: ModelStore) -> None:
    folder = networks.installed_folder(models.folder)
    assert folder is not None
    assert {name: (folder / name).read_bytes() for name in CONTENTS} == CONTENTS
    install.verify(models, "ocr", ignore_progress)
    assert models.names() == [], "the networks are no vision model"


def check_nothing_installed(models: ModelStore) -> None:
    assert networks.installed_folder(models.folder) is None
    assert list(models.folder.glob(".building-*")) == []


def test_the_networks_are_imported_verified_and_removed(models: ModelStore, wheel: Path) -> None:
    import_wheel(models, wheel)
    check_installed(models)
    with pytest.raises(ModelUnusable, match="installed already"):
        import_wheel(models, wheel)
    (models.folder / "ocr" / networks.DETECTOR_FILE).write_bytes(b"x" * len(CONTENTS[networks.DETECTOR_FILE]))
    with pytest.raises(ModelUnusable, match="has changed"):
        install.verify(models, "ocr", ignore_progress)
    models.remove("ocr")
    check_nothing_installed(models)
    # a signature, where one is required for models, is not needed: the program has the SHA-256
    install.import_(models, [wheel], ImportOptions(signers=wheel), skip_self_test, ignore_progress)
    check_installed(models)


def test_a_download_is_resumed_and_may_be_for_another_machine(
    models: ModelStore, index: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.cut_after = [300, 0]
    with pytest.raises(ModelUnusable, match="again to resume"):
        install.pull(models, "ocr", skip_self_test, ignore_progress)
    check_nothing_installed(models)
    install.pull(models, "ocr", skip_self_test, ignore_progress)
    check_installed(models)
    assert index.ranges() == ["", "bytes=300-", "bytes=300-"]
    models.remove("ocr")
    install.pull_to(tmp_path / "usb", "ocr", ignore_progress)
    import_wheel(models, tmp_path / "usb")
    check_installed(models)
    models.remove("ocr")

    index.pages["/simple/rapidocr/"] = b"<a href='rapidocr-1.0-py3-none-any.whl'>"
    with pytest.raises(ModelUnusable, match="does not offer"):
        install.pull(models, "ocr", skip_self_test, ignore_progress)
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:secret@127.0.0.1:9/simple")
    with pytest.raises(ModelUnusable, match="can't be reached") as raised:
        install.pull(models, "ocr", skip_self_test, ignore_progress)
    assert "secret" not in raised.value.message
    check_nothing_installed(models)
