"""Measures how long after its commit a change of a job is received on the event stream of its account.

An account with many finished jobs receives uploads; the client runs in the same process as the service, so the delays
are upper bounds. `python -m tests.bench.events [--jobs 5000] [--uploads 300]`
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from unittest import mock

import httpx

from imgproc_local.domain.job import Job
from imgproc_local.engine.updates import Updates
from imgproc_local.storage.inspection import DATABASE_FILE
from tests.bench.lists import fill
from tests.support import pictures
from tests.support.service import Running, running

TIMEOUT_S = 600.0


class Recorder:
    """When changes were committed and when events were received, in monotonic seconds by job, and the totals."""

    def __init__(self) -> None:
        self.committed: list[tuple[str, float]] = []
        self.received: dict[str, list[float]] = defaultdict(list)
        self.totals: list[tuple[float, dict[str, int]]] = []

    def read(self, service: Running) -> None:
        headers = {"X-API-Key": service.key}
        with httpx.stream("GET", f"{service.url}/events", headers=headers, timeout=None) as answer:
            name = ""
            for line in answer.iter_lines():
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: ") and name == "job":
                    self.received[json.loads(line[6:])["data"]["job_id"]].append(time.monotonic())
                elif line.startswith("data: ") and name == "totals":
                    self.totals.append((time.monotonic(), json.loads(line[6:])))

    def delays_s(self) -> list[float]:
        """For each change the time until the next event of its job; infinite if there was none."""
        return sorted(
            min((instant for instant in self.received[job_id] if instant >= committed), default=float("inf"))
            - committed
            for job_id, committed in self.committed
        )


def measure(folder: Path, jobs: int, uploads: int) -> None:
    with running(folder) as service:
        account_id = service.run(service.services.store.keys.account_id())
    fill(folder / DATABASE_FILE, account_id, jobs)
    recorder = Recorder()
    publish = Updates.publish

    def recorded(updates: Updates, job: Job) -> None:
        recorder.committed.append((job.id, time.monotonic()))
        publish(updates, job)

    with (
        mock.patch.object(Updates, "publish", recorded),
        running(folder) as service,
    ):
        threading.Thread(target=recorder.read, args=(service,), daemon=True).start()
        while not recorder.totals:
            time.sleep(0.01)
        began_s = time.monotonic()
        for number in range(uploads):
            service.dispatch("process", pictures.jpeg(160, 120, number % 30), f"{number}.jpg", languages="en,de")
        while (last := recorder.totals[-1][1])["waiting"] + last["running"] or last["finished"] < uploads:
            assert time.monotonic() < began_s + TIMEOUT_S, last
            time.sleep(0.1)
        took_s = time.monotonic() - began_s
    delays = recorder.delays_s()
    events = sum(map(len, recorder.received.values()))
    instants = [instant for instant, _ in recorder.totals]
    quantiles = statistics.quantiles(delays, n=100)
    print(f"{uploads} uploads in {took_s:.0f} s: {len(delays)} changes, {events} events, {len(instants)} totals")
    print(f"delay p50 {quantiles[49]:.3f} s, p99 {quantiles[98]:.3f} s, longest {delays[-1]:.3f} s")
    print(f"shortest time between totals, as received, {min(b - a for a, b in pairwise(instants)):.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--uploads", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), options.jobs, options.uploads)


if __name__ == "__main__":
    main()
