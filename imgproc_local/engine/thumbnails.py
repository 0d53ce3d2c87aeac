"""Makes the thumbnails of uploads in worker processes, when they are asked for, and stores them like results."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from imgproc_local.domain.errors import BadImage, BrokenImage, CheckStop, NotFound, StageTimedOut, StorageFailed
from imgproc_local.domain.image import ImageInfo
from imgproc_local.domain.job import Job
from imgproc_local.engine.pipeline import OnDemand
from imgproc_local.engine.workers import Workers, memory_limit_bytes
from imgproc_local.storage.blobs import Blobs
from imgproc_local.storage.jobs import Jobs

log = logging.getLogger(__name__)

_RETRY_AFTER_S, _MAX_REMEMBERED = 600.0, 1_000
"""After how long a picture of which no thumbnail could be made may be tried again, and how many are remembered."""
MAX_SIDE_PX = 512
_QUALITY, _EFFORT = 80, 2
"""About 20 KB for a photograph. More effort saves a tenth of the bytes in three times the time."""


class ThumbnailSource(Struct, frozen=True):
    """An uploaded file."""

    path: Path
    info: ImageInfo


def make_thumbnail(source: ThumbnailSource, check_stop: CheckStop) -> bytes:
    """A WebP file of at most `MAX_SIDE_PX` on each side, in sRGB, without metadata: the picture, or an animation's
    first frame, with its orientation applied and its alpha. Runs in a worker.

    Raises: BrokenImage, StageFailed, and what `check_stop` raises.
    """
    from imgproc_local.codecs.picture.decode import evaluate, scaled_down
    from imgproc_local.codecs.picture.libvips import of_samples, translate_errors

    with translate_errors("No thumbnail can be made of this picture"):
        image = scaled_down(source.path, source.info, MAX_SIDE_PX, check_stop)
        # built from its samples alone, so that no metadata of the upload remains
        plain = of_samples(image.write_to_memory(), image.width, image.height, image.bands)
        return bytes(evaluate(plain, check_stop, "webpsave_buffer", keep="none", Q=_QUALITY, effort=_EFFORT))


class Thumbnails:
    """The thumbnails of the uploads of `jobs`, stored in `blobs`."""

    def __init__(self, workers: Workers, blobs: Blobs, jobs: Jobs) -> None:
        self._on_demand = OnDemand(workers, "thumbnails", "No thumbnail can be made of this picture")
        self._blobs = blobs
        self._jobs = jobs
        self._making: dict[str, asyncio.Task[bytes]] = {}
        self._failures: dict[str, tuple[float, str]] = {}
        self.close = self._on_demand.close

    async def get(self, job: Job) -> bytes:
        """The thumbnail of the job's upload as WebP. Concurrent calls for the same job make it once.

        Raises: NotFound, if the upload was removed or is damaged; BrokenImage, if no thumbnail can be made of it;
            ServiceStopping; StorageFailed, also if no worker can be started.
        """
        if (stored := await self._read(job)) is not None:
            return stored
        failed_s, message = self._failures.get(job.id, (0.0, ""))
        if message and time.monotonic() < failed_s + _RETRY_AFTER_S:
            raise BrokenImage(message)
        if job.id not in self._making:
            self._making[job.id] = asyncio.create_task(self._make(job.id), name="thumbnail")
        # the cancellation of one request must not cancel the others
        return await asyncio.shield(self._making[job.id])

    async def _read(self, job: Job) -> bytes | None:
        """The stored thumbnail; None if there is none, it is damaged, or its upload was removed."""
        if job.thumbnail is not None and not job.original.expired:
            with suppress(NotFound, OSError):  # it may be deleted with its job after it was compared
                return await asyncio.to_thread((await self._blobs.intact(job.thumbnail)).read_bytes)
        return None

    async def _make(self, job_id: str) -> bytes:
        try:
            job = await self._jobs.get(job_id)
            if (stored := await self._read(job)) is not None:  # another request had it made meanwhile
                return stored
            source = ThumbnailSource(await self._blobs.intact(job.original), job.info)
            webp = await self._on_demand.run_soon(make_thumbnail, source, memory_limit_bytes(job.info))
            await self._store(job_id, webp)
            return webp
        except (BadImage, StageTimedOut) as error:
            if len(self._failures) >= _MAX_REMEMBERED:
                self._failures.clear()
            self._failures[job_id] = time.monotonic(), error.message
            raise BrokenImage(error.message) from error
        finally:
            del self._making[job_id]

    async def _store(self, job_id: str, webp: bytes) -> None:
        try:
            with self._blobs.incoming() as incoming:
                await asyncio.to_thread(incoming.write, webp)
                async with self._blobs.stored(incoming) as blob:
                    if not await self._jobs.record_thumbnail(job_id, blob.sha256, blob.size_bytes):
                        raise NotFound("This picture was removed meanwhile.")
        except StorageFailed as error:  # it is made again at the next request
            log.warning("A thumbnail can't be stored: %s", error.message)
