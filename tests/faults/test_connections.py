"""Many, slow and malformed connections, with few file handles, and orderly stops while they are open."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.faults.server_process import PATIENT, SOURCE, serving
from tests.support import pictures
from tests.support.raw_http import GET, connect, receive_all, statuses
from tests.support.service import Service

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows limits no file handles and has no SIGTERM")


def with_handles(count: int) -> tuple[str | Path, ...]:
    """The command of the program, limited to `count` file handles."""
    return ("sh", "-c", f'ulimit -n {count}; exec "$@"', "sh", *SOURCE)


@contextlib.contextmanager
def opened(root: str, count: int, begin: bytes = b"") -> Iterator[list[socket.socket]]:
    """`count` connections to the service at `root`, on each of which `begin` was sent."""
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(count):
            connections.append(stack.enter_context(connect(root)))
            connections[-1].sendall(begin)
        yield connections


def test_uploads_and_polls_go_on_while_idle_and_slow_connections_use_all_handles(folder: Path, key: str) -> None:
    upload = (
        f"POST /api/v1/images/optimize HTTP/1.1\r\nHost: a\r\nX-API-Key: {key}\r\nContent-Length: 9999\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\n\r\n--b\r\n"
    ).encode()
    with serving(folder, program=with_handles(400)) as server:
        root = server.wait_ready()
        with (
            opened(root, 20, upload),
            opened(root, 300),
            opened(root, 30, GET + b"X: "),
            Service(root, key) as service,
        ):
            for number in range(10):
                job_id = service.dispatch("optimize", pictures.jpeg(90, 60, seed=number))["job_id"]
                with opened(root, 20):
                    assert service.final(job_id)["status"] == "completed"
        assert server.terminate() == 0
        assert "Traceback" not in server.output()
        assert len(server.output()) < 20_000


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can change the limits of a running process")
def test_a_server_without_any_handle_left_still_answers(folder: Path, key: str) -> None:
    import resource

    with serving(folder) as server:
        root = server.wait_ready()
        handles = sum(1 for _ in Path(f"/proc/{server.pid}/fd").iterdir()) + 12
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (handles, handles))
        with opened(root, 60):
            assert httpx.get(f"{root}/healthz").status_code == 200
        assert server.terminate() == 0
        assert "Traceback" not in server.output()
        assert len(server.output()) < 20_000


def test_malformed_requests_do_not_fill_the_log(folder: Path, key: str) -> None:
    with serving(folder) as server:
        root = server.wait_ready()
        for _ in range(300):
            with connect(root) as connection:
                connection.sendall(b"nonsense\r\n\r\n")
                assert statuses(connection.recv(4096)) == [400]
        assert server.terminate() == 0
        assert len(server.output()) < 20_000
        assert "more messages of this kind are not logged" in server.output()


@pytest.mark.parametrize("case", ["idle", "header begun", "body without key", "unread response", "refused"])
def test_a_stop_does_not_wait_for_clients(folder: Path, key: str, case: str) -> None:
    begin = {
        "idle": b"",
        "header begun": GET,
        "body without key": b"POST /api/v1/images/process HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n",
        "unread response": (GET + b"\r\n") * 8,
        "refused": b"nonsense\r\n\r\n",
    }[case]
    with serving(folder, program=PATIENT) as server, opened(server.wait_ready(), 5, begin) as connections:
        # connections are accepted in their order, so all others were when this one is answered
        assert httpx.get(f"{server.root}/healthz").status_code == 200
        assert server.terminate() == 0, server.output()
        assert "Traceback" not in server.output(), server.output()
        for connection in connections:
            receive_all(connection)
