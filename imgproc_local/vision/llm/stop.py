"""Interrupts llama.cpp, which runs no Python code, when a stage times out or is cancelled."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from imgproc_local.domain.errors import CheckStop

STOP_POLL_S = 0.05
"""Time between two calls of `check_stop`."""


class Interruption:
    """Whether the call of llama.cpp in progress must stop.

    `flag` is a C string: "" at first, and one character when it must stop. llama.cpp reads it between two operations.
    Invariant: the last flag remains referenced after its call, because llama.cpp has its address until the next call.
    """

    def __init__(self) -> None:
        self.flag = ctypes.create_string_buffer(2)
        self._error: BaseException | None = None

    @contextmanager
    def watching(self, check_stop: CheckStop) -> Iterator[None]:
        """Call `check_stop` at once, and then repeatedly during the block, whose calls of llama.cpp read `flag`.

        Raises: what the first call of `check_stop` raises.
        """
        check_stop()
        self.flag = ctypes.create_string_buffer(2)
        done = threading.Event()
        thread = threading.Thread(target=self._watch, args=(check_stop, done), name="vision-stop", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            self._error = None

    def _watch(self, check_stop: CheckStop, done: threading.Event) -> None:
        while not done.wait(STOP_POLL_S):
            try:
                check_stop()
            except BaseException as error:  # raised again on the thread that does the work
                self._error = error
                self.flag[0] = b"\x01"
                return

    def may_continue(self) -> bool:
        """False after `check_stop` raised during the call in progress."""
        return self._error is None

    def raise_if_stopped(self) -> None:
        """Raises: what `check_stop` raised during the call in progress."""
        if self._error is not None:
            raise self._error
