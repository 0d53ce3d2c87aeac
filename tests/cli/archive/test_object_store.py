"""An S3-compatible server on loopback as the store of an archive: reading, listing, writing, and its failures."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.archive import stores
from imgproc_local.archive.stores import ObjectStore
from tests.support import pictures

pytest.importorskip("flask")
moto_server = pytest.importorskip("moto.server")
s3fs = pytest.importorskip("s3fs")

BUCKET = "museum"
JPEG = pictures.jpeg(64, 48)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The file system of s3fs, with an empty bucket. The environment has what AWS's own tools read."""
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3fs.S3FileSystem.clear_instance_cache()
    files = s3fs.S3FileSystem()
    files.mkdir(BUCKET)
    yield files
    if files.exists(BUCKET):
        files.rm(BUCKET, recursive=True)
    server.stop()


@pytest.fixture
def store(bucket: Any) -> ObjectStore:
    return ObjectStore(f"s3://{BUCKET}/scans")


def listed(store: ObjectStore, exclude: str | None = None) -> list[str]:
    return [each.key for each in store.objects(exclude)]


def test_objects_are_written_and_read(store: ObjectStore, bucket: Any, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(JPEG)
    digest = hashlib.sha256(JPEG).hexdigest()
    key = "west wing/é #1 50%?.jpg"
    path = f"{BUCKET}/scans/{key}"
    assert store.create(key, file)
    assert [store.sha256(key), store.fetch(key, tmp_path / "copy")] == [digest, digest]
    assert (tmp_path / "copy").read_bytes() == JPEG
    assert bucket.info(path)["ContentType"] == "image/jpeg"
    file.write_bytes(b"other")
    assert not store.create(key, file), "an object that exists is not replaced"
    assert bucket.cat_file(path) == JPEG
    store.put(key, file)
    assert bucket.cat_file(path) == b"other"
    file.write_bytes(b"")
    store.put("empty.csv", file)
    assert [store.exists("empty.csv"), store.exists("other.csv")] == [True, False]
    assert [store.keys("west wing"), store.keys("east wing")] == [[key], []]
    store.remove(key)
    with pytest.raises(FileNotFoundError):
        store.sha256(key)


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


def test_a_bucket_that_does_not_exist_and_a_store_that_does_not_answer_are_os_errors(
    bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError):
        listed(ObjectStore("s3://nowhere/scans"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(OSError, match="9"):
        ObjectStore(f"s3://{BUCKET}/scans").sha256("one")
