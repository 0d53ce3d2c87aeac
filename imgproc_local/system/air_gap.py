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

_VARIABLE = "IMGPROC_AIR_GAPPED"
"""The environment variable of the setting. `enable` sets it to "true", so that child processes inherit the mode."""
_TEST_ADDRESS = "192.0.2.1"
"""From TEST-NET-1, which is reserved for documentation and never routed. Source: RFC 5737."""
ATTEMPT_TIMEOUT_S = 3.0
"""The timeout of one connection attempt in the self-test."""


class AirGapError(PermissionError):
    """Raised by the audit hook for an address outside the loopback interface."""


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
    os.environ[_VARIABLE] = "true"
    sys.addaudithook(_audit)
    try:
        block_sockets()
    except Unavailable as error:
        _State.seccomp_error = str(error)


def enable_if_inherited() -> None:
    """Enable the mode in a child process if the parent process enabled it."""
    if os.environ.get(_VARIABLE) == "true":
        enable()


def seccomp_error() -> str | None:
    """Why the enabled mode does not restrict C libraries and their child processes; None if it does."""
    return _State.seccomp_error


_CALLS_WITH_ADDRESS = {f"socket.{call}" for call in ("connect", "bind", "sendto", "sendmsg", "getnameinfo")}
_LOOKUPS = {f"socket.{call}" for call in ("getaddrinfo", "gethostbyname", "gethostbyaddr")}


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """The audit hook: raises AirGapError for socket events outside the loopback interface.

    Source: the table of audit events in Python's documentation.
    """
    if event in _LOOKUPS:
        named = host = arguments[0]
    elif event in _CALLS_WITH_ADDRESS:
        named = arguments[0 if event == "socket.getnameinfo" else 1]
        host = named[0] if isinstance(named, tuple) else ""  # an address without a host, such as a Unix socket's path
    else:
        return
    if isinstance(host, (bytes, bytearray)):
        host = host.decode("ascii", "replace")
    # a message without an address goes to the peer of a connected socket; a lookup without a name, to this machine
    if named is not None and not (isinstance(host, str) and is_loopback(host)):
        operation = f"{event.removeprefix('socket.')} {host or named!r}"
        raise AirGapError(errno.EACCES, f"{operation} was blocked: air_gapped is true")


# ---- self-test ----


def find_leaks() -> list[str]:
    """Try to use the network from Python, and from C unless `seccomp_error` says why C is not restricted.

    Returns the attempts that were not blocked: none in air-gapped mode.
    """
    address = _TEST_ADDRESS, 443
    attempts: list[tuple[str, Callable[[], object], type[OSError]]] = [
        (f"a connection to {address[0]}", lambda: socket.create_connection(address, ATTEMPT_TIMEOUT_S), AirGapError),
        ("looking up example.com", lambda: socket.getaddrinfo("example.com", 443), AirGapError),
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


def _socket_from_c(family: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.socket(family, socket.SOCK_STREAM, 0)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.close(descriptor)
