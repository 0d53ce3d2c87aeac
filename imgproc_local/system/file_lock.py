"""Advisory locks on open files. A lock ends when the file is closed, also by a crash of the process."""

from __future__ import annotations

import sys
import time
from typing import IO

POLL_INTERVAL_S = 0.05
"""Time between two attempts to lock a file."""


def lock_within(file: IO[bytes], wait_s: float) -> bool:
    """As `try_lock`, but wait at most `wait_s` seconds for another lock to end."""
    deadline_s = time.monotonic() + wait_s
    while not try_lock(file):
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(POLL_INTERVAL_S)
    return True


if sys.platform == "win32":
    import msvcrt

    def try_lock(file: IO[bytes]) -> bool:
        """Lock `file` unless another open file of any process holds the lock. Returns whether it is locked now."""
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def try_lock(file: IO[bytes]) -> bool:
        """Lock `file` unless another open file of any process holds the lock. Returns whether it is locked now."""
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
