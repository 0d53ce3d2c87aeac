"""What `archive` says where it can't connect: one sentence with the cause."""

from __future__ import annotations

import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

import dask

from imgproc_local.archive import cluster
from imgproc_local.archive.cluster import connected
from imgproc_local.domain.errors import ServiceError
from tests.cli.conftest import Program
from tests.support import pictures
from tests.support.certificates import self_signed

TLS = "distributed.comm.tls"


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 1.0)
    monkeypatch.setattr(cluster, "TRY_S", 1.0)


def refusal(address: str) -> str:
    with pytest.raises(ServiceError) as raised, connected(address):
        pass
    return raised.value.message


@contextmanager
def listening(handle: Callable[[socket.socket], object]) -> Iterator[str]:
    """An address on loopback; `handle` is called with each connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with suppress(OSError), connection:
                    handle(connection)

    thread = threading.Thread(target=accept)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_without_a_scheduler_the_cause_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    message = refusal(address)
    assert message.startswith(f"There is no connection to a scheduler at {address} (")
    assert "Connection refused" in message
    assert "its address begins with tls://" in message


def test_a_server_that_does_not_answer_is_no_scheduler() -> None:
    with listening(lambda connection: connection.recv(1_000_000) and connection.recv(1)) as address:
        assert "There is no connection" in refusal(f"tcp://{address}")


def test_a_client_without_certificates_is_told_which_settings_it_needs(tmp_path: Path) -> None:
    assert cluster.TLS_SETTINGS in refusal("tls://127.0.0.1:1")
    missing = str(tmp_path / "missing.pem")
    with dask.config.set({f"{TLS}.{name}": missing for name in ("ca-file", "client.cert", "client.key")}):
        assert cluster.TLS_SETTINGS in refusal("tls://127.0.0.1:1")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two authorities, `one.pem` and `two.pem`, which are also the certificates of nodes, with their keys."""
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("one", "two"):
        self_signed(folder, name)
    return folder


@pytest.mark.parametrize(("authority", "own"), [("two", "two"), ("one", "two")], ids=["of the server", "of the client"])
def test_certificates_of_another_authority_are_refused(certificates: Path, authority: str, own: str) -> None:
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
    with dask.config.set(client), listening(handle) as address:
        assert "certificates of one authority" in refusal(f"tls://{address}")


def test_a_plug_in_that_is_missing_is_named_without_a_traceback(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.jpg").write_bytes(pictures.jpeg(64, 48))
    monkeypatch.setitem(sys.modules, "gcsfs", None)  # fsspec would remember one that another test had loaded
    ended = program.in_process("archive", source, "gs://museum/web")
    assert ended.exit_code == 2
    assert "The plug-in of fsspec for a URL is missing" in ended.stderr
    assert "gcsfs" in ended.stderr
