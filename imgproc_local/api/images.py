"""Downloading the files of jobs, and their thumbnails; having results made anew."""

from __future__ import annotations

import re
from datetime import datetime
from email.utils import format_datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from litestar import Request, Response
from litestar.background_tasks import BackgroundTask
from litestar.datastructures import ETag
from litestar.handlers import HTTPRouteHandler
from litestar.response import File

from imgproc_local.api import requests, wire
from imgproc_local.api.errors import results
from imgproc_local.api.openapi import IF_NONE_MATCH, file_content, get, post, results_content
from imgproc_local.compose import Services
from imgproc_local.domain import errors
from imgproc_local.domain.filename import ascii_download_name, download_name
from imgproc_local.domain.image import CONVERT_TARGETS, Format
from imgproc_local.domain.job import MADE_BY, Job, StageState, StoredFile, Variant
from imgproc_local.domain.plan import MAX_SIDE_PX, Remake, RemakeItem
from imgproc_local.domain.result import Note
from imgproc_local.engine.results import jpeg_of
from imgproc_local.engine.workers import memory_limit_bytes

IMAGE = "/images/{image_id:str}"
_THUMBNAIL = file_content("image/webp")
_get_file = partial(
    get, tag="images", answer=file_content("image/*"), headers=[IF_NONE_MATCH], raises=[errors.FileNotReady]
)
_TASKS: dict[Variant, str] = {"optimized": "optimization", "converted": "conversion"}
"""The name in messages of the work that makes a file."""


def _download(variant: Variant, summary: str) -> HTTPRouteHandler:
    """The handler that answers with a file."""

    @_get_file(f"{IMAGE}/{variant}", operationId=variant, summary=summary)
    async def download(request: Request[Any, Any, Any]) -> File | Response[None]:
        return await _file_of_image(request, variant)

    return download


async def job_of_image(request: Request[Any, Any, Any]) -> tuple[Services, Job]:
    """The services, and the job of the image that the path names. Raises: NotFound, also for that of other accounts."""
    services, account_id = requests.caller(request)
    return services, await services.jobs.by_image(request.path_params["image_id"].lower(), account_id)


@get(f"{IMAGE}/thumbnail", "images", _THUMBNAIL, headers=[IF_NONE_MATCH], raises=[errors.InvalidRequest])
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


_AS = requests.words("as", "the JPEG that a JPEG XL was made of without loss (local addition)", [Format.JPEG])
_WIDTH = requests.integer(
    "width", "the file of this width, one of the requested widths (local addition)", 1, MAX_SIDE_PX
)


@_get_file(f"{IMAGE}/converted", query=[_AS, _WIDTH])
async def converted(request: Request[Any, Any, Any]) -> File | Response[None]:
    """The converted file (local addition).

    With as=jpeg, the JPEG that it was made of without loss, bit for bit, if it is a JPEG XL.
    """
    query = requests.read_query(request)
    as_jpeg, width_px = query.read(_AS) is not None, query.read(_WIDTH)
    query.require_valid()
    return await _file_of_image(request, "converted", width_px, as_jpeg=as_jpeg)


async def _file_of_image(
    request: Request[Any, Any, Any], variant: Variant, width_px: int | None = None, *, as_jpeg: bool = False
) -> File | Response[None]:
    """The file of an image of the account, that of this width, or the JPEG that it was made of.

    Its entity tag is the SHA-256 of the file.
    Raises: FileNotReady, if its stage is not done; NotFound, also if the file was removed or is damaged; and what
        `_rebuilt_jpeg` raises.
    """
    from imgproc_local.codecs.picture.formats import FORMATS

    services, job = await job_of_image(request)
    file = job.file(variant)
    if file is None:
        raise errors.FileNotReady(_not_ready(job, variant, services.config.status_set))
    if width_px is not None:
        file = _of_width(job, width_px)
    etag = ETag(value=f"{file.sha256}-jpeg" if as_jpeg else file.sha256)
    if is_current(request, etag.to_header()):
        return Response(None, status_code=304, headers={"ETag": etag.to_header()})
    path, sent_format, background = await services.blobs.intact(file), file.format, None
    if as_jpeg:
        path, sent_format = await _rebuilt_jpeg(services, job, file.format, path), Format.JPEG
        background = BackgroundTask(path.unlink, missing_ok=True)
    ending = f".{FORMATS[sent_format].extensions[0]}" if variant == "converted" else _suffix(file, job)
    mark = "-optimized" if variant == "optimized" else f"-{width_px}" if width_px is not None else ""
    return File(
        path=path,
        media_type=FORMATS[sent_format].mime,
        etag=etag,
        background=background,
        headers={
            "Content-Disposition": content_disposition(PurePosixPath(job.original_filename).stem, mark + ending),
            "Cache-Control": "private, no-cache",
            # Litestar would send the time of the stored file, which is that of the last upload by any account
            "Last-Modified": format_datetime(datetime.fromisoformat(job.created_at), usegmt=True),
        },
    )


def _of_width(job: Job, width_px: int) -> StoredFile:
    """The converted picture at a width. Raises: NotFound, with the widths that there are."""
    found = {each.width_px: each for each in job.variants}
    if width_px not in found:
        widths = ", ".join(map(str, found)) or "none"
        raise errors.NotFound(
            f"The picture was not converted at a width of {width_px}. The widths of this image: {widths}."
        )
    return found[width_px]


async def _rebuilt_jpeg(services: Services, job: Job, file_format: Format, path: Path) -> Path:
    """A file with the JPEG that the converted file of a job was made of, which the caller deletes. Made in a worker.

    Raises: InvalidRequest, where there is none; StorageFailed, also if it is not made in time.
    """
    from imgproc_local.codecs.picture.formats import FORMATS, install_advice

    rebuilt = None
    if file_format is Format.JXL:
        if advice := install_advice(Format.JXL):
            raise errors.StorageFailed(advice)
        made = await services.jpegs.run_now(jpeg_of, path, memory_limit_bytes(job.info, Format.JXL))
        rebuilt = made.path
    if rebuilt is None:
        problem = (
            f"as=jpeg needs a JPEG XL that was made of a JPEG without loss; this {FORMATS[file_format].name} is none."
        )
        raise errors.InvalidRequest({"as": [problem]})
    return Path(rebuilt)


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
    task = _TASKS[variant]
    record = next((record for record in job.stages if record.name is MADE_BY[variant]), None)
    if record is None:
        why = f"this job was for {job.operation} only, not for {task}."
    elif record.state is StageState.FAILED:
        why = f"the {task} job must be completed, but it has failed. {record.error}"
    elif Note.NOT_SMALLER in record.notes:
        why = "it was not smaller, and not kept, as only_smaller asked for."
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


_REMADE = results_content(RemakeItem)
_REFUSED = [errors.InsufficientCredits, errors.QueueFull]


@post("/images/remake", "images", _REMADE, status=202, body=Remake, raises=_REFUSED)
async def remake(request: Request[Any, Any, Any]) -> wire.ResultsBody:
    """Have results of finished images made anew, with other options (local addition).

    The results in force are served until the new ones replace them. Each costs what it costs in an upload.
    """
    targets = " or ".join(CONVERT_TARGETS)
    expected = f"a JSON object with images (a list of objects with image_id), and format ({targets}) or other options"
    wanted = await requests.read_json(request, Remake, expected, requests.MAX_ITEMS_BYTES)
    if problem := requests.format_problem(wanted.format):
        raise errors.InvalidRequest(problem)
    outcomes = await requests.services_of(request).engine.remake(requests.authenticated_key(request), wanted)
    return results(wanted.images, outcomes, RemakeItem)


_original = _download("original", "The upload as it was received (local addition)")
_optimized = _download("optimized", "The optimized file")
HANDLERS = [_original, thumbnail, _optimized, converted, remake]
