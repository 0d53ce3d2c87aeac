"""The jobs of a run that works through the server that owns the data folder.

Pictures and results are sent over HTTP; the states of jobs are read from the database, as by other commands that run
beside a server. The command signs in like a browser, with a session and a key of its own that end with the run. If a
run is killed, the next run to the same output folder ends its session, which otherwise expires.
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

from imgproc_local.api.wire import ERROR_CODE_HEADER
from imgproc_local.cli.log_file import open_audit_log
from imgproc_local.cli.output import path_text
from imgproc_local.cli.process.results import Results, StagedFile
from imgproc_local.codecs.picture.probe import max_local_bytes
from imgproc_local.compose import Store, core_count
from imgproc_local.config import Config
from imgproc_local.domain.errors import (
    NotFound,
    QueueFull,
    ServiceError,
    ServiceStopping,
    StorageFailed,
    UploadTooLarge,
)
from imgproc_local.domain.job import Job, StageName
from imgproc_local.domain.plan import Operation, Plan
from imgproc_local.storage.jobs import Jobs
from imgproc_local.system.audit import audit
from imgproc_local.system.folder_lock import current_owner

SESSION_NAME = "imgproc-local process"
JOBS_PER_THREAD, MAX_JOBS_AT_ONCE = 4, 16
POLL_S = 1
"""How long the server may hold a request that waits for the end of a job, before the state of the job is read again."""
RECONNECT_S = 15.0
"""How long to wait until a stopped server has been started again."""
RETRY_S = 0.5
TIMEOUT_S = 60.0
DOWNLOADS_AT_ONCE = 2
"""Few, because a result is held in memory until it is written."""


class ServerJobs:
    """Submits, follows and deletes the jobs of the account `account_id`, through the server. Use inside `opened`."""

    def __init__(self, config: Config, store: Store, account_id: str, address: str) -> None:
        self._config = config
        self._store = store
        self._account_id = account_id
        self._address = address
        self._jobs = Jobs(store.database, config.queue_limit)
        self._waits_ended = False
        self._server_is_lost = False
        self._downloads = asyncio.Semaphore(DOWNLOADS_AT_ONCE)
        self.at_once = min(MAX_JOBS_AT_ONCE, JOBS_PER_THREAD * (config.codec_threads or core_count()))
        self._client: httpx.AsyncClient

    @asynccontextmanager
    async def opened(self, name: str) -> AsyncIterator[None]:
        """Inside the block, the run is signed in. `name` identifies the output folder."""
        sessions, keys = self._store.sessions, self._store.keys
        name = f"{SESSION_NAME} {name}"
        for session in await sessions.all():
            if session.browser == name:
                await sessions.revoke(session.id)
        for key in await keys.all():  # of a run that was killed between `keys.create` and `sessions.set_key`
            if key.name == name and key.revoked_at is None:
                await keys.revoke(key.id)
        signed_in = await sessions.sign_in(await sessions.new_link(), name)
        assert signed_in is not None
        own_session, _ = signed_in
        try:
            with open_audit_log(self._config.data_dir):
                key, secret = await keys.create(name, rate_limit=0)
                audit("key.create", key=key.id, account=key.account_id, by="command")
            await sessions.set_key(own_session.id, key.id)
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
                await sessions.revoke(own_session.id)
                audit("session.end", session=own_session.id)

    async def submit(self, picture: Path, plan: Plan, idempotency_key: str) -> Job:
        """Queue a job for a picture and return it, or return the job that an earlier run queued with the same key.

        Raises: ServiceError or OSError if the picture is refused; nothing is stored then.
        """
        with await asyncio.to_thread(picture.open, "rb") as file:
            maximum = max_local_bytes(file.read(4), self._config.max_upload_bytes)
            if (await asyncio.to_thread(picture.stat)).st_size > maximum:
                raise UploadTooLarge(
                    f"Expected at most {maximum:,} bytes (setting max_upload_bytes), but the file has more."
                )
            # httpx reads the file in pieces, and from its beginning when the request is repeated
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
            try:
                job = await self._jobs.get(job.id, self._account_id)
            except NotFound:
                return
            yield job
            if job.status.final or self._waits_ended:
                return
            response = await self._request("GET", f"/jobs/{job.id}", headers={"Prefer": f"wait={POLL_S}"})
            if response.status_code == httpx.codes.NOT_FOUND:
                return
            if response.status_code == httpx.codes.UNAUTHORIZED:  # somebody has ended the session of this run
                _checked(response)
            if not response.is_success:
                await asyncio.sleep(POLL_S)

    async def base_names(self, job: Job) -> dict[str, str]:
        """The file names of the job by language, without the numbers that make them unique in their project."""
        return await self._jobs.base_names(job.id)

    async def copy_result(self, job: Job, stage: StageName, results: Results, ending: str) -> StagedFile:
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
        """The identifiers of the jobs whose idempotency key begins like this, also of earlier runs."""
        return await self._jobs.ids_by_key_prefix(self._account_id, key_prefix)

    def end_waits(self) -> None:
        """End every `changes`, now and from now on."""
        self._waits_ended = True

    async def _request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        """The response to a request. It is sent again if the server stops and is started again within `RECONNECT_S`.

        Raises: StorageFailed, if no server is started again.
        """
        give_up_s = time.monotonic() + RECONNECT_S
        while not self._server_is_lost:
            try:
                response = await self._client.request(method, f"{self._address}/api/v1{path}", **arguments)
                if response.headers.get(ERROR_CODE_HEADER) != ServiceStopping.code:
                    return response
                reason = "it is stopping"
            except httpx.TransportError as error:
                reason = type(error).__name__
            if time.monotonic() > give_up_s or self._waits_ended:
                self._server_is_lost = True
                raise StorageFailed(f"The server that owns the data folder does not answer ({reason}).")
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
    """The body of a successful response.

    Raises: QueueFull; StorageFailed for another 503; ServiceError for another error. The message is the server's.
    """
    if response.is_success:
        return response.json() if response.content else None
    if response.headers.get(ERROR_CODE_HEADER) == QueueFull.code:
        raise QueueFull(0, "jobs")  # `Batch` waits and tries again; nobody sees the message
    try:
        body = response.json()
        message = str(body.get("message") or body.get("error"))
    except (ValueError, AttributeError):
        message = f"The server answered with status {response.status_code}."
    if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        raise StorageFailed(message)
    raise ServiceError(message)
