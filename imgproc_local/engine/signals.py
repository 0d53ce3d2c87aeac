"""Who waits for which job. Every committed change is handed to the waiters as it is; nobody polls the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from imgproc_local.domain.job import Job, is_newer

MAX_UNREAD = 64
"""A job changes at most six times (three starts, three ends), a few more after restarts."""


class Watch:
    """The changes of one job, in order, from its opening on. Ends when the job is deleted or the service stops."""

    def __init__(self) -> None:
        self._changes: asyncio.Queue[Job | None] = asyncio.Queue(MAX_UNREAD)

    async def next(self, timeout_s: float) -> Job | None:
        """The next change; None where there will be none. Raises `TimeoutError`."""
        async with asyncio.timeout(timeout_s):
            return await self._changes.get()

    def offer(self, change: Job | None) -> None:
        if self._changes.full():
            self._changes.get_nowait()
        self._changes.put_nowait(change)


class Signals:
    def __init__(self) -> None:
        self._watches: dict[str, set[Watch]] = {}
        self._closed = False

    @contextmanager
    def watch(self, job_id: str) -> Iterator[Watch]:
        """Open before reading the job, so that no change falls between the two."""
        watch = Watch()
        if self._closed:
            watch.offer(None)
        self._watches.setdefault(job_id, set()).add(watch)
        try:
            yield watch
        finally:
            watches = self._watches[job_id]
            watches.discard(watch)
            if not watches:
                del self._watches[job_id]

    def publish(self, job: Job) -> None:
        for watch in self._watches.get(job.id, ()):
            watch.offer(job)

    def end(self, job_id: str) -> None:
        """End the waits for a job that was deleted."""
        for watch in self._watches.get(job_id, ()):
            watch.offer(None)

    def close(self) -> None:
        """End every wait: the service is stopping."""
        self._closed = True
        for watches in self._watches.values():
            for watch in watches:
                watch.offer(None)


async def changes(watch: Watch, start: Job, keep_alive_s: float) -> AsyncIterator[Job | None]:
    """The job now, then each change until it is final. None stands for `keep_alive_s` seconds without one."""
    yield start
    seen = start
    while not seen.status.final:
        try:
            job = await watch.next(keep_alive_s)
        except TimeoutError:
            yield None
            continue
        if job is None:
            return
        # the watch was open before `start` was read: what it says first may be older
        if is_newer(job, seen):
            seen = job
            yield job
