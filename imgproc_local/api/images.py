"""Downloading the files of jobs, and their thumbnails."""

from __future__ import annotations

import logging
import re
from datetime import datetime
from email.utils import format_datetime
from pathlib import PurePosixPath
from typing import Any, Literal
from urllib.parse import quote

from litestar import Request, Response
from litestar.datastructures import ETag
from litestar.handlers import HTTPRouteHandler
from litestar.response import File

from imgproc_local.api import wire
from imgproc_local.api.openapi import IF_NONE_MATCH, file_content, get
from imgproc_local.api.requests import caller
from imgproc_local.compose import Services
from imgproc_local.domain.errors import FileNotReady, InvalidRequest, NotFound
from imgproc_local.domain.filename import ascii_download_name, download_name
from imgproc_local.domain.image import Format
from imgproc_local.domain.job import Job, StageName, StageState, StoredFile

log = logging.getLogger(__name__)

IMAGE = "/images/{image_id:str}"
Variant = Literal["original", "optimized", "converted"]
STAGES: dict[Variant, tuple[StageName, str]] = {
    "optimized": (StageName.OPTIMIZE, "optimization"),
    "converted": (StageName.CONVERT, "conversion"),
}
"""The stage that makes a file, and the name of its work in messages."""


def _download(variant: Variant, summary: str) -> HTTPRouteHandler:
    """The handler that answers with a file."""

    @get(
        f"{IMAGE}/{variant}",
        "images",
        file_content("image/*"),
        headers=[IF_NONE_MATCH],
        raises=[FileNotReady],
        operationId=variant,
        summary=summary,
    )
    async def download(request: Request[Any, Any, Any]) -> File | Response[None]:
        return await _file_of_image(request, variant)

    return download


async def job_of_image(request: Request[Any, Any, Any]) -> tuple[Services, Job]:
    """The services, and the job of the image that the path names. Raises: NotFound, also for that of other accounts."""
    services, account_id = caller(request)
    return services, await services.jobs.by_image(request.path_params["image_id"].lower(), account_id)


@get(f"{IMAGE}/thumbnail", "images", file_content("image/webp"), headers=[IF_NONE_MATCH], raises=[InvalidRequest])
async def thumbnail(request: Request[Any, Any, Any]) -> Response[bytes | None]:
    """The upload as WebP of at most 512 pixels on each side (local addition).

    It never changes, so it need not be requested again.
    """
    services, job = await job_of_image(request)
    etag = f'"{job.original.sha256}-thumbnail"'
    headers = {"ETag": etag, "Cache-Control": "private, max-age=31536000, immutable"}
    if is_current(request, etag):
        return Response(None, status_code=304, headers=headers)
    return Response(await services.thumbnails.get(job), media_type="image/webp", headers=headers)


async def _file_of_image(request: Request[Any, Any, Any], variant: Variant) -> File | Response[None]:
    """The file of an image of the account. Its SHA-256 is its entity tag, because the content never changes.

    Raises: FileNotReady, if its stage is not done; NotFound, also if the file was removed or is damaged.
    """
    from imgproc_local.codecs.picture.formats import FORMATS

    services, job = await job_of_image(request)
    file = {"original": job.original, "optimized": job.optimized, "converted": job.converted}[variant]
    if file is None:
        raise FileNotReady(_not_ready(job, variant, services.config.status_set))
    etag = f'"{file.sha256}"'
    if is_current(request, etag):
        return Response(None, status_code=304, headers={"ETag": etag})
    if file.expired:
        raise NotFound("This file was removed because of its age. Send the picture again to process it anew.")
    damage = await services.blobs.damage(file.sha256, file.size_bytes)
    if damage is not None:
        log.error("The file %s of a job is %s in the data folder", file.sha256, damage)
        raise NotFound(f"This file is {damage} in the data folder; `imgproc-local doctor` says what to do.")
    ending = f".{file.format}" if variant == "converted" else _suffix(file, job)
    mark = "-optimized" if variant == "optimized" else ""
    return File(
        path=services.blobs.path(file.sha256),
        media_type=FORMATS[Format(file.format)].mime,
        etag=ETag(value=file.sha256),
        headers={
            "Content-Disposition": content_disposition(PurePosixPath(job.original_filename).stem, mark + ending),
            "Cache-Control": "private, no-cache",
            # Litestar would send the time of the stored file, which is that of the last upload by any account
            "Last-Modified": format_datetime(datetime.fromisoformat(job.created_at), usegmt=True),
        },
    )


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


def _not_ready(job: Job, variant: Variant, status_set: wire.StatusSet) -> str:
    """The message for a file that does not exist: what has to happen first, or why it never will."""
    stage, task = STAGES[variant]
    record = next((record for record in job.stages if record.name is stage), None)
    if record is None:
        why = f"this job was for {job.operation} only, not for {task}."
    elif record.state is StageState.FAILED:
        why = f"the {task} job must be completed, but it has failed. {record.error}"
    else:
        word = wire.STATUS_WORDS[status_set][job.status]
        why = f"the {task} job must be completed first. The job's status is {word}."
    return f"The {variant} file is not available: {why}"


def is_current(request: Request[Any, Any, Any], etag: str) -> bool:
    """Whether the client has the content with this entity tag."""
    return etag in re.findall(r'"[^"]*"', request.headers.get("if-none-match", ""))


def content_disposition(stem: str, ending: str) -> str:
    """The header with the file's name; a name that is not ASCII gets an ASCII fallback. Source: RFC 6266."""
    name, plain = download_name(stem, ending), ascii_download_name(stem, ending)
    header = f'attachment; filename="{plain}"'  # no character in it needs to be escaped
    return header if plain == name else f"{header}; filename*=UTF-8''{quote(name, safe='')}"


HANDLERS = [
    _download("original", "The upload as it was received (local addition)"),
    thumbnail,
    _download("optimized", "The optimized file"),
    _download("converted", "The converted file (local addition)"),
]
