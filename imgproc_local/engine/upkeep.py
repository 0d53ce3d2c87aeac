"""The upkeep of the data folder while the service runs: removes what the retention settings no longer allow."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec.structs import asdict

from imgproc_local.domain.errors import StorageFailed
from imgproc_local.storage.accounts import audit
from imgproc_local.storage.blobs import Blobs
from imgproc_local.storage.jobs import MaxAge, Retention

log = logging.getLogger(__name__)

DELETE_FILES_EVERY_S = 30
"""How often the queued files are deleted. While a server runs, the command `prune` only queues them."""
FIRST_REMOVAL_AFTER_S = 600
"""A clock that is wrong when a machine starts, and makes everything seem too old, is usually corrected by then."""
REMOVE_EVERY_S = 3600
"""How often what is too old is removed from the database, and its files are queued."""


def _elapsed_s() -> float:
    """Seconds since an arbitrary instant, unaffected by changes of the clock. On Linux, suspended time counts too."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


async def run_upkeep(
    retention: Retention,
    blobs: Blobs,
    max_age: MaxAge,
    clock: Callable[[], datetime],
    on_removed: Callable[[], None],
    elapsed: Callable[[], float] = _elapsed_s,
) -> None:
    """Remove what is too old once an hour, first after `FIRST_REMOVAL_AFTER_S`, and delete the queued files twice a
    minute, until the task is cancelled. A clock that is more than a day ahead of the elapsed time is wrong and makes
    everything seem too old: nothing is removed.

    `on_removed` is called after queued files were deleted. Every removal of jobs or results queues files, so this
    reports the removals by this task and by `prune`.
    """
    started_at, started_s = clock(), elapsed()
    next_removal_s = started_s + FIRST_REMOVAL_AFTER_S
    while True:
        try:
            if max_age.is_limited and elapsed() >= next_removal_s:
                next_removal_s = elapsed() + REMOVE_EVERY_S
                ahead = clock() - started_at - timedelta(seconds=elapsed() - started_s)
                if ahead > timedelta(days=1):
                    log.warning(
                        "The system's clock is ahead by %d days. Old jobs and files are not removed until the clock is"
                        " corrected, or imgproc-local restarted.",
                        ahead.days,
                    )
                else:
                    await _remove(retention, max_age)
            if await retention.delete_files(blobs):
                on_removed()
        except Exception as error:  # the upkeep must go on after any error
            log.error("The upkeep of the data folder failed: %s", error, exc_info=not isinstance(error, StorageFailed))
        await asyncio.sleep(DELETE_FILES_EVERY_S)


async def _remove(retention: Retention, max_age: MaxAge) -> None:
    """Remove what is too old, for good, and log it first if there is anything."""
    planned = await retention.removable(max_age)
    if planned.jobs or planned.files:
        settings = {f"retention_{kind}_days": age.days for kind, age in asdict(max_age).items() if age is not None}
        allowed = ", ".join(f"{name} = {days}" for name, days in settings.items())
        log.info("Removing what is too old (%s): %d jobs, %d files.", allowed, planned.jobs, planned.files)
        audit("data.prune", jobs=planned.jobs, files=planned.files, by="retention", **settings)
    await retention.remove(max_age)
