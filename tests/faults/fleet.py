"""Clients that load a server while it is killed, and the checks after it has finished their jobs."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.faults import disk
from tests.faults.server_process import SOURCE, serving
from tests.support import pictures
from tests.support.worker_pool import wait_until

CLIENTS = 4
OPEN_JOBS_PER_CLIENT = 6
"""More are not dispatched, so that the last start has an end."""
DRAIN_TIMEOUT_S, POLL_S = 600, 0.2
FINAL = ("completed", "failed")
REGENERATE_SHARE = 0.1
"""The share of requests that have a text of a finished job written anew."""


class Fleet:
    """The clients and the responses they received.

    `accepted` has the jobs by id with their requests, `finals` the first final state of each, `regenerated` the jobs of
    which a text was accepted to be written anew.
    """

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
        self.regenerated: set[str] = set()
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
        """End the clients; after that, only `poll` changes the recorded responses."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _client(self, rng: random.Random) -> None:
        mine: list[str] = []
        with httpx.Client(headers={"X-API-Key": self._key}, timeout=60) as client:
            while not self._stop.is_set():
                root = self.root
                if root is None:
                    time.sleep(0.01)
                    continue
                try:
                    self.step(client, root, rng, mine)
                except httpx.TransportError:
                    time.sleep(0.02)  # the server was killed; the next one is being started
                except Exception as error:
                    self.surprises.append(repr(error))
                    raise

    def step(self, client: httpx.Client, root: str, rng: random.Random, mine: list[str]) -> None:
        """One request of a client, whose jobs are `mine`."""
        mine[:] = [job_id for job_id in mine if job_id in self.accepted]
        waiting = [job_id for job_id in mine if job_id not in self.finals]
        with_texts = [job_id for job_id in mine if self._has_texts(job_id)]
        if with_texts and rng.random() < REGENERATE_SHARE:
            self._regenerate(client, root, rng, rng.choice(with_texts))
        elif len(waiting) < self._open_jobs and rng.random() < 0.7:
            mine += self._dispatch(client, root, rng)
        elif mine:
            # jobs that are known to be final are polled again too: their state must not change
            self.poll(client, root, rng.choice(waiting or mine if rng.random() < 0.8 else mine))

    def forget(self, job_id: str) -> None:
        """Expect no more of a job that its client has deleted."""
        del self.accepted[job_id], self.finals[job_id]
        self.regenerated.discard(job_id)

    def _dispatch(self, client: httpx.Client, root: str, rng: random.Random) -> list[str]:
        operation = rng.choice(list(self._pictures))
        name, picture = rng.choice(self._pictures[operation])
        form: dict[str, Any] = {}
        if operation in ("analyze", "process"):
            form["languages"] = rng.choice([["en"], ["de", "fr"], ["en", "ja", "ar"]])
        if operation in ("convert", "process"):
            form["format"] = rng.choice(["webp", "avif"])
            form |= {"widths": rng.choice(["", "16,40"]), "only_smaller": rng.choice(["true", "false"])}
        if rng.random() < 0.5:
            # half of the uploads have their own content: bytes after the end of a JPEG are not part of the picture
            picture += b"\0" * (next(self._numbers) % 1000 + 1) if name.endswith(".jpg") else b""
        answer = client.post(f"{root}/api/v1/images/{operation}", files={"image": (name, picture)}, data=form)
        if answer.status_code != 202:
            self.surprises.append(f"{operation}: {answer.status_code} {answer.text}")
            return []
        job_id: str = answer.json()["data"]["job_id"]
        self.accepted[job_id] = {"operation": operation, **form}
        return [job_id]

    def _has_texts(self, job_id: str) -> bool:
        return job_id in self.finals and bool(self.finals[job_id]["image"]["translations"])

    def _regenerate(self, client: httpx.Client, root: str, rng: random.Random, job_id: str) -> None:
        image = self.finals[job_id]["image"]
        languages = [text["language_code"] for text in image["translations"]]
        chosen = rng.sample(languages, rng.randint(1, len(languages)))  # they are written in one pass
        texts = [{"image_id": image["id"], "language_code": language} for language in chosen]
        answer = client.post(f"{root}/api/v1/translations/regenerate", json={"texts": texts})
        if answer.status_code == 202 and "problem" not in answer.text:
            self.regenerated.add(job_id)
        else:
            self.surprises.append(f"{job_id}, {chosen}: {answer.status_code} {answer.text}")

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


def finish_and_check(fleet: Fleet, folder: Path, key: str, program: Sequence[str | Path] = SOURCE) -> int:
    """Have a server that is not killed finish all jobs, stop it, and check every answer and the folder.

    Returns the number of stages that were given up because the process ended three times while they ran.
    Raises: AssertionError.
    """
    with serving(folder, program=program) as server:
        root = server.wait_ready()
        with httpx.Client(headers={"X-API-Key": key}, timeout=60) as client:
            wait_until_finished(fleet, client, root, folder)
        assert server.terminate() == 0, server.output()
    assert not fleet.surprises, fleet.surprises[:5]
    interrupted = 0
    for job_id, request in fleet.accepted.items():
        final = fleet.finals[job_id]
        for error in final.get("errors", []):
            last_traceback = server.log.read_text().rpartition("Traceback")[2][-3000:]
            assert error["message"].startswith("Interrupted"), (job_id, error, last_traceback)
            interrupted += 1
        if final["status"] == "completed" and "languages" in request:
            assert [entry["language_code"] for entry in final["image"]["translations"]] == request["languages"]
    disk.check_folder(folder)
    lost = fleet.regenerated - disk.jobs_with_regenerations(folder)
    assert not lost, f"requests to write a text anew that were answered with 202 are lost: {lost}"
    return interrupted


def wait_until_finished(fleet: Fleet, client: httpx.Client, root: str, folder: Path) -> None:
    """Wait until every job is final and the queue is empty, then ask once more for every job."""

    def unfinished() -> set[str]:
        for job_id in fleet.accepted.keys() - fleet.finals.keys():
            fleet.poll(client, root, job_id)
        return fleet.accepted.keys() - fleet.finals.keys()

    assert wait_until(lambda: not unfinished(), DRAIN_TIMEOUT_S, POLL_S), f"not final: {unfinished()}"
    wait_queue_empty(folder)
    for job_id in fleet.accepted:
        fleet.poll(client, root, job_id)


def wait_queue_empty(folder: Path) -> None:
    """Wait until no stage and no text is left to process, also of requests whose 202 was lost with the process."""

    def waiting() -> list[str]:
        with disk.database(folder) as rows:
            found = rows.execute(
                """SELECT 'stage' FROM stages WHERE state IN ('pending', 'running')
                UNION SELECT 'text' FROM regenerations WHERE state IN ('pending', 'running')"""
            )
            return [row[0] for row in found]

    assert wait_until(lambda: not waiting(), DRAIN_TIMEOUT_S, POLL_S), f"left in the queue: {waiting()}"
