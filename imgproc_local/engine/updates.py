"""Subscriptions to the changes of jobs. Each committed change is sent; nothing polls the database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from msgspec import Struct

from imgproc_local.domain.job import Job

T = TypeVar("T")

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


class Changes(Struct, frozen=True):
    """The jobs of an account that were changed, and those that were deleted, in the order of their first change.

    `is_complete` is False if changes are missing: the subscriber has to read the list of jobs again.
    """

    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    is_complete: bool = True


class AccountSubscription:
    """The identifiers of the jobs of one account that have changed since they were last taken."""

    def __init__(self) -> None:
        self._changed: dict[str, None] = {}
        self._deleted: dict[str, None] = {}
        self._is_complete = True
        self._closed = False
        self._wake = asyncio.Event()

    async def wait(self, timeout_s: float) -> None:
        """Wait until there is a change, until the service stops, or until `timeout_s` have passed."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            pass

    def take(self, limit: int) -> Changes:
        """All deleted jobs and at most `limit` changed ones since the last call; the rest remain for the next call."""
        changed = tuple(job_id for job_id, _ in zip(self._changed, range(limit), strict=False))
        for job_id in changed:
            del self._changed[job_id]
        taken = Changes(changed, tuple(self._deleted), self._is_complete)
        self._deleted.clear()
        self._is_complete = True
        if not self._changed and not self._closed:
            self._wake.clear()
        return taken

    @property
    def is_closed(self) -> bool:
        """Whether the service is stopping."""
        return self._closed

    def push(self, job_id: str) -> None:
        self._changed[job_id] = None
        self._notify()

    def push_deleted(self, job_id: str) -> None:
        self._changed.pop(job_id, None)
        self._deleted[job_id] = None
        self._notify()

    def reset(self) -> None:
        """Forget all changes: the subscriber has to read the list again."""
        self._changed.clear()
        self._deleted.clear()
        self._is_complete = False
        self._wake.set()

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    def _notify(self) -> None:
        """Wake the subscriber, after a reset if there are too many changes."""
        if len(self._changed) + len(self._deleted) > MAX_UNREAD_JOBS:
            self.reset()
        self._wake.set()


class Updates:
    """The subscriptions to single jobs, and those to all jobs of an account."""

    def __init__(self) -> None:
        self._of_jobs: dict[str, set[Subscription]] = {}
        self._of_accounts: dict[str, set[AccountSubscription]] = {}
        self._closed = False

    @contextmanager
    def subscribed(self, job_id: str) -> Iterator[Subscription]:
        """A subscription inside the block. Enter it before reading the job, so that no change in between is missed."""
        subscription = Subscription()
        if self._closed:
            subscription.push(None)
        with _member(self._of_jobs, job_id, subscription):
            yield subscription

    @contextmanager
    def subscribed_to_account(self, account_id: str) -> Iterator[AccountSubscription]:
        """As `subscribed`, to all jobs of the account, those that are submitted later included."""
        subscription = AccountSubscription()
        if self._closed:
            subscription.close()
        with _member(self._of_accounts, account_id, subscription):
            yield subscription

    def publish(self, job: Job) -> None:
        """Send the job to its subscribers and its account's. Call it after every commit that changes the job."""
        for subscription in self._of_jobs.get(job.id, ()):
            subscription.push(job)
        for account_subscription in self._of_accounts.get(job.account_id, ()):
            account_subscription.push(job.id)

    def end(self, job_id: str, account_id: str) -> None:
        """End the subscriptions of a deleted job, and report the deletion to its account."""
        for subscription in self._of_jobs.get(job_id, ()):
            subscription.push(None)
        for account_subscription in self._of_accounts.get(account_id, ()):
            account_subscription.push_deleted(job_id)

    def reset(self) -> None:
        """Make the subscribers of all accounts read their lists again: jobs were changed without `publish` or `end`."""
        for account_subscriptions in self._of_accounts.values():
            for subscription in account_subscriptions:
                subscription.reset()

    def close(self) -> None:
        """End every subscription, now and from now on: the service is stopping."""
        self._closed = True
        for subscriptions in self._of_jobs.values():
            for subscription in subscriptions:
                subscription.push(None)
        for account_subscriptions in self._of_accounts.values():
            for account_subscription in account_subscriptions:
                account_subscription.close()


@contextmanager
def _member(sets: dict[str, set[T]], key: str, member: T) -> Iterator[None]:
    """`member` is in the set of `key` inside the block. A set without members is removed."""
    sets.setdefault(key, set()).add(member)
    try:
        yield
    finally:
        members = sets[key]
        members.discard(member)
        if not members:
            del sets[key]
