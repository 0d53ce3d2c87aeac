"""Makes thumbnails of uploads in worker processes, each once, a few at the same time."""

from __future__ import annotations

import asyncio
import logging
import os
import time

from imgproc_local.codecs.thumbnail import ThumbnailSource, make_thumbnail
from imgproc_local.domain.errors import (
    BadImage,
    BrokenImage,
    NotFound,
    ServiceStopping,
    StageCancelled,
    StageFailed,
    StageTimedOut,
)
from imgproc_local.domain.job import Job
from imgproc_local.engine.stage import CancellationToken
from imgproc_local.engine.workers import WorkerError, Workers
from imgproc_local.storage.blobs import Blobs
from imgproc_local.storage.thumbnails import MAX_THUMBNAIL_BYTES, ThumbnailFiles
from imgproc_local.system.threads import started_threads

log = logging.getLogger(__name__)

AT_ONCE = 2
"""Thumbnails that are made at the same time, in addition to the stages: no lane limits them."""
TIMEOUT_S = 30.0
MAX_REMEMBERED_FAILURES, RETRY_AFTER_S = 1000, 600.0
"""How many pictures without a possible thumbnail are remembered, and after how long they may be tried again."""


class Thumbnails:
    """The thumbnails of the uploads in `blobs`; `files` stores them."""

    def __init__(self, workers: Workers, blobs: Blobs, files: ThumbnailFiles, at_once: int = AT_ONCE) -> None:
        self._workers = workers
        self._blobs = blobs
        self._files = files
        self._executor = started_threads(at_once, "imgproc-thumbnails")
        self._making: dict[str, asyncio.Task[bytes]] = {}
        self._tokens: set[CancellationToken] = set()
        self._failures: dict[str, tuple[float, str]] = {}
        self._closed = False

    async def get(self, job: Job) -> bytes:
        """The thumbnail of the job's upload as WebP. Concurrent calls for the same upload make it once.

        Raises: NotFound, if the upload was removed or is damaged; BrokenImage, if no thumbnail can be made of it;
            ServiceStopping; StorageFailed, also if no worker can be started.
        """
        sha256 = job.original.sha256
        if job.original.expired:
            raise NotFound("This file was removed because of its age. Send the picture again to process it anew.")
        making = self._making.get(sha256)
        if making is None:
            stored = await asyncio.to_thread(self._files.read, sha256)
            if stored is not None:
                return stored
            making = self._making.get(sha256) or self._begin(job)
        return await asyncio.shield(making)  # the cancellation of one request must not cancel the others

    def close(self) -> None:
        """Stop making thumbnails; requests for them raise ServiceStopping."""
        self._closed = True
        for token in tuple(self._tokens):  # threads of the executor add and remove tokens meanwhile
            token.cancel()
        self._executor.shutdown(wait=False)

    def _begin(self, job: Job) -> asyncio.Task[bytes]:
        sha256 = job.original.sha256
        if self._closed:
            raise ServiceStopping
        failed_s, message = self._failures.get(sha256, (0.0, ""))
        if message and time.monotonic() < failed_s + RETRY_AFTER_S:
            raise BrokenImage(message)
        task = asyncio.create_task(self._make(job), name="thumbnail")
        self._making[sha256] = task

        def ended(_: asyncio.Task[bytes]) -> None:
            del self._making[sha256]
            if not task.cancelled():
                task.exception()  # retrieved, or asyncio logs it if all requests were cancelled

        task.add_done_callback(ended)
        return task

    async def _make(self, job: Job) -> bytes:
        sha256 = job.original.sha256
        damage = await self._blobs.damage(sha256, job.original.size_bytes)
        if damage is not None:
            log.error("The file %s of a job is %s in the data folder", sha256, damage)
            raise NotFound(f"This file is {damage} in the data folder; `imgproc-local doctor` says what to do.")
        if self._closed:  # the executor accepts no more work
            raise ServiceStopping
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, self._run, job)
        except StageCancelled:
            raise ServiceStopping from None
        except StageTimedOut as error:
            reason: Exception = error
            message = f"No thumbnail can be made of this picture within {TIMEOUT_S:g} seconds."
        except (BadImage, StageFailed) as error:
            reason, message = error, error.message
        except WorkerError as error:
            log.error("No thumbnail could be made of a picture:\n%s", error)
            reason, message = error, "No thumbnail can be made of this picture: it caused an unexpected error."
        self._remember(sha256, message)
        raise BrokenImage(message) from reason

    def _run(self, job: Job) -> bytes:
        """Make and store one thumbnail. Runs on a thread of the executor."""
        assert job.details is not None
        token = CancellationToken(TIMEOUT_S)
        self._tokens.add(token)
        try:
            if self._closed:
                raise StageCancelled("The service is stopping.")
            path = os.fsencode(self._blobs.path(job.original.sha256))
            source = ThumbnailSource(path, job.details.info)
            webp = self._workers.run(make_thumbnail, source, job.details.info, token.check).webp
        finally:
            self._tokens.discard(token)
        if len(webp) > MAX_THUMBNAIL_BYTES:
            raise StageFailed("The process that made the thumbnail sent more bytes than a thumbnail has.")
        self._files.write(job.original.sha256, webp)
        return webp

    def _remember(self, sha256: str, message: str) -> None:
        self._failures.pop(sha256, None)
        self._failures[sha256] = time.monotonic(), message
        if len(self._failures) > MAX_REMEMBERED_FAILURES:
            del self._failures[next(iter(self._failures))]
