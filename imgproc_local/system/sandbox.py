"""What a child process gives up before it handles untrusted files: network, writing, priority, outliving its parent.

Every system offers only a part of this. What is missing does not raise an error: `restrict_to` returns it for the log.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

from imgproc_local.system import air_gap
from imgproc_local.system.kernel_rules import Unavailable, allow_writes_only_in, restrict_worker

_PR_SET_PDEATHSIG = 1
_MOST_EXPENDABLE = 1000
"""The highest `oom_score_adj`. Source: proc_pid_oom_score_adj(5)."""


def depend_on_parent(parent_pid: int) -> None:
    """On Linux, kill this process when the thread that started it ends.

    Ctrl+C and SIGTERM are ignored: the parent decides. Supervisors may send them to all processes of a service.

    On other systems, a child ends with its parent because it reads from the parent's pipe, see `piped_child.py`.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # the parent may have ended before the call above
    if sys.platform != "win32" and os.getppid() != parent_pid:
        os._exit(0)


def lower_priority(niceness: int) -> None:
    """Run at the parent's priority lowered by `niceness`; let the kernel end this process first if memory runs out."""
    if sys.platform == "win32":
        return  # `piped_child.py` starts the process with a lower priority class
    lowered = os.getpriority(os.PRIO_PROCESS, os.getppid()) + niceness
    # the thread that started this process may have had a lower priority already
    os.nice(max(0, lowered - os.getpriority(os.PRIO_PROCESS, 0)))
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # some containers have no /proc
            Path("/proc/self/oom_score_adj").write_text(str(_MOST_EXPENDABLE), encoding="ascii")


def write_no_core_dumps() -> None:
    """Disable core dumps, which would contain the picture."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def restrict_to(folder: Path) -> tuple[str, ...]:
    """From now on: no network, no new privileges, writing only in `folder`, no changes to attributes of files or to
    other processes. Call it before threads are started.

    Returns which of these protections this system lacks, and why.
    """
    missing = []
    air_gap.enable()
    try:
        restrict_worker()
    except Unavailable as error:
        missing.append(f"the network is closed to Python code only, and attributes of files can be changed: {error}")
    try:
        allow_writes_only_in(folder)
    except Unavailable as error:
        missing.append(f"files outside of its folder can be written: {error}")
    return tuple(missing)


def limit_data(limit_bytes: int) -> None:
    """Limit this process's own memory (heap, stacks and private mappings) on Linux; 0 is no limit.

    The limit of the address space would count 280 MB of mapped libraries, and macOS ignores both limits.
    """
    if sys.platform == "linux":
        import resource

        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        soft = limit_bytes or hard
        if hard != resource.RLIM_INFINITY:
            soft = min(soft, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
