"""Exports that are interrupted: by clients, by the service, and by damage in the data folder."""

from __future__ import annotations

import json
import logging
import socket
import threading
from pathlib import Path

import httpx
import pytest
from PIL import Image

from imgproc_local.domain.errors import StageCancelled
from imgproc_local.domain.image import Format
from imgproc_local.domain.job import Job
from imgproc_local.engine.results import TextsWork
from imgproc_local.server import Limits
from tests.support import pictures
from tests.support.exports import add, archive, content, post
from tests.support.finished import Result
from tests.support.service import Running, running
from tests.support.worker_pool import WAIT_S, wait_until

LARGE = 9_000_000
"""More bytes than the buffers of a connection hold, and than an export holds in memory."""


def begin_export(service: Running, *, write_texts: bool = False) -> socket.socket:
    """A connection on which an archive has begun. Its buffers are too small for the archive."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    connection.settimeout(30)
    connection.connect(("127.0.0.1", int(service.root.rpartition(":")[2])))
    body = json.dumps({"write_texts": write_texts, "variants": ["optimized"]}).encode()
    head = f"POST /api/v1/exports HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {service.key}\r\nConnection: close\r\n"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
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
    return service.services.exporter.running.total()


def add_large(service: Running, count: int = 3) -> list[Job]:
    return [
        add(service, label, optimized=Result(content(label, LARGE), Format.JPEG))
        for label in (f"{service.account} {number}" for number in range(count))
    ]


def test_a_client_that_leaves_frees_its_export(fresh: Running, caplog: pytest.LogCaptureFixture) -> None:
    add_large(fresh)
    with begin_export(fresh):
        assert running_exports(fresh) == 1
    assert wait_until(lambda: running_exports(fresh) == 0)
    assert "The connection was closed" in caplog.text
    assert len(archive(post(fresh, variants=["optimized"]))) == 5
    large = pictures.encoded(Image.effect_noise((1600, 1200), 90), quality=100)
    for number in range(8):
        add(fresh, f"a-{number}", optimized=Result(large, Format.JPEG))
    with begin_export(fresh, write_texts=True):
        pass
    assert wait_until(lambda: running_exports(fresh) == 0)
    assert list(fresh.services.blobs.incoming_folder.iterdir()) == [], "no temporary file is left"


def test_an_account_runs_two_exports_at_once(service: Running) -> None:
    add_large(service)
    with begin_export(service), begin_export(service):
        refused = post(service)
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        page = service.page_session()
        assert httpx.post(f"{service.root}/local/exports", headers=page, json={}).status_code == 503
        assert post(service, dry_run=True).status_code == 200
        with service.client_for(service.make_key("another")) as other:
            assert other.post("/exports", json={}).status_code == 200
    assert wait_until(lambda: running_exports(service) == 0)
    assert post(service).status_code == 200


def test_a_stop_of_the_service_ends_exports(tmp_path: Path) -> None:
    with running(tmp_path / "data", limits=Limits(stop_s=0.5)) as service:
        add_large(service)
        connection = begin_export(service)
    with connection:
        assert rest(connection) < 3 * LARGE


def test_an_export_that_writes_texts_ends_with_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    is_writing = threading.Event()

    def write_texts(_: TextsWork, cancelled: threading.Event) -> Path:
        is_writing.set()
        cancelled.wait(2 * WAIT_S)
        raise StageCancelled("It was stopped.")

    with running(tmp_path / "data", limits=Limits(stop_s=0.5)) as service:
        monkeypatch.setattr(service.services.exporter, "_write_texts", write_texts)
        add(service, "a")
        with begin_export(service, write_texts=True):
            assert is_writing.wait(WAIT_S)
        assert wait_until(lambda: running_exports(service) == 0), "the client has left"
        is_writing.clear()
        connection = begin_export(service, write_texts=True)
        assert is_writing.wait(WAIT_S)
    connection.close()
    assert caplog.text.count("An export was broken off. The connection was closed.") == 2
    assert "exceeded" not in caplog.text
    assert "Traceback" not in caplog.text


def test_files_of_a_deleted_job_are_removed_after_the_export(fresh: Running) -> None:
    jobs = add_large(fresh)
    files = [job.file("optimized") for job in jobs]
    stored = [fresh.services.blobs.path(file.sha256) for file in files if file]
    with begin_export(fresh) as connection:
        for job in jobs:
            assert fresh.client.delete(f"/jobs/{job.id}").status_code == 204
        assert all(path.exists() for path in stored)
        assert rest(connection) > 3 * LARGE - 1000
    assert wait_until(lambda: running_exports(fresh) == 0)
    assert not any(path.exists() for path in stored)


@pytest.mark.parametrize("damage", ["removed", "changed"])
def test_an_export_is_broken_off_where_a_file_is_lost_on_the_way(
    fresh: Running, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = add_large(fresh)
    lost = jobs[2].file("optimized")
    assert lost is not None
    path = fresh.services.blobs.path(lost.sha256)
    with begin_export(fresh) as connection, caplog.at_level(logging.WARNING, "imgproc_local"):
        if damage == "removed":
            path.unlink()
        else:
            path.write_bytes(bytes(LARGE))
        assert rest(connection) < 2 * LARGE + 1000, "nothing of the damaged file is sent"
    assert "broken off" in caplog.text
    assert wait_until(lambda: running_exports(fresh) == 0)
