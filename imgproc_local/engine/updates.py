"""Subscriptions to the changes of jobs. Each committed change is sent; nothing polls the database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from msgspec import Struct

from imgproc_local.domain.job import Job

MAX_UNREAD_JOBS = 1000
"""Jobs that a subscription to an account remembers as changed or deleted. Above that, the subscriber has to read the
list again.
"""


class Changes(Struct, frozen=True):
    """The jobs of an account that were changed, and those that were deleted, in the order of their first change.

    `is_complete` is False if changes are missing: the subscriber has to read the list of jobs again.
    """

    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    is_complete: bool = True


class Subscription:
    """The jobs that have changed since they were last taken: one job, or all of an account.

    Of a job that has changed several times, only the last state is kept. `is_closed` says that the service is stopping.
    """

    def __init__(self, *, job_id: str | None = None, account_id: str | None = None) -> None:
        self._job_id, self._account_id = job_id, account_id
        self._changed: dict[str, Job | None] = {}
        """The last state of each changed job; None if it was deleted."""
        self._is_complete = True
        self._wake = asyncio.Event()
        self.is_closed = False

    async def next(self, timeout_s: float | None) -> Job | None:
        """The state after the next change of the one job; None if it was deleted or the service is stopping.

        Raises: TimeoutError.
        """
        async with asyncio.timeout(timeout_s):
            await self._wake.wait()
        job = self._changed.popitem()[1] if self._changed else None
        self._sleep()
        return job

    async def wait(self, timeout_s: float) -> None:
        """Wait until there is a change, until the service stops, or until `timeout_s` have passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()

    def take(self, limit: int) -> Changes:
        """At most `limit` jobs that were changed or deleted since the last call; the rest remain for the next call."""
        taken = {job_id: self._changed.pop(job_id) for job_id in list(self._changed)[:limit]}
        is_complete, self._is_complete = self._is_complete, True
        self._sleep()
        return Changes(
            tuple(job_id for job_id, job in taken.items() if job is not None),
            tuple(job_id for job_id, job in taken.items() if job is None),
            is_complete,
        )

    def add(self, job_id: str, account_id: str, job: Job | None) -> None:
        """Remember the new state of a job, None if it was deleted, if the subscription is to it or to its account."""
        if self._job_id == job_id or self._account_id == account_id:
            self._changed[job_id] = job
            if len(self._changed) > MAX_UNREAD_JOBS:
                self.reset()
            self._wake.set()

    def reset(self) -> None:
        """Forget all changes of an account: the subscriber has to read the list again."""
        if self._account_id is not None:
            self._changed.clear()
            self._is_complete = False
            self._wake.set()

    def close(self) -> None:
        self.is_closed = True
        self._wake.set()

    def _sleep(self) -> None:
        if not self._changed and not self.is_closed:
            self._wake.clear()


class Updates:
    """The subscriptions to single jobs, and those to all jobs of an account."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()
        self._closed = False

    @contextmanager
    def subscribed(self, *, job_id: str | None = None, account_id: str | None = None) -> Iterator[Subscription]:
        """A subscription to a job, or to all jobs of an account, those that are submitted later included.

        Enter it before reading the jobs, so that no change in between is missed.
        """
        subscription = Subscription(job_id=job_id, account_id=account_id)
        if self._closed:
            subscription.close()
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

    def publish(self, job: Job) -> None:
        """Send the job to its subscribers and its account's. Call it after every commit that changes the job."""
        for subscription in self._subscriptions:
            subscription.add(job.id, job.account_id, job)

    def end(self, job_id: str, account_id: str) -> None:
        """End the subscriptions of a deleted job, and report the deletion to its account."""
        for subscription in self._subscriptions:
            subscription.add(job_id, account_id, None)

    def reset(self) -> None:
        """Make the subscribers of all accounts read their lists again: jobs were changed without `publish` or `end`."""
        for subscription in self._subscriptions:
            subscription.reset()

    def close(self) -> None:
        """End every subscription, now and from now on: the service is stopping."""
        self._closed = True
        for subscription in self._subscriptions:
            subscription.close()
