"""A wish to stop, told to code that runs without the interpreter."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

STOP_POLL_S = 0.05


class StopFlag:
    """Asks `check_stop` a few times a second from a thread of its own, and keeps what it raised.

    llama.cpp looks at `flag` between any two operations, without the interpreter's lock.
    """

    def __init__(self, check_stop: Callable[[], None]) -> None:
        self.flag = ctypes.create_string_buffer(2)
        self.error: BaseException | None = None
        self._check = check_stop
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="vision-stop", daemon=True)

    def __enter__(self) -> StopFlag:
        self._check()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(STOP_POLL_S):
            try:
                self._check()
            except BaseException as error:  # whatever it is, it is raised where the work is done
                self.error = error
                self.flag[0] = b"\x01"
                return

    def raise_if_set(self) -> None:
        if self.error is not None:
            raise self.error
