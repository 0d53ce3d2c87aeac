"""Kills worker processes at random moments under load: no other job fails because of it, and every job ends once.

`python -m tests.ordeals.worker_kills [--kills 50] [--seed N] [--program BINARY]`

A stage may fail only with the signal in its message, and at most as many stages as workers were killed. At the end the
data folder is checked, and no worker is left after the stop of the service.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import httpx

from tests.faults import disk
from tests.faults.fleet import Fleet, wait_until_finished
from tests.faults.server_process import make_key, serving
from tests.ordeals.options import options_of
from tests.support.worker_pool import ends

PAUSE_S = (0.2, 2.5)
"""Between two kills: a worker may be starting, processing a picture, or idle."""
CLIENTS, OPEN_JOBS = 3, 4


def kill_workers(folder: Path, kills: int, seed: int, program: tuple[str, ...]) -> str:
    """A summary of what happened. Raises: AssertionError."""
    rng = random.Random(seed)
    key = make_key(folder)
    killed = 0
    with serving(folder, program=program) as server, Fleet(key, seed, clients=CLIENTS, open_jobs=OPEN_JOBS) as fleet:
        root = fleet.root = server.wait_ready()
        while killed < kills:
            time.sleep(rng.uniform(*PAUSE_S))
            if found := server.workers():
                os.kill(rng.choice(found), signal.SIGKILL)
                killed += 1
        fleet.stop_dispatching()
        with httpx.Client(headers={"X-API-Key": key}, timeout=60) as client:
            wait_until_finished(fleet, client, root, folder)
        left = server.workers()
        assert server.terminate() == 0, server.output()
        assert all(ends(pid, 40) for pid in left), "a worker outlived its service"
    assert not fleet.surprises, fleet.surprises[:5]
    errors = [error["message"] for final in fleet.finals.values() for error in final.get("errors", [])]
    others = [message for message in errors if "SIGKILL" not in message]
    assert not others, others[:5]
    assert len(errors) <= killed, f"{len(errors)} stages failed after {killed} kills"
    disk.check_folder(folder)
    retried = server.output().count("tried again on a fresh worker")
    return (
        f"seed {seed}: {killed} workers killed, {len(fleet.accepted)} jobs, each ended once; "
        f"{retried} stages were done by another worker, {len(errors)} failed"
    )


def main() -> None:
    options = options_of(__doc__, kills=50)
    with tempfile.TemporaryDirectory() as folder:
        print(kill_workers(Path(folder) / "data", options.kills, options.seed, options.program))


if __name__ == "__main__":
    if sys.platform != "linux":
        raise SystemExit("processes are looked up in /proc, which only Linux has")
    main()
