"""One HTTP/1.1 connection: uvicorn's protocol, with limits on request headers and pipelining, and with deadlines.

The header of a request is collected until it is complete and given to uvicorn's parser in one piece. Exception: the
beginning of a pipelined header may be received in one packet with the end of the request before it. The parser then has
that beginning already, and the rest follows as it is received.

The overridden methods are those of uvicorn 0.54. The tests in `tests/server` check each limit: run them with every new
version of uvicorn or httptools.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from enum import Enum
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from imgproc_local.server import refusals
from imgproc_local.server.connections import Connections
from imgproc_local.server.refusals import Refusal

log = logging.getLogger(__name__)

HEADER_ENDS = (b"\n\r\n", b"\n\n")
"""The second one is not allowed in HTTP/1.1. It is passed on at once, for the parser to refuse."""
UPGRADE_FIELD = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)


class ParserState(Enum):
    """What uvicorn's parser has received."""

    BETWEEN_REQUESTS = "complete requests, or nothing yet"
    IN_HEADER = "the beginning of a header"
    IN_BODY = "a complete header, but not the whole body"


class HttpConnection(HttpToolsProtocol):
    """One connection from `host`. `connections` holds it while it is open."""

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], connections: Connections, host: str
    ) -> None:
        super().__init__(config, server_state, app_state)
        self.address = host
        self.deadline_s = math.inf
        self._connections = connections
        self._limits = connections.limits
        self._parser_state = ParserState.BETWEEN_REQUESTS
        self._header = bytearray()
        """The beginning of a header, which was not given to the parser yet."""
        self._continuation_bytes = 0
        """Bytes received since the parser got the beginning of the header that it is in."""
        self._field_bytes = 0
        """Bytes of the request line and the fields that the parser has found in the header."""
        self._callback_refusal: Refusal | None = None
        """The refusal to send for the error that a callback of the parser raised."""
        self._refused = False
        self._waiting_refusal: Refusal | None = None
        """A refusal that is sent after the responses to earlier requests."""

    # ---- connection ----

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._connections.opened(self)
        self._connections.begin_idle(self, self._limits.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._connections.closed(self)

    def abort(self) -> None:
        self.transport.abort()

    def expire(self) -> None:
        header_begun = bool(self._header) or self._parser_state is ParserState.IN_HEADER
        if self._connections.is_idle(self) and header_begun and not self._refused:
            self._refuse(refusals.header_timed_out(self._limits))
        else:
            self.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.deadline_s = time.monotonic() + self._limits.stalled_write_s

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self._connections.is_idle(self):
            self.deadline_s = math.inf

    # ---- receiving ----

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._parser_state is ParserState.BETWEEN_REQUESTS:
            complete = self._complete_header(data)
            if complete is None:
                return
            data = complete
        elif self._parser_state is ParserState.IN_HEADER:
            self._continuation_bytes += len(data)
            if self._continuation_bytes > self._limits.header_bytes:
                self._refuse(refusals.header_too_large(self._limits))
                return
        super().data_received(data)

    def _complete_header(self, data: bytes) -> bytes | None:
        """Add `data` to the header. Returns the header and what follows; None if it is not complete or was refused."""
        header = self._header
        if not header:
            data = data.lstrip(b"\r\n")  # RFC 9112, section 2.2
            if data and self._connections.is_idle(self):
                self._connections.begin_idle(self, self._limits.header_s)
        search_from = max(0, len(header) - 2)
        header += data
        ends = [end for end in (header.find(mark, search_from) for mark in HEADER_ENDS) if end >= 0]
        if min(ends, default=len(header)) > self._limits.header_bytes:
            self._refuse(refusals.header_too_large(self._limits))
            return None
        if not ends:
            return None
        end = min(ends)
        # uvicorn with httptools loses the body of a request that offers an upgrade (Kludex/uvicorn#2722); the offer may
        # be ignored (RFC 9110, section 7.8)
        complete = UPGRADE_FIELD.sub(b"", bytes(header[:end])) + bytes(header[end:])
        header.clear()
        return complete

    # ---- callbacks of the parser; if one raises an error, uvicorn calls send_400_response ----

    def on_message_begin(self) -> None:
        self._parser_state = ParserState.IN_HEADER
        self._continuation_bytes = 0
        self._field_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count_field_bytes(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count_field_bytes(len(name) + len(value))
        if len(self.headers) > self._limits.header_fields:
            raise self._callback_error(refusals.header_too_large(self._limits))

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= self._limits.pipelined_requests:
            raise self._callback_error(refusals.too_many_pipelined(self._limits))
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1"):
            raise self._callback_error(refusals.NOT_ONE_HOST)
        if self.parser.should_upgrade():
            raise self._callback_error(refusals.NO_UPGRADE)
        if not self._connections.begin_request(self):
            raise self._callback_error(refusals.NO_CONNECTION_FREE)
        super().on_headers_complete()
        self._parser_state = ParserState.IN_BODY

    def on_message_complete(self) -> None:
        self._parser_state = ParserState.BETWEEN_REQUESTS
        super().on_message_complete()
        if self.cycle.response_complete:  # the request was answered before the end of its body
            self._connections.begin_idle(self, self._limits.keep_alive_s)

    def _count_field_bytes(self, count: int) -> None:
        self._field_bytes += count
        if self._field_bytes > self._limits.header_bytes:
            raise self._callback_error(refusals.header_too_large(self._limits))

    def _callback_error(self, refusal: Refusal) -> ValueError:
        """An error for a callback to raise, so that `refusal` is sent instead of `NOT_HTTP`."""
        self._callback_refusal = refusal
        return ValueError(refusal.message)

    # ---- responses ----

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # `cycle` belongs to the latest request, which may still wait for its response
        if self.transport.is_closing() or not self.cycle.response_complete:
            return
        if self._waiting_refusal is not None:
            self._send_refusal(self._waiting_refusal)
        elif self._parser_state is ParserState.IN_BODY:
            self._connections.begin_idle(self, self._limits.discard_s)
        elif self._header or self._parser_state is ParserState.IN_HEADER:
            self._connections.begin_idle(self, self._limits.header_s)
        else:
            self._connections.begin_idle(self, self._limits.keep_alive_s)

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn for what its parser refuses, after uvicorn has logged a warning."""
        self._refuse(self._callback_refusal or refusals.NOT_HTTP)

    def _refuse(self, refusal: Refusal) -> None:
        """Answer with an error and close the connection. Nothing that is received afterwards is read."""
        self._refused = True
        self._header.clear()
        log.info("a request from %s was refused with %d: %s", self.address, refusal.status, refusal.message)
        if self.transport.is_closing():
            return
        # `cycle` belongs to the latest request with a complete header. If the parser is in a body, that request is
        # refused; otherwise the next request is refused, for which there is no cycle.
        all_answered = self.cycle is None or self.cycle.response_complete
        if self._parser_state is not ParserState.IN_BODY:
            if all_answered:
                self._send_refusal(refusal)
            else:
                self._waiting_refusal = refusal
        elif all_answered or self.pipeline or self.cycle.response_started:
            # a refusal would be a second response to this request, or would overtake the responses to earlier ones
            self.abort()
        else:
            self._send_refusal(refusal)
            self.cycle.disconnected = True  # the app reads no more of the body
            self.cycle.message_event.set()

    def _send_refusal(self, refusal: Refusal) -> None:
        """Send `refusal` and the end of the stream, and leave the connection open for `refused_s` so that it is read.

        If the connection were closed at once, as it has to be with TLS, a client that is still sending could receive a
        reset instead.
        """
        if self.transport.get_write_buffer_size():  # the client is not reading the earlier responses
            self.abort()
            return
        self.transport.write(refusal.response(self.server_state.default_headers))
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self._connections.begin_idle(self, self._limits.refused_s)
        else:
            self.transport.close()
