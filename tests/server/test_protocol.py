"""Malformed, large and slow requests: what the server refuses before a key is read, and what it must accept."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from imgproc_local.api import uploads
from imgproc_local.server import Limits
from tests.support import pictures
from tests.support.raw_http import GET, connect, error_of, exchange, receive_all, receive_until, statuses
from tests.support.service import Running, running

POST = b"POST /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
CLOSE = b"Connection: close\r\n\r\n"
LIMITS = Limits(header_s=1, keep_alive_s=2, discard_s=1)
TOLERANCE_S = 60


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service that closes a refused connection soon, and waits for requests as usual."""
    with running(tmp_path_factory.mktemp("data"), limits=Limits(refused_s=0.5)) as started:
        yield started


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with short time-outs."""
    with running(tmp_path_factory.mktemp("data"), limits=LIMITS) as started:
        yield started


# ---- what is refused ----


@pytest.mark.parametrize(
    ("request_bytes", "status", "phrase"),
    [
        pytest.param(b"hello\r\n\r\n", 400, "RFC 9112", id="not HTTP"),
        pytest.param(b"GET /healthz HTTP/1.1\r\n\r\n", 400, "one Host", id="no Host"),
        pytest.param(GET + b"Host: b\r\n\r\n", 400, "one Host", id="two Hosts"),
        pytest.param(b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 400, "CONNECT", id="CONNECT"),
        pytest.param(
            POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "RFC 9112", id="CL and TE"
        ),
        pytest.param(POST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde", 400, "RFC 9112", id="two lengths"),
        pytest.param(b"GET /healthz HTTP/1.1\nHost: a\n\n", 400, "RFC 9112", id="bare LF"),
        pytest.param(GET + b"Upgrade: a\nX: 1\r\n\r\n", 400, "RFC 9112", id="bare LF after Upgrade"),
        pytest.param(GET + b"X: 1\rY: 2\r\n\r\n", 400, "RFC 9112", id="bare CR"),
        pytest.param(GET + b"X : 1\r\n\r\n", 400, "RFC 9112", id="space before the colon"),
        pytest.param(GET + b"X: 1\r\n 2\r\n\r\n", 400, "RFC 9112", id="folded field"),
        pytest.param(
            POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400, "RFC 9112", id="chunked is not last"
        ),
        pytest.param(
            POST + b"Transfer-Encoding: chunked\r\n\r\n1\na\n0\r\n\r\n", 400, "RFC 9112", id="bare LF in a chunk"
        ),
        pytest.param(GET + b"A: b\r\n" * 101 + b"\r\n", 431, "100 fields", id="101 fields"),
        pytest.param(GET + b"X: " + b"a" * 40_000, 431, "32768 bytes", id="header without end"),
        pytest.param(GET + b"X: " + b"a" * 40_000 + b"\r\n\r\n", 431, "32768 bytes", id="large field"),
        pytest.param(b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 431, "32768 bytes", id="large path"),
    ],
)
def test_a_malformed_request_is_refused_in_the_shape_of_all_errors(
    service: Running, request_bytes: bytes, status: int, phrase: str
) -> None:
    received_status, message = error_of(exchange(service.root, request_bytes))
    assert received_status == status
    assert phrase in message


def test_a_refusal_reaches_a_client_that_still_sends(service: Running) -> None:
    with connect(service.root) as connection:
        connection.sendall(GET)
        for _ in range(20):
            connection.sendall(b"X: " + b"a" * 50_000 + b"\r\n")
            time.sleep(0.01)
        assert error_of(receive_all(connection))[0] == 431


@pytest.mark.parametrize(
    ("packets", "expected"),
    [
        pytest.param([GET + b"\r\n" + b"nonsense\r\n\r\n"], [200, 400], id="in the packet of a request"),
        pytest.param([GET + b"\r\n", b"nonsense\r\n\r\n"], [200, 400], id="after a response"),
        pytest.param([GET + b"\r\n" + GET, b"X: " + b"a" * 40_000 + b"\r\n\r\n"], [200, 431], id="pipelined header"),
        pytest.param([GET + b"\r\n" + GET + b"A: b\r\n" * 101 + b"\r\n"], [200, 431], id="pipelined fields"),
    ],
)
def test_requests_before_a_refused_one_are_answered_first(
    service: Running, packets: list[bytes], expected: list[int]
) -> None:
    assert statuses(exchange(service.root, *packets)) == expected


def test_a_malformed_body_ends_its_request(service: Running) -> None:
    key = service.key.encode()
    head = (
        b"POST /api/v1/images/process HTTP/1.1\r\nHost: a\r\nX-API-Key: " + key + b"\r\nTransfer-Encoding: chunked\r\n"
    )
    form = b"Content-Type: multipart/form-data; boundary=b\r\n\r\n"
    assert error_of(exchange(service.root, head + form + b"3\r\n--b\r\n", b"not a chunk\r\n"))[0] == 400
    assert statuses(exchange(service.root, head + form + b"not a chunk\r\n")) == [400]


def test_a_body_of_tiny_chunks_does_not_occupy_the_service(service: Running) -> None:
    head = b"POST /api/v1/exports HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connect(service.root) as connection:
        connection.sendall(head)
        assert statuses(receive_until(connection, b"}")) == [401]
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"1\r\na\r\n" * 1_001 + b"0\r\n\r\n" + GET + CLOSE)
        assert receive_all(connection) == b""  # disconnected: the request after the body is not read


@pytest.mark.parametrize("sends", [GET + b"\r\n", b"x" * 100], ids=["a request", "the body nevertheless"])
def test_a_refusal_without_100_continue_ends_the_connection(service: Running, sends: bytes) -> None:
    """The server could not tell a body that follows nevertheless from the next request."""
    expecting = POST.replace(b"/healthz", b"/api/v1/exports") + b"Expect: 100-continue\r\nContent-Length: 100\r\n\r\n"
    with connect(service.root) as connection:
        connection.sendall(expecting)
        answer = receive_all(connection)
        assert statuses(answer) == [401]
        assert b"connection: close" in answer.lower()
        with contextlib.suppress(ConnectionError):
            connection.sendall(sends)
        assert receive_all(connection) == b""


def test_a_refusal_on_a_connection_that_ends_reaches_a_client_that_still_sends(service: Running) -> None:
    head = POST.replace(b"/healthz", b"/api/v1/exports") + b"Content-Length: 20000000\r\n" + CLOSE
    with connect(service.root) as connection:
        connection.sendall(head)
        for _ in range(200):
            connection.sendall(b"a" * 100_000)
            time.sleep(0.001)
        assert statuses(receive_all(connection)) == [401]


# ---- what is accepted ----


@pytest.mark.parametrize(
    ("packets", "answers"),
    [
        pytest.param([GET + b"\r\n" + GET + CLOSE], 2, id="two at once"),
        pytest.param([(GET + b"\r\n") * 20 + GET + CLOSE], 21, id="twenty waiting"),
        pytest.param([GET + CLOSE[:-2], b"\r\n"], 1, id="cut before the last line break"),
        pytest.param([b"\r\n\r\n" + GET + CLOSE], 1, id="empty lines before"),
        pytest.param([GET + b"X: " + b"a" * 30_000 + b"\r\n" + CLOSE], 1, id="field of 30 kB"),
        pytest.param([b"GET /healthz HTTP/1.0\r\n\r\n"], 1, id="HTTP/1.0 without Host"),
        pytest.param([GET.replace(b"/", b"http://127.0.0.1/", 1) + CLOSE], 1, id="absolute target"),
        pytest.param([GET + b"Upgrade: websocket\r\nConnection: Upgrade, close\r\n\r\n"], 1, id="WebSocket"),
    ],
)
def test_an_unusual_but_valid_request_is_answered(service: Running, packets: list[bytes], answers: int) -> None:
    assert statuses(exchange(service.root, *packets)) == [200] * answers


@pytest.mark.parametrize("separate", [False, True], ids=["one packet", "header first"])
def test_an_upload_that_offers_an_upgrade_to_http2_is_accepted(service: Running, separate: bool) -> None:
    """As Java's HttpClient sends it. uvicorn alone loses the body of such a request."""
    request = service.client.build_request("POST", "/images/optimize", files={"image": ("a.jpg", pictures.jpeg())})
    fields = {
        **request.headers,
        "connection": "Upgrade, HTTP2-Settings",
        "upgrade": "h2c",
        "http2-settings": "AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    header = f"POST /api/v1/images/optimize HTTP/1.1\r\n{lines}\r\n".encode()
    body = request.read()
    with connect(service.root) as connection:
        for packet in (header, body) if separate else (header + body,):
            connection.sendall(packet)
        response = receive_until(connection, b"}}")
    assert statuses(response) == [202], response


# ---- time ----


@pytest.mark.parametrize(
    ("begin", "slowly", "expected", "after_s"),
    [
        pytest.param(b"", b"", [], LIMITS.header_s, id="silent"),
        pytest.param(b"", b"\r\n", [], LIMITS.header_s, id="empty lines"),
        pytest.param(GET + b"X: ", b"a", [408], LIMITS.header_s, id="header"),
        pytest.param(GET + b"\r\n" + GET + b"X: ", b"a", [200, 408], LIMITS.header_s, id="pipelined header"),
        pytest.param(GET + b"\r\n", b"", [200], LIMITS.keep_alive_s, id="silent after a response"),
        pytest.param(
            POST + b"Content-Length: 100000000\r\n\r\n", b"x", [405], LIMITS.discard_s, id="body after a response"
        ),
    ],
)
def test_a_slow_connection_is_ended(
    impatient: Running, begin: bytes, slowly: bytes, expected: list[int], after_s: float
) -> None:
    began_s = time.monotonic()
    received = b""
    with connect(impatient.root) as connection:
        connection.sendall(begin)
        connection.settimeout(0.1)
        while time.monotonic() - began_s < after_s + TOLERANCE_S:
            try:
                connection.sendall(slowly)
                part = connection.recv(65536)
            except TimeoutError:
                continue
            except ConnectionError:
                break
            if not part:
                break
            received += part
        else:
            pytest.fail("the connection is still open")
    assert time.monotonic() - began_s > after_s * 0.9
    assert statuses(received) == expected


@pytest.mark.parametrize(("bytes_per_packet", "status"), [(1, 408), (400, 202)])
def test_an_upload_may_be_slow_but_not_without_end(
    service: Running, monkeypatch: pytest.MonkeyPatch, bytes_per_packet: int, status: int
) -> None:
    monkeypatch.setattr(uploads, "SLOW_UPLOAD_S", 0.5)
    monkeypatch.setattr(uploads, "SLOW_UPLOAD_BYTES_PER_S", 20)
    request = service.client.build_request(
        "POST", "/images/optimize", files={"image": ("a.jpg", pictures.jpeg(90, 60))}
    )
    body = request.read()
    began_s = time.monotonic()
    with connect(service.root) as connection:
        lines = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
        connection.sendall(f"POST /api/v1/images/optimize HTTP/1.1\r\n{lines}\r\n".encode())
        connection.settimeout(0.1)
        response = b""
        while not response:
            connection.sendall(body[:bytes_per_packet])
            body = body[bytes_per_packet:]
            try:
                response = connection.recv(65536)
            except TimeoutError:
                assert time.monotonic() - began_s < TOLERANCE_S
    assert statuses(response) == [status]
    assert time.monotonic() - began_s > 0.5
