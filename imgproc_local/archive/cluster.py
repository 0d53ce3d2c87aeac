"""The cluster that tasks run on, workers of this machine or the scheduler at an address, and the connection to it.

The workers of this machine are children of a process (`serve`) that Ctrl+C in a terminal does not reach. It serves
until the client closes its pipe, so it ends with the client, and the workers with it. All of these processes speak only
TLS, with one certificate that both sides of a connection must have. It is made for this cluster, and passed to the
client and to the workers through pipes, because every user of the machine can read the arguments of a process. None
serves HTTP.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import dask
from distributed import Client, Nanny, Scheduler, SpecCluster, Worker
from distributed.comm.addressing import get_address_host_port
from distributed.comm.core import connect
from distributed.node import ServerNode
from distributed.security import Security

from imgproc_local.domain.addresses import is_loopback
from imgproc_local.domain.errors import InvalidRequest, ServiceError
from imgproc_local.system.piped_child import ChildEnded, PipedChild, Requests, program

log = logging.getLogger(__name__)

_COMMAND = "archive-cluster"
VISION = {"VISION": 1}
"""The resource of workers that have the vision model: `dask worker --resources VISION=1`."""
SETTINGS = {
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.nanny.pre-spawn-environ": {},
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.profile.enabled": False,
}
"""A worker gets one task at a time. Dask does not limit the memory of workers: what tasks return is small, and the
processes that handle a picture have limits themselves.
"""
_START_S = 600.0
"""How long the scheduler and all workers may take to start."""
_STOP_S = 10.0
"""How long the workers may take to end before they are killed."""
_RESTART_S = 60.0
"""How long a worker may be missing, while none starts or ends, before the local cluster ends."""
_CONNECT_S = 60.0
"""How long to wait for a scheduler, and then for its first worker."""
_TRY_S = 10.0
"""The time-out of an answer of the scheduler."""

_TLS_SETTINGS = "DASK_DISTRIBUTED__COMM__TLS__CA_FILE, __CLIENT__CERT and __CLIENT__KEY"


# ---- workers of this machine ----


@contextmanager
def local_cluster(workers: int, vision_workers: int, environment: Mapping[str, str]) -> Iterator[tuple[str, Security]]:
    """The address of a scheduler with `workers` processes on this machine, and the `Security` that its clients need.

    The processes end with the block. `vision_workers` of them may load the vision model. `environment` is added to that
    of this process.
    Raises: ServiceError, with the reason, if it does not start.
    """
    child = PipedChild(program(_COMMAND, str(workers), str(vision_workers)), {**os.environ, **environment})
    try:
        try:
            started = child.receive(_START_S)
        except ChildEnded as ended:
            reason = f"{ended.cause}: {ended.last_error_line}".rstrip(": ")
            raise ServiceError(f"The local cluster of Dask can't be started ({reason}).") from None
        if started is None:
            raise ServiceError(f"The local cluster of Dask was not started within {_START_S:.0f} s.")
        yield pickle.loads(started)  # noqa: S301 - from this program
    finally:
        child.end(_STOP_S)


class _WithoutHttp(ServerNode):
    def start_http_server(self, *_: object, **__: object) -> None:
        """Open no port: Dask's pages have no authentication, and no setting switches them off."""


class _LocalScheduler(_WithoutHttp, Scheduler):
    """The scheduler of this machine."""


class _LocalWorker(_WithoutHttp, Worker):
    """A worker of this machine."""


def serve(workers: int, vision_workers: int) -> None:
    """Send the scheduler's address and the `Security` of its clients, and serve until the client closes its pipe.

    It also ends if a worker is missing and nothing changes for `_RESTART_S`, because Dask gives up on a worker that
    does not start in time. The client then ends the run.
    """
    requests = Requests()
    dask.config.set(SETTINGS)
    security = Security.temporary()
    shared = {"host": "127.0.0.1", "protocol": "tls", "security": security, "dashboard": False}
    options = {**shared, "nthreads": 1, "memory_limit": 0, "worker_class": _LocalWorker}
    specs = [
        {"cls": Nanny, "options": {**options, "resources": VISION if number < vision_workers else {}}}
        for number in range(workers)
    ]
    scheduler = {"cls": _LocalScheduler, "options": shared}
    with SpecCluster(workers=dict(enumerate(specs)), scheduler=scheduler, security=security) as cluster:
        closed = threading.Event()
        requests.start_reading(closed.set)
        requests.answer(pickle.dumps((cluster.scheduler_address, security)))
        changed_s, known = time.monotonic(), set(cluster.scheduler.workers)
        while not closed.wait(1.0) and (len(known) >= workers or time.monotonic() - changed_s < _RESTART_S):
            if (present := set(cluster.scheduler.workers)) != known:
                changed_s, known = time.monotonic(), present


# ---- the connection ----


def require_protected(address: str, *, allow_open: bool) -> None:
    """Refuse an address without TLS beyond this machine: whoever reaches it can run any code on the workers.

    On this machine, where those are its users, log a warning. Raises: InvalidRequest.
    """
    try:
        parts = urlsplit(address if "://" in address else f"tcp://{address}")
    except ValueError as error:
        raise InvalidRequest({"scheduler": [f"Expected an address such as tls://HOST:8786 ({error})."]}) from None
    if parts.scheme in ("tls", "wss") or allow_open:
        return
    if not is_loopback(parts.hostname or ""):
        message = (
            f"Expected a scheduler with TLS, such as tls://HOST:8786, received {address}: without TLS, whoever reaches"
            " the scheduler can run any program on the workers. Add --allow-open-tcp if no others reach the network."
        )
        raise InvalidRequest({"scheduler": [message]})
    log.warning("Without TLS, other users of this machine can run programs as the user of the workers.")


@contextmanager
def connected(address: str, security: Security | None = None) -> Iterator[Client]:
    """A client of the scheduler at `address`, which has at least one worker. `security` is Dask's own by default.

    Raises: ServiceError, if there is no worker after `_CONNECT_S`, or at once if waiting can't help.
    """
    for name in ("distributed", "distributed.client"):  # their warnings are handled or reported here
        logging.getLogger(name).setLevel(logging.CRITICAL)
    security = security or Security()
    try:
        asyncio.run(_try(address, security))
        # if the scheduler is lost later, Dask cancels the tasks after the same time-out
        client = Client(address, security=security, set_as_default=False, timeout=_TRY_S)
    except (OSError, TimeoutError, RuntimeError, TypeError, ValueError) as error:
        raise ServiceError(
            f"There is no connection to a scheduler at {address} ({_reason(error, address)}). Start `dask scheduler`"
            " there. With `--protocol tls`, its address begins with tls://, and both sides need certificates of one"
            f" authority: {_TLS_SETTINGS}."
        ) from error
    try:
        client.wait_for_workers(1, timeout=_CONNECT_S)
    except (OSError, TimeoutError) as error:
        advice = f"Start `dask worker {address}`, and run the same command again."
        raise ServiceError(f"The scheduler at {address} has no worker. {advice}") from error
    try:
        yield client
    finally:
        with suppress(OSError, TimeoutError):  # the scheduler may be lost
            client.close(timeout=5.0)


async def _try(address: str, security: Security) -> None:
    """Connect without a client, because one that can't connect does not say why, and leaves threads."""
    tls = security.get_connection_args("client")
    comm = await asyncio.wait_for(connect(address, timeout=_CONNECT_S, **tls), _CONNECT_S + _TRY_S)
    comm.abort()


def _reason(error: BaseException, address: str) -> str:
    """Why nothing listens at the address, or the innermost cause of an error. Dask's last attempt ends at its deadline,
    often before it learns why it would fail: one more attempt tells.
    """
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, OSError):
        try:
            socket.create_connection(get_address_host_port(address), timeout=_TRY_S).close()
        except OSError as refused:
            return str(refused)
    return str(error) or "no answer"
