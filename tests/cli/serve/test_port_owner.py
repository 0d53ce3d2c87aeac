"""Finding the program that listens on a port, in /proc of Linux or in a folder with the same layout."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from imgproc_local.cli.serve.port_owner import PortOwner, port_owner

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def listening(port: int, inode: int, uid: int = 0, state: str = "0A") -> str:
    return f"   0: 0100007F:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 {uid} 0 {inode} 1\n"


SERVERS = {
    61: "/home/mia/venv/bin/python /home/mia/venv/bin/imgproc-local --data-dir /d serve",
    62: "python3 -m imgproc_local serve --port 101",
    63: "/opt/imgproc-local/imgproc-local serve --no-browser",
}
"""Process IDs and command lines of this service. Each process listens on the port that is its ID plus 39."""


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "net").mkdir()
    commands = {41: "/usr/bin/python3 -m http.server 80", **SERVERS}
    rows = [listening(82, 902, uid=65534), listening(83, 41, state="01")]
    for pid, command in commands.items():
        (tmp_path / str(pid) / "fd").mkdir(parents=True)
        (tmp_path / str(pid) / "fd" / "3").symlink_to(f"socket:[{pid}]")
        (tmp_path / str(pid) / "comm").write_text("python3\n")
        (tmp_path / str(pid) / "cmdline").write_text(command.replace(" ", "\0") + "\0")
        rows.append(listening(pid + 39, pid))
    (tmp_path / "net" / "tcp").write_text(HEAD + "".join(rows))
    return tmp_path


def test_another_program_is_named_and_can_not_be_a_starting_server(proc: Path) -> None:
    assert port_owner(80, proc) == PortOwner("python3 (process 41)", may_be_starting=False)


@pytest.mark.parametrize("pid", SERVERS)
def test_a_server_of_this_program_is_recognised_by_its_command_line(proc: Path, pid: int) -> None:
    assert port_owner(pid + 39, proc) == PortOwner(f"imgproc-local (process {pid})", may_be_starting=True)


def test_a_program_of_another_user_is_named_by_the_user(proc: Path) -> None:
    owner = port_owner(82, proc)
    assert "user" in owner.description
    assert not owner.may_be_starting


def test_without_a_listener_or_without_proc_the_program_is_unknown(proc: Path, tmp_path: Path) -> None:
    for owner in (port_owner(83, proc), port_owner(80, tmp_path / "none")):
        assert owner == PortOwner("another program", may_be_starting=True)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_process_of_the_test_is_found(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        try:
            listener.bind((host, 0))
        except OSError:
            pytest.skip(f"{host} is not available")
        listener.listen()
        assert f"(process {os.getpid()})" in port_owner(listener.getsockname()[1]).description
