"""Threads that are started in advance, and coroutines that run on a thread until their result is no longer wanted.

asyncio is imported by the function that needs it: worker processes load this module and run no event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from imgproc_local.domain.errors import CheckStop

_Result = TypeVar("_Result")


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


def run_until_stopped(coroutine: Coroutine[Any, Any, _Result], check_stop: CheckStop, poll_s: float) -> _Result:
    """The result of `coroutine`. Calls `check_stop` every `poll_s` seconds, and cancels the coroutine if that raises.

    Raises: what the coroutine or `check_stop` raises.
    """
    import asyncio

    async def run() -> _Result:
        task = asyncio.create_task(coroutine)
        while not (await asyncio.wait({task}, timeout=poll_s))[0]:
            check_stop()  # if it raises, `asyncio.run` cancels the task and waits for its end
        return task.result()

    return asyncio.run(run())
