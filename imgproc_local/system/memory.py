"""How much memory a process holds, the most that this process has held, and how much this machine has.

psutil is imported by the functions that need it: on Linux the service does not load it.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path


def resident_bytes(pid: int) -> int:
    """Physical memory of the process; 0 if it is unknown.

    On Linux without mapped files: libraries and the picture itself, whose memory the kernel can take back at any time
    because the files hold the same. psutil does not report them apart from shared memory, which counts.
    """
    if sys.platform == "linux":
        fields = _status(pid)
        return fields.get("VmRSS", 0) - fields.get("RssFile", 0)
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def peak_resident_bytes() -> int:
    """The most physical memory of this process since its start or `reset_peak`; 0 on other systems than Linux.

    There, no limit of memory makes a library fail, so nobody has to know how near the limit it was.
    """
    return _status("self").get("VmHWM", 0) if sys.platform == "linux" else 0


def reset_peak() -> None:
    """Let `peak_resident_bytes` count from now on, except in containers that do not allow that."""
    if sys.platform == "linux":
        with suppress(OSError), open("/proc/self/clear_refs", "wb", buffering=0) as file:  # noqa: PTH123
            file.write(b"5")


def usable_memory_bytes() -> int:
    """The memory of the machine, or the limit of the container if that is lower."""
    if sys.platform == "win32":
        import psutil

        return int(psutil.virtual_memory().total)
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    # of control groups version 2, then version 1; without a limit, the text is not a number. Source: cgroups(7)
    for file in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            limits.append(int(Path("/sys/fs/cgroup", file).read_text(encoding="ascii")))
    return min(limits)


def _status(pid: int | str) -> dict[str, int]:
    """The fields of the process's status about memory, in bytes; empty where there is no such process.

    Source: proc_pid_status(5).
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return {}
    sizes = (line.split() for line in lines if line.startswith(("Vm", "Rss")))  # not `Name`, which the process chooses
    return {name.rstrip(":"): int(kilobytes) * 1024 for name, kilobytes, _ in sizes}
