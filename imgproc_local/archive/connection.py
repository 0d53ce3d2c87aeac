"""Connects the client to a cluster, and says in one sentence what is wrong where that fails.

Each attempt first connects without a client of Dask, because one that fails reports neither a refused certificate nor
another reason, and leaves threads behind.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

from imgproc_local.domain.errors import ServiceError

if TYPE_CHECKING:
    from distributed import Client
    from distributed.security import Security

log = logging.getLogger(__name__)

TRY_S = 10.0
"""The time-out of one attempt to connect."""
CLOSE_S = 5.0
POLL_S = 1.0
STOP_POLL_S = 0.2
"""How often an attempt to connect looks whether the run was stopped."""
NOTICE_S = 5.0
"""How long the first worker may take before the client says that it waits."""
DASHBOARD_S = 3.0
MAX_DASHBOARD_BYTES = 64 * 1024
WITHOUT_BOKEH = b"Dask needs bokeh"
"""What Dask shows in place of the dashboard without bokeh."""
PACKAGE = "imgproc_local"
TLS_SETTINGS = "DASK_DISTRIBUTED__COMM__TLS__CA_FILE, __CLIENT__CERT and __CLIENT__KEY"
REFUSED_CERTIFICATE = ("CERTIFICATE_VERIFY_FAILED", "UNKNOWN_CA", "CERTIFICATE_REQUIRED", "BAD_CERTIFICATE")
"""What OpenSSL calls the refusal of a certificate, on either side."""

NO_ANSWER = "no answer"
WITHOUT_TLS = "WRONG_VERSION_NUMBER"
"""What OpenSSL reports when the other side answers without TLS."""


class NotConnected(Exception):
    """The run was stopped before there was a worker, or the connection was lost before its version was checked."""


@contextmanager
def connected(
    address: str, timeout_s: float, stop: threading.Event, security: Security | None = None
) -> Iterator[Client]:
    """A client of the scheduler at `address`, which has at least one worker. `security` is Dask's own by default.

    Raises: ServiceError, if there is no worker after `timeout_s`, or at once if waiting can't help; NotConnected, if
    `stop` is set meanwhile, or the connection is lost.
    """
    from distributed import Client

    class QuietClient(Client):
        def __del__(self) -> None:
            """Dask would try to close a client that could not connect, and print why it can't."""

    for name in ("distributed", "distributed.client"):  # their warnings are handled or reported here
        logging.getLogger(name).setLevel(logging.CRITICAL)
    deadline_s = time.monotonic() + timeout_s
    tls_arguments = _tls_arguments(address, security)
    known_problem = ""
    open_client: Callable[..., Client] = QuietClient
    while True:
        problem = _problem(address, tls_arguments, stop)
        if problem is None:
            try:
                # if the scheduler is lost later, Dask cancels the tasks after the same time-out
                client = open_client(address, security=security, set_as_default=False, timeout=TRY_S)
                break
            except (OSError, TimeoutError) as error:
                problem = _reason(error)
        if not known_problem:
            log.warning("Waiting up to %.0f s for a scheduler at %s.", timeout_s, address)
        if problem != NO_ANSWER or not known_problem:  # a time-out says less than an earlier error
            known_problem = problem
        if time.monotonic() > deadline_s:
            tls_hint = "" if tls_arguments.get("ssl_context") else " If it uses TLS, its address begins with tls://."
            raise ServiceError(
                f"There is no scheduler at {address} ({known_problem}). Start `dask scheduler` there, and run the same"
                f" command again.{tls_hint}"
            )
        if stop.wait(POLL_S):
            raise NotConnected
    try:
        try:
            _wait_for_worker(client, address, deadline_s, stop)
            _require_same_version(client)
        except OSError as error:
            raise NotConnected("the connection was lost") from error
        yield client
    finally:
        with suppress(OSError, TimeoutError):  # the scheduler may be lost
            client.close(timeout=CLOSE_S)


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


def _tls_arguments(address: str, security: Security | None) -> dict[str, Any]:
    """Dask's arguments for a connection. Raises: ServiceError, without the certificates that `address` needs."""
    from distributed.security import Security

    try:
        arguments: dict[str, Any] = (security or Security()).get_connection_args("client")
    except OSError as error:
        raise ServiceError(
            f"The certificates of this client can't be read ({error.strerror or error}): check the files that"
            f" {TLS_SETTINGS} name."
        ) from error
    if urlsplit(address).scheme in ("tls", "wss") and arguments.get("ssl_context") is None:
        raise ServiceError(
            f"The scheduler at {address} needs certificates, but the settings of Dask name none for the client:"
            f" set {TLS_SETTINGS}."
        )
    return arguments


def _problem(address: str, tls: dict[str, Any], stop: threading.Event) -> str | None:
    """Why there is no connection to the scheduler; None if there is one.

    Raises: ServiceError, if it refuses TLS; NotConnected, if `stop` is set meanwhile.
    """
    try:
        asyncio.run(_try(address, tls, stop))
    except (OSError, TimeoutError) as error:
        reason = _tls_error(error)
        if reason is None:
            return _reason(error)
        shown = reason.upper().replace(" ", "_")
        if any(name in shown for name in REFUSED_CERTIFICATE):
            raise ServiceError(
                f"This client and the scheduler at {address} do not accept each other's certificates ({reason}): the"
                " authority in DASK_DISTRIBUTED__COMM__TLS__CA_FILE must be the same on both, and have signed both."
            ) from error
        if WITHOUT_TLS in shown:
            raise ServiceError(
                f"The scheduler at {address} does not use TLS: start it with `--protocol tls` and its certificates."
            ) from error
        return reason
    except (RuntimeError, ValueError) as error:
        raise ServiceError(f"The scheduler at {address} can't be used: {error}.") from error
    return None


async def _try(address: str, tls: dict[str, Any], stop: threading.Event) -> None:
    from distributed.comm.core import connect

    connecting = asyncio.create_task(asyncio.wait_for(connect(address, timeout=TRY_S / 2, **tls), TRY_S))
    while not (await asyncio.wait([connecting], timeout=STOP_POLL_S))[0]:
        if stop.is_set():
            connecting.cancel()
            raise NotConnected
    connecting.result().abort()


def _tls_error(error: BaseException | None) -> str | None:
    """The message of the TLS error that caused `error`; None if no TLS error did."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return error.reason or str(error)
        if "SSLError" in str(error):  # Dask raises some errors without their cause
            return re.sub(r"\[SSL: (\w+)\].*", r"\1", str(error).rpartition("SSLError: ")[2])
        error = error.__cause__ or error.__context__
    return None


def _reason(error: BaseException) -> str:
    """The innermost cause of an error."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error) or NO_ANSWER


def _wait_for_worker(client: Client, address: str, deadline_s: float, stop: threading.Event) -> None:
    notice_s: float | None = time.monotonic() + NOTICE_S
    while True:
        try:
            client.wait_for_workers(1, timeout=POLL_S)
        except TimeoutError as error:
            if stop.is_set():
                raise NotConnected from None
            if time.monotonic() > deadline_s:
                raise ServiceError(
                    f"The scheduler at {address} has no worker. Start `dask worker {address}`, and run the same"
                    " command again."
                ) from error
            if notice_s is not None and time.monotonic() > notice_s:
                notice_s = None
                log.warning("Waiting up to %.0f s for a worker.", deadline_s - time.monotonic())
        else:
            return


def _require_same_version(client: Client) -> None:
    """Raises: ServiceError, if a worker has another version. A worker without this program fails at its first task."""
    found: Any = client.get_versions(packages=[PACKAGE])
    own = found["client"]["packages"][PACKAGE]
    versions = {worker: each["packages"][PACKAGE] for worker, each in found["workers"].items() if each}
    others = {worker: version for worker, version in versions.items() if version not in (own, None)}
    if others:
        worker, version = next(iter(others.items()))
        raise ServiceError(
            f"{len(others)} of {len(versions)} workers, such as {worker}, have version {version} of imgproc-local, and"
            f" this machine {own}. Install the same version on every machine."
        )
