"""An S3-compatible server on loopback as the store of an archive: reading, listing, writing, and its failures."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.archive import stores
from imgproc_local.archive.stores import BOTOCORE_ATTEMPTS, ObjectStore, Store
from tests.support import pictures

pytest.importorskip("flask")
moto_server = pytest.importorskip("moto.server")
s3fs = pytest.importorskip("s3fs")

BUCKET = "museum"
JPEG = pictures.jpeg(64, 48)
S3FS_ATTEMPTS = 5
last_endpoint: list[str] = []


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets the endpoint and credentials of this process in the way of AWS's own tools."""

    def use(url: str) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "testing")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        monkeypatch.delenv("AWS_PROFILE", raising=False)
        if last_endpoint != [url]:  # a new client costs a second
            s3fs.S3FileSystem.clear_instance_cache()
            last_endpoint[:] = [url]

    return use


@pytest.fixture
def bucket(endpoint: str, environment: Callable[[str], None]) -> Iterator[Any]:
    """The file system of s3fs, with an empty bucket."""
    environment(endpoint)
    files = s3fs.S3FileSystem()
    files.mkdir(BUCKET)
    yield files
    files.rm(BUCKET, recursive=True)


@pytest.fixture
def store(bucket: Any) -> ObjectStore:
    return ObjectStore(f"s3://{BUCKET}/scans")


def listed(store: Store, exclude: str | None = None) -> list[str]:
    return [each.key for each in store.objects(exclude)]


def test_objects_are_written_and_read(store: ObjectStore, bucket: Any, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(JPEG)
    digest = hashlib.sha256(JPEG).hexdigest()
    key = "west wing/é #1 50%?.jpg"
    assert store.create(key, file)
    assert [store.read(key), store.sha256(key), store.read(key, 4)] == [JPEG, digest, JPEG[:4]]
    assert store.fetch(key, tmp_path / "copy") == digest
    assert (tmp_path / "copy").read_bytes() == JPEG
    assert bucket.info(f"{BUCKET}/scans/{key}")["ContentType"] == "image/jpeg"
    file.write_bytes(b"other")
    assert not store.create(key, file), "an object that exists is not replaced"
    assert store.read(key) == JPEG
    store.put(key, file)
    assert store.read(key) == b"other"
    file.write_bytes(b"")
    store.put("empty.csv", file)
    assert (store.read("empty.csv"), store.exists("empty.csv")) == (b"", True)
    assert not store.exists("other.csv")
    assert store.keys("west wing") == [key]
    assert store.keys("east wing") == []
    store.remove(key)
    store.remove(key)
    with pytest.raises(FileNotFoundError):
        store.read(key)


def test_a_large_file_is_stored_in_parts_and_replaces_nothing(
    store: ObjectStore, bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "UPLOAD_PART_BYTES", 5 * 1024 * 1024)  # the least that S3 accepts
    file = tmp_path / "large"
    file.write_bytes(bytes(range(256)) * (11 * 4096))
    assert store.create("large.tif", file)
    assert bucket.info(f"{BUCKET}/scans/large.tif")["ETag"].strip('"').endswith("-3")
    assert store.fetch("large.tif", tmp_path / "copy") == hashlib.sha256(file.read_bytes()).hexdigest()
    assert not store.create("large.tif", file)


def test_a_listing_has_every_picture(store: ObjectStore, bucket: Any, caplog: pytest.LogCaptureFixture) -> None:
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
        bucket.call_s3("put_object", Bucket=BUCKET, Key=f"scans/{name}", Body=b"1")
    bucket.call_s3("put_object", Bucket=BUCKET, Key="scans-of-others/f.jpg", Body=b"1")
    assert listed(store, exclude="web") == sorted(names)
    assert caplog.messages.count("Objects below d/ are not in the archive: their keys have an empty part.") == 1
    sizes_and_versions = {(each.size_bytes, each.version) for each in store.objects("web")}
    assert sizes_and_versions == {(1, hashlib.md5(b"1", usedforsecurity=False).hexdigest())}
    assert len(listed(ObjectStore(f"s3://{BUCKET}"))) == len(names) + 2


def test_a_bucket_that_does_not_exist_is_an_error(bucket: Any) -> None:
    with pytest.raises(FileNotFoundError):
        listed(ObjectStore("s3://nowhere/scans"))


@pytest.mark.parametrize("changes", [1, 9])
def test_versions_of_a_changed_picture_are_never_mixed(
    store: ObjectStore, bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: int
) -> None:
    monkeypatch.setattr(stores, "READ_BYTES", 1000)
    contents = [bytes([number]) * 2500 for number in range(changes + 1)]
    remaining = iter(contents[1:])
    opened = ObjectStore.open

    @contextmanager
    def changing(self: ObjectStore, key: str) -> Iterator[Any]:
        with opened(self, key) as file:
            yield Changing(file)

    class Changing:
        def __init__(self, file: Any) -> None:
            self.file = file

        def read(self, size: int) -> bytes:
            chunk: bytes = self.file.read(size)
            if (content := next(remaining, None)) is not None:
                bucket.pipe_file(f"{BUCKET}/scans/one.jpg", content)
            return chunk

    bucket.pipe_file(f"{BUCKET}/scans/one.jpg", contents[0])
    monkeypatch.setattr(ObjectStore, "open", changing)
    if changes == 1:
        store.fetch("one.jpg", tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == contents[1]
    else:
        with pytest.raises(OSError, match="no longer exists"):
            store.fetch("one.jpg", tmp_path / "copy")


class Throttling(http.server.BaseHTTPRequestHandler):
    """Answers 503 SlowDown to the first requests, then that the object is empty."""

    protocol_version = "HTTP/1.1"
    refusals = 0
    requests = 0

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        type(self).requests += 1
        throttled = self.requests <= self.refusals
        body = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>" if throttled else b""
        self.send_response(503 if throttled else 200)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("refusals", [3, 1000])
def test_a_store_that_throttles_gets_a_bounded_number_of_requests(
    environment: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refusals: int
) -> None:
    monkeypatch.setattr(Throttling, "refusals", refusals)
    monkeypatch.setattr(Throttling, "requests", 0)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Throttling)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment(f"http://127.0.0.1:{server.server_address[1]}")
    file = tmp_path / "one"
    file.write_bytes(b"1")
    try:
        store = ObjectStore(f"s3://{BUCKET}/scans")
        if refusals == 3:
            store.put("one", file)
        else:
            with pytest.raises(OSError, match="rate"):
                store.put("one", file)
        assert Throttling.requests == min(refusals + 1, BOTOCORE_ATTEMPTS * S3FS_ATTEMPTS)
    finally:
        server.shutdown()
        server.server_close()


def test_a_store_that_does_not_answer_is_an_os_error(environment: Callable[[str], None]) -> None:
    environment("http://127.0.0.1:9")
    with pytest.raises(OSError, match="9"):
        ObjectStore(f"s3://{BUCKET}/scans").read("one")
