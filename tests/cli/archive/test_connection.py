"""What `archive` says where it can't connect: one sentence, at once if waiting can't help. And the dashboard's link."""

from __future__ import annotations

import http.server
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from imgproc_local.archive import cluster
from imgproc_local.archive.cluster import NotConnected, connected, dashboard_link
from imgproc_local.domain.errors import ServiceError
from tests.cli.conftest import Program
from tests.support import pictures

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")

NEVER = threading.Event()
TLS = "distributed.comm.tls"


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "TRY_S", 1.0)


def refusal(address: str, timeout_s: float = 0.0) -> str:
    with pytest.raises(ServiceError) as raised, connected(address, timeout_s, NEVER):
        pass
    return raised.value.message


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def listening(handle: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port on loopback; `handle` is called with each connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with suppress(OSError), connection:
                    handle(connection)

    thread = threading.Thread(target=accept)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_without_a_scheduler_the_cause_is_named() -> None:
    port = free_port()
    message = refusal(f"tcp://127.0.0.1:{port}", timeout_s=1.5)
    assert message.startswith(f"There is no scheduler at tcp://127.0.0.1:{port} (")
    assert "Connection refused" in message
    assert "its address begins with tls://" in message


def test_the_scheduler_is_named_before_the_first_attempt_to_connect(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise ServiceError("not connected")

    monkeypatch.setattr("imgproc_local.archive.run.connected", refuse)
    program.in_process("archive", tmp_path, tmp_path / "web", "--scheduler", "tcp://127.0.0.1:1")
    assert caplog.messages == [
        "Without TLS, other users of this machine can run programs as the user of the workers.",
        "Waiting up to 60 s for the scheduler at tcp://127.0.0.1:1 and its first worker.",
    ]


def test_an_attempt_that_is_stopped_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "TRY_S", 60.0)
    stop = threading.Event()
    began_s = time.monotonic()
    threading.Timer(0.2, stop.set).start()
    # the other side accepts the connection and never answers
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(NotConnected), connected(address, 60, stop):
            pass
    assert time.monotonic() - began_s < 15


def test_a_client_without_certificates_is_told_which_settings_it_needs(tmp_path: Path) -> None:
    assert "set DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in refusal("tls://127.0.0.1:1", timeout_s=30)
    missing = str(tmp_path / "missing.pem")
    with dask.config.set({f"{TLS}.{name}": missing for name in ("ca-file", "client.cert", "client.key")}):
        assert "needs certificates, but they can't be read" in refusal("tls://127.0.0.1:1", timeout_s=30)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two authorities, `one.pem` and `two.pem`, which are also the certificates of nodes, with their keys."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("one", "two"):
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key"]
        command = [openssl, "req", "-x509", *key, "-subj", f"/CN={name}", "-out", f"{name}.pem"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize(("authority", "own"), [("two", "two"), ("one", "two")], ids=["of the server", "of the client"])
def test_certificates_of_another_authority_are_named_at_once(certificates: Path, authority: str, own: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "one.pem", certificates / "one.key")
    context.load_verify_locations(certificates / "one.pem")
    context.verify_mode = ssl.CERT_REQUIRED

    def handle(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as protected:
            protected.recv(1)

    client = {
        f"{TLS}.ca-file": str(certificates / f"{authority}.pem"),
        f"{TLS}.client.cert": str(certificates / f"{own}.pem"),
        f"{TLS}.client.key": str(certificates / f"{own}.key"),
    }
    with dask.config.set(client), listening(handle) as port:
        message = refusal(f"tls://127.0.0.1:{port}", timeout_s=30)
    assert "can't agree on TLS" in message


def test_a_connection_that_is_lost_at_once_is_reported_to_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        def wait_for_workers(self, number: int, timeout: float) -> None:
            raise ConnectionResetError

        def close(self, timeout: float) -> None: ...

    monkeypatch.setattr(cluster, "_open_client", lambda *_: Client())
    with pytest.raises(NotConnected), connected("tcp://127.0.0.1:1", 30, NEVER):
        pass


@contextmanager
def page_server(status: int, content: bytes) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/status"
        server.shutdown()
        thread.join()


def test_only_a_dashboard_that_answers_is_linked() -> None:
    with page_server(200, b"<html>Bokeh") as link:
        assert dashboard_link(SimpleNamespace(dashboard_link=link)) == link
    assert dashboard_link(SimpleNamespace(dashboard_link=link)) is None, "its server has ended"
    for status, content in ((200, b"<p>Dask needs bokeh>=3.1.0 for the dashboard."), (404, b"")):
        with page_server(status, content) as link:
            assert dashboard_link(SimpleNamespace(dashboard_link=link)) is None
    assert dashboard_link(SimpleNamespace(dashboard_link=None)) is None
    assert dashboard_link(SimpleNamespace()) is None


def test_a_plug_in_that_is_missing_is_named_without_a_traceback(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.jpg").write_bytes(pictures.jpeg(64, 48))
    monkeypatch.setitem(sys.modules, "gcsfs", None)  # fsspec would remember one that another test had loaded
    ended = program.in_process("archive", source, "gs://museum/web")
    assert ended.exit_code == 2
    assert "URLs that begin with gs:// need a plug-in" in ended.stderr
