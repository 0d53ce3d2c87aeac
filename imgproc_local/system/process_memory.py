"""How much memory a process holds, and the most that this process has held."""

from __future__ import annotations

import ctypes
import struct
import sys
from pathlib import Path

_PROC_PIDTASKINFO, _TASKINFO_BYTES, _RESIDENT_OFFSET = 4, 96, 8
"""macOS: the kind, size and field `pti_resident_size` of `proc_taskinfo`. Source: sys/proc_info.h."""
_PROCESS_QUERY_LIMITED_INFORMATION = 0x1000


class _Counters(ctypes.Structure):
    """Windows: PROCESS_MEMORY_COUNTERS. Source: psapi.h."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("page_faults", ctypes.c_uint32),
        ("peak_working_set", ctypes.c_size_t),
        ("working_set", ctypes.c_size_t),
        ("others", ctypes.c_size_t * 4),
        ("page_file", ctypes.c_size_t),
        ("peak_page_file", ctypes.c_size_t),
    )


def resident_bytes(pid: int) -> int:
    """Physical memory of the process; 0 if it is unknown.

    On Linux without mapped files: libraries and the picture itself, whose memory the kernel can take back at any time
    because the files hold the same. Other systems do not report them apart.
    """
    if sys.platform == "linux":
        return _linux(pid)
    if sys.platform == "darwin":
        return _macos(pid)
    if sys.platform == "win32":
        return _windows(pid)
    return 0


def peak_resident_bytes() -> int:
    """The most physical memory of this process since its start or `reset_peak`; 0 if it is unknown."""
    if sys.platform == "linux":
        return _status("self").get("VmHWM", 0)
    if sys.platform == "darwin":
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return 0


def reset_peak() -> None:
    """Let `peak_resident_bytes` count from now on. Only on Linux; elsewhere it counts from the start of the process."""
    if sys.platform == "linux":
        try:
            with open("/proc/self/clear_refs", "wb", buffering=0) as file:  # noqa: PTH123
                file.write(b"5")
        except OSError:  # not allowed in some containers; the peak then counts from the start of the process
            pass


def _linux(pid: int) -> int:
    """Source: proc_pid_status(5)."""
    fields = _status(pid)
    return fields.get("VmRSS", 0) - fields.get("RssFile", 0)


def _status(pid: int | str) -> dict[str, int]:
    """The fields of the process's status about memory, in bytes; empty where there is no such process."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return {}
    sizes = (line.split() for line in lines if line.startswith(("Vm", "Rss")))  # not `Name`, which the process chooses
    return {name.rstrip(":"): int(kilobytes) * 1024 for name, kilobytes, _ in sizes}


def _macos(pid: int) -> int:
    info = ctypes.create_string_buffer(_TASKINFO_BYTES)
    if ctypes.CDLL(None).proc_pidinfo(pid, _PROC_PIDTASKINFO, ctypes.c_uint64(0), info, _TASKINFO_BYTES) <= 0:
        return 0
    return int(struct.unpack_from("=Q", info, _RESIDENT_OFFSET)[0])


def _windows(pid: int) -> int:
    if sys.platform != "win32":
        return 0
    kernel = ctypes.WinDLL("kernel32")
    kernel.OpenProcess.restype = ctypes.c_void_p
    handle = kernel.OpenProcess(_PROCESS_QUERY_LIMITED_INFORMATION, False, pid)
    if not handle:
        return 0
    counters = _Counters(size=ctypes.sizeof(_Counters))
    try:
        known = kernel.K32GetProcessMemoryInfo(ctypes.c_void_p(handle), ctypes.byref(counters), counters.size)
    finally:
        kernel.CloseHandle(ctypes.c_void_p(handle))
    return int(counters.working_set) if known else 0
