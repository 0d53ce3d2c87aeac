"""Opens the exports of all accounts, within limits: leases their files and checks which are missing."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager

from imgproc_local.domain.errors import ExportIncomplete, InvalidRequest, NotFound, ServiceStopping, TooManyExports
from imgproc_local.domain.export import MAX_IMAGES, ExportFields, ExportProblems, MissingReason
from imgproc_local.domain.job import Job
from imgproc_local.engine.export_archive import Export, WriteTexts
from imgproc_local.engine.export_plan import ExportPlan, make_plan, requested_files
from imgproc_local.storage.blobs import Blobs
from imgproc_local.storage.jobs import Jobs

log = logging.getLogger(__name__)

MAX_EXPORTS_PER_ACCOUNT = 2
RETRY_AFTER_S = 10
PLANS_AT_ONCE = 2
"""Calls of `plan` that run at once, of all accounts; further ones wait. A call may read every file of its plan."""


class Exporter:
    """The exports of all accounts."""

    def __init__(self, jobs: Jobs, blobs: Blobs, write_texts: WriteTexts) -> None:
        self._jobs = jobs
        self._blobs = blobs
        self._write_texts = write_texts
        self._running: Counter[str] = Counter()
        self._planning = asyncio.Semaphore(PLANS_AT_ONCE)
        self._exports: set[Export] = set()
        self._ended = False

    async def plan(self, account_id: str, request: ExportFields) -> ExportPlan:
        """What an archive would contain. Raises: InvalidRequest, NotFound, ServiceStopping."""
        async with self._planning:
            return await self._plan(request, await self._images(account_id, request))

    def require_room(self, account_id: str) -> None:
        """Check that `open` would start an export now. Raises: TooManyExports, ServiceStopping."""
        if self._ended:
            raise ServiceStopping
        if self._running[account_id] >= MAX_EXPORTS_PER_ACCOUNT:
            raise TooManyExports(MAX_EXPORTS_PER_ACCOUNT, RETRY_AFTER_S)

    async def open(self, account_id: str, request: ExportFields) -> Export:
        """An archive to be sent, which the caller closes.

        Raises:
            InvalidRequest, NotFound: the request names too many images, or something that the account does not have.
            ExportIncomplete: texts or files are missing, and the request does not allow that.
            TooManyExports, ServiceStopping: try again later.
        """
        resources = AsyncExitStack()
        try:
            resources.enter_context(self._slot(account_id))
            images = await self._images(account_id, request)
            await resources.enter_async_context(self._blobs.leased(requested_files(request, images)))
            plan = await self._plan(request, images)
            require_complete(request, plan)
            export = Export(plan, self._blobs, self._write_texts, resources)
        except BaseException:
            await resources.aclose()
            raise
        self._exports.add(export)
        resources.callback(self._exports.discard, export)
        return export

    def end(self) -> None:
        """Break off every export and refuse new ones: the service is stopping."""
        self._ended = True
        for export in self._exports:
            export.stop("The service is stopping.")

    @contextmanager
    def _slot(self, account_id: str) -> Iterator[None]:
        """One of the exports that an account may run at once."""
        self.require_room(account_id)
        self._running[account_id] += 1
        try:
            yield
        finally:
            self._running[account_id] -= 1
            self._running = +self._running  # without the accounts at zero

    async def _images(self, account_id: str, request: ExportFields) -> list[Job]:
        """The requested images, in the order of the request, else oldest first."""
        if request.images is not None:
            wanted = list(dict.fromkeys(image_id.lower() for image_id in request.images))
            found = await self._jobs.ids_of_images(wanted, account_id)
            unknown = [image_id for image_id in wanted if image_id not in found]
            if unknown:
                others = f" (and {len(unknown) - 1} more of the requested ones)" if len(unknown) > 1 else ""
                raise NotFound(f"No image {unknown[0]!r}{others} in this account.")
            job_ids = [found[image_id] for image_id in wanted]
        else:
            project_id = None if request.project_id is None else request.project_id.lower()
            if project_id is not None:
                await self._require_project(account_id, project_id)
            job_ids = await self._jobs.finished_ids(account_id, project_id, MAX_IMAGES + 1)
            if len(job_ids) > MAX_IMAGES:
                problem = f"An export may have at most {MAX_IMAGES} images; there are more. Send project_id or images."
                raise InvalidRequest({"images": [problem]})
        return await self._jobs.several(job_ids, account_id)

    async def _require_project(self, account_id: str, project_id: str) -> None:
        try:
            await self._jobs.require_project(account_id, project_id)
        except InvalidRequest as error:
            raise NotFound(error.message) from error

    async def _plan(self, request: ExportFields, images: Sequence[Job]) -> ExportPlan:
        files = requested_files(request, images)
        unusable = await asyncio.to_thread(self._find_unusable, files)
        return await asyncio.to_thread(make_plan, request, images, unusable)

    def _find_unusable(self, files: dict[str, int]) -> dict[str, MissingReason]:
        """The files that are missing or damaged. Reads those that were not yet compared with their SHA-256."""
        unusable: dict[str, MissingReason] = {}
        for sha256, size_bytes in files.items():
            if self._ended:
                raise ServiceStopping
            damage = self._blobs.find_damage(sha256, size_bytes)
            if damage is not None:
                log.error("The file %s of an export is %s in the data folder", sha256, damage)
                unusable[sha256] = damage
        return unusable


def require_complete(request: ExportFields, plan: ExportPlan) -> None:
    """Raises `ExportIncomplete` if texts or files are missing and the request does not allow that."""
    problems = ExportProblems(
        needs_text=() if request.allow_needs_text else plan.problems.needs_text,
        missing=() if request.allow_missing else plan.problems.missing,
    )
    if problems.needs_text or problems.missing:
        raise ExportIncomplete(problems)
