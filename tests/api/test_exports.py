"""`POST /exports`: archives of finished files over HTTP."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import logging
import shutil
import socket
import subprocess
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from imgproc_local.domain.image import Format
from imgproc_local.domain.job import Job, StageName
from imgproc_local.domain.result import TextSource
from imgproc_local.engine.export import exporter
from imgproc_local.server.limits import Limits
from tests.support.finished import Result, add_job, text
from tests.support.service import Running, running

COUNT = 30
LARGE = 3_000_000
"""More bytes than the buffers of a connection hold."""


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Running]:
    """A service without images, for one test."""
    with running(tmp_path / "data") as started:
        yield started


def content(label: str, size: int = 2000) -> bytes:
    """Bytes that stand for a picture: an export reads no pixels."""
    return hashlib.shake_128(label.encode()).digest(size)


def add(service: Running, label: str, **options: Any) -> Job:
    """A finished job with three files, or with what `options` say."""
    options = {
        "optimized": Result(content(f"{label} optimized"), Format.JPEG),
        "converted": Result(content(f"{label} converted"), Format.WEBP),
        "texts": [text("en", label)],
    } | options
    return service.run(add_job(service.services, content(label), **options))


def post(service: Running, **body: Any) -> httpx.Response:
    return service.client.post("/exports", json={"write_texts": False, **body})


def archive(answer: httpx.Response) -> dict[str, bytes]:
    """The files of an archive by name."""
    assert answer.status_code == 200, answer.text
    with zipfile.ZipFile(io.BytesIO(answer.content)) as opened:
        assert opened.testzip() is None
        names = opened.namelist()
        assert len(names) == len(set(names))
        return {name: opened.read(name) for name in names}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, list[Job]]]:
    """A service with `COUNT` images."""
    with running(tmp_path_factory.mktemp("many")) as started:
        yield started, [add(started, f"picture-{number}", name=f"DSC_{number}.JPG") for number in range(COUNT)]


def test_every_picture_is_in_the_archive(many: tuple[Running, list[Job]]) -> None:
    service, jobs = many
    answer = post(service, variants=["optimized", "converted", "original"])
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"] == 'attachment; filename="API Uploads.zip"'
    assert int(answer.headers["content-length"]) == len(answer.content)
    files = archive(answer)
    assert len(files) == 3 * COUNT + 2
    for number in range(COUNT):
        label = f"picture-{number}"
        assert files[f"{label}.jpg"] == content(f"{label} optimized")
        assert files[f"{label}.webp"] == content(f"{label} converted")
        assert files[f"{label}-original.jpg"] == content(label)
    rows = list(csv.DictReader(io.StringIO(files["alt.csv"].decode("utf-8-sig"), newline="")))
    assert [row["file"] for row in rows] == [name for name in files if not name.startswith("alt.")]
    listed = json.loads(files["alt.json"])["images"]
    assert [image["job_id"] for image in listed] == [job.id for job in jobs]
    for file in (file for image in listed for file in image["files"]):
        assert file["size"] == len(files[file["file"]])
        assert file["sha256"] == hashlib.sha256(files[file["file"]]).hexdigest()


def test_unzip_reads_the_archive(many: tuple[Running, list[Job]], tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(post(many[0]).content)
    unzip = shutil.which("unzip")
    if unzip is None:
        pytest.skip("unzip is not installed")
    tested = subprocess.run([unzip, "-tq", path], capture_output=True, text=True, timeout=60, check=False)
    assert tested.returncode == 0, tested.stdout


def test_the_same_request_gives_the_same_bytes_also_after_it_was_broken_off(many: tuple[Running, list[Job]]) -> None:
    service, _ = many
    body = {"variants": ["converted", "original"], "write_texts": False}
    complete = service.client.post("/exports", json=body).content
    with service.client.stream("POST", "/exports", json=body) as broken_off:
        beginning = next(broken_off.iter_raw())
    assert complete.startswith(beginning)
    assert service.client.post("/exports", json=body).content == complete


def test_listed_images_are_exported_in_their_order(many: tuple[Running, list[Job]]) -> None:
    service, jobs = many
    wanted = [jobs[7].image_id, jobs[3].image_id.upper(), jobs[7].image_id]
    files = archive(post(service, images=wanted, variants=["optimized"]))
    assert list(files) == ["picture-7.jpg", "picture-3.jpg", "alt.csv", "alt.json"]


def test_a_dry_run_counts_without_an_archive(many: tuple[Running, list[Job]]) -> None:
    answer = post(many[0], dry_run=True)
    assert answer.json() == {
        "data": {"images": COUNT, "files": 2 * COUNT, "bytes": 2 * COUNT * 2000, "needs_text": [], "missing": []}
    }


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"images": []}, "images"),
        ({"images": ["x"]}, "images"),
        ({"images": ["01arz3ndektsv4rrffq69g5fav"] * 10_001}, "images"),
        ({"images": ["01arz3ndektsv4rrffq69g5fav"], "project_id": "01arz3ndektsv4rrffq69g5fav"}, "project_id"),
        ({"project_id": "x"}, "project_id"),
        ({"variants": []}, "body"),
        ({"variants": ["thumbnail"]}, "body"),
        ({"language": "xx"}, "language"),
        ({"write_texts": "yes"}, "body"),
        ({"nothing": 1}, "body"),
    ],
)
def test_an_invalid_field_is_named(many: tuple[Running, list[Job]], body: dict[str, Any], field: str) -> None:
    answer = many[0].client.post("/exports", json=body)
    assert answer.status_code == 422
    assert list(answer.json()["errors"]) == [field]


def test_an_image_of_another_account_is_not_found(many: tuple[Running, list[Job]]) -> None:
    service, jobs = many
    with service.client_for(service.make_key("another")) as other:
        answer = other.post("/exports", json={"images": [jobs[0].image_id]})
        assert (answer.status_code, list(answer.json())) == (404, ["message"])
        files = archive(other.post("/exports", json={}))
    assert list(files) == ["alt.csv", "alt.json"]


# ---- what is missing ----


def test_images_that_need_a_text_are_listed_before_the_export_starts(fresh: Running) -> None:
    pixels = text("en", "photo-in-blue", "A photo in blue.", TextSource.PIXELS)
    texts = [pixels, text("de", "boot"), text("fr", "photo", "Photo.", TextSource.PIXELS)]
    job = add(fresh, "a", texts=texts, name="a.JPG")
    failed = add(fresh, "b", texts=[], languages=["en", "es"], errors={StageName.ANALYZE: "no"})
    expected = [
        {"image_id": job.image_id, "original_filename": "a.JPG", "languages": ["en", "fr"]},
        {"image_id": failed.image_id, "original_filename": "DSC_0001.JPG", "languages": ["en", "es"]},
    ]
    assert post(fresh, dry_run=True).json()["data"]["needs_text"] == expected
    refused = post(fresh)
    assert refused.status_code == 409
    body = refused.json()
    assert (body["needs_text_total"], body["needs_text"], body["missing_total"], body["missing"]) == (
        2,
        expected,
        0,
        [],
    )
    assert "2 images" in body["message"]

    files = archive(post(fresh, allow_needs_text=True))
    assert "photo-in-blue.jpg" in files
    assert b"photo in blue." not in files["alt.csv"] + files["alt.json"]
    assert b'"needs_text":true' in files["alt.json"]


def test_missing_files_are_listed_with_their_reason(fresh: Running) -> None:
    jobs = [
        add(fresh, "complete"),
        add(fresh, "failed", converted=None, errors={StageName.CONVERT: "no"}),
        add(fresh, "optimized-only", converted=None),
        add(fresh, "texts-only", optimized=None, converted=None),
        add(fresh, "deleted-file", optimized=Result(content("lost"), Format.JPEG)),
        add(fresh, "damaged-file", converted=Result(content("changed"), Format.WEBP)),
    ]
    waiting = add(fresh, "waiting", unfinished=True)
    blobs = fresh.services.blobs
    blobs.path(hashlib.sha256(content("lost")).hexdigest()).unlink()
    blobs.path(hashlib.sha256(content("changed")).hexdigest()).write_bytes(bytes(2000))

    missing = post(fresh, dry_run=True, images=[*(job.image_id for job in jobs), waiting.image_id])
    listed = [(entry["image_id"], entry["variant"], entry["reason"]) for entry in missing.json()["data"]["missing"]]
    assert listed == [
        (jobs[1].image_id, "converted", "failed"),
        (jobs[3].image_id, "optimized", "not_requested"),
        (jobs[3].image_id, "converted", "not_requested"),
        (jobs[4].image_id, "optimized", "missing"),
        (jobs[5].image_id, "converted", "damaged"),
        (waiting.image_id, "optimized", "unfinished"),
        (waiting.image_id, "converted", "unfinished"),
    ]
    refused = post(fresh)
    assert refused.status_code == 409
    assert refused.json()["missing_total"] == 5, "all finished images are exported, not the waiting one"
    files = archive(post(fresh, allow_missing=True))
    assert set(files) == {
        "complete.jpg", "complete.webp", "failed.jpg", "optimized-only.jpg", "deleted-file.webp", "damaged-file.jpg",
        "alt.csv", "alt.json",
    }  # fmt: skip
    assert len(json.loads(files["alt.json"])["missing"]) == 5


def test_best_is_the_smaller_result(fresh: Running) -> None:
    add(fresh, "a", converted=Result(content("a", 1999), Format.WEBP))
    add(fresh, "b", converted=Result(content("b", 2000), Format.WEBP))
    add(fresh, "c", optimized=None, errors={StageName.OPTIMIZE: "no"})
    files = archive(post(fresh, variants=["best"]))
    assert list(files) == ["a.webp", "b.jpg", "c.webp", "alt.csv", "alt.json"]


def test_files_are_named_in_the_chosen_language_and_projects_are_folders(fresh: Running) -> None:
    add(fresh, "a", texts=[text("en", "boat"), text("de", "boot")], project="Hafen")
    add(fresh, "b", texts=[text("en", "boat")], project="Sea")
    add(fresh, "c", texts=[], name="Ärger im Hafen.JPG", project="Sea")
    files = archive(post(fresh, variants=["optimized"], language="de"))
    assert list(files)[:3] == ["Hafen/boot.jpg", "Sea/boat.jpg", "Sea/Ärger im Hafen.jpg"]
    hafen = fresh.services.jobs.page(fresh.run(fresh.services.store.keys.account_id()), 10)
    project_id = fresh.run(hafen)[-1].project_id
    answer = post(fresh, variants=["optimized"], project_id=project_id)
    assert list(archive(answer)) == ["boat.jpg", "alt.csv", "alt.json"]
    assert answer.headers["content-disposition"] == 'attachment; filename="Hafen.zip"'


# ---- interruptions ----


def request_bytes(service: Running, body: dict[str, Any]) -> bytes:
    encoded = json.dumps(body).encode()
    head = f"POST /api/v1/exports HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {service.key}\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(encoded)}\r\n\r\n".encode() + encoded


def begin_export(service: Running) -> socket.socket:
    """A connection on which an archive has begun. Its buffers are too small for the archive."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    connection.settimeout(30)
    connection.connect(("127.0.0.1", int(service.root.rpartition(":")[2])))
    connection.sendall(request_bytes(service, {"write_texts": False, "variants": ["optimized"]}))
    assert connection.recv(1000).startswith(b"HTTP/1.1 200")
    return connection


def rest(connection: socket.socket) -> int:
    """The bytes that are received until the end of the connection."""
    count = 0
    try:
        while data := connection.recv(65536):
            count += len(data)
    except ConnectionError:
        pass
    return count


def running_exports(service: Running) -> int:
    return sum(service.services.exporter._running.values())


def wait_until_no_export_runs(service: Running) -> None:
    deadline = time.monotonic() + 10
    while running_exports(service):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def add_large(service: Running, count: int = 3) -> list[Job]:
    return [
        add(service, f"large-{number}", optimized=Result(content(f"large-{number}", LARGE), Format.JPEG))
        for number in range(count)
    ]


def test_a_client_that_leaves_frees_its_export(fresh: Running) -> None:
    add_large(fresh)
    with begin_export(fresh):
        assert running_exports(fresh) == 1
    wait_until_no_export_runs(fresh)
    assert len(archive(post(fresh, variants=["optimized"]))) == 5


def test_an_account_runs_two_exports_at_once(fresh: Running) -> None:
    add_large(fresh)
    with begin_export(fresh), begin_export(fresh):
        refused = post(fresh)
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        with fresh.client_for(fresh.make_key("another")) as other:
            assert other.post("/exports", json={}).status_code == 200
    wait_until_no_export_runs(fresh)
    assert post(fresh).status_code == 200


def test_a_stop_of_the_service_ends_exports(tmp_path: Path) -> None:
    with running(tmp_path / "data", limits=Limits(stop_s=0.5)) as service:
        add_large(service)
        connection = begin_export(service)
        began = time.monotonic()
    assert time.monotonic() - began < 5
    with connection:
        assert rest(connection) < 3 * LARGE


def test_files_of_a_deleted_job_are_removed_after_the_export(fresh: Running) -> None:
    jobs = add_large(fresh)
    stored = [fresh.services.blobs.path(job.optimized.sha256) for job in jobs if job.optimized]
    with begin_export(fresh) as connection:
        for job in jobs:
            assert fresh.client.delete(f"/jobs/{job.id}").status_code == 204
        assert all(path.exists() for path in stored)
        assert rest(connection) > 3 * LARGE - 1000
    wait_until_no_export_runs(fresh)
    assert not any(path.exists() for path in stored)


@pytest.mark.parametrize("damage", ["removed", "changed"])
def test_an_export_is_broken_off_where_a_file_is_lost_on_the_way(
    fresh: Running, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = add_large(fresh)
    assert jobs[2].optimized is not None
    path = fresh.services.blobs.path(jobs[2].optimized.sha256)
    with begin_export(fresh) as connection, caplog.at_level(logging.WARNING, exporter.__package__.split(".")[0]):
        if damage == "removed":
            path.unlink()
        else:
            path.write_bytes(bytes(LARGE))
        assert rest(connection) < 2 * LARGE + 1000, "nothing of the damaged file is sent"
    assert "broken off" in caplog.text
    wait_until_no_export_runs(fresh)
