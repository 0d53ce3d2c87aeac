"""The engine: accepts uploads, runs the stages of their jobs, and lets callers follow a job to its end, or an account.

Each committed change of a job wakes those who follow it, who read the job then; nothing polls the database.

Invariant: a job that `accept` returned is in the database. Unless it is deleted, each of its stages then ends exactly
once, as `done` or `failed`, however often the process ends in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
from msgspec.structs import asdict

from imgproc_local.domain.errors import BadImage, InvalidRequest, NotFound, Problems, ServiceError, StorageFailed
from imgproc_local.domain.filename import original_name
from imgproc_local.domain.job import Job, StageName
from imgproc_local.domain.plan import ACCEPTED_FORMATS, ACCEPTED_LOCALLY, STAGES, Plan, Prices, Remake, RemakeItem
from imgproc_local.domain.result import NewTexts, StoredText, TextName
from imgproc_local.engine.pipeline import Pipeline
from imgproc_local.engine.runner import Runner
from imgproc_local.engine.stage import Output
from imgproc_local.storage.accounts import ApiKey
from imgproc_local.storage.blobs import Blobs, Incoming
from imgproc_local.storage.jobs import Jobs, Submission
from imgproc_local.storage.stages import Stages
from imgproc_local.storage.translations import Outcome, Translations

log = logging.getLogger(__name__)


# ---- following ----

MAX_UNREAD_JOBS = 1000
"""Jobs that a subscription to an account remembers as changed or deleted. Above that, the subscriber has to read the
list again.
"""


class _Subscription:
    """The jobs that were changed or deleted since they were last taken.

    `is_closed` says that the service is stopping.
    """

    def __init__(self) -> None:
        self._changed: dict[str, None] | None = {}
        """The identifiers in the order of their first change; None if there were more than `MAX_UNREAD_JOBS`."""
        self._wake = asyncio.Event()
        self.is_closed = False

    async def wait(self, timeout_s: float | None) -> bool:
        """Wait until there is a change or the service stops. Returns False if `timeout_s` passed before."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                return await self._wake.wait()
        return False

    def take(self, limit: int = 1) -> list[str] | None:
        """At most `limit` jobs; the rest remain for the next call. None if changes are missing: the subscriber has to
        read the list of jobs again.
        """
        taken = None if self._changed is None else list(self._changed)[:limit]
        self._changed = dict.fromkeys(list(self._changed or ())[limit:])
        if not self._changed and not self.is_closed:
            self._wake.clear()
        return taken

    def add(self, job_id: str) -> None:
        if self._changed is not None:
            self._changed[job_id] = None
            if len(self._changed) > MAX_UNREAD_JOBS:
                self._changed = None
        self._wake.set()

    def reset(self) -> None:
        """Forget all changes: the subscriber has to read the list again."""
        self._changed = None
        self._wake.set()

    def close(self) -> None:
        self.is_closed = True
        self._wake.set()


class Updates:
    """The subscriptions to single jobs, and those to all jobs of an account, by the identifier of the job or account.

    A subscriber reads the jobs from the database, so that it never takes an earlier state for a later one.
    """

    def __init__(self) -> None:
        self._subscriptions: dict[_Subscription, str] = {}
        self._closed = False

    @contextmanager
    def subscribed(self, job_or_account_id: str) -> Iterator[_Subscription]:
        """A subscription to a job, or to all jobs of an account, those that are submitted later included.

        Enter it before reading the jobs, so that no change in between is missed.
        """
        subscription = _Subscription()
        if self._closed:
            subscription.close()
        self._subscriptions[subscription] = job_or_account_id
        try:
            yield subscription
        finally:
            del self._subscriptions[subscription]

    def publish(self, job_id: str, account_id: str) -> None:
        """Tell the subscribers of the job and of its account. Call it after every commit that changes or deletes it."""
        for subscription, wanted in self._subscriptions.items():
            if wanted in (job_id, account_id):
                subscription.add(job_id)

    def reset(self) -> None:
        """Make all subscribers read their jobs again: some were changed without `publish`."""
        for subscription in self._subscriptions:
            subscription.reset()

    def close(self) -> None:
        """End every subscription, now and from now on: the service is stopping."""
        self._closed = True
        for subscription in self._subscriptions:
            subscription.close()


# ---- accepting and running ----


class Engine:
    """Runs the stages of `pipeline` on the jobs of one data folder."""

    def __init__(
        self,
        jobs: Jobs,
        stored_stages: Stages,
        translations: Translations,
        blobs: Blobs,
        pipeline: Pipeline,
        prices: Prices,
        updates: Updates,
    ) -> None:
        self._jobs = jobs
        self._stored_stages = stored_stages
        self._translations = translations
        self._blobs = blobs
        self.lanes = {stage.name: stage.lane for stage in pipeline.stages}
        self._prices = prices
        self._reader = pipeline.reader
        self.workers = pipeline.workers
        self.updates = updates
        self._runner = Runner(stored_stages, blobs, pipeline, updates.publish)
        self.stage_observers = self._runner.stage_observers

    async def accept(
        self, key: ApiKey, plan: Plan, upload: Incoming, filename: str, problems: Problems, idempotency_key: str | None
    ) -> tuple[Job, bool]:
        """Queue an upload and return its job, and whether it is new: a repeated idempotency key gives the earlier job.

        From the local page, more formats are accepted, and nothing is charged.
        `problems` are those already found in the request; they are reported together with the image's own.

        Raises:
            InvalidRequest: the request has problems, the image can't be used, or the project is unknown.
            IdempotencyConflict, QueueFull, InsufficientCredits, StorageFailed, ServiceStopping: nothing was
                stored.
        """
        found, account_id = dict(problems), key.account_id
        if plan.project_id is not None and "project_id" not in found:
            try:
                await self._jobs.require_project(account_id, plan.project_id)
            except InvalidRequest as error:
                found.update(error.errors)
        picture = None
        if "image" not in found:
            try:
                accepted = (ACCEPTED_LOCALLY if key.for_page else ACCEPTED_FORMATS)[plan.operation]
                picture = await self._reader.read_upload(upload.path, accepted)
            except BadImage as error:
                if not found:
                    raise  # with its own code
                found.update(error.errors)
        if found or picture is None:
            raise InvalidRequest(found)
        async with self._blobs.stored(upload) as blob:
            variants, prices = len(plan.variant_sizes(picture.info)), self._prices_for(key)
            job, is_new = await self._jobs.submit(
                Submission(
                    account_id=account_id,
                    plan=plan,
                    original_filename=original_name(filename, default=f"image.{picture.info.format.value}"),
                    sha256=blob.sha256,
                    size_bytes=blob.size_bytes,
                    info=picture.info,
                    record=picture.record,
                    prices={
                        stage: prices.of(stage, len(plan.languages), plan.role, variants)
                        for stage in STAGES[plan.operation]
                    },
                    lanes=self.lanes,
                    idempotency_key=idempotency_key,
                )
            )
        if is_new:
            self.updates.publish(job.id, account_id)
            self._runner.wake()
        return job, is_new

    async def follow(
        self, job_id: str, account_id: str | None = None, quiet_s: float | None = None
    ) -> AsyncIterator[Job | None]:
        """The present state of the job, then each change, until it is final or deleted, or the service stops.

        After several quick changes, one state is yielded for all. None is yielded after every `quiet_s` seconds without
        a change. Raises: NotFound.
        """
        with self.updates.subscribed(job_id) as subscription:
            job = await self._jobs.get(job_id, account_id)
            yield job
            while not job.status.final:
                if not await subscription.wait(quiet_s):
                    yield None
                    continue
                if subscription.take() == [] and subscription.is_closed:  # a change just before the stop is yielded
                    return
                before = job
                try:
                    job = await self._jobs.get(job_id, account_id)
                except NotFound:  # it was deleted
                    return
                if job != before:  # the first change may have been committed before the job was read
                    yield job

    async def wait(self, job_id: str, timeout_s: float, account_id: str, last: Job | None = None) -> Job:
        """The final job; its last state if it is deleted, the service stops, or `timeout_s` pass before.

        That is also the answer if the database can't be read meanwhile: what the caller has stored stays stored.
        `last` is the job as the caller knows it; without it, the job must be there. Raises: NotFound, StorageFailed.
        """
        last = last or await self._jobs.get(job_id, account_id)
        try:
            async with asyncio.timeout(timeout_s):
                async for job in self.follow(job_id, account_id):
                    last = job or last
        except StorageFailed as error:
            log.error("A wait for a job was ended: %s", error.message)
        except (TimeoutError, NotFound):  # it is not done yet, or was deleted
            pass
        return last

    async def delete(self, job_id: str, account_id: str) -> None:
        """Delete a job and its files; waiting stages never start, running ones are cancelled. Raises: NotFound."""
        files = await self._jobs.delete(job_id, account_id)
        self._runner.cancel(job_id)
        self.updates.publish(job_id, account_id)
        await self._blobs.remove(files)

    async def regenerate(self, key: ApiKey, names: Sequence[TextName], wanted: NewTexts) -> list[Outcome]:
        """Request that texts are written anew. Raises: StorageFailed."""
        prices = self._prices_for(key)

        def price_of(role: str) -> int:
            # a text is translated for a decorative picture, too
            return prices.of(StageName.ANALYZE, 1, "" if wanted.from_language else role)

        requested = await self._translations.request(key.account_id, names, wanted, price_of)
        self._runner.wake()
        return requested

    async def rewritten(self, text: StoredText, account_id: str, timeout_s: float) -> StoredText:
        """The text when it is written anew or that has failed, or after `timeout_s`; as it was if it can't be read."""
        name = TextName(text.image_id, text.language_code)
        with self.updates.subscribed(text.job_id) as subscription, suppress(TimeoutError, StorageFailed):
            async with asyncio.timeout(timeout_s):
                while text.regenerating and not subscription.is_closed:
                    (now,) = await self._translations.read(account_id, [name])
                    if isinstance(now, ServiceError):  # it was deleted
                        break
                    text = now
                    if text.regenerating:
                        await subscription.wait(None)
                        subscription.take()
        return text

    async def remake(self, key: ApiKey, wanted: Remake) -> list[RemakeItem | ServiceError]:
        """Request results of finished jobs anew. Returns the images, or why that is not possible, in their place.

        The results in force are served until the new ones replace them.
        Raises: QueueFull, InsufficientCredits: nothing was stored.
        """
        prices = {stage: self._prices_for(key).of(stage, 0) for stage in wanted.stages}
        job_ids, outcomes = await self._stored_stages.request_remakes(key.account_id, wanted, prices)
        for job_id in job_ids:
            self.updates.publish(job_id, key.account_id)
        self._runner.wake()
        return outcomes

    def _prices_for(self, key: ApiKey) -> Prices:
        return Prices(0, 0, 0) if key.for_page else self._prices

    async def preview(self, job: Job, stage: StageName, changes: Mapping[str, Any]) -> Output:
        """The output of a stage with these of the options of `RemakeOptions` changed; see `Runner.preview`."""
        plan = {**asdict(await self._stored_stages.plan_of(job)), **changes, "only_smaller": False, "widths": ()}
        return await self._runner.preview(job, stage, msgspec.convert(plan, Plan))

    async def start(self) -> None:
        """Requeue what an earlier process left running, remove the files it left, then start to claim stages."""
        recovered = await self._stored_stages.recover()
        removed = await asyncio.to_thread(self._blobs.sweep, await self._jobs.referenced_files())
        if any((*recovered, removed)):
            message = "Recovered after an unexpected end: %d stages requeued, %d failed, %d leftover files removed."
            log.info(message, *recovered, removed)
        self._runner.start()

    def end_waits(self) -> None:
        """End what waits for a change of a job, uploads that are being read, and a preview: the service is stopping."""
        self.updates.close()
        self._reader.close()
        self._runner.end_preview()

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
