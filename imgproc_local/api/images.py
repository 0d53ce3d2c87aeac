"""Dispatching jobs, and downloading their files."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from datetime import datetime
from email.utils import format_datetime
from pathlib import PurePosixPath
from typing import Any, Literal
from urllib.parse import quote

from litestar import Request, Response
from litestar.datastructures import ETag
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from litestar.response import File
from litestar.types import AnyCallable

from imgproc_local.api.auth import authenticated_key
from imgproc_local.api.bodies import DispatchBody, ErrorBody, NotReadyBody
from imgproc_local.api.operations import (
    DISPOSITION,
    IDEMPOTENCY_KEY,
    IF_NONE_MATCH,
    PREFER,
    PREFERENCE_APPLIED,
    file_content,
    get,
    header,
    links,
    post,
)
from imgproc_local.api.requests import (
    ignored_fields,
    preference_applied,
    read_idempotency_key,
    read_plan,
    read_wait_s,
)
from imgproc_local.api.uploads import read_form
from imgproc_local.api.wire import StatusSet, dispatch_body, status_word
from imgproc_local.compose import Services
from imgproc_local.domain.errors import FileNotReady, NotFound
from imgproc_local.domain.filename import ascii_download_name, download_name
from imgproc_local.domain.image import Format
from imgproc_local.domain.job import Job, StageName, StageState, Status, StoredFile
from imgproc_local.domain.plan import ACCEPTED_FORMATS, Operation

log = logging.getLogger(__name__)

Variant = Literal["original", "optimized", "converted"]
Disposition = Literal["attachment", "inline"]


def _upload(operation: Operation, summary: str) -> Callable[[AnyCallable], HTTPRouteHandler]:
    """Registers a handler of uploads."""
    accepted = ", ".join(file_format.value for file_format in ACCEPTED_FORMATS[operation])
    headers = {"Location": header("path of the job"), "X-Project-Id": header("ULID of the project of the job")}
    return post(
        f"/images/{operation.value}",
        "images",
        summary,
        {
            202: {
                "description": "dispatched; poll the job",
                "headers": headers | PREFERENCE_APPLIED,
                "content": {"application/json": {"schema": DispatchBody}},
                "links": links("job_id", "get_job", "job_events", "delete_job"),
            },
            402: "the balance does not cover it",
            408: "the upload paused for too long, or was too slow",
            409: "the Idempotency-Key was sent with another body",
            413: "more bytes than one image may have",
            422: "a field is invalid, or the image can't be used",
        },
        PREFER,
        IDEMPOTENCY_KEY,
        description=f"The type is detected from the bytes; accepted: {accepted}.",
        form=operation,
    )


def _download(variant: Variant, summary: str) -> Callable[[AnyCallable], HTTPRouteHandler]:
    """Registers a handler that answers with a file."""
    return get(
        f"/images/{{image_id:str}}/{variant}",
        "images",
        summary,
        {
            200: {
                "description": "the file; its Content-Type is that of the image, never application/octet-stream",
                "headers": DISPOSITION | {"ETag": header("SHA-256 of the file, in quotation marks")},
                "content": file_content("image/*"),
            },
            304: "If-None-Match names the file's ETag",
            404: (
                {"title": "NoFileBody", "oneOf": [ErrorBody, NotReadyBody]},
                "with `message`: no such image, or its file was removed or is damaged; with `error`: its stage is not"
                " done",
            ),
        },
        IF_NONE_MATCH,
    )


@_upload(Operation.ANALYZE, "SEO file name and alt text per language")
async def analyze(request: Request[Any, Any, Any]) -> Response[DispatchBody]:
    return await _dispatch(request, Operation.ANALYZE)


@_upload(Operation.OPTIMIZE, "A smaller file that looks the same")
async def optimize(request: Request[Any, Any, Any]) -> Response[DispatchBody]:
    return await _dispatch(request, Operation.OPTIMIZE)


@_upload(Operation.CONVERT, "The image in WebP or AVIF")
async def convert(request: Request[Any, Any, Any]) -> Response[DispatchBody]:
    return await _dispatch(request, Operation.CONVERT)


@_upload(Operation.PROCESS, "Analyze, optimize and convert in one call")
async def process(request: Request[Any, Any, Any]) -> Response[DispatchBody]:
    return await _dispatch(request, Operation.PROCESS)


async def _dispatch(request: Request[Any, Any, Any], operation: Operation) -> Response[DispatchBody]:
    """Accept one upload and answer 202. A refused upload leaves no file and no row, and costs nothing."""
    services: Services = request.app.state.services
    key = authenticated_key(request)
    idempotency_key = read_idempotency_key(request.headers)
    wait_s = read_wait_s(request.headers)
    if idempotency_key is None:  # a repeated request gets its job's answer even when the queue is full
        await services.jobs.require_room(key.account_id)
    with services.blobs.incoming() as incoming:
        form = await read_form(request, incoming, services.config.max_upload_bytes, is_local=key.for_page)
        plan, problems = read_plan(operation, form)
        job, is_new = await services.engine.accept(
            key.account_id,
            plan,
            incoming,
            form.filename or "",
            client_id=key.id,
            idempotency_key=idempotency_key,
            problems=problems,
            is_local=key.for_page,
        )
    status = Status.PENDING if is_new else job.status
    if wait_s is not None:
        status = (await services.engine.wait(job.id, wait_s)).status
    return Response(
        dispatch_body(job, status, services.config.status_set, ignored_fields(form)),
        status_code=202,
        headers={"Location": f"/api/v1/jobs/{job.id}", "X-Project-Id": job.project_id, **preference_applied(wait_s)},
    )


@_download("original", "The upload as it was received (local addition)")
async def original(request: Request[Any, Any, Any], image_id: FromPath[str]) -> File | Response[None]:
    return await file_of_image(request, image_id, authenticated_key(request).account_id, "original")


@_download("optimized", "The optimized file")
async def optimized(request: Request[Any, Any, Any], image_id: FromPath[str]) -> File | Response[None]:
    return await file_of_image(request, image_id, authenticated_key(request).account_id, "optimized")


@_download("converted", "The converted file (local addition)")
async def converted(request: Request[Any, Any, Any], image_id: FromPath[str]) -> File | Response[None]:
    return await file_of_image(request, image_id, authenticated_key(request).account_id, "converted")


@get(
    "/images/{image_id:str}/thumbnail",
    "images",
    "The upload as WebP of at most 512 pixels on each side (local addition)",
    {
        200: {
            "description": "the thumbnail; its Content-Type is image/webp, never application/octet-stream",
            "headers": {"ETag": header("changes with the content")},
            "content": file_content("image/webp"),
        },
        304: "If-None-Match names the thumbnail's ETag",
        404: "no such image in this account, or its upload was removed",
        422: "no thumbnail can be made: the picture is damaged",
    },
    IF_NONE_MATCH,
)
async def thumbnail(request: Request[Any, Any, Any], image_id: FromPath[str]) -> Response[bytes | None]:
    return await thumbnail_of_image(request, image_id, authenticated_key(request).account_id)


async def thumbnail_of_image(request: Request[Any, Any, Any], image_id: str, account_id: str) -> Response[bytes | None]:
    """The thumbnail of an image of the account. It never changes, so browsers need not ask again.

    Raises: NotFound, also for an upload that was removed; BrokenImage, if no thumbnail can be made of it; and
    ServiceStopping.
    """
    services: Services = request.app.state.services
    job = await services.jobs.by_image(image_id.lower(), account_id)
    etag = f'"{job.original.sha256}-thumbnail"'
    headers = {"ETag": etag, "Cache-Control": "private, max-age=31536000, immutable"}
    if _is_current(request, etag):
        return Response(None, status_code=304, headers=headers)
    return Response(await services.thumbnails.get(job), media_type="image/webp", headers=headers)


async def file_of_image(
    request: Request[Any, Any, Any],
    image_id: str,
    account_id: str,
    variant: Variant,
    disposition: Disposition = "attachment",
) -> File | Response[None]:
    """The file of an image of the account. Raises: FileNotReady, if its stage is not done; NotFound, also if the file
    was removed or is damaged.
    """
    services: Services = request.app.state.services
    job = await services.jobs.by_image(image_id.lower(), account_id)
    status_set = services.config.status_set
    match variant:
        case "original":
            file, ending = job.original, _suffix(job.original, job)
        case "optimized":
            if job.optimized is None:
                raise FileNotReady(_not_ready(job, "optimized", StageName.OPTIMIZE, "optimization", status_set))
            file, ending = job.optimized, f"-optimized{_suffix(job.optimized, job)}"
        case "converted":
            if job.converted is None:
                raise FileNotReady(_not_ready(job, "converted", StageName.CONVERT, "conversion", status_set))
            file, ending = job.converted, f".{job.converted.format.value}"
    stem = PurePosixPath(job.original_filename).stem
    return await _file(request, job, file, content_disposition(stem, ending, disposition))


def _suffix(file: StoredFile, job: Job) -> str:
    """The extension as uploaded. It is that of the file's format instead if the upload had another format, or if its
    extension names no picture format: a JPEG must not be saved as `invoice.html`, which a browser would open as a page.
    """
    from imgproc_local.codecs.picture.formats import FORMATS

    suffix = PurePosixPath(job.original_filename.rstrip(". ")).suffix  # a name can't end in these
    known = {"", *(f".{each}" for row in FORMATS.values() for each in row.extensions)}
    if file.format is job.original.format and suffix.lower() in known:
        return suffix
    return f".{FORMATS[file.format].extensions[0]}"


def _not_ready(job: Job, variant: Variant, stage: StageName, task: str, status_set: StatusSet) -> str:
    """The message for a file that does not exist: why, and what has to happen first."""
    record = next((record for record in job.stages if record.name is stage), None)
    if record is None:
        return f"The {variant} file is not available: this job was for {job.operation} only, not for {task}."
    if record.state is StageState.FAILED:
        return (
            f"The {variant} file is not available: the {task} job must be completed, but it has failed. {record.error}"
        )
    return (
        f"The {variant} file is not available: the {task} job must be completed first."
        f" The job's status is {status_word(job.status, status_set)}."
    )


async def _file(request: Request[Any, Any, Any], job: Job, file: StoredFile, disposition: str) -> File | Response[None]:
    """The response with the file. Its SHA-256 is its entity tag, because the content never changes."""
    from imgproc_local.codecs.picture.formats import FORMATS

    services: Services = request.app.state.services
    etag = f'"{file.sha256}"'
    if _is_current(request, etag):
        return Response(None, status_code=304, headers={"ETag": etag})
    if file.expired:
        raise NotFound("This file was removed because of its age. Send the picture again to process it anew.")
    damage = await services.blobs.damage(file.sha256, file.size_bytes)
    if damage is not None:
        log.error("The file %s of a job is %s in the data folder", file.sha256, damage)
        raise NotFound(f"This file is {damage} in the data folder; `imgproc-local doctor` says what to do.")
    return File(
        path=services.blobs.path(file.sha256),
        media_type=FORMATS[Format(file.format)].mime,
        etag=ETag(value=file.sha256),
        headers={
            "Content-Disposition": disposition,
            "Cache-Control": "private, no-cache",
            # Litestar would send the time of the stored file, which is that of the last upload by any account
            "Last-Modified": format_datetime(datetime.fromisoformat(job.created_at), usegmt=True),
        },
    )


def _is_current(request: Request[Any, Any, Any], etag: str) -> bool:
    """Whether the client has the content with this entity tag."""
    return etag in re.findall(r'"[^"]*"', request.headers.get("if-none-match", ""))


def content_disposition(stem: str, ending: str, disposition: Disposition = "attachment") -> str:
    """The header with the file's name; a name that is not ASCII gets an ASCII fallback. Source: RFC 6266."""
    name, plain = download_name(stem, ending), ascii_download_name(stem, ending)
    header = f'{disposition}; filename="{plain}"'  # no character in it needs to be escaped
    return header if plain == name else f"{header}; filename*=UTF-8''{quote(name, safe='')}"
