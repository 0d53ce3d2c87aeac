"""The process that holds the cluster of this machine: Dask's scheduler, and the nannies that start its workers.

All of them speak only TLS, with one certificate that both sides of a connection must have. It is made for this cluster,
and passed to the client and to the workers through pipes, because every user of the machine can read the arguments of a
process. None serves HTTP.
"""

from __future__ import annotations

import pickle
import threading
import time

import dask
from distributed import Nanny, Scheduler, SpecCluster, Worker
from distributed.node import ServerNode
from distributed.security import Security

from imgproc_local.archive.cluster import VISION
from imgproc_local.system.piped_child import Requests

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
RESTART_S = 30.0
"""How long a worker that died may be missing before the local cluster ends."""


class _WithoutHttp(ServerNode):
    def start_http_server(self, *_: object, **__: object) -> None:
        """Open no port: Dask's pages have no authentication, and no setting switches them off."""


class LocalScheduler(_WithoutHttp, Scheduler):
    pass


class LocalWorker(_WithoutHttp, Worker):
    pass


def run(workers: int, vision_workers: int) -> None:
    """Send the scheduler's address and the `Security` of its clients, and serve until the client closes its pipe.

    It also ends if a worker that died was not replaced within `RESTART_S`, because Dask gives up on a worker that does
    not start in time. The client then starts another cluster.

    `vision_workers` of the `workers` have the resource that tasks of the vision model need.
    """
    requests = Requests()
    dask.config.set(SETTINGS)
    security = Security.temporary()
    shared = {"host": "127.0.0.1", "protocol": "tls", "security": security, "dashboard": False}
    options = {**shared, "nthreads": 1, "memory_limit": 0, "worker_class": LocalWorker}
    specs = [
        {"cls": Nanny, "options": {**options, "resources": VISION if number < vision_workers else {}}}
        for number in range(workers)
    ]
    scheduler = {"cls": LocalScheduler, "options": shared}
    with SpecCluster(workers=dict(enumerate(specs)), scheduler=scheduler, security=security) as cluster:
        closed = threading.Event()
        requests.start_reading(closed.set)
        requests.answer(pickle.dumps((cluster.scheduler_address, security)))
        complete_at_s = time.monotonic()
        while not closed.wait(1.0) and time.monotonic() - complete_at_s < RESTART_S:
            if len(cluster.scheduler.workers) >= workers:
                complete_at_s = time.monotonic()
