"""Subscriptions to the changes of jobs. Each committed change is sent; nothing polls the database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from imgproc_local.domain.job import Job

MAX_UNREAD = 64
"""Changes that a subscription holds before the oldest is dropped.

A job with three stages changes six times, at three starts and three ends, and a few times more after a restart.
"""


class Subscription:
    """The changes of one job, in the order in which they were committed, from the start of the subscription on."""

    def __init__(self) -> None:
        self._changes: asyncio.Queue[Job | None] = asyncio.Queue(MAX_UNREAD)

    async def next(self, timeout_s: float | None) -> Job | None:
        """The next change; None after the last one. Raises `TimeoutError`."""
        async with asyncio.timeout(timeout_s):
            return await self._changes.get()

    def push(self, change: Job | None) -> None:
        """Add a change, or None for the end. A full subscription drops its oldest change."""
        if self._changes.full():
            self._changes.get_nowait()
        self._changes.put_nowait(change)


class Updates:
    """The subscriptions of every job."""

    def __init__(self) -> None:
        self._subscriptions: dict[str, set[Subscription]] = {}
        self._closed = False

    @contextmanager
    def subscribed(self, job_id: str) -> Iterator[Subscription]:
        """A subscription inside the block. Enter it before reading the job, so that no change in between is missed."""
        subscription = Subscription()
        if self._closed:
            subscription.push(None)
        self._subscriptions.setdefault(job_id, set()).add(subscription)
        try:
            yield subscription
        finally:
            subscriptions = self._subscriptions[job_id]
            subscriptions.discard(subscription)
            if not subscriptions:
                del self._subscriptions[job_id]

    def publish(self, job: Job) -> None:
        """Send the job, as it was committed, to its subscribers."""
        for subscription in self._subscriptions.get(job.id, ()):
            subscription.push(job)

    def end(self, job_id: str) -> None:
        """End the subscriptions of a deleted job."""
        for subscription in self._subscriptions.get(job_id, ()):
            subscription.push(None)

    def close(self) -> None:
        """End every subscription, now and from now on: the service is stopping."""
        self._closed = True
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.push(None)
