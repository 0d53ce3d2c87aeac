"""The jobs of a run that processes pictures in this process, which owns the data folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from imgproc_local.cli.process.results import COPY_BYTES, Results, StagedFile, read_chunks
from imgproc_local.codecs.picture.probe import max_local_bytes
from imgproc_local.compose import Services, core_count
from imgproc_local.domain.errors import NotFound, StorageFailed, UploadTooLarge
from imgproc_local.domain.job import Job, StageName
from imgproc_local.domain.plan import Plan
from imgproc_local.storage.blobs import Incoming

JOBS_PER_THREAD = 4
"""Jobs in progress per codec thread: enough that no thread is idle, and few files are in the data folder at a time."""
STORAGE_CHECK_S = 5.0
"""If a job has not changed for this time, check that the data folder can still store results."""


class EngineJobs:
    """Submits, follows and deletes the jobs of one account. `at_once` is how many pictures should be in progress."""

    def __init__(self, services: Services, account_id: str) -> None:
        self._services = services
        self._account_id = account_id
        config = services.config
        self.at_once = min(config.queue_limit, JOBS_PER_THREAD * (config.codec_threads or core_count()))

    @asynccontextmanager
    async def opened(self, name: str) -> AsyncIterator[None]:
        """Does nothing: the engine is running already."""
        yield

    async def submit(self, picture: Path, plan: Plan, idempotency_key: str) -> Job:
        """Queue a job for a picture and return it, or return the job that an earlier run queued with the same key.

        Raises: ServiceError or OSError if the picture is refused; nothing is stored then.
        """
        services = self._services
        await services.jobs.require_room(self._account_id)
        with services.blobs.incoming() as incoming:
            await asyncio.to_thread(_copy_to_store, picture, incoming, services.config.max_upload_bytes)
            job, _ = await services.engine.accept(
                self._account_id, plan, incoming, picture.name, idempotency_key=idempotency_key, is_local=True
            )
            return job

    async def changes(self, job: Job) -> AsyncIterator[Job]:
        """The states of the job from now on, until it is final or deleted, or `end_waits` is called.

        Raises: StorageFailed if stages can't run, or the data folder can't store their results any more.
        """
        async for state in self._services.engine.follow(job.id, self._account_id, quiet_s=STORAGE_CHECK_S):
            if (problem := self._services.engine.problem) is not None:
                raise StorageFailed(problem)
            if state is None:
                await self._require_storage(job)
            else:
                yield state

    async def base_names(self, job: Job) -> dict[str, str]:
        """The file names of the job by language, without the numbers that make them unique in their project."""
        return await self._services.jobs.base_names(job.id)

    async def copy_result(self, job: Job, stage: StageName, results: Results, ending: str) -> StagedFile:
        """Copy the result of a stage to the output folder. Raises: OSError."""
        file = job.optimized if stage is StageName.OPTIMIZE else job.converted
        assert file is not None
        chunks = read_chunks(self._services.blobs.path(file.sha256))
        return await asyncio.to_thread(results.stage, chunks, ending, file.format)

    async def delete(self, job_id: str) -> None:
        """Delete a job, if it still exists. Raises: StorageFailed."""
        try:
            await self._services.engine.delete(job_id, self._account_id)
        except NotFound:
            return

    async def leftovers(self, key_prefix: str) -> list[str]:
        """The identifiers of the jobs whose idempotency key begins like this, also of earlier runs."""
        return await self._services.jobs.ids_by_key_prefix(self._account_id, key_prefix)

    def end_waits(self) -> None:
        """End every `changes`, now and from now on."""
        self._services.engine.end_waits()

    async def _require_storage(self, job: Job) -> None:
        services = self._services
        await services.jobs.check_writable()
        if services.blobs.free_bytes() < job.original.size_bytes:
            raise StorageFailed("The disk of the data folder is full: the results can't be stored.")


def _copy_to_store(picture: Path, incoming: Incoming, max_upload_bytes: int) -> None:
    with picture.open("rb") as file:
        max_bytes = max_local_bytes(file.read(4), max_upload_bytes)
        file.seek(0)
        while chunk := file.read(COPY_BYTES):
            if incoming.size_bytes + len(chunk) > max_bytes:
                raise UploadTooLarge(
                    f"Expected at most {max_bytes:,} bytes (setting max_upload_bytes), but the file has more."
                )
            incoming.write(chunk)
