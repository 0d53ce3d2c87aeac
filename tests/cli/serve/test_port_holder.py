"""Who holds a port, read from Linux's /proc or from a copy of what it looks like."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from imgproc_local.cli.serve.port_holder import port_holder

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def listening(port: int, inode: int, user: int = 0, state: str = "0A") -> str:
    return (
        f"   0: 0100007F:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 {user} 0 {inode} 1\n"
    )


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "net").mkdir()
    for process, name, inode in ((41, "nginx", 900), (os.getpid(), "imgproc-local", 901)):
        (tmp_path / str(process) / "fd").mkdir(parents=True)
        (tmp_path / str(process) / "fd" / "3").symlink_to(f"socket:[{inode}]")
        (tmp_path / str(process) / "comm").write_text(f"{name}\n")
    table = (
        HEAD + listening(80, 900) + listening(81, 901) + listening(82, 902, user=65534) + listening(83, 900, state="01")
    )
    (tmp_path / "net" / "tcp").write_text(table)
    return tmp_path


def test_the_program_and_its_number_are_told(proc: Path) -> None:
    holder = port_holder(80, proc)
    assert (holder.words, holder.may_be_this_program) == ("nginx (process 41)", False)
    assert port_holder(81, proc).may_be_this_program


def test_of_another_user_s_program_the_user_is_told(proc: Path) -> None:
    assert "user" in port_holder(82, proc).words
    assert not port_holder(82, proc).may_be_this_program


def test_a_connection_is_no_listener_and_without_proc_nothing_is_known(proc: Path, tmp_path: Path) -> None:
    for known in (port_holder(83, proc), port_holder(80, tmp_path / "none")):
        assert (known.words, known.may_be_this_program) == ("another program", True)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_this_very_process_is_found(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        try:
            listener.bind((host, 0))
        except OSError:
            pytest.skip(f"{host} is not there")
        listener.listen()
        assert f"(process {os.getpid()})" in port_holder(listener.getsockname()[1]).words
