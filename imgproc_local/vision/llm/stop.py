"""Interrupts llama.cpp, which runs no Python code, when a stage times out or is cancelled."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from imgproc_local.domain.stop import CheckStop

STOP_POLL_S = 0.05
"""Time between two calls of `check_stop`."""


class StopWatcher:
    """Calls `check_stop` repeatedly on a new thread, and stores the exception that it raises in `error`.

    `flag` is a C string: "" at first, and one character after the exception. llama.cpp reads it between two operations.
    """

    def __init__(self, check_stop: CheckStop) -> None:
        self.flag = ctypes.create_string_buffer(2)
        self.error: BaseException | None = None
        self._check = check_stop
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="vision-stop", daemon=True)

    def __enter__(self) -> StopWatcher:
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
            except BaseException as error:  # raised again on the thread that does the work
                self.error = error
                self.flag[0] = b"\x01"
                return

    def raise_if_stopped(self) -> None:
        """Raises: what `check_stop` raised."""
        if self.error is not None:
            raise self.error


class Interruption:
    """The `StopWatcher` of the call of llama.cpp in progress, if there is one.

    Invariant: the last flag remains referenced after its call, because llama.cpp has its address until the next call.
    """

    def __init__(self) -> None:
        self.flag = ctypes.create_string_buffer(2)
        self._current: StopWatcher | None = None

    @contextmanager
    def watching(self, check_stop: CheckStop) -> Iterator[None]:
        """Call `check_stop` at once, and then repeatedly during the block, whose calls of llama.cpp read `flag`.

        Raises: what the first call of `check_stop` raises.
        """
        with StopWatcher(check_stop) as current:
            self._current = current
            self.flag = current.flag
            try:
                yield
            finally:
                self._current = None

    def may_continue(self) -> bool:
        """False after `check_stop` raised during the call in progress."""
        return self._current is None or self._current.error is None

    def raise_if_stopped(self) -> None:
        """Raises: what `check_stop` raised during the call in progress."""
        if self._current is not None:
            self._current.raise_if_stopped()
