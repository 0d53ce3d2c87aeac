"""Air-gapped mode: this process and those it starts reach nobody. What they hold open when it begins goes on, which is
the listener and the connections it accepts.

Two guards. A hook of the interpreter refuses Python code every address but this machine's own, and says so in words. On
Linux a filter in the kernel refuses new sockets to everybody else too: C libraries, child processes (`seccomp.py`).
Neither can be taken off again. What is left, per system, is in the README under "Air-gapped".
"""

from __future__ import annotations

import ctypes
import errno
import ipaddress
import os
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from imgproc_local.system.seccomp import SeccompUnavailable, refuse_sockets

VARIABLE = "IMGPROC_AIR_GAPPED"
"""The setting, in the environment of child processes: they are sealed as their parent was."""
DOCUMENTATION_ADDRESS = "192.0.2.1"
"""Belongs to nobody. Source: RFC 5737."""
LOOKUP_NAME = "example.com"
TRY_TIMEOUT_S = 3.0


class AirGapped(PermissionError):
    """What Python code is told that asks for the network."""

    def __init__(self, what: str) -> None:
        super().__init__(errno.EACCES, f"{what} was refused: air_gapped is true")


class _Seal:
    """What was set in this process. `kernel_gap` says why the kernel's filter is not there; None where it is."""

    done = False
    kernel_gap: str | None = None


def seal() -> None:
    """Close this process and all it will start to every network, for good. The listener must be there before."""
    if _Seal.done:
        return
    _Seal.done = True
    os.environ[VARIABLE] = "true"
    sys.addaudithook(_refuse_outside)
    try:
        refuse_sockets()
    except SeccompUnavailable as error:
        _Seal.kernel_gap = str(error)


def seal_as_parent() -> None:
    """In a child process: as the process was that started it."""
    if os.environ.get(VARIABLE) == "true":
        seal()


def kernel_gap() -> str | None:
    """Why C libraries are not held back here; None where they are."""
    return _Seal.kernel_gap


def _refuse_outside(event: str, arguments: tuple[Any, ...]) -> None:
    """Source: the table of audit events in Python's documentation."""
    if not event.startswith("socket."):
        return
    match event:
        case "socket.connect" | "socket.bind" | "socket.sendto" | "socket.sendmsg":
            address = arguments[1]
            # a message without an address goes to the peer that the socket has
            if address is not None and not _is_here(address[0] if isinstance(address, tuple) else None):
                raise AirGapped(f"{event.removeprefix('socket.')} {_told(address)}")
        case "socket.getaddrinfo" | "socket.gethostbyname" | "socket.gethostbyaddr":
            if arguments[0] is not None and not _is_here(arguments[0]):
                raise AirGapped(f"looking up {_told(arguments[0])}")
        case "socket.getnameinfo":
            if not _is_here(arguments[0][0]):
                raise AirGapped(f"looking up {_told(arguments[0])}")


def _is_here(host: object) -> bool:
    """Whether it is this machine, without asking anybody."""
    if isinstance(host, (bytes, bytearray)):
        host = host.decode("ascii", "replace")
    if not isinstance(host, str):
        return False
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _told(address: object) -> str:
    if isinstance(address, tuple) and len(address) > 1:
        return f"{address[0]} port {address[1]}"
    return address.decode("utf-8", "replace") if isinstance(address, bytes) else str(address)


# ---- the proof ----


def ways_out() -> list[str]:
    """Try to get out, from Python and from C, and return what was not refused: nothing, in a sealed process."""
    left = [
        _told_unless_refused(f"a connection to {DOCUMENTATION_ADDRESS}", _connect, AirGapped),
        _told_unless_refused(f"looking up {LOOKUP_NAME}", lambda: socket.getaddrinfo(LOOKUP_NAME, 443), AirGapped),
    ]
    if _Seal.kernel_gap is None:
        for name, family in (("IPv4", socket.AF_INET), ("IPv6", socket.AF_INET6), ("Unix", socket.AF_UNIX)):
            attempt = partial(_socket_from_c, family)
            left.append(_told_unless_refused(f"a socket for {name} from C", attempt, PermissionError))
    return [told for told in left if told is not None]


def _told_unless_refused(what: str, attempt: Callable[[], object], refusal: type[OSError]) -> str | None:
    came: list[str | None] = []

    def work() -> None:
        try:
            attempt()
            came.append("worked")
        except refusal:
            came.append(None)
        except OSError as error:
            came.append(f"got as far as {error}")

    # a lookup takes no limit of its own
    thread = threading.Thread(target=work, name="imgproc-way-out", daemon=True)
    thread.start()
    thread.join(2 * TRY_TIMEOUT_S)
    outcome = came[0] if came else "was still waiting for an answer"
    return None if outcome is None else f"{what} {outcome}"


def _connect() -> None:
    with socket.create_connection((DOCUMENTATION_ADDRESS, 443), timeout=TRY_TIMEOUT_S):
        pass


def _socket_from_c(family: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.socket(family, socket.SOCK_STREAM, 0)
    if descriptor < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    os.close(descriptor)
