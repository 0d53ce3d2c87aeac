"""Advisory locks on open files. The operating system releases a lock when the process ends, even by a crash."""

from __future__ import annotations

import sys
import time
from typing import IO

POLL_INTERVAL_S = 0.05
"""Time between two attempts to lock a file."""


def lock_within(file: IO[bytes], wait_s: float) -> bool:
    """Lock `file` for this process, waiting at most `wait_s` seconds. Returns whether it is locked."""
    deadline_s = time.monotonic() + wait_s
    while not try_lock(file):
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(POLL_INTERVAL_S)
    return True


if sys.platform == "win32":
    import msvcrt

    def try_lock(file: IO[bytes]) -> bool:
        """Lock `file` if no other process has locked it, without waiting. Returns whether it is locked."""
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def try_lock(file: IO[bytes]) -> bool:
        """Lock `file` if no other process has locked it, without waiting. Returns whether it is locked."""
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
