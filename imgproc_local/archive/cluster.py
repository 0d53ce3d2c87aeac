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
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

import dask
from distributed import Client, Nanny, Scheduler, SpecCluster, Worker
from distributed.comm.core import connect
from distributed.node import ServerNode
from distributed.security import Security

from imgproc_local.domain.addresses import is_loopback
from imgproc_local.domain.errors import InvalidRequest, ServiceError
from imgproc_local.system.piped_child import ChildEnded, PipedChild, Requests, program

log = logging.getLogger(__name__)

COMMAND = "archive-cluster"
VISION = {"VISION": 1}
"""The resource of workers that have the vision model: `dask worker --resources VISION=1`."""
SETTINGS = {
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.allowed-failures": 1,
    "distributed.nanny.pre-spawn-environ": {},
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.profile.enabled": False,
}
"""A worker gets one task at a time, and a task that has ended two workers is reported to the client. Dask does not
limit the memory of workers: what tasks return is small, and the processes that handle a picture have limits themselves.
"""
START_S = 600.0
"""How long the scheduler and all workers may take to start."""
STOP_S = 10.0
"""How long the workers may take to end before they are killed."""
RESTART_S = 60.0
"""How long a worker may be missing, while no other one starts, before the local cluster ends."""
TRY_S = 10.0
"""The time-out of one attempt to connect."""
CLOSE_S = 5.0
POLL_S = 0.2
"""How often a wait looks whether the run was stopped."""
DASHBOARD_S = 3.0
MAX_DASHBOARD_BYTES = 64 * 1024
WITHOUT_BOKEH = b"Dask needs bokeh"
"""What Dask shows in place of the dashboard without bokeh."""
TLS_SETTINGS = "DASK_DISTRIBUTED__COMM__TLS__CA_FILE, __CLIENT__CERT and __CLIENT__KEY"


class NotConnected(Exception):
    """The run was stopped, or the connection was lost, before there was a worker."""


# ---- workers of this machine ----


@contextmanager
def local_cluster(workers: int, vision_workers: int, environment: Mapping[str, str]) -> Iterator[tuple[str, Security]]:
    """The address of a scheduler with `workers` processes on this machine, and the `Security` that its clients need.

    The processes end with the block. `vision_workers` of them may load the vision model. `environment` is added to that
    of this process.
    Raises: ChildProcessError, with the reason, if it does not start.
    """
    child = PipedChild(program(COMMAND, str(workers), str(vision_workers)), {**os.environ, **environment})
    try:
        try:
            started = child.receive(START_S)
        except ChildEnded as ended:
            raise ChildProcessError(f"{ended.cause}: {ended.last_error_line}".rstrip(": ")) from None
        if started is None:
            raise ChildProcessError(f"not within {START_S:.0f} s")
        yield pickle.loads(started)  # noqa: S301 - from this program
    finally:
        child.end(STOP_S)


class _WithoutHttp(ServerNode):
    def start_http_server(self, *_: object, **__: object) -> None:
        """Open no port: Dask's pages have no authentication, and no setting switches them off."""


class LocalScheduler(_WithoutHttp, Scheduler):
    pass


class LocalWorker(_WithoutHttp, Worker):
    pass


def serve(workers: int, vision_workers: int) -> None:
    """Send the scheduler's address and the `Security` of its clients, and serve until the client closes its pipe.

    It also ends if a worker that died was not replaced within `RESTART_S`, because Dask gives up on a worker that does
    not start in time. The client then starts another cluster.
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
        started_at_s, known = time.monotonic(), set(cluster.scheduler.workers)
        while not closed.wait(1.0) and time.monotonic() - started_at_s < RESTART_S:
            present = set(cluster.scheduler.workers)
            if len(present) >= workers or present - known:
                started_at_s = time.monotonic()
            known = present


# ---- the connection ----


def require_protected(address: str, *, allow_open: bool) -> None:
    """Refuse an address without TLS beyond this machine: whoever reaches it can run any code on the workers.

    On this machine, where those are its users, log a warning. Raises: InvalidRequest.
    """
    expected = f"Expected a scheduler with TLS, such as tls://HOST:8786, received {address}"
    try:
        parts = urlsplit(address if "://" in address else f"tcp://{address}")
    except ValueError as error:
        raise InvalidRequest({"scheduler": [f"{expected} ({error})."]}) from None
    if parts.scheme in ("tls", "wss") or allow_open:
        return
    if not is_loopback(parts.hostname or ""):
        advice = (
            "tcp has no authentication, so whoever reaches the scheduler can run any program on the workers. Add"
            " --allow-open-tcp if the network is closed to others."
        )
        raise InvalidRequest({"scheduler": [f"{expected}: {advice}"]})
    log.warning("Without TLS, other users of this machine can run programs as the user of the workers.")


class _QuietClient(Client):
    def __del__(self) -> None:
        """Dask would try to close a client that could not connect, and print why it can't."""


@contextmanager
def connected(
    address: str, timeout_s: float, stop: threading.Event, security: Security | None = None
) -> Iterator[Client]:
    """A client of the scheduler at `address`, which has at least one worker. `security` is Dask's own by default.

    Raises: ServiceError, if there is no worker after `timeout_s`, or at once if waiting can't help; NotConnected, if
    `stop` is set meanwhile, or the connection is lost.
    """
    for name in ("distributed", "distributed.client"):  # their warnings are handled or reported here
        logging.getLogger(name).setLevel(logging.CRITICAL)
    ends_s = time.monotonic() + timeout_s
    client = _open_client(address, ends_s, stop, security or Security())
    try:
        _wait_for_worker(client, address, ends_s, stop)
        yield client
    finally:
        with suppress(OSError, TimeoutError):  # the scheduler may be lost
            client.close(timeout=CLOSE_S)


def _open_client(address: str, ends_s: float, stop: threading.Event, security: Security) -> Client:
    """Each attempt first connects without a client, because one that fails does not say why, and leaves threads."""
    tls = _tls_arguments(address, security)
    open_client: Callable[..., Client] = _QuietClient
    while True:
        try:
            asyncio.run(_try(address, tls, stop))
            # if the scheduler is lost later, Dask cancels the tasks after the same time-out
            return open_client(address, security=security, set_as_default=False, timeout=TRY_S)
        except (OSError, TimeoutError) as error:
            reason = _reason(error)
            if _is_refused(error):
                raise ServiceError(
                    f"This client and the scheduler at {address} can't agree on TLS ({reason}): start it with"
                    " `--protocol tls`. The authority in DASK_DISTRIBUTED__COMM__TLS__CA_FILE must be the same on both,"
                    " and have signed both certificates."
                ) from error
        except (RuntimeError, ValueError) as error:
            raise ServiceError(f"The scheduler at {address} can't be used: {error}.") from error
        if time.monotonic() > ends_s:
            hint = "" if tls.get("ssl_context") else " If it uses TLS, its address begins with tls://."
            raise ServiceError(
                f"There is no scheduler at {address} ({reason}). Start `dask scheduler` there, and run the same command"
                f" again.{hint}"
            )
        if stop.wait(1.0):
            raise NotConnected


def _tls_arguments(address: str, security: Security) -> dict[str, Any]:
    """Dask's arguments for a connection. Raises: ServiceError, without the certificates that `address` needs."""
    problem = ""
    try:
        arguments: dict[str, Any] = security.get_connection_args("client")
        if urlsplit(address).scheme in ("tls", "wss") and arguments.get("ssl_context") is None:
            problem = "the settings of Dask name none for the client"
    except OSError as error:
        problem = f"they can't be read ({error.strerror or error})"
    if problem:
        raise ServiceError(f"The scheduler at {address} needs certificates, but {problem}: set {TLS_SETTINGS}.")
    return arguments


async def _try(address: str, tls: dict[str, Any], stop: threading.Event) -> None:
    connecting = asyncio.create_task(asyncio.wait_for(connect(address, timeout=TRY_S / 2, **tls), TRY_S))
    while not (await asyncio.wait([connecting], timeout=POLL_S))[0]:
        if stop.is_set():
            connecting.cancel()
            raise NotConnected
    connecting.result().abort()


def _is_refused(error: BaseException | None) -> bool:
    """Whether an error of TLS is the cause. Dask raises some errors without their cause."""
    while error is not None:
        if isinstance(error, ssl.SSLError) or "SSLError" in str(error):
            return not isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
        error = error.__cause__ or error.__context__
    return False


def _reason(error: BaseException) -> str:
    """The innermost cause of an error."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error) or "no answer"


def _wait_for_worker(client: Client, address: str, ends_s: float, stop: threading.Event) -> None:
    while True:
        try:
            client.wait_for_workers(1, timeout=1.0)
            return
        except TimeoutError as error:
            if stop.is_set():
                raise NotConnected from None
            if time.monotonic() > ends_s:
                raise ServiceError(
                    f"The scheduler at {address} has no worker. Start `dask worker {address}`, and run the same"
                    " command again."
                ) from error
        except OSError as error:
            raise NotConnected("the connection was lost") from error


def dashboard_link(client: Client) -> str | None:
    """The address of Dask's dashboard, if it can be opened from this machine; None without bokeh on the scheduler."""
    try:
        link: str = client.dashboard_link
        # no proxy, because the address is one of the cluster's own network
        with build_opener(ProxyHandler({})).open(link, timeout=DASHBOARD_S) as response:
            content = response.read(MAX_DASHBOARD_BYTES)
    except (OSError, HTTPException, ValueError, KeyError, AttributeError):  # it has none, or none that answers
        return None
    return None if WITHOUT_BOKEH in content else link
