"""Air-gapped mode: this process and its children open no network connections. Sockets that are open when the mode is
enabled stay usable: the listener, and the connections that it accepts.

There are two guards. An audit hook refuses Python code every address except those of the loopback interface. On Linux,
a seccomp filter also refuses new sockets to C libraries and child processes (`seccomp.py`). Neither can be removed.
`packaging/README.md` lists the gaps on each system.
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

ENVIRONMENT_VARIABLE = "IMGPROC_AIR_GAPPED"
"""The setting. Set to true, it enables the mode in child processes too."""
DOCUMENTATION_ADDRESS = "192.0.2.1"
"""An address that no host has. Source: RFC 5737."""
LOOKUP_NAME = "example.com"
TRY_TIMEOUT_S = 3.0


class AirGapped(PermissionError):
    """Raised in Python code that uses the network."""

    def __init__(self, what: str) -> None:
        super().__init__(errno.EACCES, f"{what} was refused: air_gapped is true")


class _State:
    """The state of this process. `unfiltered_reason` says why there is no seccomp filter; None with one."""

    enabled = False
    unfiltered_reason: str | None = None


def enable() -> None:
    """Enable the mode for this process and all that it starts, irreversibly. The listener must be open before."""
    if _State.enabled:
        return
    _State.enabled = True
    os.environ[ENVIRONMENT_VARIABLE] = "true"
    sys.addaudithook(_audit)
    try:
        refuse_sockets()
    except SeccompUnavailable as error:
        _State.unfiltered_reason = str(error)


def enable_as_parent() -> None:
    """In a child process: enable the mode if the parent enabled it."""
    if os.environ.get(ENVIRONMENT_VARIABLE) == "true":
        enable()


def unfiltered_reason() -> str | None:
    """Why C libraries and child processes are not restricted; None where they are."""
    return _State.unfiltered_reason


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Source: the table of audit events in Python's documentation."""
    if not event.startswith("socket."):
        return
    match event:
        case "socket.connect" | "socket.bind" | "socket.sendto" | "socket.sendmsg":
            address = arguments[1]
            # a message without an address goes to the peer of a connected socket
            if address is not None and not _is_loopback(address[0] if isinstance(address, tuple) else None):
                raise AirGapped(f"{event.removeprefix('socket.')} {_format_address(address)}")
        case "socket.getaddrinfo" | "socket.gethostbyname" | "socket.gethostbyaddr":
            if arguments[0] is not None and not _is_loopback(arguments[0]):
                raise AirGapped(f"looking up {_format_address(arguments[0])}")
        case "socket.getnameinfo":
            if not _is_loopback(arguments[0][0]):
                raise AirGapped(f"looking up {_format_address(arguments[0])}")


def _is_loopback(host: object) -> bool:
    """Whether the host is this machine, without a name lookup."""
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


def _format_address(address: object) -> str:
    if isinstance(address, tuple) and len(address) > 1:
        return f"{address[0]} port {address[1]}"
    return address.decode("utf-8", "replace") if isinstance(address, bytes) else str(address)


# ---- self-test ----


def find_leaks() -> list[str]:
    """Try to use the network from Python and from C. Returns what was not refused: nothing in air-gapped mode."""
    leaks = [
        _describe_unless_refused(f"a connection to {DOCUMENTATION_ADDRESS}", _connect, AirGapped),
        _describe_unless_refused(f"looking up {LOOKUP_NAME}", lambda: socket.getaddrinfo(LOOKUP_NAME, 443), AirGapped),
    ]
    if _State.unfiltered_reason is None:
        for name, family in (("IPv4", socket.AF_INET), ("IPv6", socket.AF_INET6), ("Unix", socket.AF_UNIX)):
            attempt = partial(_socket_from_c, family)
            leaks.append(_describe_unless_refused(f"a socket for {name} from C", attempt, PermissionError))
    return [leak for leak in leaks if leak is not None]


def _describe_unless_refused(what: str, attempt: Callable[[], object], refusal: type[OSError]) -> str | None:
    outcomes: list[str | None] = []

    def work() -> None:
        try:
            attempt()
            outcomes.append("worked")
        except refusal:
            outcomes.append(None)
        except OSError as error:
            outcomes.append(f"failed only with: {error}")

    # getaddrinfo has no timeout
    thread = threading.Thread(target=work, name="imgproc-leak-test", daemon=True)
    thread.start()
    thread.join(2 * TRY_TIMEOUT_S)
    outcome = outcomes[0] if outcomes else "was not refused and got no answer in time"
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
