"""Installing the networks: from a wheel, from a folder, and from a package index that fails in several ways."""

from __future__ import annotations

import hashlib
import http.server
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.models.store import ModelStore
from imgproc_local.vision.ocr import download, model_files
from imgproc_local.vision.ocr.model_files import Network, PackageFile
from tests.support.installed import ignore_progress

CONTENTS = {model_files.DETECTOR_FILE: b"detector" * 400, model_files.RECOGNISER_FILE: b"recogniser" * 900}


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel with small files in place of the networks, which the modules expect from now on."""
    expected = {
        name: Network(model_files.NETWORKS[name].path_in_wheel, len(content), hashlib.sha256(content).hexdigest())
        for name, content in CONTENTS.items()
    }
    path = tmp_path / "rapidocr-3.10.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in CONTENTS.items():
            archive.writestr(expected[name].path_in_wheel, content)
    data = path.read_bytes()
    file = PackageFile("rapidocr", path.name, len(data), hashlib.sha256(data).hexdigest())
    monkeypatch.setattr(model_files, "NETWORKS", expected)
    monkeypatch.setattr(download, "WHEEL", file)
    monkeypatch.setattr(model_files, "WHEEL", file)
    return path


@pytest.fixture
def models(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "models")


def check_installed(models: ModelStore) -> None:
    folder = model_files.installed_folder(models.folder)
    assert folder is not None
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == CONTENTS
    model_files.verify(models, ignore_progress)
    assert models.names() == [], "the networks are no vision model"


def check_nothing_installed(models: ModelStore) -> None:
    assert model_files.installed_folder(models.folder) is None
    assert list(models.folder.glob(".building-*")) == []


@pytest.mark.parametrize("in_folder", [False, True])
def test_the_networks_are_imported_verified_and_removed(models: ModelStore, wheel: Path, in_folder: bool) -> None:
    path = wheel.parent if in_folder else wheel
    assert model_files.is_source([path])
    model_files.import_networks(models, path, ignore_progress)
    check_installed(models)
    with pytest.raises(ModelUnusable, match="installed already"):
        model_files.import_networks(models, path, ignore_progress)
    (models.folder / "ocr" / model_files.DETECTOR_FILE).write_bytes(b"x" * len(CONTENTS[model_files.DETECTOR_FILE]))
    with pytest.raises(ModelUnusable, match="has changed"):
        model_files.verify(models, ignore_progress)
    model_files.remove(models)
    check_nothing_installed(models)


@pytest.mark.parametrize("name", ["scan.jpg", "network.onnx"])
def test_a_folder_of_the_users_own_is_neither_removed_nor_replaced(models: ModelStore, wheel: Path, name: str) -> None:
    own = models.folder / model_files.NAME
    own.mkdir(parents=True)
    (own / name).write_bytes(b"mine")
    for call in (model_files.remove, lambda models: model_files.import_networks(models, wheel, ignore_progress)):
        with pytest.raises(ModelUnusable, match=f"files that are not of ocr, such as {name}"):
            call(models)
    assert (own / name).read_bytes() == b"mine"


def test_another_file_is_refused(models: ModelStore, wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("more", "content")
    with pytest.raises(ModelUnusable, match="not the expected file"):
        model_files.import_networks(models, wheel, ignore_progress)
    check_nothing_installed(models)
    assert not model_files.is_source([wheel.parent / "rapidocr-missing.whl"])


class Index(http.server.ThreadingHTTPServer):
    """A package index with one package, whose next downloads break off after `cut_after` bytes."""

    def __init__(self, wheel: Path) -> None:
        super().__init__(("127.0.0.1", 0), IndexHandler)
        self.wheel = wheel
        self.content = wheel.read_bytes()
        self.cut_after: list[int] = []
        self.offers = True
        self.ranges: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/simple"


class IndexHandler(http.server.BaseHTTPRequestHandler):
    server: Index

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        start = 0
        if self.path == "/simple/rapidocr/":
            name = self.server.wheel.name if self.server.offers else "rapidocr-1.0-py3-none-any.whl"
            body = f'<a href="../../files/{name}#sha256=00">{name}</a>'.encode()
        elif self.path == f"/files/{self.server.wheel.name}":
            self.server.ranges.append(self.headers.get("Range", ""))
            start = int(self.headers.get("Range", "bytes=0-")[len("bytes=") : -1])
            body = self.server.content[start:]
        else:
            self.send_error(404)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.cut_after and not self.path.endswith("/"):
            body = body[: self.server.cut_after.pop(0)]
        self.wfile.write(body)


@pytest.fixture
def index(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    monkeypatch.setattr("imgproc_local.vision.models.fetch.RETRY_PAUSE_S", 0)
    for variable in download.INDEX_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    with Index(wheel) as server:
        monkeypatch.setenv("PIP_INDEX_URL", server.url + "/")
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_an_interrupted_download_is_resumed(models: ModelStore, index: Index) -> None:
    index.cut_after = [300, 0]
    with pytest.raises(ModelUnusable, match="again to resume"):
        download.pull(models, ignore_progress)
    check_nothing_installed(models)
    download.pull(models, ignore_progress)
    check_installed(models)
    assert index.ranges == ["", "bytes=300-", "bytes=300-"]
    assert list(models.partial_folder.iterdir()) == []


def test_the_wheel_is_downloaded_for_another_machine(models: ModelStore, index: Index, tmp_path: Path) -> None:
    download.pull_to(tmp_path / "usb", ignore_progress)
    assert [path.name for path in (tmp_path / "usb").iterdir()] == [index.wheel.name]
    model_files.import_networks(models, tmp_path / "usb", ignore_progress)
    check_installed(models)


@pytest.mark.parametrize("failure", ["other content", "more content", "not offered", "no index", "no server"])
def test_a_failing_index_installs_nothing(
    models: ModelStore, index: Index, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    problem = {
        "other content": "is not the expected file",
        "more content": "sent more bytes",
        "not offered": "does not offer",
        "no index": "answered with 404",
        "no server": "can't be reached",
    }[failure]
    if failure == "other content":
        index.content = b"x" * len(index.content)
    elif failure == "more content":
        index.content += b"x"
    elif failure == "not offered":
        index.offers = False
    elif failure == "no index":
        monkeypatch.setenv("PIP_INDEX_URL", index.url + "/other")
    else:
        monkeypatch.setenv("PIP_INDEX_URL", "http://user:secret@127.0.0.1:9/simple")
    with pytest.raises(ModelUnusable, match=problem) as raised:
        download.pull(models, ignore_progress)
    assert "secret" not in raised.value.message
    check_nothing_installed(models)
