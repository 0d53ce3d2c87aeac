"""The upkeep of the data folder while the service runs: removes what the retention settings no longer allow."""

from __future__ import annotations

import asyncio
import logging
import time

from imgproc_local.domain.errors import StorageFailed
from imgproc_local.storage.blobs import Blobs
from imgproc_local.storage.retention import MaxAge, Retention

log = logging.getLogger(__name__)

DELETE_FILES_EVERY_S = 30
"""How soon the files are deleted that the command `prune` has detached beside a running server."""
REMOVE_EVERY_S = 3600


async def run_upkeep(retention: Retention, blobs: Blobs, age: MaxAge) -> None:
    """Remove what is too old, once an hour, and delete the files that wait for it, until the task is cancelled."""
    removed_at_s: float | None = None
    while True:
        try:
            if age.is_limited and (removed_at_s is None or time.monotonic() - removed_at_s >= REMOVE_EVERY_S):
                await retention.remove(age)
                removed_at_s = time.monotonic()
            await retention.delete_files(blobs)
        except StorageFailed as error:
            log.error("The upkeep of the data folder failed: %s", error.message)
        except Exception:  # the upkeep must go on after any error
            log.exception("The upkeep of the data folder failed with an unexpected error")
        await asyncio.sleep(DELETE_FILES_EVERY_S)
