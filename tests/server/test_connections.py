"""Many connections, and connections that nobody reads from."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from imgproc_local import server as door
from imgproc_local.server import Limits, Server, server_config
from tests.faults import disk
from tests.support.certificates import self_signed
from tests.support.raw_http import GET, TIMEOUT_S, connect, error_of, exchange, receive_all, statuses
from tests.support.service import Running, running
from tests.support.worker_pool import wait_until


def is_closed(connection: socket.socket) -> bool:
    """Whether the service has closed a connection on which it sends nothing."""
    connection.settimeout(0.05)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def wait_for_uploads(service: Running, count: int) -> None:
    """Wait until the service reads the bodies of `count` uploads."""
    assert wait_until(lambda: len(disk.incoming_files(service.services.config.data_dir)) == count)


async def endless(scope: Any, receive: Any, send: Any) -> None:
    """An application whose response has no end."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    disconnected = asyncio.create_task(receive_until_disconnect(receive))
    while not disconnected.done():
        await send({"type": "http.response.body", "body": bytes(1_000_000), "more_body": True})
        await asyncio.sleep(0)  # `send` does not let the loop run after a failed write


async def receive_until_disconnect(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@contextlib.contextmanager
def serving_endlessly(
    limits: Limits, certificate: Path | None = None
) -> Iterator[tuple[str, Server, threading.Thread]]:
    """Serves `endless`, with TLS where there is a certificate: the address, the server and its thread."""
    config = server_config(endless, 20)
    if certificate is not None:
        config.ssl_certfile = str(certificate)
    server = Server(config, on_stop=lambda: None, limits=limits)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", server, thread
        finally:
            server.should_exit = True
            thread.join(60)
        assert not thread.is_alive()


def test_a_client_that_does_not_read_its_answer_is_disconnected() -> None:
    with serving_endlessly(Limits(stalled_write_s=0.5)) as (root, server, _), connect(root) as connection:
        connection.sendall(GET + b"\r\n")
        assert wait_until(lambda: bool(server.server_state.connections))
        assert wait_until(lambda: not server.server_state.connections)
        assert statuses(receive_all(connection)) == [200]


def test_the_longest_idle_connection_makes_room_for_a_new_one(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running(tmp_path_factory.mktemp("data"), limits=Limits(connections=20)) as service:
        silent = [connect(service.root) for _ in range(40)]
        assert httpx.get(f"{service.root}/healthz").status_code == 200
        closed = [is_closed(connection) for connection in silent]
        assert closed[:20] == [True] * 20, "those that were idle longest"
        assert closed[-10:] == [False] * 10
        for connection in silent:
            connection.close()


def test_connections_that_are_all_busy_let_a_new_one_be_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running(tmp_path_factory.mktemp("data"), limits=Limits(connections=4)) as service:
        service.client.close()
        head = f"POST /api/v1/images/process HTTP/1.1\r\nHost: a\r\nX-API-Key: {service.key}\r\nContent-Length: 99\r\n"
        form = "Content-Type: multipart/form-data; boundary=b\r\n\r\n"
        uploads = [connect(service.root) for _ in range(4)]
        for upload in uploads:
            upload.sendall((head + form).encode())
        wait_for_uploads(service, 4)
        status, message = error_of(exchange(service.root))
        assert (status, "too many open connections" in message) == (503, True)
        for upload in uploads:
            upload.close()
        wait_for_uploads(service, 0)
        assert httpx.get(f"{service.root}/healthz").status_code == 200


def answer_over_tls(connection: socket.socket, request: bytes) -> bytes:
    """What is answered to a request that is sent in one packet with the end of the handshake."""
    received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl._create_unverified_context().wrap_bio(received, to_send)
    for step in (client.do_handshake, lambda: client.write(request), client.read):
        while True:
            try:
                answer = step()
                break
            except ssl.SSLWantReadError:
                connection.sendall(to_send.read())
                part = connection.recv(65536)
                assert part, "the connection was closed without an answer"
                received.write(part)
    return answer


def test_tls_handshakes_that_stall_do_not_keep_others_out(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    certificate.write_bytes(certificate.read_bytes() + key.read_bytes())
    context = ssl._create_unverified_context()
    with (
        serving_endlessly(Limits(connections=20, header_s=2), certificate) as (root, _, _),
        contextlib.ExitStack() as stack,
    ):
        stalled = [stack.enter_context(connect(root)) for _ in range(60)]
        with context.wrap_socket(connect(root)) as connection:
            connection.sendall(GET + b"\r\n")
            assert connection.recv(12) == b"HTTP/1.1 200"
        assert wait_until(lambda: all(is_closed(connection) for connection in stalled))
        with connect(root) as connection:
            assert statuses(answer_over_tls(connection, b"nonsense\r\n\r\n")) == [400]


@pytest.mark.skipif(sys.platform != "linux", reason="uses a second loopback address")
def test_one_foreign_address_gets_its_share_only(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "is_loopback", lambda host: host == "127.0.0.1")
    with running(tmp_path_factory.mktemp("data"), limits=Limits(connections=40)) as service:
        address = ("127.0.0.1", int(service.root.rpartition(":")[2]))
        near = [connect(service.root) for _ in range(10)]
        far = [socket.create_connection(address, TIMEOUT_S, ("127.0.0.2", 0)) for _ in range(60)]
        # connections are accepted in their order, so all others were when this one is answered
        assert httpx.get(f"{service.root}/healthz").status_code == 200
        assert [is_closed(connection) for connection in near] == [False] * 10
        assert [is_closed(connection) for connection in far].count(False) == 20
        for connection in (*near, *far):
            connection.close()
