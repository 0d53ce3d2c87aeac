"""The number of cores to compute on: physical ones, and only the performance cores of a processor that has two kinds.

Every operation of llama.cpp waits for its slowest thread, so an efficiency core or the second thread of a core slows
all others down.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable, Collection
from pathlib import Path

SYSFS = Path("/sys/devices")
PROCESSOR_CORE = 0
"""`RelationProcessorCore`. Source: Microsoft, LOGICAL_PROCESSOR_RELATIONSHIP."""


def physical_cores() -> int:
    """The number of physical performance cores that this process may use; at least 1."""
    if sys.platform == "darwin":
        count = count_in_macos(_sysctl)
    elif sys.platform == "win32":
        count = count_in_windows(_windows_records())
    else:
        known = hasattr(os, "sched_getaffinity")
        count = count_in_linux(os.sched_getaffinity(0) if known else range(os.cpu_count() or 1))
    return count or os.cpu_count() or 1


def count_in_linux(allowed: Collection[int], sysfs: Path = SYSFS) -> int:
    """The number of cores with at least one thread in `allowed`; of performance cores only, if any of them is allowed.

    `cpu_core/cpus` lists the threads of the performance cores of a hybrid Intel processor, and exists only there.
    """
    performance = _read_cpu_list(sysfs / "cpu_core" / "cpus")
    cores = set()
    for cpu in performance.intersection(allowed) or allowed:
        siblings = sysfs / f"system/cpu/cpu{cpu}/topology/thread_siblings_list"
        cores.add(siblings.read_text() if siblings.exists() else str(cpu))
    return len(cores)


def count_in_macos(sysctl: Callable[[str], int | None]) -> int:
    """The number of cores according to `sysctl`, which returns None for an unknown name; 0 if both names are unknown.

    `hw.perflevel0` are the performance cores of Apple silicon. Source: Apple, "Determining system capabilities".
    """
    return sysctl("hw.perflevel0.physicalcpu") or sysctl("hw.physicalcpu") or 0


def count_in_windows(records: bytes) -> int:
    """The number of cores of the highest efficiency class in `records`; 0 without any core.

    `records` are structures of variable size, one for each core. The faster a core, the higher its class.
    Source: Microsoft, SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX.
    """
    classes = []
    offset = 0
    while offset + 10 <= len(records):
        relationship, size, _flags, efficiency_class = struct.unpack_from("<IIBB", records, offset)
        if size < 10:
            break
        if relationship == PROCESSOR_CORE:
            classes.append(efficiency_class)
        offset += size
    return classes.count(max(classes)) if classes else 0


def _read_cpu_list(path: Path) -> set[int]:
    """The numbers in a file such as "0-3,8"; empty if the file is missing or has other content."""
    numbers: set[int] = set()
    try:
        for part in path.read_text().strip().split(","):
            first, _, last = part.partition("-")
            numbers.update(range(int(first), int(last or first) + 1))
    except (OSError, ValueError):
        return set()
    return numbers


def _sysctl(name: str) -> int | None:
    """The value of a sysctl variable of macOS that is a 32-bit integer; None if there is no such variable."""
    value = ctypes.c_int32()
    size = ctypes.c_size_t(ctypes.sizeof(value))
    status = ctypes.CDLL(None).sysctlbyname(
        name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0)
    )
    return None if status else value.value


def _windows_records() -> bytes:
    """The structures of `GetLogicalProcessorInformationEx` for all cores; empty if it fails."""
    if sys.platform != "win32":
        return b""
    get = ctypes.windll.kernel32.GetLogicalProcessorInformationEx
    size = ctypes.c_uint32(0)
    get(PROCESSOR_CORE, None, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    return buffer.raw[: size.value] if get(PROCESSOR_CORE, buffer, ctypes.byref(size)) else b""
