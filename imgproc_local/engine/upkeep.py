"""The upkeep of the data folder while the service runs: removes what the retention settings no longer allow."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from imgproc_local.domain.errors import StorageFailed
from imgproc_local.storage.blobs import Blobs
from imgproc_local.storage.retention import MaxAge, Retention

log = logging.getLogger(__name__)

DELETE_FILES_EVERY_S = 30
"""How soon the files are deleted that the command `prune` has detached beside a running server."""
REMOVE_EVERY_S = 3600
MAX_CLOCK_JUMP = timedelta(days=1)
"""A larger jump of the clock is an error of the clock: everything would seem old."""


def elapsed_s() -> float:
    """Seconds since an unknown instant. No setting of the clock changes it; on Linux it counts suspended time too."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


async def run_upkeep(
    retention: Retention,
    blobs: Blobs,
    age: MaxAge,
    clock: Callable[[], datetime],
    on_removed: Callable[[], None],
    elapsed: Callable[[], float] = elapsed_s,
) -> None:
    """Remove what is too old, once an hour, and delete the files that wait for it, until the task is cancelled.

    `on_removed` is called after jobs or files were removed, here or by the command `prune`.
    """
    began_at, began_s = clock(), elapsed()
    removed_s: float | None = None
    while True:
        try:
            if age.is_limited and (removed_s is None or elapsed() - removed_s >= REMOVE_EVERY_S):
                removed_s = elapsed()
                jump = clock() - began_at - timedelta(seconds=elapsed() - began_s)
                if jump > MAX_CLOCK_JUMP:
                    log.warning(
                        "The system's clock went %d days ahead. Until the next start, nothing is removed because of its"
                        " age.",
                        jump.days,
                    )
                else:
                    await retention.remove(age)
            if await retention.delete_files(blobs):
                on_removed()
        except StorageFailed as error:
            log.error("The upkeep of the data folder failed: %s", error.message)
        except Exception:  # the upkeep must go on after any error
            log.exception("The upkeep of the data folder failed with an unexpected error")
        await asyncio.sleep(DELETE_FILES_EVERY_S)
