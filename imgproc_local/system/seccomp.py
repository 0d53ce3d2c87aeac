"""A seccomp filter of the Linux kernel that refuses new sockets to this process and to every process it starts.

It applies to system calls, and so to every library: `socket` and `connect` fail with EACCES, for every address family.
What is open already stays usable: a listening socket, the connections that it accepts, pipes. The filter can't be
removed.

Invariant: every system call that creates a socket or connects one is refused, except `accept`, and `socketpair` for
Unix sockets, which are connected only to each other. Besides `socket` and `connect`, refused are `io_uring_setup`,
because io_uring can do both; `sendto`, `sendmsg` and `sendmmsg` with the flag MSG_FASTOPEN, which also connects; and
all system calls of other architectures, which have other numbers.
Source: seccomp(2), Linux's include/uapi/linux/{seccomp,filter,audit}.h and its tables of system calls.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

from msgspec import Struct


class _Architecture(Struct, frozen=True):
    """An architecture: its identifier in the kernel's audit interface, and the numbers of its system calls."""

    audit: int
    seccomp: int
    socket: int
    socketpair: int
    connect: int
    sendto: int
    sendmsg: int
    sendmmsg: int
    io_uring_setup: int = 425


_ARCHITECTURES = {
    "x86_64": _Architecture(0xC000003E, 317, 41, 53, 42, 44, 46, 307),
    "aarch64": _Architecture(0xC00000B7, 277, 198, 199, 203, 206, 211, 269),
}
_FIRST_X32_CALL = 0x40000000
"""The first system call of x32, the variant of x86-64 with 32-bit pointers, which has the same identifier."""

_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER, _ALL_THREADS = 1, 1
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET, _ARGUMENTS_OFFSET = 0, 4, 16
"""Offsets in `struct seccomp_data`, which describes a call. Each argument has eight bytes, the lower four first."""
_AF_UNIX = 1
_MSG_FASTOPEN = 0x20000000


class SeccompUnavailable(Exception):
    """The filter can't be set on this system; the message says why."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def block_sockets() -> None:
    """Set the filter on every thread of this process. Raises: SeccompUnavailable."""
    if sys.platform != "linux":
        raise SeccompUnavailable(f"{platform.system()} has no seccomp filters")
    machine = platform.machine()
    architecture = _ARCHITECTURES.get(machine)
    if architecture is None:
        raise SeccompUnavailable(f"the filter does not support {machine or 'this processor'}")
    if sys.maxsize < 2**32:
        raise SeccompUnavailable("the filter does not support 32-bit programs")
    instructions = _filter(architecture)
    program = _Program(len(instructions) // 8, instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    # required to set a filter without root: programs started from here can't gain privileges
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise SeccompUnavailable(f"the kernel refused ({os.strerror(ctypes.get_errno())})")
    libc.syscall.restype = ctypes.c_long
    number = ctypes.c_long(architecture.seccomp)
    outcome = libc.syscall(number, _SET_MODE_FILTER, ctypes.c_ulong(_ALL_THREADS), ctypes.byref(program))
    if outcome != 0:
        # a positive outcome is the number of a thread that could not get the filter
        reason = os.strerror(ctypes.get_errno()) if outcome < 0 else f"thread {outcome} has a filter of its own"
        raise SeccompUnavailable(f"the kernel refused ({reason})")


def _filter(calls: _Architecture) -> bytes:
    # the system calls that send, with the index of their argument `flags`
    sending = ((calls.sendto, 3), (calls.sendmsg, 2), (calls.sendmmsg, 3))
    return b"".join(
        [
            _step(_LOAD, _ARCHITECTURE_OFFSET),
            _step(_IF_EQUAL, calls.audit, otherwise=0, then=1),
            _step(_RETURN, _REFUSE),
            _step(_LOAD, _NUMBER_OFFSET),
            _step(_IF_AT_LEAST, _FIRST_X32_CALL, otherwise=1),
            _step(_RETURN, _REFUSE),
            *(_when(call, _step(_RETURN, _REFUSE)) for call in (calls.socket, calls.connect, calls.io_uring_setup)),
            _when(
                calls.socketpair,
                _argument(0),
                _step(_IF_EQUAL, _AF_UNIX, otherwise=1),
                _step(_RETURN, _ALLOW),
                _step(_RETURN, _REFUSE),
            ),
            *(
                _when(
                    call,
                    _argument(flags_index),
                    _step(_IF_ANY_BIT, _MSG_FASTOPEN, otherwise=1),
                    _step(_RETURN, _REFUSE),
                    _step(_RETURN, _ALLOW),
                )
                for call, flags_index in sending
            ),
            _step(_RETURN, _ALLOW),
        ]
    )


def _when(call: int, *steps: bytes) -> bytes:
    """The instructions for one system call; the last one of `steps` returns."""
    return _step(_IF_EQUAL, call, otherwise=len(steps)) + b"".join(steps)


def _argument(index: int) -> bytes:
    return _step(_LOAD, _ARGUMENTS_OFFSET + 8 * index)


def _step(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    """One instruction; `then` and `otherwise` are how many instructions to skip. Source: struct sock_filter."""
    return struct.pack("=HBBI", code, then, otherwise, value)
