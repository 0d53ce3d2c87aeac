"""Changes of the texts of pictures after they were written: edits, undo and redo, and requests to write one anew."""

from __future__ import annotations

import time
from collections.abc import Callable

from imgproc_local.domain.job import Job, is_newer
from imgproc_local.engine.updates import Updates
from imgproc_local.storage.regenerations import Regenerations
from imgproc_local.storage.translations import Translations


class Texts:
    """Stores changes and publishes each to those who follow the job. `price` is that of writing one text anew; `wake`
    makes the lanes look for work.
    """

    def __init__(
        self,
        translations: Translations,
        regenerations: Regenerations,
        updates: Updates,
        price: int,
        wake: Callable[[], None],
    ) -> None:
        self._translations = translations
        self._regenerations = regenerations
        self._updates = updates
        self._price = price
        self._wake = wake

    async def edit(self, job_id: str, language_code: str, *, alt_text: str | None, slug: str | None) -> Job:
        """Store a person's edit. None leaves the alt text or the file name (`slug`) as it is. Raises: NotFound."""
        return self._published(await self._translations.edit(job_id, language_code, alt_text=alt_text, slug=slug))

    async def undo(self, job_id: str, language_code: str) -> Job:
        """Return to the version before the one in force. Raises: NotFound, NoSuchVersion."""
        return self._published(await self._translations.undo(job_id, language_code))

    async def redo(self, job_id: str, language_code: str) -> Job:
        """Return to the version after the one in force. Raises: NotFound, NoSuchVersion."""
        return self._published(await self._translations.redo(job_id, language_code))

    async def regenerate(self, job_id: str, language_code: str, *, timeout_s: float = 0) -> Job:
        """Request that one text is written anew. Returns the job when that is done or has failed, or after `timeout_s`.

        While a request for the text waits or runs, another call only waits for it.
        Raises: NotFound, OriginalRemoved, QueueFull, InsufficientCredits: nothing was stored.
        """
        deadline_s = time.monotonic() + timeout_s
        with self._updates.subscribed(job_id) as subscription:
            job, is_new = await self._regenerations.request(job_id, language_code, self._price)
            if is_new:
                self._published(job)
                self._wake()
            while job.text_states[language_code].regenerating:
                try:
                    change = await subscription.next(max(0.0, deadline_s - time.monotonic()))
                except TimeoutError:
                    break
                if change is None:  # the job was deleted, or the service stops
                    break
                if is_newer(change, job):
                    job = change
        return job

    def _published(self, job: Job) -> Job:
        self._updates.publish(job)
        return job
