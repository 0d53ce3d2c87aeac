"""A server that is killed at random moments under load loses no job and does none twice.

`FAULT_SEED` repeats a run's moments and choices; `FAULT_KILLS` says how often it is killed (8 here, 50 for a thorough
run): `FAULT_KILLS=50 python -m pytest tests/faults/test_kill.py -s`.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults import disk
from tests.faults.server_process import ServerProcess, make_key, serving
from tests.support import pictures

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is POSIX")

KILLS = int(os.environ.get("FAULT_KILLS", "8"))
SEED = int(os.environ.get("FAULT_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
CLIENTS = 4
OPEN_JOBS_PER_CLIENT = 6
"""More are not dispatched, so that the last start has an end."""
UPTIME_S = (0.25, 2.5)
"""From the start of the process to its killing: sometimes before it answers, mostly in the middle of work."""
DRAIN_TIMEOUT_S = 180
FINAL = ("completed", "failed")


class Fleet:
    """The clients and the responses they received: jobs by id with their requests, and the first final state each."""

    def __init__(
        self,
        key: str,
        seed: int,
        *,
        clients: int = CLIENTS,
        open_jobs: int = OPEN_JOBS_PER_CLIENT,
        still: list[tuple[str, bytes]] | None = None,
    ) -> None:
        self.accepted: dict[str, dict[str, Any]] = {}
        self.finals: dict[str, dict[str, Any]] = {}
        self.surprises: list[str] = []
        self.root: str | None = None
        self._key = key
        self._stop = threading.Event()
        self._numbers = itertools.count()
        self._open_jobs = open_jobs
        self._threads = [threading.Thread(target=self._client, args=(random.Random(seed + n),)) for n in range(clients)]
        if still is None:
            still = [("still.jpg", pictures.jpeg(480, 320, seed)) for seed in range(3)]
            still += [("still.png", pictures.png(160, 120, seed)) for seed in range(2)]
        self._pictures = {
            "analyze": [*still, ("moving.gif", pictures.gif())],
            "optimize": [*still, ("moving.gif", pictures.gif()), ("still.webp", pictures.webp())],
            "convert": still,
            "process": still,
        }

    def __enter__(self) -> Fleet:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_dispatching()

    def stop_dispatching(self) -> None:
        """End the clients; `finals` and `accepted` change no more on their own."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _client(self, choose: random.Random) -> None:
        mine: list[str] = []
        with httpx.Client(headers={"X-API-Key": self._key}, timeout=20) as client:
            while not self._stop.is_set():
                root = self.root
                if root is None:
                    time.sleep(0.01)
                    continue
                try:
                    waiting = [job_id for job_id in mine if job_id not in self.finals]
                    if len(waiting) < self._open_jobs and choose.random() < 0.7:
                        mine += self._dispatch(client, root, choose)
                    elif mine:
                        # jobs that were final once are asked about again, too
                        self.poll(client, root, choose.choice(waiting or mine if choose.random() < 0.8 else mine))
                except httpx.TransportError:
                    time.sleep(0.02)  # it was killed; the next start is on its way
                except Exception as error:
                    self.surprises.append(repr(error))
                    raise

    def _dispatch(self, client: httpx.Client, root: str, choose: random.Random) -> list[str]:
        operation = choose.choice(list(self._pictures))
        name, picture = choose.choice(self._pictures[operation])
        form: dict[str, Any] = {}
        if operation in ("analyze", "process"):
            form["languages"] = choose.choice([["en"], ["de", "fr"], ["en", "ja", "ar"]])
        if operation in ("convert", "process"):
            form["format"] = choose.choice(["webp", "avif"])
        if choose.random() < 0.5:
            # content of its own beside shared content: bytes after the end belong to no picture
            picture += b"\0" * (next(self._numbers) % 1000 + 1) if name.endswith(".jpg") else b""
        answer = client.post(f"{root}/api/v1/images/{operation}", files={"image": (name, picture)}, data=form)
        if answer.status_code != 202:
            self.surprises.append(f"{operation}: {answer.status_code} {answer.text}")
            return []
        job_id: str = answer.json()["data"]["job_id"]
        self.accepted[job_id] = {"operation": operation, **form}
        return [job_id]

    def poll(self, client: httpx.Client, root: str, job_id: str) -> None:
        answer = client.get(f"{root}/api/v1/jobs/{job_id}")
        if answer.status_code != 200:
            self.surprises.append(f"{job_id}: {answer.status_code} {answer.text}")
            return
        data = answer.json()["data"]
        before = self.finals.get(job_id)
        if before is not None and before != data:
            self.surprises.append(f"{job_id} was final as {before} and is now {data}")
        if data["status"] in FINAL:
            self.finals.setdefault(job_id, data)


def wait_all_final(fleet: Fleet, client: httpx.Client, root: str) -> None:
    deadline = time.monotonic() + DRAIN_TIMEOUT_S
    while time.monotonic() < deadline:
        for job_id in fleet.accepted:
            if job_id not in fleet.finals:
                fleet.poll(client, root, job_id)
        if len(fleet.finals) == len(fleet.accepted):
            return
        time.sleep(0.2)
    unfinished = sorted(set(fleet.accepted) - set(fleet.finals))
    raise AssertionError(f"not final after {DRAIN_TIMEOUT_S} s: {unfinished}")


def wait_queue_empty(folder: Path) -> None:
    """Jobs whose 202 got lost with its process are worked on, too."""
    deadline = time.monotonic() + DRAIN_TIMEOUT_S
    while time.monotonic() < deadline:
        with disk.database(folder) as rows:
            if not rows.execute("SELECT 1 FROM stages WHERE state IN ('pending', 'running')").fetchone():
                return
        time.sleep(0.2)
    raise AssertionError("stages are left in the queue")


def last_traceback(log: Path) -> str:
    return log.read_text().rpartition("Traceback")[2][-3000:]


def test_every_accepted_job_reaches_one_final_state_whenever_the_server_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    key = make_key(folder)
    print(f"\nFAULT_SEED={SEED} FAULT_KILLS={KILLS}")
    moments = random.Random(SEED)
    with Fleet(key, SEED) as fleet:
        for _ in range(KILLS):
            server = ServerProcess(folder)
            dies_at = time.monotonic() + moments.uniform(*UPTIME_S)
            try:
                while time.monotonic() < dies_at:
                    fleet.root = server.root
                    assert server.process.poll() is None, server.output()
                    time.sleep(0.005)
            finally:
                server.kill()
                fleet.root = None

    with serving(folder) as server:
        root = server.wait_ready()
        with httpx.Client(headers={"X-API-Key": key}, timeout=20) as client:
            wait_all_final(fleet, client, root)
            wait_queue_empty(folder)
            for job_id in fleet.accepted:
                fleet.poll(client, root, job_id)
        assert server.terminate() == 0, server.output()

    assert not fleet.surprises, fleet.surprises[:5]
    assert len(fleet.accepted) > KILLS, "there was hardly any load"
    interrupted = 0
    for job_id, asked in fleet.accepted.items():
        final = fleet.finals[job_id]
        for problem in final.get("errors", []):
            assert problem["message"].startswith("Interrupted"), (job_id, problem, last_traceback(server.log))
            interrupted += 1
        if final["status"] == "completed" and "languages" in asked:
            assert [entry["language_code"] for entry in final["image"]["translations"]] == asked["languages"]
    disk.check_folder(folder)
    print(
        f"{len(fleet.accepted)} jobs answered 202, {disk.count_jobs(folder)} in the database,"
        f" {interrupted} stages given up after three ends of the process"
    )
