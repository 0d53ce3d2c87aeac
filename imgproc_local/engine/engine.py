"""The engine: accepts uploads, runs the stages of their jobs, and lets callers follow a job to its end, or an account.

Each committed change of a job is sent to those who follow it; nothing polls the database.

Invariant: a job that `accept` returned is in the database. Unless it is deleted, each of its stages then ends exactly
once, as `done` or `failed`, however often the process ends in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from msgspec import Struct

from imgproc_local.domain.errors import BadImage, InvalidRequest
from imgproc_local.domain.filename import original_name
from imgproc_local.domain.job import Job, StageName, is_newer
from imgproc_local.domain.plan import ACCEPTED_FORMATS, LOCAL_FORMATS, STAGES, Affordability, Plan, Prices
from imgproc_local.engine.direct import DirectStages
from imgproc_local.engine.runner import Runner
from imgproc_local.storage.blobs import Blobs, Incoming
from imgproc_local.storage.jobs import Jobs, Submission
from imgproc_local.storage.stages import Stages
from imgproc_local.storage.translations import Translations

log = logging.getLogger(__name__)


# ---- following ----

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
            if job_id in self._changed:
                known = self._changed[job_id]
                # a later commit may be published first, and nothing follows a deletion
                if known is None or (job is not None and is_newer(known, job)):
                    return
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


# ---- accepting and running ----


class Engine:
    """Runs the stages of `direct` on the jobs of one data folder. Pictures may have at most `max_pixels`."""

    def __init__(
        self,
        jobs: Jobs,
        stored_stages: Stages,
        translations: Translations,
        blobs: Blobs,
        direct: DirectStages,
        prices: Prices,
        updates: Updates,
    ) -> None:
        self._jobs = jobs
        self._stored_stages = stored_stages
        self._translations = translations
        self._blobs = blobs
        self._lanes = {stage.name: stage.lane for stage in direct.stages}
        self._prices = prices
        self._reader = direct.reader
        self.updates = updates
        self._wake = {lane: asyncio.Event() for lane in self._lanes.values()}
        self._runner = Runner(stored_stages, blobs, direct, updates.publish, self._wake)

    async def accept(
        self,
        account_id: str,
        plan: Plan,
        upload: Incoming,
        filename: str,
        *,
        idempotency_key: str | None = None,
        problems: Mapping[str, Sequence[str]] | None = None,
        is_local: bool = False,
    ) -> tuple[Job, bool]:
        """Queue an upload and return its job, and whether it is new: a repeated idempotency key gives the earlier job.

        With `is_local`, for the local page, `LOCAL_FORMATS` are accepted, too, and nothing is charged.
        `problems` are those already found in the request, by field; they are reported together with the image's own.

        Raises:
            InvalidRequest: the request has problems, the image can't be used, or the project is unknown.
            IdempotencyConflict, QueueFull, InsufficientCredits, StorageFailed, ServiceStopping: nothing was
                stored.
        """
        found = dict(problems or {})
        if plan.project_id is not None and "project_id" not in found:
            try:
                await self._jobs.require_project(account_id, plan.project_id)
            except InvalidRequest as error:
                found.update(error.errors)
        picture = None
        if "image" not in found:
            try:
                accepted = ACCEPTED_FORMATS[plan.operation] + (LOCAL_FORMATS if is_local else ())
                picture = await self._reader.read_upload(upload.path, accepted)
            except BadImage as error:
                if not found:
                    raise  # with its own code
                found.update(error.errors)
        if found or picture is None:
            raise InvalidRequest(found)
        prices = {} if is_local else self._prices_of_stages(len(plan.languages))
        async with self._blobs.stored(upload) as blob:
            job, is_new = await self._jobs.submit(
                Submission(
                    account_id=account_id,
                    plan=plan,
                    original_filename=original_name(filename, default=f"image.{picture.info.format.value}"),
                    sha256=blob.sha256,
                    size_bytes=blob.size_bytes,
                    info=picture.info,
                    record=picture.record,
                    prices={stage: prices.get(stage, 0) for stage in STAGES[plan.operation]},
                    lanes=self._lanes,
                    idempotency_key=idempotency_key,
                )
            )
        if is_new:
            self.updates.publish(job)
            self._wake_lanes()
        return job, is_new

    def affordability(self, images: int, languages: int, balance: int) -> Affordability:
        """Whether `balance` covers the full pipeline for `images` pictures in `languages` languages each."""
        required = images * sum(self._prices_of_stages(languages).values())
        shortfall = max(0, required - balance)
        return Affordability(can_afford=shortfall == 0, required=required, balance=balance, shortfall=shortfall)

    def _prices_of_stages(self, languages: int) -> dict[StageName, int]:
        return {
            StageName.ANALYZE: self._prices.analyze * languages,
            StageName.OPTIMIZE: self._prices.optimize,
            StageName.CONVERT: self._prices.convert,
        }

    async def follow(
        self, job_id: str, account_id: str | None = None, *, quiet_s: float | None = None
    ) -> AsyncIterator[Job | None]:
        """The present state of the job, then each change, until it is final, deleted, or the service stops.

        None is yielded after every `quiet_s` seconds without a change. Raises: NotFound.
        """
        with self.updates.subscribed(job_id=job_id) as subscription:
            job = await self._jobs.get(job_id, account_id)
            yield job
            while not job.status.final:
                try:
                    change = await subscription.next(quiet_s)
                except TimeoutError:
                    yield None
                    continue
                if change is None:
                    return
                # the subscription began before the job was read: its first changes may be older
                if is_newer(change, job):
                    job = change
                    yield job

    async def wait(self, job_id: str, timeout_s: float, account_id: str | None = None) -> Job:
        """The job once it is final; its last state if it is deleted, the service stops, or `timeout_s` pass before.

        Raises: NotFound.
        """
        last = await self._jobs.get(job_id, account_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                async for job in self.follow(job_id, account_id):
                    last = job or last
        return last

    async def delete(self, job_id: str, account_id: str) -> None:
        """Delete a job and its files; waiting stages never start, running ones are cancelled. Raises: NotFound."""
        files = await self._jobs.delete(job_id, account_id)
        self._runner.cancel(job_id)
        self.updates.end(job_id, account_id)
        await self._blobs.remove(files)

    async def regenerate(self, job_id: str, language_code: str, *, is_local: bool = False, timeout_s: float = 0) -> Job:
        """Request that one text is written anew. Returns the job when that is done or has failed, or after `timeout_s`.

        While a request for the text waits or runs, another call only waits for it. `is_local` is as in `accept`.
        Raises: NotFound, OriginalRemoved, QueueFull, InsufficientCredits: nothing was stored.
        """
        with self.updates.subscribed(job_id=job_id) as subscription, suppress(TimeoutError):
            price = 0 if is_local else self._prices.analyze
            job, is_new = await self._translations.request(job_id, language_code, price)
            if is_new:
                self._wake_lanes()
            async with asyncio.timeout(timeout_s):
                # without a change, the job was deleted, or the service stops
                while job.text_states[language_code].regenerating and (change := await subscription.next(None)):
                    if is_newer(change, job):
                        job = change
        return job

    async def start(self) -> None:
        """Requeue what an earlier process left running, remove the files it left, then start to claim stages."""
        requeued, failed = await self._stored_stages.recover()
        removed = await asyncio.to_thread(self._blobs.sweep, await self._jobs.referenced_files())
        if requeued or failed or removed:
            log.info(
                "Recovered after an unexpected end: %d stages requeued, %d failed, %d leftover files removed.",
                requeued,
                failed,
                removed,
            )
        self._runner.start()

    def end_waits(self) -> None:
        """End what waits for a change of a job, and uploads that are being read: the service is stopping."""
        self.updates.close()
        self._reader.close()

    async def stop(self) -> None:
        """Stop claiming, cancel running stages, and return within seconds. No accepted job is lost."""
        self.updates.close()
        await self._runner.stop()

    @property
    def problem(self) -> str | None:
        """Why stages do not run now; None if they run, or there are none."""
        return self._runner.problem

    @property
    def has_unstopped_threads(self) -> bool:
        """Whether threads still run stages after `stop`. Loading a model, for example, can't be interrupted."""
        return self._runner.has_unstopped_threads

    def _wake_lanes(self) -> None:
        for event in self._wake.values():
            event.set()
