"""Threads that are started in advance."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def started_threads(count: int, name: str, initializer: Callable[[], None] | None = None) -> ThreadPoolExecutor:
    """An executor whose threads have all started, so that no later call fails because the system refuses a thread.

    Raises: RuntimeError, if the system refuses one now.
    """
    executor = ThreadPoolExecutor(count, thread_name_prefix=name, initializer=initializer)
    started = threading.Barrier(count)
    try:
        for _ in range(count):  # each call waits for all, so that each gets a thread of its own
            executor.submit(started.wait)
    except RuntimeError:
        started.abort()
        raise
    return executor
