"""A disk that is full or can't be written: uploads are refused with the reason, nothing is lost, and work continues."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from imgproc_local.api import service as api_service
from imgproc_local.domain.errors import StorageFailed
from tests.faults import disk
from tests.faults.server_process import make_key, serving
from tests.support import pictures
from tests.support.service import GatedDescriber, Running, Service
from tests.support.worker_pool import wait_until

TMPFS_BYTES = 3 * 1024 * 1024
REQUESTS, STUCK_S = 8, 1
THREADS_AT_MOST = 32
"""Those of asyncio's executor."""


class FullDisk:
    """Replaces `os.fsync`: while `is_full` is set, it fails as on a full disk. `refused` counts these failures."""

    def __init__(self, fsync: Callable[[int], None]) -> None:
        self._fsync = fsync
        self.is_full = False
        self.refused = 0

    def __call__(self, descriptor: int) -> None:
        if self.is_full:
            self.refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._fsync(descriptor)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    full_disk = FullDisk(os.fsync)
    monkeypatch.setattr("imgproc_local.storage.blobs.os.fsync", full_disk)
    return full_disk


def stored_state(service: Running) -> tuple[list[str], list[Path], int, int]:
    """What an upload changes: the stored files, the incoming files, the number of jobs, and the balance."""
    folder = service.services.config.data_dir
    balance = service.client.get("/credits/balance").json()["data"]["balance"]
    return sorted(disk.stored_files(folder)), disk.incoming_files(folder), disk.count_jobs(folder), balance


def pragma(service: Running, statement: str) -> Any:
    """Run a PRAGMA on the connection that writes."""
    rows = service.run(service.services.store.database._writer.execute_fetchall(f"PRAGMA {statement}"))
    return list(rows)


def test_upload_to_a_full_disk_is_refused_with_the_reason_and_leaves_nothing(
    service: Running, full_disk: FullDisk
) -> None:
    before = stored_state(service)
    full_disk.is_full = True
    answer = service.upload("process", pictures.jpeg(seed=11))
    assert answer.status_code == 503
    assert "full" in answer.json()["message"]
    assert int(answer.headers["Retry-After"]) > 0
    refused = httpx.get(f"{service.root}/healthz")  # the database may still have room in its own file
    assert (refused.status_code, "full" in refused.json()["message"]) == (503, True)
    full_disk.is_full = False
    assert wait_until(lambda: httpx.get(f"{service.root}/healthz").status_code == 200)
    assert stored_state(service) == before
    assert service.upload("process", pictures.jpeg(seed=11)).status_code == 202


def test_upload_without_space_for_the_database_leaves_nothing(gated: Running, describer: GatedDescriber) -> None:
    describer.open.clear()  # so that nothing but the uploads changes what is stored
    [[pages]] = pragma(gated, "page_count")
    pragma(gated, f"max_page_count = {pages}")

    def send(seed: int) -> httpx.Response:
        return gated.upload("analyze", pictures.jpeg(64, 48, seed))

    seed, accepted = 0, 0
    while send(seed).status_code == 202:  # the last pages have room for a few
        seed, accepted = seed + 1, accepted + 1
        assert accepted < 500
    before = stored_state(gated)
    assert before[1:3] == ([], accepted)
    refused = send(seed + 1)
    assert refused.status_code == 503
    assert "full" in refused.json()["message"]
    assert stored_state(gated) == before
    pragma(gated, "max_page_count = 1000000000")
    describer.open.set()
    job_id = send(seed + 2).json()["data"]["job_id"]
    assert gated.final(job_id)["status"] == "completed"


def test_stage_whose_result_does_not_fit_on_the_disk_is_finished_later(
    gated: Running, describer: GatedDescriber, full_disk: FullDisk
) -> None:
    job_id = gated.dispatch("process", pictures.jpeg(640, 480, seed=14))["job_id"]
    # the upload is stored; from now on no result can be
    full_disk.is_full = True
    second = gated.upload("process", pictures.jpeg(seed=15))
    assert second.status_code == 503
    assert wait_until(lambda: full_disk.refused >= 3), "storing the result is tried three times"
    assert gated.job(job_id)["status"] not in ("completed", "failed")
    full_disk.is_full = False
    assert gated.final(job_id)["status"] == "completed"
    assert gated.process("optimize", pictures.jpeg(seed=16))["status"] == "completed", "the lanes still run"


def test_while_the_database_can_not_be_written_health_is_503_and_afterwards_what_ran_is_finished(
    gated: Running, describer: GatedDescriber
) -> None:
    health = f"{gated.root}/healthz"
    describer.open.clear()
    jobs = [gated.dispatch("analyze", pictures.jpeg(seed=seed))["job_id"] for seed in range(3)]
    assert httpx.get(health).status_code == 200
    pragma(gated, "query_only = ON")
    describer.open.set()
    assert wait_until(lambda: describer.described == 1), "the running stage ends"
    time.sleep(1.1)  # the result of a test counts for a second
    refused = httpx.get(health)
    assert (refused.status_code, "can't be written" in refused.json()["message"]) == (503, True)
    assert gated.upload("process", pictures.jpeg()).status_code == 503
    assert gated.job(jobs[0])["status"] == "analyzing", "an outcome that was not stored is not reported"
    pragma(gated, "query_only = OFF")
    assert wait_until(lambda: httpx.get(health).status_code == 200)
    assert [gated.final(job_id)["status"] for job_id in jobs] == ["completed"] * 3


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder that holds `TMPFS_BYTES` and no more."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    place = tmp_path / "tiny"
    place.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES}", "tmpfs", str(place)]
    mounted = subprocess.run(options, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"a small disk can't be mounted here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(ballast: Path) -> None:
    """Write until the disk is full."""
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="space"):
        while file.write(bytes(4096)):
            pass


def test_server_on_a_full_disk_refuses_recovers_and_stays_consistent(tiny_disk: Path) -> None:
    folder = tiny_disk / "data"
    key = make_key(folder)
    ballast = tiny_disk / "ballast"
    with serving(folder) as server:
        url = server.wait_ready()
        with Service(url, key) as service:

            def send(seed: int) -> httpx.Response:
                return service.upload("process", pictures.jpeg(400, 300, seed))

            accepted = [send(1)]
            fill(ballast)
            refused = send(2)
            assert refused.status_code == 503, refused.text
            assert "full" in refused.json()["message"]
            assert service.client.get("/credits/balance").status_code == 200, "reading still works"
            assert wait_until(lambda: httpx.get(f"{url}/healthz").status_code == 503)
            assert server.process.poll() is None
            ballast.unlink()
            accepted.append(send(3))
            for answer in accepted:
                assert answer.status_code == 202, answer.text
                assert service.final(answer.json()["data"]["job_id"])["status"] == "completed"
            assert wait_until(lambda: httpx.get(f"{url}/healthz").status_code == 200)
        assert server.terminate() == 0, server.output()
    disk.check_folder(folder)


def test_health_requests_do_not_queue_up_behind_a_stuck_database(
    gated: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def stuck() -> None:
        asked.append(time.monotonic())
        await asyncio.sleep(STUCK_S)
        raise StorageFailed("The database is held by another process; nothing was stored.")

    monkeypatch.setattr(gated.services.jobs, "check_writable", stuck)
    with ThreadPoolExecutor(REQUESTS) as callers:
        codes = list(callers.map(lambda _: httpx.get(f"{gated.root}/healthz").status_code, range(REQUESTS)))
    assert codes == [503] * REQUESTS
    assert len(asked) <= 3


def test_health_requests_after_a_failure_begin_no_new_test_at_once(
    gated: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def fail() -> None:
        asked.append(None)
        raise StorageFailed("The data folder can't be written; nothing was stored.")

    monkeypatch.setattr(api_service, "_BEAT_EVERY_S", 3600.0)
    monkeypatch.setattr(gated.services.jobs, "check_writable", fail)
    answers = [httpx.get(f"{gated.root}/healthz") for _ in range(REQUESTS)]
    assert {(answer.status_code, "can't be written" in answer.json()["message"]) for answer in answers} == {(503, True)}
    assert len(asked) == 1


def test_health_is_answered_while_all_threads_wait_for_a_disk_that_hangs(
    gated: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_service, "_BEAT_TIMEOUT_S", 0.2)
    health, disk_answers = f"{gated.root}/healthz", threading.Event()

    async def hang() -> list[asyncio.Future[bool]]:
        return [asyncio.ensure_future(asyncio.to_thread(disk_answers.wait)) for _ in range(THREADS_AT_MOST)]

    hanging = gated.run(hang())
    try:
        assert wait_until(lambda: "folder could not be written within" in httpx.get(health).json()["message"])
        assert httpx.get(health).status_code == 503
    finally:
        disk_answers.set()
    monkeypatch.undo()
    assert wait_until(lambda: httpx.get(health).status_code == 200)
    assert wait_until(lambda: all(each.done() for each in hanging))


def test_health_waits_for_one_slow_start_of_a_worker_and_keeps_it(
    gated: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_service, "_BEAT_TIMEOUT_S", 0.2)
    health, ready, started = f"{gated.root}/healthz", threading.Event(), []

    def start() -> None:
        started.append(None)
        ready.wait()

    monkeypatch.setattr(gated.services.engine.workers, "check_start", start)
    try:
        expected = "No process that works on pictures could be started within 0.2 seconds."
        assert wait_until(lambda: httpx.get(health).json()["message"] == expected)
        assert {httpx.get(health).status_code for _ in range(2)} == {503}
        assert len(started) == 1
    finally:
        ready.set()
    monkeypatch.undo()
    assert wait_until(lambda: httpx.get(health).status_code == 200)
