"""A Tinify-compatible server on this machine, with failures that a test selects.

A `Behaviour` answers one request. The server takes the next one from `posts` or `gets` for each POST or GET; when none
is left, it works normally.
"""

from __future__ import annotations

import base64
import contextlib
import http.server
import io
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

from PIL import Image

from tests.support.http_double import serving_double

KEY = "key-never-to-be-revealed-4711"
AUTHORIZATION = "Basic " + base64.b64encode(f"api:{KEY}".encode()).decode()

Behaviour = Callable[["Handler"], None]


def shrink(data: bytes) -> bytes:
    """The picture `data` as a smaller file of the same format, without metadata."""
    picture = Image.open(io.BytesIO(data))
    file_format = picture.format
    assert file_format
    plain = picture.quantize(64) if file_format == "PNG" else picture.convert("RGB")
    plain.info.clear()
    out = io.BytesIO()
    plain.save(out, file_format, **({"optimize": True} if file_format == "PNG" else {"quality": 60}))
    return out.getvalue()


class Request(NamedTuple):
    """A request that the server has received."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class TinifyServer:
    """The state of the server.

    `requests` are those received so far, and `results` the files made from them. `shrink` makes a result. `stop` ends
    the behaviours that wait.
    """

    def __init__(self) -> None:
        self.posts: list[Behaviour] = []
        self.gets: list[Behaviour] = []
        self.requests: list[Request] = []
        self.shrink: Callable[[bytes], bytes] = shrink
        self.results: list[bytes] = []
        self.stop = threading.Event()
        self.url = ""

    def count(self, method: str) -> int:
        """The number of requests with this method."""
        return sum(request.method == method for request in self.requests)


class Handler(http.server.BaseHTTPRequestHandler):
    tinify: TinifyServer

    def do_POST(self) -> None:
        self._respond(self.tinify.posts, created)

    def do_GET(self) -> None:
        self._respond(self.tinify.gets, send_result)

    def _respond(self, behaviours: list[Behaviour], default: Behaviour) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.tinify.requests.append(Request(self.command, self.path, dict(self.headers), self.body))
        if self.headers["Authorization"] != AUTHORIZATION:
            error_response(401, "Unauthorized", "Credentials are invalid.")(self)
            return
        with contextlib.suppress(ConnectionError):
            (behaviours.pop(0) if behaviours else default)(self)

    def send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)


def created(handler: Handler) -> None:
    """The normal behaviour for a POST: makes the result and responds with its URL."""
    created_at(f"{handler.tinify.url}/output/0")(handler)


def created_at(location: str) -> Behaviour:
    """As `created`, with this Location header (none for "")."""

    def behave(handler: Handler) -> None:
        result = handler.tinify.shrink(handler.body)
        handler.tinify.results.append(result)
        handler.send(201, b"{}", **({"Location": location} if location else {}))

    return behave


def send_result(handler: Handler) -> None:
    """The normal behaviour for a GET: sends the last result."""
    handler.send(200, handler.tinify.results[-1])


def error_response(status: int, error: str, message: str) -> Behaviour:
    """Responds with an error in the service's JSON format."""
    return response(status, json.dumps({"error": error, "message": message}).encode())


def response(status: int, body: bytes = b"", **headers: str) -> Behaviour:
    """Responds with this status, body and headers. Underscores in names of headers stand for hyphens."""
    return lambda handler: handler.send(status, body, **headers)


def reset_connection(handler: Handler) -> None:
    """Resets the connection instead of answering."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RD)
    handler.connection.close()


def send_half(handler: Handler) -> None:
    """Sends half of the result, with the Content-Length of the whole."""
    result = handler.tinify.results[-1]
    handler.close_connection = True
    handler.send(200, result[: len(result) // 2], Content_Length=str(len(result)))


def never_respond(handler: Handler) -> None:
    """Sends nothing until the server stops."""
    handler.close_connection = True
    handler.tinify.stop.wait(120)


def respond_slowly(handler: Handler) -> None:
    """Sends single bytes, so often that no read times out."""
    handler.close_connection = True
    handler.send(200, b"", Content_Length="1000")
    while not handler.tinify.stop.wait(0.02):
        handler.wfile.write(b"x")
        handler.wfile.flush()


@contextlib.contextmanager
def tinify_server() -> Iterator[TinifyServer]:
    """Run a server inside the block."""
    tinify = TinifyServer()
    with serving_double(Handler, tinify=tinify) as tinify.url:
        try:
            yield tinify
        finally:
            tinify.stop.set()
