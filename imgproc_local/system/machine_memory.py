"""How much memory this machine has, and how much of it this process may use."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""The limit of a container: control groups version 2, then version 1. Source: cgroups(7)."""


class _MemoryStatus(ctypes.Structure):
    """Windows: MEMORYSTATUSEX. Source: sysinfoapi.h."""

    _fields_ = (
        ("length", ctypes.c_uint32),
        ("load_percent", ctypes.c_uint32),
        ("total_physical", ctypes.c_uint64),
        ("others", ctypes.c_uint64 * 6),
    )


def physical_memory_bytes() -> int:
    """The memory of the machine; 0 if it is unknown."""
    if sys.platform == "win32":
        status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
        found = ctypes.WinDLL("kernel32").GlobalMemoryStatusEx(ctypes.byref(status))
        return int(status.total_physical) if found else 0
    if "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 0


def usable_memory_bytes() -> int:
    """The memory of the machine, or the limit of the container if that is lower; 0 if it is unknown."""
    limits = [physical_memory_bytes(), *map(_cgroup_limit, CGROUP_LIMITS)]
    return min((limit for limit in limits if limit), default=0)


def _cgroup_limit(file: Path) -> int:
    """The limit in `file`; 0 if there is none."""
    try:
        text = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return 0
    return int(text) if text.isdecimal() else 0
