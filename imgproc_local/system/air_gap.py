"""Air-gapped mode: this process and its children open no network connections. A listening socket that was opened before
the mode was enabled remains usable, and so do the connections that it accepts.

There are two layers. An audit hook blocks Python code from using any address outside the loopback interface. On Linux,
a seccomp filter (`kernel_rules.py`) also prevents C libraries and child processes from creating sockets. Neither can be
removed. `packaging/README.md` lists the gaps on each system.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from imgproc_local.domain.addresses import is_loopback
from imgproc_local.system.kernel_rules import Unavailable, block_sockets

ENVIRONMENT_VARIABLE = "IMGPROC_AIR_GAPPED"
"""The environment variable of the setting. `enable` sets it to "true", so that child processes inherit the mode."""
TEST_ADDRESS = "192.0.2.1"
"""From TEST-NET-1, which is reserved for documentation and never routed. Source: RFC 5737."""
TEST_HOSTNAME = "example.com"
ATTEMPT_TIMEOUT_S = 3.0
"""The timeout of one connection attempt in the self-test."""


class AirGapError(PermissionError):
    """Raised by the audit hook for an address outside the loopback interface."""

    def __init__(self, operation: str) -> None:
        super().__init__(errno.EACCES, f"{operation} was blocked: air_gapped is true")


class _State:
    """The state of this process. `seccomp_error` says why the seccomp filter is missing; None if it is installed."""

    enabled = False
    seccomp_error: str | None = None


def enable() -> None:
    """Enable the mode for this process and its future child processes. It can't be disabled.

    A server must open its listening socket before this call.
    """
    if _State.enabled:
        return
    _State.enabled = True
    os.environ[ENVIRONMENT_VARIABLE] = "true"
    sys.addaudithook(_audit)
    try:
        block_sockets()
    except Unavailable as error:
        _State.seccomp_error = str(error)


def enable_if_inherited() -> None:
    """Enable the mode in a child process if the parent process enabled it."""
    if os.environ.get(ENVIRONMENT_VARIABLE) == "true":
        enable()


def seccomp_error() -> str | None:
    """Why the enabled mode does not restrict C libraries and their child processes; None if it does."""
    return _State.seccomp_error


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """The audit hook: raises AirGapError for socket events outside the loopback interface.

    Source: the table of audit events in Python's documentation.
    """
    if not event.startswith("socket."):
        return
    match event:
        case "socket.connect" | "socket.bind" | "socket.sendto" | "socket.sendmsg":
            address = arguments[1]
            # a message without an address goes to the peer of a connected socket
            if address is not None and not _is_loopback(address[0] if isinstance(address, tuple) else None):
                raise AirGapError(f"{event.removeprefix('socket.')} {_format_address(address)}")
        case "socket.getaddrinfo" | "socket.gethostbyname" | "socket.gethostbyaddr":
            if arguments[0] is not None and not _is_loopback(arguments[0]):
                raise AirGapError(f"looking up {_format_address(arguments[0])}")
        case "socket.getnameinfo":
            if not _is_loopback(arguments[0][0]):
                raise AirGapError(f"looking up {_format_address(arguments[0])}")


def _is_loopback(host: object) -> bool:
    """Whether `host` is a loopback address or "localhost". No name is looked up."""
    if isinstance(host, (bytes, bytearray)):
        host = host.decode("ascii", "replace")
    return isinstance(host, str) and is_loopback(host)


def _format_address(address: object) -> str:
    if isinstance(address, tuple) and len(address) > 1:
        return f"{address[0]} port {address[1]}"
    return address.decode("utf-8", "replace") if isinstance(address, bytes) else str(address)


# ---- self-test ----


def find_leaks() -> list[str]:
    """Try to use the network from Python, and from C unless `seccomp_error` says why C is not restricted.

    Returns the attempts that were not blocked: none in air-gapped mode.
    """
    attempts: list[tuple[str, Callable[[], object], type[OSError]]] = [
        (f"a connection to {TEST_ADDRESS}", _connect, AirGapError),
        (f"looking up {TEST_HOSTNAME}", lambda: socket.getaddrinfo(TEST_HOSTNAME, 443), AirGapError),
    ]
    if _State.seccomp_error is None:
        for name, family in (("IPv4", socket.AF_INET), ("IPv6", socket.AF_INET6), ("Unix", socket.AF_UNIX)):
            attempts.append((f"a socket for {name} from C", partial(_socket_from_c, family), PermissionError))
    leaks = []
    for description, attempt, refusal in attempts:
        try:
            attempt()
            leaks.append(f"{description} succeeded")
        except refusal:
            pass
        except OSError as error:
            leaks.append(f"{description} was not blocked, but failed: {error}")
    return leaks


def _connect() -> None:
    with socket.create_connection((TEST_ADDRESS, 443), timeout=ATTEMPT_TIMEOUT_S):
        pass


def _socket_from_c(family: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.socket(family, socket.SOCK_STREAM, 0)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.close(descriptor)
