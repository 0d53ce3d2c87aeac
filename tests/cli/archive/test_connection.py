"""What `archive` says where it can't connect: one sentence with the cause."""

from __future__ import annotations

import socket
import sys
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

TLS = "distributed.comm.tls"


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 1.0)


def refusal(address: str) -> str:
    with pytest.raises(ServiceError) as raised, connected(address):
        pass
    return raised.value.message


def test_without_a_scheduler_the_cause_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    message = refusal(address)
    assert message.startswith(f"There is no connection to a scheduler at {address} (")
    assert "Connection refused" in message
    assert "its address begins with tls://" in message


def test_a_client_without_certificates_is_told_which_settings_it_needs(tmp_path: Path) -> None:
    assert cluster.TLS_SETTINGS in refusal("tls://127.0.0.1:1")
    missing = str(tmp_path / "missing.pem")
    with dask.config.set({f"{TLS}.{name}": missing for name in ("ca-file", "client.cert", "client.key")}):
        assert cluster.TLS_SETTINGS in refusal("tls://127.0.0.1:1")


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
