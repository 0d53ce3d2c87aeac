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
from imgproc_local.vision.management import tasks
from imgproc_local.vision.models.catalogue import ModelFile
from imgproc_local.vision.models.install import ImportOptions
from imgproc_local.vision.models.store import ModelStore
from imgproc_local.vision.ocr import model_files
from tests.support.installed import ignore_progress, skip_self_test

CONTENTS = {model_files.DETECTOR_FILE: b"detector" * 400, model_files.RECOGNISER_FILE: b"recogniser" * 900}


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel with small files in place of the networks, which the modules expect from now on."""
    expected = {
        name: ModelFile(model_files.NETWORKS[name].file, len(content), hashlib.sha256(content).hexdigest())
        for name, content in CONTENTS.items()
    }
    path = tmp_path / "rapidocr-3.10.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in CONTENTS.items():
            archive.writestr(expected[name].file, content)
    data = path.read_bytes()
    file = ModelFile(path.name, len(data), hashlib.sha256(data).hexdigest())
    monkeypatch.setattr(model_files, "NETWORKS", expected)
    monkeypatch.setattr(model_files, "WHEEL", file)
    return path


@pytest.fixture
def models(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "models")


def import_wheel(models: ModelStore, path: Path) -> None:
    tasks.import_(models, [path], ImportOptions(), skip_self_test, ignore_progress)


def check_installed(models: ModelStore) -> None:
    folder = model_files.installed_folder(models.folder)
    assert folder is not None
    assert {name: (folder / name).read_bytes() for name in CONTENTS} == CONTENTS
    model_files.verify(models, ignore_progress)
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
        model_files.verify(models, ignore_progress)
    models.remove(model_files.NAME)
    check_nothing_installed(models)


def test_neither_another_wheel_nor_a_folder_of_the_users_own_is_touched(models: ModelStore, wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("more", "content")
    with pytest.raises(ModelUnusable, match="has changed"):
        import_wheel(models, wheel)
    check_nothing_installed(models)
    own = models.folder / model_files.NAME
    own.mkdir(parents=True)
    (own / "network.onnx").write_bytes(b"mine")
    for call in (models.remove, models.require_not_installed):
        with pytest.raises(ModelUnusable, match="ocr is not an installed model"):
            call(model_files.NAME)
    assert (own / "network.onnx").read_bytes() == b"mine"


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
    monkeypatch.setattr("imgproc_local.vision.models.download.RETRY_PAUSE_S", 0)
    for variable in model_files.INDEX_VARIABLES:
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
        model_files.pull(models, ignore_progress)
    check_nothing_installed(models)
    model_files.pull(models, ignore_progress)
    check_installed(models)
    assert index.ranges == ["", "bytes=300-", "bytes=300-"]
    assert list(models.partial("ocr").iterdir()) == []


def test_the_wheel_is_downloaded_for_another_machine(models: ModelStore, index: Index, tmp_path: Path) -> None:
    model_files.pull_to(tmp_path / "usb", ignore_progress)
    assert [path.name for path in (tmp_path / "usb").iterdir()] == [index.wheel.name]
    import_wheel(models, tmp_path / "usb")
    check_installed(models)


@pytest.mark.parametrize(
    ("failure", "problem"),
    [
        ("other content", "is not the expected file"),
        ("more content", "sent more bytes"),
        ("not offered", "does not offer"),
        ("no index", "answered with 404"),
        ("no server", "can't be reached"),
    ],
)
def test_a_failing_index_installs_nothing(
    models: ModelStore, index: Index, monkeypatch: pytest.MonkeyPatch, failure: str, problem: str
) -> None:
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
        model_files.pull(models, ignore_progress)
    assert "secret" not in raised.value.message
    check_nothing_installed(models)
