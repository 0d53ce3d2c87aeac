"""The HTTP server: uvicorn with h11, and limits that hold before a request has shown an API key.

Invariants: a client that is not sending a request can be disconnected at any time to make room for another one, and
every state in which a connection waits for its client ends by a deadline of `Limits`.

asyncio's own accept loop is not used. Without free handles it tries again at once, up to `backlog` times, and logs a
traceback each time (python/cpython#151615).

It is one file, because a connection and the server that owns it share the limits and their states.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import re
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any

import h11
import msgspec
import uvicorn
from msgspec import Struct
from uvicorn.protocols.http.h11_impl import H11Protocol

from imgproc_local.api.wire import ErrorBody
from imgproc_local.domain.addresses import is_loopback

if sys.platform != "win32":  # a process may have millions of handles there
    import resource

log = logging.getLogger(__name__)


class Limits(Struct, frozen=True, kw_only=True):
    """The limits of one server. Sizes are in bytes, times in seconds."""

    connections: int = 2000
    """Connections open at once. Fewer if the handle limit of the process is too low."""
    header_bytes: int = 32 * 1024
    """Bytes of a request line with its header fields. Cookies of other services on the same host name count too."""
    header_fields: int = 100
    header_s: float = 20
    """How long a header may take, from the opening of the connection or from the first byte after another request."""
    keep_alive_s: float = 75
    """How long a connection stays open between requests."""
    discard_s: float = 30
    """How long the rest of a body is received and discarded after its request was answered. A client that sends
    the whole body first reads the answer only afterwards."""
    refused_s: float = 2
    """How long a connection stays open after a refusal, so that the client can read it."""
    stalled_write_s: float = 60
    """How long a client may leave an answer unread."""
    stop_s: float = 3
    """How long a stop waits before it closes connections whose requests are still being answered. Shorter than the
    time-out of uvicorn, which logs a traceback per request."""


_RESERVED_HANDLES = 256
"""File handles that connections leave free for the database, stored files and worker processes."""
_NO_HANDLE_LEFT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""The errors of a process or a system that can open no more connections."""


def _refusal(status: HTTPStatus, message: str, header: bytes = b"") -> bytes:
    """The response to a request that no handler sees, in the shape of the API's errors."""
    body = msgspec.json.encode(ErrorBody(message))
    fields = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n" % len(body)
    return b"HTTP/1.1 %d %b\r\n%b%b\r\n%b" % (status, status.phrase.encode(), header, fields, body)


_NOT_HTTP = _refusal(
    HTTPStatus.BAD_REQUEST,
    "The request must be well-formed HTTP/1.1 with exactly one Host and without CONNECT (RFC 9112); the one"
    " received is not. The connection is closed.",
)
_NO_CONNECTION_FREE = _refusal(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "The service has too many open connections. Send the request again later.",
    b"retry-after: 5\r\n",
)


class _Parser(h11.Connection):
    """h11's parser, stricter with headers: it accepts line breaks and continued fields that proxies read differently.

    `refusal` is the response to what `next_event` does not accept.
    """

    END = re.compile(rb"\n\r?\n")
    MALFORMED = re.compile(rb"(?<!\r)\n|\r(?!\n)|\n[ \t]")
    """A line break that is not CRLF, and a field that is continued on the next line."""

    ORIGIN = re.compile(rb"https?://[^/?]*", re.IGNORECASE)
    """What the target of a request for a proxy has before the path."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size=2 * limits.header_bytes)
        self.refusal = _NOT_HTTP
        self._limits = limits
        self._chunks = self._body_bytes = 0

    @property
    def our_state(self) -> Any:
        """As in h11, but uvicorn closes no connection before the body has ended, whose rest is discarded: a client
        that still sends could receive a reset instead of the answer.
        """
        state = super().our_state
        return h11.DONE if state is h11.MUST_CLOSE and self.their_state is h11.SEND_BODY else state

    def send_with_data_passthrough(self, event: h11.Event) -> list[bytes] | None:
        if isinstance(event, h11.Response) and self.they_are_waiting_for_100_continue:
            # whether the body follows nevertheless is unknown (RFC 9110, section 10.1.1)
            headers = [*event.headers, (b"connection", b"close")]
            event = h11.Response(status_code=event.status_code, headers=headers, reason=event.reason)
        return super().send_with_data_passthrough(event)

    def next_event(self) -> Any:
        if self.their_state is h11.IDLE:
            self._check_header()
        event = super().next_event()
        if isinstance(event, h11.Data):
            self._chunks, self._body_bytes = self._chunks + 1, self._body_bytes + len(event.data)
            # after a thousand chunks, their mean must be 64 bytes: h11 needs 0.1 ms even for a small one
            if self._chunks > 1000 and self._body_bytes < 64 * self._chunks:
                raise h11.RemoteProtocolError("chunks are too small")
        if isinstance(event, h11.Request):
            self._chunks = self._body_bytes = 0
            has_two_lengths = {b"content-length", b"transfer-encoding"} <= {name for name, _ in event.headers}
            if event.method == b"CONNECT" or event.http_version not in (b"1.0", b"1.1") or has_two_lengths:
                raise h11.RemoteProtocolError("not supported")
            if not event.target.startswith(b"/"):  # RFC 9112, section 3.2.2
                target = self.ORIGIN.sub(b"", event.target) or b"/"
                return h11.Request(
                    method=event.method, target=target, headers=event.headers, http_version=event.http_version
                )
        return event

    def _check_header(self) -> None:
        """Check the header that was received so far. Raises: RemoteProtocolError."""
        received = self.trailing_data[0]
        header = received.lstrip(b"\r\n")  # RFC 9112, section 2.2
        self._receive_buffer.maybe_extract_at_most(len(received) - len(header))
        end = self.END.search(header)
        header = header[: end.end()] if end else header
        limits = self._limits
        if len(header) > limits.header_bytes or header.count(b"\n") > limits.header_fields + 2:
            self.refusal = _refusal(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"The request line and header fields may have at most {limits.header_bytes} bytes and"
                f" {limits.header_fields} fields; received more. If a browser sends cookies of other services, use"
                " another host name or delete them.",
            )
            raise h11.RemoteProtocolError("too large")
        if end and self.MALFORMED.search(header):
            raise h11.RemoteProtocolError("malformed")


class _HttpConnection(H11Protocol):
    """One connection from `address` to `owner`."""

    def __init__(self, owner: Server, address: str) -> None:
        super().__init__(owner.config, owner.server_state, owner.lifespan.state)
        self.address = address
        self._owner = owner
        self.conn = self._parser = _Parser(owner.limits)
        self._wait: str | None = None
        """The limit, a field of `Limits`, of what the client has to do; "" while a request is answered."""
        self._deadline_s = self._stalled_s = math.inf

    def _begin_wait(self, limit: str) -> None:
        if limit != self._wait:
            self._wait = limit
            self._deadline_s = time.monotonic() + (getattr(self._owner.limits, limit) if limit else math.inf)
            self._owner.idle.pop(self, None)
            if limit:
                self._owner.idle[self] = None

    def _update(self) -> None:
        """Begin to wait for what the client has to do next."""
        if self._wait == "refused_s" or self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self._begin_wait("")
        elif self.conn.their_state is h11.SEND_BODY:
            self._begin_wait("discard_s")
            if self.conn.states[h11.SERVER] is h11.MUST_CLOSE and self.transport.can_write_eof():
                self.transport.write_eof()  # a client that sends no body leaves
        elif self.conn.our_state is h11.MUST_CLOSE:
            self.transport.close()
        else:
            self._begin_wait("header_s" if self.cycle is None or self.conn.trailing_data[0] else "keep_alive_s")

    def check_deadlines(self, now_s: float) -> None:
        is_in_header = self._wait == "header_s" and self.conn.trailing_data[0]
        if now_s > self._stalled_s or (now_s > self._deadline_s and not is_in_header):
            self.transport.abort()
        elif now_s > self._deadline_s:
            limit_s = self._owner.limits.header_s
            message = f"The header of the request was not complete within {limit_s:g} seconds."
            self._refuse(_refusal(HTTPStatus.REQUEST_TIMEOUT, message))

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._update()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._owner.idle.pop(self, None)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled_s = time.monotonic() + self._owner.limits.stalled_write_s

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stalled_s = math.inf

    def data_received(self, data: bytes) -> None:
        if self._wait != "refused_s" and self.conn.their_state is not h11.ERROR:
            super().data_received(data)
            self._update()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update()

    def _should_upgrade(self) -> bool:
        return False

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn for what the parser refuses, after uvicorn has logged a warning."""
        self._refuse(self._parser.refusal)

    def _refuse(self, response: bytes) -> None:
        """Answer with an error and close the connection. Nothing that is received afterwards is read.

        If the connection were closed at once, as it has to be with TLS, a client that is still sending could receive a
        reset instead of the answer.
        """
        log.info("a request from %s was refused: %s", self.address, response.partition(b"\r")[0].decode())
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if is_answering and not self.cycle.more_body:
            return  # sent after the last request of the connection, which is still answered
        if is_answering:
            self.cycle.disconnected = True  # the app reads no more of the body
            self.cycle.message_event.set()
        is_started = self._wait == "discard_s" or (is_answering and self.cycle.response_started)
        # before the first request, nothing but the end of a TLS handshake can be in the buffer
        if is_started or (self.cycle is not None and self.transport.get_write_buffer_size()):
            self.transport.abort()  # the client could not tell the refusal from the response before it
            return
        self._begin_wait("refused_s")
        self.transport.write(response)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()

    def shutdown(self) -> None:
        if self._wait == "refused_s":  # h11 knows nothing of the refusal, and would raise an error
            self.transport.close()
        else:
            super().shutdown()


class Server(uvicorn.Server):
    """Serves on the listening sockets that are given to `serve`.

    When a stop is requested, calls `on_stop` to end long requests such as event streams: uvicorn would wait for them.
    """

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None], limits: Limits | None = None) -> None:
        super().__init__(config)
        self.limits = limits or Limits()
        self.idle: dict[_HttpConnection, None] = {}
        """Connections that can be closed to make room, in the order in which they became idle."""
        self._on_stop = on_stop
        self._handshakes: dict[asyncio.Task[None], str] = {}
        """The address of each TLS handshake in progress, oldest first."""
        self._accepting: list[asyncio.Task[None]] = []

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As in uvicorn, but without raising the signal again afterwards: the data folder must still be closed."""
        with super().capture_signals():
            yield
            self._captured_signals.clear()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])  # uvicorn accepts no connections
        _raise_handle_limit(self.limits)
        self._accepting = [asyncio.create_task(self._accept_all(listener)) for listener in sockets or ()]

    async def on_tick(self, counter: int) -> bool:
        now_s = time.monotonic()
        for connection in self._open() if counter % 5 == 0 else ():  # every half second
            connection.check_deadlines(now_s)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stop()
        tasks = [*self._accepting, *self._handshakes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        asyncio.get_running_loop().call_later(self.limits.stop_s, self._abort, self._open())
        await super().shutdown(sockets)

    def _open(self) -> list[_HttpConnection]:
        return list(self.server_state.connections)  # type: ignore[arg-type] # uvicorn makes none itself

    def _abort(self, connections: list[_HttpConnection]) -> None:
        for connection in connections:
            self.idle.pop(connection, None)
            connection.transport.abort()

    async def _accept_all(self, listener: socket.socket) -> None:
        while True:
            try:
                accepted, address = await asyncio.get_running_loop().sock_accept(listener)
                await self._take(accepted, str(address[0]))
            except ConnectionError:  # the client has left already
                pass
            except Exception as error:  # nothing may end this loop
                log.warning("a connection could not be accepted (%s); %d are open", error, len(self._open()))
                if isinstance(error, OSError) and error.errno in _NO_HANDLE_LEFT:
                    self._abort(list(self.idle)[:16])
                await asyncio.sleep(0.05)
            await asyncio.sleep(0)  # `sock_accept` lets no other task run if a connection is already waiting

    async def _take(self, accepted: socket.socket, address: str) -> None:
        """Open an accepted connection, or refuse it if there is no room for it."""
        if not self._make_room(address):
            if not self.config.ssl:
                with suppress(OSError):
                    accepted.send(_NO_CONNECTION_FREE)
            accepted.close()
        elif not self.config.ssl:
            await self._start(accepted, address)
        else:
            task = asyncio.create_task(self._start(accepted, address))
            self._handshakes[task] = address
            task.add_done_callback(lambda task: self._handshakes.pop(task, None))

    async def _start(self, accepted: socket.socket, address: str) -> None:
        """Open an accepted connection: with TLS, after its handshake."""
        tls, loop = self.config.ssl, asyncio.get_running_loop()
        timeout_s = self.limits.header_s if tls else None
        try:
            await loop.connect_accepted_socket(
                lambda: _HttpConnection(self, address), accepted, ssl=tls, ssl_handshake_timeout=timeout_s
            )
        except OSError as error:  # the client has left or speaks no TLS, or no handle is left
            log.info("a connection from %s could not be opened: %s", address, error)
            accepted.close()
        except asyncio.CancelledError:
            accepted.close()
            raise

    def _make_room(self, address: str) -> bool:
        """Close an idle connection if necessary. Returns whether one more connection from `address` may be opened.

        It is the longest idle one of the address that holds most connections: the latest are about to send a request.
        """
        most = _most_connections(self.limits)
        if len(self._handshakes) >= max(1, most // 2):
            oldest = next(iter(self._handshakes))
            del self._handshakes[oldest]
            oldest.cancel()
        held = Counter([*(connection.address for connection in self._open()), *self._handshakes.values()])
        if held[address] >= most / 2 and not is_loopback(address):  # an address beyond this machine gets half
            candidates = [connection for connection in self.idle if connection.address == address]
        elif held.total() < most:
            return True
        else:
            busiest = max(held.values())
            candidates = [connection for connection in self.idle if held[connection.address] == busiest]
            candidates = candidates or list(self.idle)
        log.warning("a new connection from %s replaces one of %d idle ones, if any", address, len(self.idle))
        self._abort(candidates[:1])
        return bool(candidates)


def server_config(app: Any, shutdown_s: int, tls_cert: str = "") -> uvicorn.Config:
    """The configuration of uvicorn. `shutdown_s` is how long a stop waits for requests before uvicorn cancels them."""
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        http="h11",
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=shutdown_s,
        timeout_keep_alive=3600,  # `Limits.keep_alive_s` applies first: this ignores that a header has begun
        ssl_certfile=tls_cert or None,
    )


def _most_connections(limits: Limits) -> int:
    """How many connections may be open now: other programs can change the limit of a process.

    Each counts as two handles, because an upload or a download also has an open file.
    """
    if sys.platform == "win32" or (soft := resource.getrlimit(resource.RLIMIT_NOFILE)[0]) == resource.RLIM_INFINITY:
        return limits.connections
    return min(limits.connections, max(16, soft - _RESERVED_HANDLES) // 2)


def _raise_handle_limit(limits: Limits) -> None:
    """Raise the soft limit of open handles to what `limits` can use, or to the hard limit if that is lower.

    It is not raised further, because macOS refuses an unlimited soft limit, and because handles above 1,023, which
    `select` in C libraries can't take, should stay rare.
    """
    if sys.platform != "win32":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 2 * limits.connections + _RESERVED_HANDLES
        wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
