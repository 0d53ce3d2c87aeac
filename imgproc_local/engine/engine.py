"""The engine: accepts uploads, runs the stages of their jobs, and lets callers follow a job to its end.

Invariant: a job that `accept` returned is in the database. Unless it is deleted, each of its stages then ends exactly
once, as `done` or `failed`, however often the process ends in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress

from msgspec import Struct

from imgproc_local.domain.errors import BadImage, InvalidRequest
from imgproc_local.domain.filename import original_name
from imgproc_local.domain.job import Job, StageName, is_newer
from imgproc_local.domain.plan import STAGES, Affordability, Plan, Prices, accepted_formats
from imgproc_local.engine.direct import DirectStages
from imgproc_local.engine.runner import Runner
from imgproc_local.engine.updates import Subscription, Updates
from imgproc_local.storage.blobs import Blobs, Incoming
from imgproc_local.storage.jobs import Jobs, Submission
from imgproc_local.storage.stages import Stages
from imgproc_local.storage.translations import Translations

log = logging.getLogger(__name__)


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
    ) -> None:
        self._jobs = jobs
        self._stored_stages = stored_stages
        self._blobs = blobs
        self._lanes = {stage.name: stage.lane for stage in direct.stages}
        self._prices = prices
        self._reader = direct.reader
        self._updates = Updates()
        self._wake = {lane: asyncio.Event() for lane in self._lanes.values()}
        self._runner = Runner(stored_stages, blobs, direct, self._updates, self._wake)
        self.texts = Texts(translations, self._updates, prices.analyze, self._wake_lanes)

    # ---- admission ----

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
                accepted = accepted_formats(plan.operation, local=is_local)
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
            self._updates.publish(job)
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

    # ---- following ----

    async def follow(
        self, job_id: str, account_id: str | None = None, *, quiet_s: float | None = None
    ) -> AsyncIterator[Job | None]:
        """The present state of the job, then each change, until it is final, deleted, or the service stops.

        None is yielded after every `quiet_s` seconds without a change. Raises: NotFound.
        """
        with self._updates.subscribed(job_id=job_id) as subscription:
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

    def account_changes(self, account_id: str) -> AbstractContextManager[Subscription]:
        """A subscription to all jobs of the account. Enter it before reading them, so that no change is missed."""
        return self._updates.subscribed(account_id=account_id)

    def reset_account_changes(self) -> None:
        """Make all who follow an account read its jobs again, because jobs or their files were removed."""
        self._updates.reset()

    async def delete(self, job_id: str, account_id: str) -> None:
        """Delete a job and its files; waiting stages never start, running ones are cancelled. Raises: NotFound."""
        files = await self._jobs.delete(job_id, account_id)
        self._runner.cancel(job_id)
        self._updates.end(job_id, account_id)
        await self._blobs.remove(files)

    def end_waits(self) -> None:
        """End every `follow` and account subscription, now and from now on: the service is stopping."""
        self._updates.close()

    # ---- running ----

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

    async def stop(self) -> None:
        """Stop claiming, cancel running stages, and return within seconds. No accepted job is lost."""
        self.end_waits()
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


class Texts(Struct, frozen=True):
    """Changes of the texts of pictures after they were written: edits, undo and redo, and requests for a new text.

    Each change is stored and published to those who follow the job. `price` is that of writing one text anew; `wake`
    makes the lanes look for work.
    """

    translations: Translations
    updates: Updates
    price: int
    wake: Callable[[], None]

    async def edit(self, job_id: str, language_code: str, *, alt_text: str | None, slug: str | None) -> Job:
        """Store a person's edit. None leaves the alt text or the file name (`slug`) as it is. Raises: NotFound."""
        return self._published(await self.translations.edit(job_id, language_code, alt_text=alt_text, slug=slug))

    async def undo(self, job_id: str, language_code: str) -> Job:
        """Return to the version before the one in force. Raises: NotFound, NoSuchVersion."""
        return self._published(await self.translations.undo(job_id, language_code))

    async def redo(self, job_id: str, language_code: str) -> Job:
        """Return to the version after the one in force. Raises: NotFound, NoSuchVersion."""
        return self._published(await self.translations.redo(job_id, language_code))

    async def regenerate(self, job_id: str, language_code: str, *, is_local: bool = False, timeout_s: float = 0) -> Job:
        """Request that one text is written anew. Returns the job when that is done or has failed, or after `timeout_s`.

        While a request for the text waits or runs, another call only waits for it. `is_local` is as in `accept`.
        Raises: NotFound, OriginalRemoved, QueueFull, InsufficientCredits: nothing was stored.
        """
        with self.updates.subscribed(job_id=job_id) as subscription, suppress(TimeoutError):
            job, is_new = await self.translations.request(job_id, language_code, 0 if is_local else self.price)
            if is_new:
                self._published(job)
                self.wake()
            async with asyncio.timeout(timeout_s):
                # without a change, the job was deleted, or the service stops
                while job.text_states[language_code].regenerating and (change := await subscription.next(None)):
                    if is_newer(change, job):
                        job = change
        return job

    def _published(self, job: Job) -> Job:
        self.updates.publish(job)
        return job
