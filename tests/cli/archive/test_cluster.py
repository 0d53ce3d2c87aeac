"""The local cluster: only its own client connects to it, and why it does not start is said."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import urllib.request
from pathlib import Path

import pytest

from imgproc_local.archive.cluster import COMMAND, connected, local_cluster
from tests.cli.conftest import Program
from tests.support import processes
from tests.support.worker_pool import wait_until

pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")


def open_ports() -> set[int]:
    """The ports on which the processes of the local cluster listen."""
    below = processes.descendants(os.getpid())
    cluster = next(pid for pid in below if COMMAND in processes.command_line(pid))
    sockets = [
        each for pid in (cluster, *processes.descendants(cluster)) for each in psutil.Process(pid).net_connections()
    ]
    return {each.laddr.port for each in sockets if each.status == psutil.CONN_LISTEN}


def require_closed_ports() -> None:
    """Fails if a port speaks HTTP, or lets a client of Dask in that has no certificate or another one."""
    from distributed.comm.core import connect
    from distributed.security import Security

    ports = open_ports()
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
    ended = program.in_process("archive", tmp_path / "source", tmp_path / "target", "--workers", "1")
    assert ended.exit_code == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("Error: The local cluster of Dask can't be started (exit status 1: ValueError: ")
    assert "min-version=9 is not supported" in line
