"""Uploads that break off, orderly stops in the middle of work, and starts that can't be."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
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

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no POSIX signals")

BOUNDARY = b"a-boundary-of-this-test"
WAIT_S = 60
MAX_STOP_S = 20
"""A stop takes less than one second on a quiet machine; an upload that is not ended would delay it by `PATIENT_S`."""


@contextlib.contextmanager
def half_an_upload(root: str, key: str, picture: bytes) -> Iterator[socket.socket]:
    """A connection on which half of an upload was sent."""
    host, port = root.removeprefix("http://").rsplit(":", 1)
    body = b'--%b\r\nContent-Disposition: form-data; name="image"; filename="a.jpg"\r\n\r\n%b\r\n--%b--\r\n'
    whole = body % (BOUNDARY, picture, BOUNDARY)
    head = (
        f"POST /api/v1/images/process HTTP/1.1\r\nHost: {host}\r\nX-API-Key: {key}\r\n"
        f"Content-Type: multipart/form-data; boundary={BOUNDARY.decode()}\r\nContent-Length: {len(whole)}\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as connection:
        connection.sendall(head.encode() + whole[: len(whole) // 2])
        yield connection


def wait_for_incoming(folder: Path, count: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while len(disk.incoming_files(folder)) != count:
        assert time.monotonic() < deadline, disk.incoming_files(folder)
        time.sleep(0.01)


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
        began = time.monotonic()
        assert server.terminate() == 0, server.output()
        assert time.monotonic() - began < MAX_STOP_S
        assert connection.recv(4096).startswith(b"HTTP/1.1 503")
        assert "Traceback" not in server.output(), server.output()
    assert current_owner(folder) is None
    assert disk.incoming_files(folder) == []
    assert disk.count_jobs(folder) == 0
    with serving(folder) as again:
        assert again.terminate() == 0


@pytest.mark.parametrize(("work", "size_px"), [("convert to AVIF", (1500, 1000)), ("optimize", (3000, 2000))])
def test_sigterm_in_mid_stage_stops_in_order_and_the_stage_is_done_after_the_next_start(
    folder: Path, key: str, work: str, size_px: tuple[int, int]
) -> None:
    operation = work.split(maxsplit=1)[0]
    picture = pictures.jpeg(*size_px)
    with serving(folder) as server, httpx.Client(headers={"X-API-Key": key}, timeout=60) as client:
        root = server.wait_ready()
        form = {"format": "avif"} if operation == "convert" else {}
        jobs = []
        for _ in range(4):  # more than run at once
            answer = client.post(f"{root}/api/v1/images/{operation}", files={"image": ("a.jpg", picture)}, data=form)
            assert answer.status_code == 202, answer.text
            jobs.append(answer.json()["data"]["job_id"])
        deadline = time.monotonic() + WAIT_S
        while client.get(f"{root}/api/v1/jobs/{jobs[0]}").json()["data"]["status"] == "pending":
            assert time.monotonic() < deadline
            time.sleep(0.005)
        assert server.terminate() == 0, server.output()
        assert "Traceback" not in server.output(), server.output()
    assert current_owner(folder) is None
    with disk.database(folder) as rows:
        states = [row[0] for row in rows.execute("SELECT state FROM stages ORDER BY id")]
    assert states[-1] == "pending"
    assert "failed" not in states
    with serving(folder) as again, httpx.Client(headers={"X-API-Key": key}, timeout=90) as client:
        root = again.wait_ready()
        for job_id in jobs:
            answer = client.get(f"{root}/api/v1/jobs/{job_id}", headers={"Prefer": "wait=60"})
            assert answer.json()["data"]["status"] == "completed", answer.text
        assert again.terminate() == 0, again.output()
    disk.check_folder(folder)


def test_stop_that_cancels_a_stage_does_not_count_as_an_attempt(folder: Path, key: str) -> None:
    picture = pictures.jpeg(3000, 2000)
    with serving(folder) as server, httpx.Client(headers={"X-API-Key": key}, timeout=60) as client:
        url = f"{server.wait_ready()}/api/v1"
        job_id = client.post(f"{url}/images/optimize", files={"image": ("a.jpg", picture)}).json()["data"]["job_id"]
        deadline = time.monotonic() + WAIT_S
        while client.get(f"{url}/jobs/{job_id}").json()["data"]["status"] == "pending":
            assert time.monotonic() < deadline
            time.sleep(0.005)
        assert server.terminate() == 0, server.output()
    with disk.database(folder) as rows:
        stages = [tuple(row) for row in rows.execute("SELECT state, attempts FROM stages")]
    assert stages in ([("pending", 0)], [("done", 1)])


@pytest.mark.parametrize("arguments", [(), ("--port", "0"), ("--host", "127.0.0.1", "--browser")])
def test_second_server_on_a_folder_names_the_address_of_the_first(
    folder: Path, key: str, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    with serving(folder) as server:
        root = server.wait_ready()
        environment = {"BROWSER": str(browser), "HOME": str(tmp_path)}
        second = command_line("serve", *arguments, environment=environment, data_dir=folder)
        assert second.returncode == 0, second.stderr
        assert str(server.pid) in second.stdout
        assert f"{root}/api/v1" in second.stdout
        assert httpx.get(f"{root}/healthz").status_code == 200
        owner = json.loads((folder / "owner.json").read_bytes())
        assert (owner["pid"], owner["address"]) == (server.pid, root), "the second start took nothing over"
        assert opened.exists() == ("--browser" in arguments)
        if opened.exists():
            page = Path(opened.read_text().strip().removeprefix("file://"))
            assert f"{root}/?token=" in page.read_text()


def test_second_server_with_another_address_is_refused(folder: Path, key: str) -> None:
    with serving(folder) as server:
        for arguments in (("--port", "9"), ("--host", "0.0.0.0")):
            second = command_line("serve", *arguments, data_dir=folder)
            assert second.returncode == 2
            assert str(server.root) in second.stderr
            assert str(server.pid) in second.stderr


def test_second_server_that_is_to_be_air_gapped_does_not_accept_a_server_that_is_not(folder: Path, key: str) -> None:
    for first in (False, True):
        with serving(folder, air_gapped=first) as server:
            second = command_line("--air-gapped", "serve", data_dir=folder)
            assert second.returncode == (0 if first else 2), second.stderr
            assert str(server.root) in (second.stdout if first else second.stderr)
            assert ("air-gapped at" in command_line("doctor", data_dir=folder).stdout) == first


def test_servers_that_start_at_once_agree_on_one(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    servers = [ServerProcess(folder, port, program=PATIENT) for _ in range(3)]
    try:
        deadline = time.monotonic() + WAIT_S
        while sum(server.process.poll() is None for server in servers) > 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        ended = [server.process.poll() for server in servers if server.process.poll() is not None]
        assert ended == [0, 0], servers[0].output()
    finally:
        for server in servers:
            server.kill()


def test_killed_server_releases_its_folder(folder: Path, key: str) -> None:
    with serving(folder) as server:
        server.kill()
    assert current_owner(folder) is None
    with serving(folder) as again:
        assert again.terminate() == 0


def test_port_in_use_is_reported(folder: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refused = command_line("serve", "--no-browser", "--port", str(port), data_dir=folder)
    assert refused.returncode != 0
    assert str(port) in refused.stderr
    assert "--port" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_database_of_a_newer_version_is_refused_and_unchanged(folder: Path, key: str) -> None:
    path = folder / "imgproc.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 999")
    refused = command_line("serve", "--no-browser", "--port", "0", data_dir=folder)
    assert refused.returncode == 2
    assert "newer version" in refused.stderr
    assert "999" in refused.stderr
    assert "Traceback" not in refused.stderr
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (999,)
        assert database.execute("SELECT count(*) FROM keys").fetchone() == (1,)


def test_file_that_is_no_database_is_refused_and_unchanged(folder: Path) -> None:
    folder.mkdir()
    path = folder / "imgproc.db"
    path.write_bytes(b"Dear diary, this is no database. " * 200)
    refused = command_line("serve", "--no-browser", "--port", "0", data_dir=folder)
    assert refused.returncode == 2
    assert "damaged" in refused.stderr
    assert path.read_bytes().startswith(b"Dear diary")


def test_folder_that_can_not_be_created_is_reported(tmp_path: Path) -> None:
    occupied = tmp_path / "occupied"
    occupied.write_text("a file where the folder should be")
    refused = command_line("serve", "--no-browser", "--port", "0", data_dir=occupied / "data")
    assert refused.returncode == 2
    assert "data folder" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write everywhere")
def test_folder_that_can_not_be_written_is_reported(tmp_path: Path) -> None:
    sealed = tmp_path / "sealed"
    sealed.mkdir(mode=0o500)
    refused = command_line("serve", "--no-browser", "--port", "0", data_dir=sealed / "data")
    assert refused.returncode == 2
    assert "can't be written" in refused.stderr


def test_leftovers_of_a_killed_server_are_deleted_at_the_next_start(folder: Path, key: str) -> None:
    with serving(folder) as server, httpx.Client(headers={"X-API-Key": key}, timeout=60) as client:
        url = f"{server.wait_ready()}/api/v1/images/optimize"
        answer = client.post(url, files={"image": ("a.jpg", pictures.jpeg())}, headers={"Prefer": "wait=60"})
        assert answer.json()["data"]["status"] == "completed"
        server.kill()
    stored = set(disk.stored_files(folder))
    half_written = folder / "incoming" / "abc.part"
    half_written.write_bytes(b"half of a picture")
    never_named = folder / "files" / "ab" / ("ab" * 32)
    never_named.parent.mkdir(exist_ok=True)
    never_named.write_bytes(b"renamed, and then the power went")
    with serving(folder) as again:
        assert again.terminate() == 0
    assert not half_written.exists()
    assert set(disk.stored_files(folder)) == stored
    disk.check_folder(folder)


def test_server_starts_again_after_being_killed_during_its_start(folder: Path, key: str) -> None:
    for delay_s in (0.05, 0.2, 0.4):
        server = ServerProcess(folder)
        time.sleep(delay_s)
        server.kill()
    with serving(folder) as last:
        assert last.terminate() == 0
    assert make_key(folder)
