"""Uploads that break off, orderly stops in the middle of work, and starts that can't be."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from imgproc_local.system.folder_lock import current_owner
from tests.faults import disk
from tests.faults.server_process import PATIENT, ServerProcess, command_line, make_key, serving
from tests.support import pictures
from tests.support.raw_http import connect, statuses
from tests.support.service import Service
from tests.support.worker_pool import wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no POSIX signals")

BOUNDARY = b"a-boundary-of-this-test"


@contextlib.contextmanager
def half_an_upload(root: str, key: str, picture: bytes) -> Iterator[socket.socket]:
    """A connection on which half of an upload was sent."""
    body = b'--%b\r\nContent-Disposition: form-data; name="image"; filename="a.jpg"\r\n\r\n%b\r\n--%b--\r\n'
    whole = body % (BOUNDARY, picture, BOUNDARY)
    head = (
        f"POST /api/v1/images/process HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {key}\r\n"
        f"Content-Type: multipart/form-data; boundary={BOUNDARY.decode()}\r\nContent-Length: {len(whole)}\r\n\r\n"
    )
    with connect(root) as connection:
        connection.sendall(head.encode() + whole[: len(whole) // 2])
        yield connection


def wait_for_incoming(folder: Path, count: int) -> None:
    assert wait_until(lambda: len(disk.incoming_files(folder)) == count), disk.incoming_files(folder)


def test_client_that_disconnects_in_mid_upload_leaves_nothing(folder: Path, key: str) -> None:
    with serving(folder) as server:
        root = server.wait_ready()
        balance = disk.balance(folder)
        with half_an_upload(root, key, pictures.jpeg(1200, 900)):
            wait_for_incoming(folder, 1)
        wait_for_incoming(folder, 0)
        assert disk.stored_files(folder) == {}
        assert disk.count_jobs(folder) == 0
        assert disk.balance(folder) == balance
        assert httpx.get(f"{root}/healthz").status_code == 200
        assert server.terminate() == 0
        assert "Traceback" not in server.output(), server.output()


def test_sigterm_in_mid_upload_answers_503_at_once_and_leaves_nothing(folder: Path, key: str) -> None:
    with (
        serving(folder, program=PATIENT) as server,
        half_an_upload(server.wait_ready(), key, pictures.jpeg(1200, 900)) as connection,
    ):
        wait_for_incoming(folder, 1)
        assert server.terminate() == 0, "it waits for no client"
        assert statuses(connection.recv(4096)) == [503]
        assert "Traceback" not in server.output(), server.output()
    assert current_owner(folder) is None
    assert disk.incoming_files(folder) == []
    assert disk.count_jobs(folder) == 0
    with serving(folder) as again:
        assert again.terminate() == 0


@pytest.mark.parametrize(("work", "size_px"), [("convert", (1500, 1000)), ("optimize", (3000, 2000))])
def test_sigterm_in_mid_stage_stops_in_order_and_the_stage_is_done_after_the_next_start(
    folder: Path, key: str, work: str, size_px: tuple[int, int]
) -> None:
    picture = pictures.jpeg(*size_px)
    with serving(folder) as server, Service(server.wait_ready(), key) as service:
        form = {"format": "avif"} if work == "convert" else {}
        jobs = [service.dispatch(work, picture, **form)["job_id"] for _ in range(4)]  # more than run at once
        assert wait_until(lambda: service.job(jobs[0])["status"] != "pending")
        assert server.terminate() == 0, server.output()
        assert "Traceback" not in server.output(), server.output()
    assert current_owner(folder) is None
    with disk.database(folder) as rows:
        stages = [tuple(row) for row in rows.execute("SELECT state, attempts FROM stages ORDER BY id")]
    assert stages[-1] == ("pending", 0)
    assert set(stages) <= {("pending", 0), ("done", 1)}, "a stage that was cancelled counts as an attempt"
    with serving(folder) as again, Service(again.wait_ready(), key) as service:
        for job_id in jobs:
            assert service.final(job_id)["status"] == "completed"
        assert again.terminate() == 0, again.output()
    disk.check_folder(folder)


def test_second_server_on_a_folder_opens_the_page_of_the_first(folder: Path, key: str, tmp_path: Path) -> None:
    opened, browser = tmp_path / "opened", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    with serving(folder) as server:
        root = server.wait_ready()
        environment = {"BROWSER": str(browser), "HOME": str(tmp_path)}
        quiet = command_line("serve", "--port", "0", environment=environment, data_dir=folder)
        assert (quiet.returncode, f"{root}/api/v1" in quiet.stdout, opened.exists()) == (0, True, False)
        second = command_line("serve", "--browser", environment=environment, data_dir=folder)
        assert second.returncode == 0, second.stderr
        assert str(server.pid) in second.stdout
        assert f"{root}/api/v1" in second.stdout
        owner = json.loads((folder / "owner.json").read_bytes())
        assert (owner["pid"], owner["address"]) == (server.pid, root), "the second start took nothing over"
        page = Path(opened.read_text().strip().removeprefix("file://"))
        assert f"{root}/?token=" in page.read_text()


def test_second_server_that_is_to_be_air_gapped_does_not_accept_a_server_that_is_not(folder: Path, key: str) -> None:
    for first in (False, True):
        with serving(folder, air_gapped=first) as server:
            second = command_line("--air-gapped", "serve", data_dir=folder)
            assert second.returncode == (0 if first else 2), second.stderr
            assert str(server.root) in (second.stdout if first else second.stderr)
            assert ("air-gapped at" in command_line("doctor", data_dir=folder).stdout) == first


def test_servers_that_start_at_once_agree_on_one(folder: Path) -> None:
    servers = [ServerProcess(folder, program=PATIENT) for _ in range(3)]
    try:
        assert wait_until(lambda: sum(server.process.poll() is None for server in servers) == 1)
        ended = [server.process.poll() for server in servers if server.process.poll() is not None]
        assert ended == [0, 0], servers[0].output()
    finally:
        for server in servers:
            server.kill()


def test_a_start_that_can_not_be_is_refused_with_the_reason(folder: Path) -> None:
    def refused(folder: Path, port: object = 0, status: int = 2) -> str:
        done = command_line("serve", "--no-browser", "--port", str(port), data_dir=folder)
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        error = refused(folder, port, status=1)
    assert str(port) in error
    assert "--port" in error
    database = folder.parent / "other" / "imgproc.db"
    database.parent.mkdir()
    database.write_bytes(b"Dear diary, this is no database. " * 200)
    assert "damaged" in refused(database.parent)
    assert database.read_bytes().startswith(b"Dear diary")
    assert "data folder" in refused(database / "data")


def test_server_starts_again_after_being_killed_during_its_start(folder: Path, key: str) -> None:
    for delay_s in (0.05, 0.2, 0.4):
        server = ServerProcess(folder)
        time.sleep(delay_s)
        server.kill()
    assert current_owner(folder) is None
    with serving(folder) as last:
        assert last.terminate() == 0
    assert make_key(folder)
