"""Runs a coroutine on a thread without an event loop, and cancels it when its result is no longer wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from imgproc_local.domain.stop import CheckStop

Result = TypeVar("Result")


def run_until_stopped(coroutine: Coroutine[Any, Any, Result], check_stop: CheckStop, poll_s: float) -> Result:
    """The result of `coroutine`. Calls `check_stop` every `poll_s` seconds, and cancels the coroutine if that raises.

    Raises: what the coroutine or `check_stop` raises.
    """
    return asyncio.run(_until_stopped(coroutine, check_stop, poll_s))


async def _until_stopped(coroutine: Coroutine[Any, Any, Result], check_stop: CheckStop, poll_s: float) -> Result:
    task = asyncio.create_task(coroutine)
    try:
        while not (await asyncio.wait({task}, timeout=poll_s))[0]:
            check_stop()
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
