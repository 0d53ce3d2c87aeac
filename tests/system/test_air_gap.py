"""Air-gapped mode: what is refused, to whom, and what goes on. In processes of their own: it can't be undone."""

from __future__ import annotations

import platform
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import msgspec
import pytest

from imgproc_local.system.piped_child import ChildEnded, PipedChild
from tests.faults.server_process import ROOT, clean_environment, make_key, serving
from tests.support import pictures

FILTERED = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
only_filtered = pytest.mark.skipif(not FILTERED, reason="only Linux has a filter that a program can set for itself")

BEFORE = """
import ctypes, errno, os, socket, subprocess, sys, threading
from imgproc_local.system import air_gap

def refused(attempt, *arguments):
    try:
        attempt(*arguments)
    except PermissionError as error:
        return str(error)
    raise AssertionError("it was not refused")

def from_c(name, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    outcome = getattr(libc, name)(*arguments)
    assert outcome == -1 and ctypes.get_errno() == errno.EACCES, (name, arguments, outcome, ctypes.get_errno())

listener = socket.create_server(("127.0.0.1", 0))
tcp, udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
"""


def python(script: str, **environment: str) -> None:
    """Run `script` in a process of its own; it has the names of `BEFORE`. It must not fail."""
    done = subprocess.run(
        [sys.executable, "-c", BEFORE + script],
        cwd=ROOT,
        env=clean_environment() | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def sealed(script: str, *, without_filter: bool = False) -> None:
    """Run `script` in a process that is sealed."""
    unfiltered = "air_gap.block_sockets = lambda: None\n" if without_filter else ""
    python(f"{unfiltered}air_gap.enable()\n{script}")


ATTEMPTS = (
    "tcp.connect, ('192.0.2.1', 443)",
    "tcp.connect_ex, ('192.0.2.1', 443)",
    "udp.sendto, b'x', ('192.0.2.1', 53)",
    "udp.sendmsg, [b'x'], [], 0, ('192.0.2.1', 53)",
    "udp.bind, ('0.0.0.0', 0)",
    "socket.create_connection, ('192.0.2.1', 443)",
    "socket.getaddrinfo, 'example.com', 443",
    "socket.getaddrinfo, b'example.com', 443",
    "socket.gethostbyname, 'example.com'",
    "socket.gethostbyaddr, '192.0.2.1'",
    "socket.getnameinfo, ('192.0.2.1', 443), 0",
)


def test_python_code_gets_a_clear_error_on_every_system() -> None:
    script = "".join(f"assert 'air_gapped is true' in refused({attempt})\n" for attempt in ATTEMPTS)
    sealed(script, without_filter=True)


@only_filtered
def test_no_library_gets_a_socket_or_a_connection() -> None:
    sealed(
        "for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, 16, 40):\n"
        "    from_c('socket', family, socket.SOCK_STREAM, 0)\n"
        "from_c('connect', tcp.fileno(), None, 0)\n"
        "from_c('syscall', 425, 8, None)\n"  # io_uring
        "from_c('socketpair', socket.AF_INET, socket.SOCK_STREAM, 0, None)\n"
        # datagrams can be sent to any address, from raw Unix sockets too; SOCK_STREAM is one bit of SOCK_RAW
        "for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):\n"
        "    from_c('socketpair', socket.AF_UNIX, kind | socket.SOCK_CLOEXEC, 0, None)\n"
        "for fast_open in ('sendto', 'send'):\n"
        "    from_c(fast_open, tcp.fileno(), b'x', 1, 0x20000000, None, 0)\n"
        "from_c('sendmsg', tcp.fileno(), None, 0x20000000)\n"
        "from_c('sendmmsg', tcp.fileno(), None, 1, 0x20000000)\n"
    )


@only_filtered
def test_earlier_threads_and_child_processes_are_restricted_too() -> None:
    python(
        "go, held = threading.Event(), []\n"
        "def work():\n    go.wait()\n    held.append(ctypes.CDLL(None).socket(2, 1, 0))\n"
        "thread = threading.Thread(target=work)\nthread.start()\nair_gap.enable()\ngo.set()\nthread.join()\n"
        "assert held == [-1]\n"
        "child = [sys.executable, '-c', 'import ctypes; print(ctypes.CDLL(None).socket(2, 1, 0))']\n"
        "assert subprocess.run(child, capture_output=True, text=True).stdout.strip() == '-1'\n"
    )


def test_an_open_listener_event_loops_files_and_child_processes_still_work(tmp_path: Path) -> None:
    own_file = tmp_path / "own"
    own_file.touch()
    client = (
        "import socket, sys, time\ntime.sleep(0.5)\n"
        "s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=60)\n"
        "s.sendall(b'hi')\nprint(s.recv(2).decode())\n"
    )
    script = (
        f"import asyncio\nCLIENT = {client!r}\n"
        "client = subprocess.Popen([sys.executable, '-c', CLIENT, str(listener.getsockname()[1])], stdout=-1)\n"
        "air_gap.enable()\nlistener.settimeout(60)\nconnection, _ = listener.accept()\n"
        "assert connection.recv(2) == b'hi'\nconnection.sendall(b'yo')\n"
        "assert client.communicate(timeout=60)[0].strip() == b'yo'\n"
        "asyncio.run(asyncio.sleep(0))\nassert socket.socketpair()\n"
        "ours = socket.socketpair(type=socket.SOCK_STREAM | socket.SOCK_NONBLOCK)\n"
        "assert ours[0].sendmsg([b'x']) == 1\nassert ours[1].recvmsg(1)[0] == b'x'\n"
        "os.chmod(os.environ['OWN_FILE'], 0o600)\nos.utime(os.environ['OWN_FILE'])\n"
        "assert subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True).stdout\n"
    )
    python(script, OWN_FILE=str(own_file))


def test_the_self_test_finds_what_is_not_refused() -> None:
    python("air_gap.ATTEMPT_TIMEOUT_S = 0.2\nout = air_gap.find_leaks()\nassert len(out) == 5, out\n")
    sealed("assert air_gap.find_leaks() == []")


def address_of_this_machine() -> str:
    """One that is not loopback, found without sending anything. Skips where there is none."""
    with socket.socket(type=socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has loopback only")
        return str(asking.getsockname()[0])


def test_an_air_gapped_server_answers_on_its_configured_address(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    key = make_key(folder)
    address = address_of_this_machine()
    with serving(folder, air_gapped=True, host="0.0.0.0", behind_proxy=address) as server:
        root = server.wait_ready()
        if FILTERED:
            assert "Seccomp:\t2\n" in Path(f"/proc/{server.pid}/status").read_text(), "it is under the filter"
        there = root.replace("127.0.0.1", address)
        answer = httpx.post(
            f"{there}/api/v1/images/process",
            files={"image": ("a.jpg", pictures.jpeg())},
            headers={"X-API-Key": key, "Prefer": "wait=60"},
            timeout=90,
        )
        assert answer.json()["data"]["status"] == "completed", answer.text
        assert "Air-gapped" in server.output()
        assert server.terminate() == 0
        assert "Traceback" not in server.output()


def test_the_self_test_of_a_model_is_air_gapped_like_its_parent() -> None:
    script = (
        f"{BEFORE}air_gap.block_sockets = lambda: None\n"
        "import os, msgspec\n"
        "from imgproc_local.vision.llm import selftest as child\n"
        "child._problem_of = lambda model: refused(socket.getaddrinfo, 'example.com', 443)\n"
        "child.run_child(os.getppid())\n"
    )
    for air_gapped in (True, False):
        environment = clean_environment(**({"air_gapped": "true"} if air_gapped else {}))
        child = PipedChild([sys.executable, "-c", script], environment)
        child.send(msgspec.msgpack.encode({"name": "a", "text_path": "t", "mmproj_path": "m"}))
        try:
            answer = child.receive(60)
            assert answer is not None
            assert air_gapped
            assert b"air_gapped is true" in answer
        except ChildEnded:
            assert not air_gapped
        finally:
            child.kill()
