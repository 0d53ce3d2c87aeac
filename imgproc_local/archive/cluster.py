"""The cluster that tasks run on: workers of this machine, or the scheduler at an address.

The workers of this machine are children of a process in a session of its own, so that Ctrl+C in a terminal reaches only
the client. That process serves until its standard input is closed, so it ends with the client, and the workers with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import imgproc_local
from imgproc_local.domain.addresses import is_loopback
from imgproc_local.domain.errors import InvalidRequest
from imgproc_local.system.child import program

COMMAND = "archive-cluster"
VISION = {"VISION": 1}
"""The resource of workers that have the vision model: `dask worker --resources VISION=1`."""
SETTINGS = {
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.allowed-failures": 0,
    "distributed.nanny.pre-spawn-environ": {},
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.profile.enabled": False,
}
"""A worker gets one task at a time, and the first death of a worker is reported to the client. Dask does not limit the
memory of workers: what tasks return is small, and the processes that handle a picture have limits of their own.
"""
STOP_S = 10.0
"""How long the workers may take to end before they are killed."""
RESTART_S = 30.0
"""How long a worker that died may be missing before the local cluster ends."""


def run_local_cluster(workers: int, vision_workers: int) -> None:
    """Run the process of the local cluster: print the scheduler's address, and serve until standard input is closed.

    It also ends if a worker that died was not replaced within `RESTART_S`, because Dask gives up on a worker that does
    not start in time. The client then starts another cluster.

    `vision_workers` of the `workers` have the resource that tasks of the vision model need.
    """
    import dask
    from distributed import Nanny, Scheduler, SpecCluster

    dask.config.set(SETTINGS)
    protocol = "tls" if dask.config.get("distributed.comm.require-encryption") else "tcp"
    options = {"nthreads": 1, "memory_limit": 0, "host": "127.0.0.1", "protocol": protocol, "dashboard": False}
    specs = [
        {"cls": Nanny, "options": {**options, "resources": VISION if number < vision_workers else {}}}
        for number in range(workers)
    ]
    # the dashboard is served if bokeh is installed
    scheduler = {"cls": Scheduler, "options": {"host": "127.0.0.1", "protocol": protocol, "dashboard": True}}
    with SpecCluster(workers=dict(enumerate(specs)), scheduler=scheduler) as cluster:
        sys.stdout.write(f"{cluster.scheduler_address}\n")
        sys.stdout.flush()
        closed = threading.Event()

        def wait_for_end() -> None:
            sys.stdin.read()
            closed.set()

        threading.Thread(target=wait_for_end, daemon=True).start()
        complete_at_s = time.monotonic()
        while not closed.wait(1.0) and time.monotonic() - complete_at_s < RESTART_S:
            if len(cluster.scheduler.workers) >= workers:
                complete_at_s = time.monotonic()


@contextmanager
def local_cluster(workers: int, vision_workers: int, environment: Mapping[str, str]) -> Iterator[str]:
    """The address of a scheduler with `workers` processes on this machine, which end with the block.

    `vision_workers` of them may load the vision model. `environment` is added to that of this process.
    Raises: ChildProcessError, if it does not start.
    """
    with subprocess.Popen(  # noqa: S603 - this program itself
        program(COMMAND, str(workers), str(vision_workers)),
        cwd=Path(imgproc_local.__file__).parents[1],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            address = child.stdout.readline().strip()
            if not address:
                raise ChildProcessError("the local cluster of Dask could not be started")
            yield address
        finally:
            child.stdin.close()
            try:
                child.wait(STOP_S)
            except subprocess.TimeoutExpired:
                child.kill()


def require_protected(address: str, *, allow_open: bool) -> None:
    """Refuse an address without TLS beyond this machine: whoever reaches it can run any code on the workers.

    Raises: InvalidRequest.
    """
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if parts.scheme in ("tls", "wss") or allow_open or is_loopback(parts.hostname or ""):
        return
    raise InvalidRequest(
        {
            "scheduler": [
                f"Expected a scheduler with TLS, such as tls://HOST:8786, received {address}: tcp has no"
                " authentication, so whoever reaches the scheduler can run any program on the workers. Add"
                " --allow-open-tcp if the network is closed to others."
            ]
        }
    )
