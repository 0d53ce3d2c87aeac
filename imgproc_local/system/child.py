"""Child processes of this program for code that may crash, hang or exhaust the memory.

The parent waits in short steps, so that a cancelled stage ends its child. The child limits its own time, so that it
also ends if the parent is gone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path

from msgspec import Struct

import imgproc_local
from imgproc_local.domain.stop import CheckStop
from imgproc_local.system.piped_child import program as program  # noqa: PLC0414 - for `vision/llm/selftest.py`

POLL_S = 0.1


class ChildResult(Struct, frozen=True):
    """How a child ended. `status` is its exit status, negative for the signal that ended it."""

    status: int
    output: bytes
    errors: bytes

    @property
    def last_error_line(self) -> str:
        """The last line of `errors` that is not blank; "" without one."""
        lines = self.errors.decode("utf-8", "replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


class ChildTimedOut(Exception):
    """The child did not end in time and was killed."""


def run_supervised(
    command: Sequence[str],
    *,
    timeout_s: float,
    check_stop: CheckStop,
    data: bytes | None = None,
    environment: Mapping[str, str] | None = None,
) -> ChildResult:
    """Run `command` to its end with `data` on its standard input; `environment` is added to this process's own.

    Raises: OSError, if it can't be started; ChildTimedOut, or what `check_stop` raises, after the child was killed.
    """
    child = subprocess.Popen(  # noqa: S603 - the callers start this program itself
        command,
        # `python -m` puts the working directory first on sys.path, so it must be the one that holds this package
        cwd=Path(imgproc_local.__file__).parents[1],
        env=None if environment is None else {**os.environ, **environment},
        stdin=subprocess.DEVNULL if data is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline_s = time.monotonic() + timeout_s
    with child, ThreadPoolExecutor(1) as reader:
        try:
            # not communicate(timeout=…): after the first timeout Python 3.11 sends no more of the input
            answer = reader.submit(child.communicate, data)
            while True:
                try:
                    output, errors = answer.result(POLL_S)
                    return ChildResult(child.returncode, output, errors)
                except FutureTimeout:
                    check_stop()
                    if time.monotonic() > deadline_s:
                        raise ChildTimedOut from None
        finally:
            child.kill()


def limit_this_process(timeout_s: float, max_memory_bytes: int | None = None) -> None:
    """Called by a child: exit after `timeout_s`, write no core dump, use at most `max_memory_bytes` of address space.

    On Windows, only the time is limited.
    """
    import faulthandler

    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if max_memory_bytes is not None:
            resource.setrlimit(resource.RLIMIT_AS, (max_memory_bytes, max_memory_bytes))
    faulthandler.dump_traceback_later(timeout_s, exit=True)
