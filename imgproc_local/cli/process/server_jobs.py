"""The jobs of a run that works through the server that owns the data folder.

Pictures and results travel by HTTP; states of jobs are read from the database, as other commands do beside a server.
The command signs in like a browser, with a session and a key of its own that end with the run. A session that a killed
run left is ended by the next one, and expires without it.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from imgproc_local.cli.log_file import open_audit_log
from imgproc_local.cli.output import path_text
from imgproc_local.cli.process.results import Results, StagedFile
from imgproc_local.codecs.picture.probe import max_local_bytes
from imgproc_local.compose import Store, core_count
from imgproc_local.config import Config
from imgproc_local.domain.errors import NotFound, QueueFull, ServiceError, StorageFailed, UploadTooLarge
from imgproc_local.domain.job import Job, StageName
from imgproc_local.domain.plan import Operation, Plan
from imgproc_local.storage.jobs import Jobs
from imgproc_local.system.audit import audit
from imgproc_local.system.folder_lock import current_owner

SESSION_NAME = "imgproc-local process"
JOBS_PER_THREAD, MAX_JOBS_AT_ONCE = 4, 16
POLL_S = 1
"""How long the server holds a request for the end of a job. The database is read after each."""
RECONNECT_S = 15.0
"""How long to wait for a server that has stopped to be started again."""
RETRY_S = 0.5
TIMEOUT_S = 60.0
DOWNLOADS_AT_ONCE = 2
"""Results are held in memory while they are written."""


class ServerJobs:
    """Submits, follows and deletes the jobs of the account `account_id`, through the server. Use inside `opened`."""

    def __init__(self, config: Config, store: Store, account_id: str, address: str) -> None:
        self._config = config
        self._store = store
        self._account_id = account_id
        self._address = address
        self._jobs = Jobs(store.database, config.queue_limit)
        self._ended = False
        self._is_lost = False
        self._downloads = asyncio.Semaphore(DOWNLOADS_AT_ONCE)
        self.at_once = min(MAX_JOBS_AT_ONCE, JOBS_PER_THREAD * (config.codec_threads or core_count()))
        self._client: httpx.AsyncClient

    @asynccontextmanager
    async def opened(self, name: str) -> AsyncIterator[None]:
        """Inside the block, the run is signed in. `name` tells runs on different output folders apart."""
        sessions, keys = self._store.sessions, self._store.keys
        name = f"{SESSION_NAME} {name}"
        for session in await sessions.all():
            if session.browser == name:
                await sessions.revoke(session.id)
        for key in await keys.all():  # a run that was killed before its key belonged to its session
            if key.name == name and key.revoked_at is None:
                await keys.revoke(key.id)
        signed_in = await sessions.sign_in(await sessions.new_link(), name)
        assert signed_in is not None
        own, _ = signed_in
        try:
            with open_audit_log(self._config.data_dir):
                key, secret = await keys.create(name, rate_limit=0)
                audit("key.create", key=key.id, account=key.account_id, by="command")
            await sessions.set_key(own.id, key.id)
            async with httpx.AsyncClient(
                headers={"Authorization": f"Bearer {secret}"},
                timeout=TIMEOUT_S,
                verify=_certificates(self._config) if self._address.startswith("https:") else False,
                trust_env=False,
                limits=httpx.Limits(max_connections=self.at_once + DOWNLOADS_AT_ONCE),
            ) as self._client:
                yield
        finally:
            with suppress(NotFound), open_audit_log(self._config.data_dir):
                await sessions.revoke(own.id)
                audit("session.end", session=own.id)

    async def submit(self, picture: Path, plan: Plan, idempotency_key: str) -> Job:
        """The queued job of a picture, or the job that an earlier run queued with the same key.

        Raises: ServiceError or OSError if the picture is refused; nothing is stored then.
        """
        with await asyncio.to_thread(picture.open, "rb") as file:
            maximum = max_local_bytes(file.read(4), self._config.max_upload_bytes)
            if (await asyncio.to_thread(picture.stat)).st_size > maximum:
                raise UploadTooLarge(
                    f"Expected at most {maximum:,} bytes (setting max_upload_bytes), but the file has more."
                )
            # httpx reads the file in pieces, from its beginning for each attempt
            response = await self._request(
                "POST",
                f"/images/{plan.operation.value}",
                headers={"Idempotency-Key": idempotency_key},
                data=_fields(plan),
                files={"image": (path_text(Path(picture.name)), file, "application/octet-stream")},
            )
        body = _checked(response)
        return await self._jobs.get(body["data"]["job_id"], self._account_id)

    async def changes(self, job: Job) -> AsyncIterator[Job]:
        """The states of the job from now on, until it is final or deleted, or `end_waits` is called.

        Raises: StorageFailed if the server has stopped; ServiceError if this run is no longer signed in.
        """
        while True:
            with suppress(NotFound):
                job = await self._jobs.get(job.id, self._account_id)
                yield job
                if job.status.final or self._ended:
                    return
                response = await self._request("GET", f"/jobs/{job.id}", headers={"Prefer": f"wait={POLL_S}"})
                if response.status_code == httpx.codes.NOT_FOUND:
                    return
                if response.status_code == httpx.codes.UNAUTHORIZED:  # somebody has ended the session of this run
                    _checked(response)
                if not response.is_success:
                    await asyncio.sleep(POLL_S)
                continue
            return

    async def base_names(self, job: Job) -> dict[str, str]:
        """The file names of the job by language, without the numbers that make them unique in their project."""
        return await self._jobs.base_names(job.id)

    async def stage(self, job: Job, stage: StageName, results: Results, ending: str) -> StagedFile:
        """Download the result of a stage to the output folder. Raises: OSError, ServiceError."""
        file = job.optimized if stage is StageName.OPTIMIZE else job.converted
        assert file is not None
        which = "optimized" if stage is StageName.OPTIMIZE else "converted"
        async with self._downloads:
            response = await self._request("GET", f"/images/{job.image_id}/{which}")
            if response.status_code != httpx.codes.OK:
                _checked(response)
            staged = await asyncio.to_thread(results.stage, [response.content], ending, file.format)
        if staged.sha256 != file.sha256:
            staged.part.unlink(missing_ok=True)
            raise ServiceError(f"The server sent another {which} file than it has stored; run the command again.")
        return staged

    async def delete(self, job_id: str) -> None:
        """Delete a job, if it still exists. Raises: StorageFailed, ServiceError."""
        response = await self._request("DELETE", f"/jobs/{job_id}")
        if response.status_code != httpx.codes.NOT_FOUND:
            _checked(response)

    async def leftovers(self, key_prefix: str) -> list[str]:
        """The jobs that were queued with an idempotency key of this prefix, also by earlier runs."""
        return await self._jobs.ids_by_key_prefix(self._account_id, key_prefix)

    def end_waits(self) -> None:
        """End every `changes`, now and from now on."""
        self._ended = True

    async def _request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        """Send a request, again if the server was restarted meanwhile. Raises: StorageFailed, if it has stopped."""
        give_up_s = time.monotonic() + RECONNECT_S
        while not self._is_lost:
            try:
                return await self._client.request(method, f"{self._address}/api/v1{path}", **arguments)
            except httpx.TransportError as error:
                if time.monotonic() > give_up_s or self._ended:
                    self._is_lost = True
                    raise StorageFailed(
                        f"The server that owns the data folder does not answer ({type(error).__name__})."
                    ) from error
                await asyncio.sleep(RETRY_S)
                owner = await asyncio.to_thread(current_owner, self._config.data_dir)
                if owner is not None and owner.address is not None:
                    self._address = owner.address
        raise StorageFailed("The server that owns the data folder does not answer.")


def _certificates(config: Config) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=config.tls_cert or None)


def _fields(plan: Plan) -> dict[str, str]:
    """The form fields of a request for `plan`."""
    fields = {"project_name": plan.project_name}
    if plan.operation in (Operation.ANALYZE, Operation.PROCESS):
        fields |= {"languages": ",".join(plan.languages), "context": plan.context}
    if plan.operation in (Operation.CONVERT, Operation.PROCESS):
        fields["format"] = plan.format.value
    for name, maximum in (("max_width_px", plan.max_width_px), ("max_height_px", plan.max_height_px)):
        if maximum is not None:
            fields[name] = str(maximum)
    return fields


def _checked(response: httpx.Response) -> Any:
    """The body of a response that is no error. Raises: QueueFull, StorageFailed, ServiceError, as the server says."""
    if response.is_success:
        return response.json() if response.content else None
    try:
        body = response.json()
        message = str(body.get("message") or body.get("error"))
    except (ValueError, AttributeError):
        message = f"The server answered with status {response.status_code}."
    if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        if message.startswith("The queue is full"):
            raise QueueFull(0, "jobs")
        raise StorageFailed(message)
    raise ServiceError(message)
