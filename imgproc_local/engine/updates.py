"""Subscriptions to the changes of jobs. Each committed change is sent; nothing polls the database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TypeVar

from msgspec import Struct

from imgproc_local.domain.job import Job

MAX_UNREAD = 64
"""Changes that the subscription to one job holds before the oldest is dropped.

A job with three stages changes six times, at three starts and three ends, more often if stages are tried again or
texts are edited.
"""
MAX_UNREAD_JOBS = 10_000
"""Jobs that the subscription to an account remembers as changed or deleted, about 100 bytes each. Above that, the
subscriber has to read the list again.
"""


class Subscription:
    """The changes of one job, in the order in which they were committed, from the start of the subscription on."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id
        self._changes: asyncio.Queue[Job | None] = asyncio.Queue(MAX_UNREAD)

    async def next(self, timeout_s: float | None) -> Job | None:
        """The next change; None after the last one. Raises `TimeoutError`."""
        async with asyncio.timeout(timeout_s):
            return await self._changes.get()

    def publish(self, job: Job) -> None:
        if job.id == self._job_id:
            self._push(job)

    def end(self, job_id: str, _account_id: str) -> None:
        if job_id == self._job_id:
            self._push(None)

    def close(self) -> None:
        self._push(None)

    def _push(self, change: Job | None) -> None:
        """Add a change, or None for the end. A full subscription drops its oldest change."""
        if self._changes.full():
            self._changes.get_nowait()
        self._changes.put_nowait(change)


class Changes(Struct, frozen=True):
    """The jobs of an account that were changed, and those that were deleted, in the order of their first change.

    `is_complete` is False if changes are missing: the subscriber has to read the list of jobs again.
    """

    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    is_complete: bool = True


class AccountSubscription:
    """The identifiers of the jobs of one account that have changed since they were last taken.

    `is_closed` says that the service is stopping.
    """

    def __init__(self, account_id: str) -> None:
        self._account_id = account_id
        self._deleted: dict[str, bool] = {}
        """Whether each changed job was deleted."""
        self._is_complete = True
        self._wake = asyncio.Event()
        self.is_closed = False

    async def wait(self, timeout_s: float) -> None:
        """Wait until there is a change, until the service stops, or until `timeout_s` have passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()

    def take(self, limit: int) -> Changes:
        """At most `limit` jobs that were changed or deleted since the last call; the rest remain for the next call."""
        taken = {job_id: self._deleted.pop(job_id) for job_id in list(self._deleted)[:limit]}
        is_complete, self._is_complete = self._is_complete, True
        if not self._deleted and not self.is_closed:
            self._wake.clear()
        return Changes(
            tuple(job_id for job_id, is_deleted in taken.items() if not is_deleted),
            tuple(job_id for job_id, is_deleted in taken.items() if is_deleted),
            is_complete,
        )

    def publish(self, job: Job) -> None:
        if job.account_id == self._account_id:
            self._add(job.id, is_deleted=False)

    def end(self, job_id: str, account_id: str) -> None:
        if account_id == self._account_id:
            self._add(job_id, is_deleted=True)

    def reset(self) -> None:
        """Forget all changes: the subscriber has to read the list again."""
        self._deleted.clear()
        self._is_complete = False
        self._wake.set()

    def close(self) -> None:
        self.is_closed = True
        self._wake.set()

    def _add(self, job_id: str, *, is_deleted: bool) -> None:
        self._deleted[job_id] = is_deleted
        if len(self._deleted) > MAX_UNREAD_JOBS:
            self.reset()
        self._wake.set()


S = TypeVar("S", Subscription, AccountSubscription)


class Updates:
    """The subscriptions to single jobs, and those to all jobs of an account."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription | AccountSubscription] = set()
        self._closed = False

    def subscribed(self, job_id: str) -> AbstractContextManager[Subscription]:
        """A subscription inside the block. Enter it before reading the job, so that no change in between is missed."""
        return self._added(Subscription(job_id))

    def subscribed_to_account(self, account_id: str) -> AbstractContextManager[AccountSubscription]:
        """As `subscribed`, to all jobs of the account, those that are submitted later included."""
        return self._added(AccountSubscription(account_id))

    @contextmanager
    def _added(self, subscription: S) -> Iterator[S]:
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
            subscription.publish(job)

    def end(self, job_id: str, account_id: str) -> None:
        """End the subscriptions of a deleted job, and report the deletion to its account."""
        for subscription in self._subscriptions:
            subscription.end(job_id, account_id)

    def reset(self) -> None:
        """Make the subscribers of all accounts read their lists again: jobs were changed without `publish` or `end`."""
        for subscription in self._subscriptions:
            if isinstance(subscription, AccountSubscription):
                subscription.reset()

    def close(self) -> None:
        """End every subscription, now and from now on: the service is stopping."""
        self._closed = True
        for subscription in self._subscriptions:
            subscription.close()
