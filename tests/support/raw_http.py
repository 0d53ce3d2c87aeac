"""HTTP as bytes on a socket, for requests that no client library sends."""

from __future__ import annotations

import json
import re
import socket
import time
from urllib.parse import urlsplit

GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
"""The beginning of a request; more fields or an empty line must follow."""
PAUSE_S = 0.05
"""Between packets, so that the server receives them separately."""
TIMEOUT_S = 60


def connect(root: str) -> socket.socket:
    """A connection to the service at `root`, such as http://127.0.0.1:8484."""
    address = urlsplit(root)
    assert address.hostname
    assert address.port
    return socket.create_connection((address.hostname, address.port), timeout=TIMEOUT_S)


def exchange(root: str, *packets: bytes) -> bytes:
    """What the service sends until it closes the connection. It must close it within `TIMEOUT_S`."""
    with connect(root) as connection:
        for packet in packets:
            connection.sendall(packet)
            time.sleep(PAUSE_S)
        return receive_all(connection)


def receive_all(connection: socket.socket) -> bytes:
    """What is received until the other side closes the connection. Raises: TimeoutError."""
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionError:
        pass
    return received


def receive_until(connection: socket.socket, end: bytes) -> bytes:
    """What is received until it ends with `end`. Raises: TimeoutError."""
    received = b""
    while not received.endswith(end):
        part = connection.recv(65536)
        assert part, f"the connection was closed after {received!r}"
        received += part
    return received


def statuses(received: bytes) -> list[int]:
    """The status codes of the responses in `received`."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]


def error_of(received: bytes) -> tuple[int, str]:
    """Status and message of the only response in `received`."""
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head
    assert b"connection: close" in head
    content = json.loads(body)
    assert list(content) == ["message"]
    return int(head[9:12]), content["message"]
