"""The open connections of the server: accepts them, closes idle ones to make room, and enforces deadlines.

asyncio's own accept loop is not used. Without free handles it tries again at once, up to `backlog` times, and logs a
traceback each time (python/cpython#151615). This loop uses public functions of asyncio only, so that it also runs on
the event loop of Windows.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol

from imgproc_local.domain.addresses import is_loopback
from imgproc_local.server.limits import Limits, handles_for_connections
from imgproc_local.server.refusals import NO_CONNECTION_FREE

log = logging.getLogger(__name__)

NO_HANDLES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
CLOSED_WITHOUT_HANDLES = 16
"""How many idle connections are closed when the process or the system has no handle left."""
RETRY_S = 0.05
"""The wait after a failed accept, unless the client caused the failure."""
CHECK_DEADLINES_S = 0.5
WINDOWS_NETNAME_DELETED = 64
"""The client closed the connection before it was accepted. Source: Windows, System Error Codes."""


class Connection(Protocol):
    """A connection, as this module uses it. `deadline_s` is a time of the monotonic clock."""

    address: str
    deadline_s: float

    def expire(self) -> None:
        """Close the connection because its deadline has passed."""

    def abort(self) -> None:
        """Close the connection at once, without sending what is buffered."""


class Connections:
    """Accepts connections on `listener`, and holds all that are open.

    A connection is idle until a request header is complete, and again after the response was sent. To make room for a
    new connection, an idle one is closed, see `_close_idle`.
    """

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[Connections, str], asyncio.BaseProtocol],
        limits: Limits,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.limits = limits
        self._listener = listener
        self._make_protocol = make_protocol
        self._tls = tls
        self._open: set[Connection] = set()
        self._idle: dict[Connection, None] = {}
        """In the order in which they became idle."""
        self._handshakes: dict[asyncio.Task[None], str] = {}
        """The address of each TLS handshake in progress, oldest first."""
        self._open_by_address: Counter[str] = Counter()
        self._tasks = [asyncio.create_task(self._accept_all()), asyncio.create_task(self._check_deadlines())]

    async def stop_accepting(self) -> None:
        """Accept no more connections. Connections that are still open after `stop_s` are closed."""
        accepting = [self._tasks[0], *self._handshakes]
        for task in accepting:
            task.cancel()
        await asyncio.gather(*accepting, return_exceptions=True)
        asyncio.get_running_loop().call_later(self.limits.stop_s, self._abort_all)

    # ---- called by connections ----

    def opened(self, connection: Connection) -> None:
        self._open.add(connection)
        self._open_by_address[connection.address] += 1

    def closed(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._idle.pop(connection, None)
        self._open_by_address[connection.address] -= 1
        if not self._open_by_address[connection.address]:
            del self._open_by_address[connection.address]

    def begin_idle(self, connection: Connection, timeout_s: float) -> None:
        """The connection is idle from now on, and expires in `timeout_s`."""
        connection.deadline_s = time.monotonic() + timeout_s
        self._idle.pop(connection, None)
        self._idle[connection] = None

    def is_idle(self, connection: Connection) -> bool:
        return connection in self._idle

    def begin_request(self, connection: Connection) -> bool:
        """The connection has a request from now on. Returns False if no handle can be made free for the request."""
        connection.deadline_s = math.inf
        self._idle.pop(connection, None)
        return self._handles_used() <= handles_for_connections(self.limits) or self._close_idle()

    # ---- accepting ----

    async def _accept_all(self) -> None:
        while True:
            try:
                await self._accept_next()
            except Exception:  # nothing may end this loop
                log.exception("a connection could not be accepted")
                await asyncio.sleep(RETRY_S)

    async def _accept_next(self) -> None:
        try:
            accepted, address = await asyncio.get_running_loop().sock_accept(self._listener)
        except OSError as error:
            if error.errno in NO_HANDLES:
                await self._wait_for_handles()
                return
            if isinstance(error, ConnectionError) or getattr(error, "winerror", None) == WINDOWS_NETNAME_DELETED:
                await asyncio.sleep(0)
                return
            raise
        host = str(address[0])
        if not self._make_room(host):
            self._refuse(accepted)
        elif self._tls is None:
            await self._start(accepted, host)
        else:
            task = asyncio.create_task(self._start(accepted, host))
            self._handshakes[task] = host
            task.add_done_callback(lambda task: self._handshakes.pop(task, None))
        await asyncio.sleep(0)  # `sock_accept` lets no other task run if a connection is already waiting

    async def _start(self, accepted: socket.socket, host: str) -> None:
        """Open an accepted connection: with TLS, after its handshake."""
        make_protocol = partial(self._make_protocol, self, host)
        timeout_s = self.limits.header_s if self._tls else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                make_protocol, accepted, ssl=self._tls, ssl_handshake_timeout=timeout_s
            )
        except OSError as error:  # the client has left or speaks no TLS, or no handle is left
            log.info("a connection from %s could not be opened: %s", host, error)
            accepted.close()
        except asyncio.CancelledError:
            accepted.close()
            raise

    async def _wait_for_handles(self) -> None:
        log.warning("no handles are left for a new connection; idle connections are closed: %s", self._counts())
        for _ in range(CLOSED_WITHOUT_HANDLES):
            if not self._close_idle():
                break
        await asyncio.sleep(RETRY_S)

    def _make_room(self, host: str) -> bool:
        """Close an idle connection if necessary. Returns whether one more connection from `host` may be opened."""
        handles = handles_for_connections(self.limits)
        most = min(self.limits.connections, handles)
        held = self._open_by_address[host] + sum(address == host for address in self._handshakes.values())
        if held >= most * self.limits.address_share and not is_loopback(host):
            log.warning("the address %s holds its share of all connections: %s", host, self._counts())
            return self._close_idle(host)
        if len(self._handshakes) >= max(1, most // 2):
            oldest = next(iter(self._handshakes))
            del self._handshakes[oldest]
            oldest.cancel()
        if len(self._open) + len(self._handshakes) < self.limits.connections and self._handles_used() < handles:
            return True
        log.warning("a new connection replaces an idle one, if there is one: %s", self._counts())
        return self._close_idle()

    def _refuse(self, accepted: socket.socket) -> None:
        """Close the connection. Without TLS, try to answer with 503 first."""
        if self._tls is None:
            with suppress(OSError):
                accepted.send(NO_CONNECTION_FREE.response([]))
        accepted.close()

    def _close_idle(self, host: str | None = None) -> bool:
        """Close the longest idle connection of `host`. Returns False if none is idle.

        Without `host`, it is one of the address that holds most connections, or of any address if it has none idle.
        The latest idle connections are spared, because a new one is about to send its request.
        """
        if host is None:
            most = max(self._open_by_address.values(), default=0)
            busiest = (connection for connection in self._idle if self._open_by_address[connection.address] == most)
            connection = next(busiest, next(iter(self._idle), None))
        else:
            connection = next((connection for connection in self._idle if connection.address == host), None)
        if connection is None:
            return False
        self._idle.pop(connection)
        connection.abort()
        return True

    # ---- counts and deadlines ----

    def _handles_used(self) -> int:
        """Handles of connections and their requests: a request being answered may have a stored file open too."""
        return 2 * len(self._open) - len(self._idle) + len(self._handshakes)

    def _counts(self) -> str:
        return f"{len(self._open)} connections, {len(self._idle)} idle"

    async def _check_deadlines(self) -> None:
        while True:
            await asyncio.sleep(CHECK_DEADLINES_S)
            now_s = time.monotonic()
            for connection in [connection for connection in self._open if connection.deadline_s < now_s]:
                try:
                    connection.expire()
                except Exception:  # nothing may end this loop
                    log.exception("a connection could not be closed after its deadline")
                    connection.abort()

    def _abort_all(self) -> None:
        for connection in list(self._open):
            connection.abort()
