"""Landlock rules of the Linux kernel that let a process write only in one folder.

They bind the calling thread and every thread and process that it starts from then on, need no privileges and can't be
removed. Reading files and running programs stay allowed. If the kernel supports it, TCP is refused too, and so are
signals and abstract Unix sockets that leave the sandbox.
Source: landlock(7), Linux's include/uapi/linux/landlock.h.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""Numbers of the system calls, the same on every processor."""
_VERSION_FLAG = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38

_WRITE_FILE = 1 << 1
_MAKE_AND_REMOVE = sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE, _DEVICE_CONTROL = 1 << 13, 1 << 14, 1 << 15
_TCP_BIND_AND_CONNECT = 3
_ABSTRACT_SOCKETS_AND_SIGNALS = 3


class LandlockUnavailable(Exception):
    """The rules can't be set on this system; the message says why."""


def allow_writes_only_in(folder: Path) -> None:
    """Restrict this thread, and what it starts from now on, to writing below `folder`. Raises: LandlockUnavailable."""
    if sys.platform != "linux":
        raise LandlockUnavailable(f"{platform.system()} has no Landlock")
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)
    if version < 1:
        raise LandlockUnavailable(f"the kernel has no Landlock ({os.strerror(ctypes.get_errno())})")
    rights = _writing_rights(version)
    attributes = struct.pack("<Q", rights)
    if version >= 4:
        attributes += struct.pack("<Q", _TCP_BIND_AND_CONNECT)
    if version >= 6:
        attributes += struct.pack("<Q", _ABSTRACT_SOCKETS_AND_SIGNALS)
    ruleset = libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    _require(ruleset >= 0)
    place = -1
    try:
        place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("<Qi", rights, place)
        _require(libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0) == 0)
        _require(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        _require(libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)
        if place >= 0:
            os.close(place)


def _writing_rights(version: int) -> int:
    """The rights to change files that this version of Landlock knows; unknown ones are an error."""
    rights = _WRITE_FILE | _MAKE_AND_REMOVE
    for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _DEVICE_CONTROL)):
        if version >= since:
            rights |= right
    return rights


def _require(succeeded: bool) -> None:
    if not succeeded:
        raise LandlockUnavailable(f"the kernel refused ({os.strerror(ctypes.get_errno())})")
