"""The four dispatches and the two downloads."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from litestar import Request, Response, get, post
from litestar.datastructures import ETag
from litestar.params import FromPath
from litestar.response import File

from imgproc_local.api.auth import caller, require_key
from imgproc_local.api.form import read_form, read_plan
from imgproc_local.api.prefer import applied, wait_preference_s
from imgproc_local.api.wire import DispatchBody, dispatch_body
from imgproc_local.compose import Services
from imgproc_local.domain.errors import BadImage, FileNotReady, InvalidRequest
from imgproc_local.domain.filename import clean_filename
from imgproc_local.domain.image import TRAITS, Format, ImageInfo
from imgproc_local.domain.job import Job, Status, StoredFile
from imgproc_local.domain.plan import ACCEPTED, Operation
from imgproc_local.storage.blobs import Incoming

MAX_IDEMPOTENCY_KEY = 255


@post("/images/analyze", status_code=202, guards=[require_key])
async def analyze(request: Request[Any, Any, Any]) -> Response[DispatchBody]:
    return await _dispatch(request, Operation.ANALYZE)


@post("/images/optimize", status_code=202, guards=[require_key])
async def optimize(request: Request[Any, Any, Any]) -> Response[DispatchBody]:
    return await _dispatch(request, Operation.OPTIMIZE)


@post("/images/convert", status_code=202, guards=[require_key])
async def convert(request: Request[Any, Any, Any]) -> Response[DispatchBody]:
    return await _dispatch(request, Operation.CONVERT)


@post("/images/process", status_code=202, guards=[require_key])
async def process(request: Request[Any, Any, Any]) -> Response[DispatchBody]:
    return await _dispatch(request, Operation.PROCESS)


async def _dispatch(request: Request[Any, Any, Any], operation: Operation) -> Response[DispatchBody]:
    """Take one upload in and answer 202. A refused one leaves no file, no row and costs nothing."""
    services: Services = request.app.state.services
    idempotency_key = _idempotency_key(request)
    wait_s = wait_preference_s(request.headers.get("prefer"))
    await services.jobs.require_room()
    with services.blobs.incoming() as incoming:
        form = await read_form(request, incoming, services.config.max_upload_bytes)
        plan, errors = read_plan(operation, form.fields)
        info = await _probe(services, operation, incoming, form.filename, errors)
        if errors or info is None:
            raise InvalidRequest(errors)
        async with services.blobs.keep(incoming) as blob:
            job, is_new = await services.engine.submit(
                caller(request).account_id,
                plan,
                blob,
                info,
                clean_filename(form.filename or "", info.format),
                idempotency_key,
            )
            if not is_new and job.original.sha256 != blob.sha256:
                raise AssertionError("the same body has the same content")
    status = Status.PENDING if is_new else job.status
    if wait_s is not None:
        status = (await services.engine.wait_final(job.id, wait_s)).status
    return Response(
        dispatch_body(job, status, services.config.status_set),
        status_code=202,
        headers={"Location": f"/api/v1/jobs/{job.id}", **applied(wait_s)},
    )


def _idempotency_key(request: Request[Any, Any, Any]) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not 1 <= len(key) <= MAX_IDEMPOTENCY_KEY or not key.isprintable():
        problem = f"Idempotency-Key must have 1 to {MAX_IDEMPOTENCY_KEY} printable characters; {len(key)} came."
        raise InvalidRequest({"Idempotency-Key": [problem]})
    return key


async def _probe(
    services: Services, operation: Operation, incoming: Incoming, filename: str | None, errors: dict[str, list[str]]
) -> ImageInfo | None:
    """What the uploaded bytes are; a problem is noted in `errors` beside those of the fields."""
    from imgproc_local.codecs.probe import probe

    if filename is None:
        errors["image"] = ["image is required: a file part of the form; none came."]
        return None
    try:
        info = await asyncio.to_thread(probe, incoming.path, services.config.max_pixels)
    except BadImage as error:
        errors["image"] = error.errors["image"]
        return None
    if info.format not in ACCEPTED[operation]:
        wanted = ", ".join(TRAITS[accepted].name for accepted in ACCEPTED[operation])
        errors["image"] = [f"image must be {wanted} for {operation.value}; {TRAITS[info.format].name} came."]
    return info


@get("/images/{image_id:str}/optimized", guards=[require_key])
async def optimized(request: Request[Any, Any, Any], image_id: FromPath[str]) -> File | Response[None]:
    job = await _job_of_image(request, image_id)
    if job.optimized is None:
        raise FileNotReady(_not_ready(job, "optimized", "optimization"))
    name = PurePosixPath(job.original_filename)
    return _download(request, job.optimized, f"{name.stem}-optimized{name.suffix}")


@get("/images/{image_id:str}/converted", guards=[require_key])
async def converted(request: Request[Any, Any, Any], image_id: FromPath[str]) -> File | Response[None]:
    job = await _job_of_image(request, image_id)
    if job.converted is None:
        raise FileNotReady(_not_ready(job, "converted", "conversion"))
    return _download(
        request, job.converted, f"{PurePosixPath(job.original_filename).stem}.{job.converted.format.value}"
    )


async def _job_of_image(request: Request[Any, Any, Any], image_id: str) -> Job:
    services: Services = request.app.state.services
    return await services.jobs.by_image(image_id.lower(), caller(request).account_id)


def _not_ready(job: Job, which: str, stage: str) -> str:
    return (
        f"The {which} file is not available: the {stage} job must be completed first."
        f" The job's status is {job.status.value}."
    )


def _download(request: Request[Any, Any, Any], file: StoredFile, filename: str) -> File | Response[None]:
    """The file as an attachment. Its content address is its entity tag: it never changes."""
    services: Services = request.app.state.services
    etag = f'"{file.sha256}"'
    if etag in re.findall(r'"[^"]*"', request.headers.get("if-none-match", "")):
        return Response(None, status_code=304, headers={"ETag": etag})
    return File(
        path=services.blobs.path(file.sha256),
        media_type=TRAITS[Format(file.format)].mime,
        etag=ETag(value=file.sha256),
        headers={"Content-Disposition": content_disposition(filename), "Cache-Control": "private, no-cache"},
    )


def content_disposition(filename: str) -> str:
    """An attachment header with an ASCII fallback beside the true name where that is not ASCII. Source: RFC 6266."""
    plain = unicodedata.normalize("NFKD", filename).encode("ascii", "ignore").decode()
    stem = PurePosixPath(plain).stem
    fallback = plain if stem.strip("- .") not in ("", "optimized") or plain == filename else f"image{plain}"
    quoted = fallback.replace("\\", "\\\\").replace('"', '\\"')
    header = f'attachment; filename="{quoted}"'
    if plain != filename:
        header += f"; filename*=UTF-8''{quote(filename, safe='')}"
    return header
