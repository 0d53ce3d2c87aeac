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
BOOKKEEPING = {"archive.parquet", "alt.csv", "report.html"}
FLAGS = ("--languages", "en", "--effort", "fast")
TIMEOUT_S = 240
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
THROTTLED_REQUEST = 12
"""Each request whose number is a multiple of this is answered with 503."""
ACCESS_KEY = "key-of-the-environment"

PICTURES = {
    "red bicycle.jpg": pictures.jpeg(),
    "west wing/old harbour.png": pictures.png(),
    "west wing/changed.jpg": pictures.jpeg(64, 48, seed=1),
    "west wing/deleted.jpg": pictures.jpeg(64, 48, seed=2),
    "west wing/throttled.jpg": pictures.jpeg(64, 48, seed=3),
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


def problem(row: dict[str, Any]) -> str:
    return "".join(f"{row['failure']}: {each['message']}" for each in row["problems"])


def rows(files: Any) -> dict[str, dict[str, Any]]:
    """The row of each source in the table. Fails if one has several."""
    table = parquet.read_table(io.BytesIO(files.cat_file(f"{TARGET}/archive.parquet"))).to_pylist()
    found = {row["source"]: row for row in table}
    assert len(found) == len(table)
    return found


@pytest.fixture
def scheduler(files: Any) -> Iterator[str]:
    """The address of a scheduler with one worker, for all runs of a test."""
    with scheduler_with_tls() as address:
        yield address


def test_an_archive_on_s3_has_one_row_per_picture_whatever_the_store_does(
    store: TroubledStore, files: Any, scheduler: str, program: Program
) -> None:
    folder = f"{SOURCE}/west wing"
    store.throttled = f"GET /{folder}/throttled.jpg"
    store.before = {
        f"GET /{folder}/changed.jpg": lambda: files.pipe_file(f"{folder}/changed.jpg", CHANGED),
        f"HEAD /{folder}/deleted.jpg": lambda: files.rm_file(f"{folder}/deleted.jpg"),
    }
    command = ("archive", f"s3://{SOURCE}", f"s3://{TARGET}", "--scheduler", scheduler, *FLAGS)
    ended = program(*command, timeout_s=TIMEOUT_S)
    assert ended.stdout.startswith("2 done, 0 unchanged since an earlier run, 3 failed"), ended.stderr
    assert store.before == {}
    first = rows(files)
    assert {source: row["outcome"] for source, row in first.items() if row["outcome"] != "done"} == {
        "west wing/changed.jpg": "failed",
        "west wing/deleted.jpg": "failed",
        "west wing/throttled.jpg": "failed",
    }
    assert problem(first["west wing/deleted.jpg"]).startswith("source: It can't be read: ")
    assert problem(first["west wing/throttled.jpg"]) == "source: It can't be read: Please reduce your request rate."
    assert problem(first["west wing/changed.jpg"]).startswith("source: "), "two versions are never mixed"

    store.throttled = ""
    ended = program(*command, timeout_s=TIMEOUT_S)
    assert ended.stdout.startswith("2 done, 2 unchanged since an earlier run, 0 failed"), ended.stderr
    second = rows(files)
    assert second.keys() == PICTURES.keys()
    assert second["west wing/changed.jpg"]["sha256"] == hashlib.sha256(CHANGED).hexdigest()
    assert [source for source, row in second.items() if row["outcome"] != "done"] == ["west wing/deleted.jpg"]
    results = {
        file["path"]: file["sha256"] for row in second.values() for file in (row["optimized"], row["converted"]) if file
    }
    assert stored(files) == results
    assert store.access_keys == {ACCESS_KEY}


# ---- the store by itself ----


@pytest.fixture
def objects(files: Any) -> ObjectStore:
    return ObjectStore(f"s3://{TARGET}/scans")


def listed(objects: ObjectStore, exclude: str | None = None) -> list[str]:
    return [each.key for each in objects.objects(exclude)]


def test_objects_are_written_and_read(objects: ObjectStore, files: Any, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(CHANGED)
    digest = hashlib.sha256(CHANGED).hexdigest()
    key = "west wing/é #1 50%?.jpg"
    path = f"{TARGET}/scans/{key}"
    assert objects.create(key, file)
    assert [objects.sha256(key), objects.fetch(key, tmp_path / "copy")] == [digest, digest]
    assert (tmp_path / "copy").read_bytes() == CHANGED
    assert files.info(path)["ContentType"] == "image/jpeg"
    file.write_bytes(b"other")
    assert not objects.create(key, file), "an object that exists is not replaced"
    assert files.cat_file(path) == CHANGED
    objects.put(key, file)
    assert files.cat_file(path) == b"other"
    file.write_bytes(b"")
    objects.put("empty.csv", file)
    assert [objects.exists("empty.csv"), objects.exists("other.csv")] == [True, False]
    assert [objects.keys("west wing"), objects.keys("east wing")] == [[key], []]
    objects.remove(key)
    with pytest.raises(FileNotFoundError):
        objects.sha256(key)


def test_a_large_file_is_stored_in_parts_and_replaces_nothing(
    objects: ObjectStore, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "UPLOAD_PART_BYTES", 5 * 1024 * 1024)  # the least that S3 accepts
    file = tmp_path / "large"
    file.write_bytes(bytes(range(256)) * (11 * 4096))
    assert objects.create("large.tif", file)
    assert files.info(f"{TARGET}/scans/large.tif")["ETag"].strip('"').endswith("-3")
    assert objects.fetch("large.tif", tmp_path / "copy") == hashlib.sha256(file.read_bytes()).hexdigest()
    assert not objects.create("large.tif", file)


def test_a_listing_has_every_picture(objects: ObjectStore, files: Any, caplog: pytest.LogCaptureFixture) -> None:
    names = [f"{number % 3}/{number:02}.jpg" for number in range(10)]
    others = [
        ".hidden/1",
        "old/.imgproc-local-archive/parts/1",
        "old/2.jpg",
        "web/1.jpg",
        "2/",
        "a/../../b.jpg",
        "/etc/c.jpg",
        "d//e.jpg",
    ]
    for name in names + others:
        files.call_s3("put_object", Bucket=TARGET, Key=f"scans/{name}", Body=b"1")
    files.call_s3("put_object", Bucket=TARGET, Key="scans-of-others/f.jpg", Body=b"1")
    assert listed(objects, exclude="web") == sorted(names)
    assert caplog.messages.count("Objects below d/ are not in the archive: their keys have an empty part.") == 1
    sizes_and_versions = {(each.size_bytes, each.version) for each in objects.objects("web")}
    assert sizes_and_versions == {(1, hashlib.md5(b"1", usedforsecurity=False).hexdigest())}
    assert len(listed(ObjectStore(f"s3://{TARGET}"))) == len(names) + 2
