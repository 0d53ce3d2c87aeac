"""The cluster that pictures are processed on: who may connect to it, and why there is no connection or no plug-in."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import sys
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")
pytest.importorskip("psutil")

import dask
import psutil

from imgproc_local.archive import cluster
from imgproc_local.archive.cluster import _COMMAND, connected, local_cluster
from imgproc_local.domain.errors import ServiceError
from tests.cli.conftest import Program
from tests.support import pictures, processes
from tests.support.worker_pool import wait_until

TLS = "distributed.comm.tls"


def require_closed_ports() -> None:
    """Fails if a port speaks HTTP, or lets a client of Dask in that has no certificate or another one."""
    from distributed.comm.core import connect
    from distributed.security import Security

    below = processes.descendants(os.getpid())
    parent = next(pid for pid in below if _COMMAND in processes.command_line(pid))
    pids = (parent, *processes.descendants(parent))
    sockets = [each for pid in pids for each in psutil.Process(pid).net_connections()]
    ports = {each.laddr.port for each in sockets if each.status == psutil.CONN_LISTEN}
    assert len(ports) == 3, "those of scheduler, nanny and worker"
    for port in ports:
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10)
        for protocol, security in (("tcp", Security()), ("tls", Security.temporary())):
            arguments = security.get_connection_args("client")
            with pytest.raises(OSError, match=r"Timed out|certificate|closed"):
                asyncio.run(connect(f"{protocol}://127.0.0.1:{port}", timeout=1, **arguments))


@pytest.mark.skipif("sys.platform != 'linux'")
def test_no_port_of_the_local_cluster_lets_another_client_in_also_after_a_worker_was_killed() -> None:
    with local_cluster(1, 0, {}) as (address, security), connected(address, security) as client:
        require_closed_ports()
        ((worker, pid),) = client.run(os.getpid).items()
        os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: list(client.nthreads()) not in ([], [worker]), 60)
        assert client.run(os.getpid) != {worker: pid}
        require_closed_ports()


def test_a_local_cluster_that_does_not_start_is_reported_once_with_the_reason(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source").mkdir()
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TLS__MIN_VERSION", "9")
    (line,) = program.error("archive", tmp_path / "source", tmp_path / "target", "--workers", "1").splitlines()
    assert line.startswith("Error: The local cluster of Dask can't be started (exit status 1: ValueError: ")
    assert "min-version=9 is not supported" in line


def refusal(address: str) -> str:
    with pytest.raises(ServiceError) as raised, connected(address):
        pass
    return raised.value.message


def test_where_no_scheduler_answers_the_cause_and_the_settings_of_tls_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_CONNECT_S", 1.0)
    message = refusal("tcp://127.0.0.1:1")
    assert message.startswith("There is no connection to a scheduler at tcp://127.0.0.1:1 (")
    assert "Connection refused" in message
    assert "its address begins with tls://" in message
    assert cluster._TLS_SETTINGS in refusal("tls://127.0.0.1:1")
    missing = str(tmp_path / "missing.pem")
    with dask.config.set({f"{TLS}.{name}": missing for name in ("ca-file", "client.cert", "client.key")}):
        assert cluster._TLS_SETTINGS in refusal("tls://127.0.0.1:1")


def test_the_cause_is_named_also_where_the_last_attempt_was_cut_by_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster, "_CONNECT_S", 1e-9)
    assert "Connection refused" in refusal("tcp://127.0.0.1:1")


def test_a_plug_in_that_is_missing_is_named_without_a_traceback(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.jpg").write_bytes(pictures.jpeg(64, 48))
    monkeypatch.setitem(sys.modules, "gcsfs", None)  # fsspec would remember one that another test had loaded
    refused = program.error("archive", source, "gs://museum/web")
    assert "The plug-in of fsspec for a URL is missing" in refused
    assert "gcsfs" in refused
