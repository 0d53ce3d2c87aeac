"""An S3-compatible server on loopback that throttles: an archive from it and to it, and its store by itself."""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.archive import stores
from imgproc_local.archive.stores import ObjectStore
from tests.cli.conftest import Program
from tests.support import pictures
from tests.support.clusters import scheduler_with_tls

pytest.importorskip("distributed")
pytest.importorskip("flask")
s3fs = pytest.importorskip("s3fs")
werkzeug_app = pytest.importorskip("moto.moto_server.werkzeug_app")
moto_server = pytest.importorskip("moto.moto_server.threaded_moto_server")
moto_state = pytest.importorskip("moto.moto_api._internal.models")
serving = pytest.importorskip("werkzeug.serving")
parquet = pytest.importorskip("pyarrow.parquet")

SOURCE, TARGET = "museum/scans", "museum-web"
BOOKKEEPING = {"archive.parquet", "alt.csv"}
TIMEOUT_S = 240
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
THROTTLED_REQUEST = 12
"""Each request whose number is a multiple of this is answered with 503."""
ACCESS_KEY = "key-of-the-environment"

PICTURES = {
    "red bicycle.jpg": pictures.jpeg(),
    "wing/old harbour.png": pictures.png(),
    "wing/changed.jpg": pictures.jpeg(64, 48, seed=1),
    "wing/deleted.jpg": pictures.jpeg(64, 48, seed=2),
    "wing/throttled.jpg": pictures.jpeg(64, 48, seed=3),
}
CHANGED = pictures.jpeg(80, 60, seed=5)


class TroubledStore:
    """moto's server with the troubles of a real store. A request is named as `GET /bucket/key`.

    Each `THROTTLED_REQUEST`th request and all of `throttled` are answered with 503. What `before` has for a request is
    called before the first such.
    """

    def __init__(self) -> None:
        self._moto = werkzeug_app.DomainDispatcherApplication(werkzeug_app.create_backend_app)
        self._lock = threading.Lock()
        self._requests = 0
        self.before: dict[str, Callable[[], None]] = {}
        self.throttled = ""
        self.access_keys: set[str] = set()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
        with self._lock:
            self._requests += 1
            self.access_keys.add(environ["HTTP_AUTHORIZATION"].partition("Credential=")[2].partition("/")[0])
            is_throttled = request == self.throttled or self._requests % THROTTLED_REQUEST == 0
            act = None if is_throttled else self.before.pop(request, None)
        if act is not None:
            act()
        if not is_throttled:
            answer: Iterable[bytes] = self._moto(environ, start_response)
            return answer
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response("503 Slow Down", [("Content-Type", "application/xml")])
        return [SLOW_DOWN]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[TroubledStore]:
    """The server. The environment of the test has its address and credentials."""
    troubled = TroubledStore()
    server = serving.make_server(
        "127.0.0.1", 0, troubled, threaded=True, request_handler=moto_server.MotoRequestHandler
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3fs.S3FileSystem.clear_instance_cache()
    yield troubled
    server.shutdown()
    server.server_close()
    moto_state.moto_api_backend.reset()  # its buckets are global in this process


@pytest.fixture
def files(store: TroubledStore) -> Any:
    """The file system of s3fs, with the pictures in the source."""
    files = s3fs.S3FileSystem(use_listings_cache=False)
    for bucket in ("museum", TARGET):
        files.mkdir(bucket)
    for key, content in PICTURES.items():
        files.pipe_file(f"{SOURCE}/{key}", content)
    return files


def stored(files: Any) -> dict[str, str]:
    """The SHA-256 of each result in the target, by key."""
    keys = (path.removeprefix(f"{TARGET}/") for path in files.find(TARGET))
    results = [key for key in keys if not key.startswith(".") and key not in BOOKKEEPING]
    return {key: hashlib.sha256(files.cat_file(f"{TARGET}/{key}")).hexdigest() for key in results}


def rows(files: Any) -> dict[str, dict[str, Any]]:
    """The row of each source in the table. Fails if one has several."""
    table = parquet.read_table(io.BytesIO(files.cat_file(f"{TARGET}/archive.parquet"))).to_pylist()
    found = {row["source"]: row for row in table}
    assert len(found) == len(table)
    return found


def test_an_archive_on_s3_has_one_row_per_picture_whatever_the_store_does(
    store: TroubledStore, files: Any, program: Program
) -> None:
    folder = f"{SOURCE}/wing"
    store.throttled = f"GET /{folder}/throttled.jpg"
    store.before = {
        f"GET /{folder}/changed.jpg": lambda: files.pipe_file(f"{folder}/changed.jpg", CHANGED),
        f"HEAD /{folder}/deleted.jpg": lambda: files.rm_file(f"{folder}/deleted.jpg"),
    }
    with scheduler_with_tls() as scheduler:
        command = ("archive", f"s3://{SOURCE}", f"s3://{TARGET}", "--scheduler", scheduler, "--effort", "fast")
        ended = program(*command, timeout_s=TIMEOUT_S)
        assert ended.stdout.startswith("2 done, 0 unchanged since an earlier run, 3 failed"), ended.stderr
        assert store.before == {}
        failed = {
            source: row["problems"][0]["message"] for source, row in rows(files).items() if row["outcome"] == "failed"
        }
        assert failed.keys() == {"wing/changed.jpg", "wing/deleted.jpg", "wing/throttled.jpg"}, "no mixed versions"
        assert failed["wing/throttled.jpg"] == "It can't be read: Please reduce your request rate."
        store.throttled = ""
        ended = program(*command, timeout_s=TIMEOUT_S)
    assert ended.stdout.startswith("2 done, 2 unchanged since an earlier run, 0 failed"), ended.stderr
    found = rows(files)
    assert found.keys() == PICTURES.keys()
    assert found["wing/changed.jpg"]["sha256"] == hashlib.sha256(CHANGED).hexdigest()
    assert [source for source, row in found.items() if row["outcome"] != "done"] == ["wing/deleted.jpg"]
    results = (file for row in found.values() for file in (row["optimized"], row["converted"]) if file)
    assert stored(files) == {file["path"]: file["sha256"] for file in results}
    assert store.access_keys == {ACCESS_KEY}


def test_objects_are_written_read_and_listed_and_create_replaces_none(
    files: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_UPLOAD_PART_BYTES", 5 * 1024 * 1024)  # the least that S3 accepts
    objects, file, copy = ObjectStore(f"s3://{TARGET}/scans"), tmp_path / "file", tmp_path / "copy"
    key = "west wing/é #1 50%?.jpg"
    for content in (CHANGED, bytes(range(256)) * (11 * 4096)):  # the second one is stored in parts
        file.write_bytes(content)
        assert objects.create(key, file)
        assert objects.sha256(key) == objects.fetch(key, copy) == hashlib.sha256(content).hexdigest()
        assert files.info(f"{TARGET}/scans/{key}")["ContentType"] == "image/jpeg"
        file.write_bytes(b"1")
        assert not objects.create(key, file)
        assert copy.read_bytes() == content == files.cat_file(f"{TARGET}/scans/{key}")
        objects.put(key, file)
        assert files.cat_file(f"{TARGET}/scans/{key}") == b"1"
        assert [objects.keys("west wing"), objects.keys("east wing")] == [[key], []]
        objects.remove(key)
        assert not objects.exists(key)

    names = ["0/00.jpg", "0/01.jpg", "1/é.jpg"]
    results = [".hidden/1", "old/.imgproc-local-archive/parts/1", "old/2.jpg", "web/1.jpg"]
    for name in (*names, *results, "2/", "a/../../b.jpg", "/etc/c.jpg", "d//e.jpg"):
        files.call_s3("put_object", Bucket=TARGET, Key=f"scans/{name}", Body=b"1")
    files.call_s3("put_object", Bucket=TARGET, Key="scans-of-others/f.jpg", Body=b"1")
    listed = list(objects.objects("web"))
    assert [each.key for each in listed] == names
    version = hashlib.md5(b"1", usedforsecurity=False).hexdigest()
    assert {(each.size_bytes, each.version) for each in listed} == {(1, version)}
    assert caplog.messages.count("Objects below d/ are not in the archive: their keys have an empty part.") == 1
