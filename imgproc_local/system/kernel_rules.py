"""Rules of the Linux kernel for this process and every process that it starts: seccomp filters, then Landlock.

They apply to every library, need no privileges and can't be removed. A call that a filter refuses fails with EACCES.

Invariant of `block_sockets`: every system call that creates a socket or connects one is refused, for every address
family, except `accept`, and `socketpair` for Unix streams, which stay connected to each other. (Other Unix sockets can
send to any address.) Besides `socket` and `connect`, refused are `io_uring_setup`, because io_uring can do both;
`sendto`, `sendmsg` and `sendmmsg` with the flag MSG_FASTOPEN, which also connects; and all system calls of other
architectures, which have other numbers. What is open already stays usable: a listening socket, the connections that it
accepts, pipes.

Invariant of `restrict_worker`: a process that has no socket gets none, so that it also receives no open files from
other processes. It can't change the attributes of files, which Landlock allows, nor limits and priorities of processes.
Source: seccomp(2), Linux's include/uapi/linux/{seccomp,filter,audit}.h and its tables of system calls.

Landlock lets this thread, and what it starts from then on, write only in one folder. Reading files and running programs
stay allowed. If the kernel supports it, TCP is refused too, and so are signals and abstract Unix sockets that leave the
sandbox. Source: landlock(7), Linux's include/uapi/linux/landlock.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""The identifiers of the architectures in the kernel's audit interface, and their columns in the tables below."""
_ABSENT = 0xFFFFFFFF
_SECCOMP = (317, 277)
_SOCKET_CALLS = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    "io_uring_setup": (425, 425),
}
_WORKER_CALLS = {
    **{"chmod": (90, _ABSENT), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452)},
    **{"chown": (92, _ABSENT), "fchown": (93, 55), "lchown": (94, _ABSENT), "fchownat": (260, 54)},
    **{"utime": (132, _ABSENT), "utimes": (235, _ABSENT), "futimesat": (261, _ABSENT), "utimensat": (280, 88)},
    **{"setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463)},
    **{"removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "removexattrat": (466, 466)},
    **{"prlimit64": (302, 261), "setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setattr": (314, 274)},
    **{"sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_setaffinity": (203, 122)},
    **{"process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117)},
    "pidfd_getfd": (438, 438),
}
"""Signals are not among them: `abort` and the end of a worker's own children need them. Landlock restricts them."""
_FIRST_X32_CALL = 0x40000000
"""The first system call of x32, the variant of x86-64 with 32-bit pointers, which has the same identifier."""

_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER, _ALL_THREADS = 1, 1
_LOAD, _AND, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET, _ARGUMENTS_OFFSET = 0, 4, 16
"""Offsets in `struct seccomp_data`, which describes a call. Each argument has eight bytes, the lower four first."""
_AF_UNIX, _SOCK_STREAM, _SOCK_TYPE_MASK, _MSG_FASTOPEN = 1, 1, 0xF, 0x20000000


class Unavailable(Exception):
    """The rules can't be set on this system; the message says why."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def block_sockets() -> None:
    """Refuse new sockets and connections to every thread of this process. Raises: Unavailable."""
    rules = dict.fromkeys(_SOCKET_CALLS, _step(_RETURN, _REFUSE))
    rules["socketpair"] = (
        _argument(0)
        + _step(_IF_EQUAL, _AF_UNIX, otherwise=4)
        + _argument(1)
        + _step(_AND, _SOCK_TYPE_MASK)  # the other bits are flags
        + _step(_IF_EQUAL, _SOCK_STREAM, otherwise=1)
        + _step(_RETURN, _ALLOW)
        + _step(_RETURN, _REFUSE)
    )
    for call, flags_index in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
        rules[call] = _argument(flags_index) + _refuse_if(_IF_ANY_BIT, _MSG_FASTOPEN) + _step(_RETURN, _ALLOW)
    _set_filter(rules)


def restrict_worker() -> None:
    """Refuse what a worker does not need to every thread of this process. Raises: Unavailable."""
    rules = dict.fromkeys(("socketpair", *_WORKER_CALLS), _step(_RETURN, _REFUSE))
    # a limit of the process itself, whose number is given as 0, may be set
    rules["prlimit64"] = _argument(0) + _refuse_if(_IF_AT_LEAST, 1) + _step(_RETURN, _ALLOW)
    _set_filter(rules)


def _set_filter(rules: Mapping[str, bytes]) -> None:
    """Set a filter. A rule is the instructions for one system call, of which the last returns; others are allowed."""
    if sys.platform != "linux":
        raise Unavailable(f"{platform.system()} has no seccomp filters")
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise Unavailable(f"the filter does not support {machine or 'this processor'}")
    if sys.maxsize < 2**32:
        raise Unavailable("the filter does not support 32-bit programs")
    identifier, column = _ARCHITECTURES[machine]
    instructions = _filter(identifier, {(_SOCKET_CALLS | _WORKER_CALLS)[call][column]: rules[call] for call in rules})
    program = _Program(len(instructions) // 8, instructions)
    libc = _libc_without_new_privileges()
    libc.syscall.restype = ctypes.c_long
    number = ctypes.c_long(_SECCOMP[column])
    outcome = libc.syscall(number, _SET_MODE_FILTER, ctypes.c_ulong(_ALL_THREADS), ctypes.byref(program))
    if outcome != 0:
        # a positive outcome is the number of a thread that could not get the filter
        reason = os.strerror(ctypes.get_errno()) if outcome < 0 else f"thread {outcome} has a filter of its own"
        raise Unavailable(f"the kernel refused ({reason})")


def _filter(architecture: int, rules: Mapping[int, bytes]) -> bytes:
    """The instructions of a filter with rules for the calls of these numbers."""
    return b"".join(
        [
            _step(_LOAD, _ARCHITECTURE_OFFSET),
            _step(_IF_EQUAL, architecture, then=1),
            _step(_RETURN, _REFUSE),
            _step(_LOAD, _NUMBER_OFFSET),
            _refuse_if(_IF_AT_LEAST, _FIRST_X32_CALL),
            *(_step(_IF_EQUAL, call, otherwise=len(rule) // 8) + rule for call, rule in rules.items()),
            _step(_RETURN, _ALLOW),
        ]
    )


def _refuse_if(condition: int, value: int) -> bytes:
    return _step(condition, value, otherwise=1) + _step(_RETURN, _REFUSE)


def _argument(index: int) -> bytes:
    return _step(_LOAD, _ARGUMENTS_OFFSET + 8 * index)


def _step(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    """One instruction; `then` and `otherwise` are how many instructions to skip. Source: struct sock_filter."""
    return struct.pack("=HBBI", code, then, otherwise, value)


def _libc_without_new_privileges() -> ctypes.CDLL:
    """The C library, after programs that are started from here can't gain privileges: rules without root need that."""
    libc = ctypes.CDLL(None, use_errno=True)
    _require(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
    return libc


def _require(succeeded: bool) -> None:
    if not succeeded:
        raise Unavailable(f"the kernel refused ({os.strerror(ctypes.get_errno())})")


# ---- Landlock ----

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""Numbers of the system calls, the same on every processor."""
_VERSION_FLAG = 1
_RULE_PATH_BENEATH = 1

_WRITE_FILE = 1 << 1
_MAKE_AND_REMOVE = sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE, _DEVICE_CONTROL = 1 << 13, 1 << 14, 1 << 15
_TCP_BIND_AND_CONNECT = 3
_ABSTRACT_SOCKETS_AND_SIGNALS = 3


def allow_writes_only_in(folder: Path) -> None:
    """Restrict this thread, and what it starts from now on, to writing below `folder`. Raises: Unavailable."""
    if sys.platform != "linux":
        raise Unavailable(f"{platform.system()} has no Landlock")
    libc = _libc_without_new_privileges()
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)
    if version < 1:
        raise Unavailable(f"the kernel has no Landlock ({os.strerror(ctypes.get_errno())})")
    rights = _writing_rights(version)
    added = ((4, _TCP_BIND_AND_CONNECT), (6, _ABSTRACT_SOCKETS_AND_SIGNALS))
    restricted = [rights, *(mask for since, mask in added if version >= since)]
    attributes = struct.pack(f"<{len(restricted)}Q", *restricted)
    ruleset = libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    _require(ruleset >= 0)
    place = -1
    try:
        place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("<Qi", rights, place)
        _require(libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0) == 0)
        _require(libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)
        if place >= 0:
            os.close(place)


def _writing_rights(version: int) -> int:
    """The rights to change files that this version of Landlock knows; unknown ones are an error."""
    added = ((2, _REFER), (3, _TRUNCATE), (5, _DEVICE_CONTROL))
    return _WRITE_FILE | _MAKE_AND_REMOVE | sum(right for since, right in added if version >= since)
