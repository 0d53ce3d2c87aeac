"""Uploads: from a multipart form with one image, within limits of size and time, to the 202 of its job.

The body is read in one pass: the image streams to the disk, the few text fields to memory, each up to its limit.
Litestar's own forms would store a second copy in a temporary file before the handler runs.
"""

from __future__ import annotations

import asyncio
import difflib
import logging
import re
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import InternalServerException
from litestar.handlers import HTTPRouteHandler
from msgspec import UNSET
from multipart import MultipartError, MultipartSegment, PushMultipartParser, parse_options_header

from imgproc_local.api import requests, wire
from imgproc_local.api.openapi import IDEMPOTENCY_KEY, PREFER, post
from imgproc_local.domain.errors import InvalidRequest, ServiceStopping, UploadTimedOut, UploadTooLarge
from imgproc_local.domain.filename import received_folder, received_name
from imgproc_local.domain.job import Status
from imgproc_local.domain.languages import language_of
from imgproc_local.domain.plan import ACCEPTED_FORMATS, MAX_LANGUAGES, TIFF_SIZE_FACTOR, Operation, Plan, Role
from imgproc_local.storage.blobs import Incoming

log = logging.getLogger(__name__)

_MAX_FIELDS = 100
_MAX_FIELD_BYTES = 16 * 1024
_OVERHEAD_BYTES = _MAX_FIELDS * _MAX_FIELD_BYTES
"""The most bytes that a form may have besides its image."""
_WRITE_BYTES = 512 * 1024
"""Bytes that are collected before a thread writes them. Eight uploads at once need a few megabytes."""
CHUNK_TIMEOUT_S = 30
"""The longest time without a byte of an upload."""
SLOW_UPLOAD_S = 60
SLOW_UPLOAD_BYTES_PER_S = 16 * 1024
"""An upload may take `SLOW_UPLOAD_S`, and one second more for each `SLOW_UPLOAD_BYTES_PER_S` received. 50 MB may take
54 minutes; an upload of single bytes ends after a minute."""

_LANGUAGES_ITEM = re.compile(r"languages\[(\d{0,4})\]")
"""A list item's field name: `languages[]`, `languages[0]`, `languages[1]` …"""

Fields = list[tuple[str, str]]


class Uploads:
    """The uploads that are being read, so that a stop of the service can end them."""

    def __init__(self) -> None:
        self._limits: set[asyncio.Timeout] = set()
        self._ended = False

    def end(self) -> None:
        """Refuse every upload, those that are being read and new ones."""
        self._ended = True
        for limit in self._limits:
            limit.reschedule(asyncio.get_running_loop().time())

    async def chunks(self, request: Request[Any, Any, Any], max_bytes: int) -> AsyncIterator[bytes]:
        """The body in pieces as they are received, limited in bytes and in time.

        Raises: UploadTooLarge, UploadTimedOut, InvalidRequest where the client has disconnected, ServiceStopping.
        """
        stream = aiter(request.stream())
        began_s = time.monotonic()
        received = 0
        while True:
            try:
                async with asyncio.timeout(0 if self._ended else CHUNK_TIMEOUT_S) as limit:
                    self._limits.add(limit)
                    try:
                        chunk = await anext(stream)
                    finally:
                        self._limits.discard(limit)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if self._ended:
                    raise ServiceStopping from None
                raise UploadTimedOut(f"No bytes of the upload were received for {CHUNK_TIMEOUT_S} seconds.") from None
            except InternalServerException:  # Litestar raises this when the client has disconnected
                raise _bad_body("The connection was closed before the whole body was received.") from None
            received += len(chunk)
            if received > max_bytes:
                raise UploadTooLarge(f"The whole request may have at most {max_bytes} bytes; received more.")
            if time.monotonic() - began_s > SLOW_UPLOAD_S + received / SLOW_UPLOAD_BYTES_PER_S:
                raise UploadTimedOut(
                    f"A request that takes longer than {SLOW_UPLOAD_S} seconds must send at least"
                    f" {SLOW_UPLOAD_BYTES_PER_S} bytes per second; received {received} bytes in total."
                )
            if chunk:
                yield chunk


async def read_form(
    request: Request[Any, Any, Any], incoming: Incoming, max_image_bytes: int, *, is_local: bool = False
) -> _Form:
    """Read the whole body: the part `image` into `incoming`, text parts into the result.

    With `is_local`, a TIFF may have `TIFF_SIZE_FACTOR` times `max_image_bytes`.

    Raises:
        InvalidRequest: not a multipart form, cut off, or with more or larger fields than allowed.
        UploadTooLarge: the image or the whole body has too many bytes; refused while reading.
        UploadTimedOut: nothing was received for `CHUNK_TIMEOUT_S`, or the upload
            took more than `SLOW_UPLOAD_S` and had less than `SLOW_UPLOAD_BYTES_PER_S`.
        ServiceStopping: the service stops.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != "multipart/form-data" or not options.get("boundary"):
        received = repr(kind) if kind else "no Content-Type"
        raise _bad_body(f"The body must be multipart/form-data with a boundary; received {received}.")
    length = request.headers.get("content-length", "")
    largest_image_bytes = max_image_bytes * (TIFF_SIZE_FACTOR if is_local else 1)
    max_body_bytes = largest_image_bytes + _OVERHEAD_BYTES
    if length.isdecimal() and int(length) > max_body_bytes:
        raise _too_large(largest_image_bytes)
    form = _Form(incoming, max_image_bytes, is_local=is_local)
    try:
        with PushMultipartParser(options["boundary"], max_segment_count=_MAX_FIELDS, strict=False) as parser:
            async for chunk in request.app.state.uploads.chunks(request, max_body_bytes):
                for event in parser.parse(chunk):
                    form.handle(event)
                if len(form.image) >= _WRITE_BYTES:
                    await asyncio.to_thread(form.flush)
                if parser.closed:
                    break
            await asyncio.to_thread(form.flush)
    except MultipartError as error:
        log.info("A multipart body was refused: %s", error)
        raise _bad_body(
            f"The multipart body is cut off, not well-formed (RFC 7578), or has more than {_MAX_FIELDS} parts;"
            " nothing was stored."
        ) from error
    return form


class _Form:
    """A multipart form, made of the events of the parser. The bytes of `image` are collected until `flush` writes them.

    `filename` is None without an image. `other_files` are the names of file parts that are not the image; their bytes
    are not kept.
    """

    def __init__(self, incoming: Incoming, max_image_bytes: int, *, is_local: bool) -> None:
        self.fields: Fields = []
        self.filename: str | None = None
        self.other_files: list[str] = []
        self.image = bytearray()
        self._incoming = incoming
        self._max_image_bytes = max_image_bytes
        self._is_local = is_local
        self._image_bytes = 0
        self._head = b""
        self._text = bytearray()
        self._part: MultipartSegment | None = None

    def handle(self, event: MultipartSegment | bytes | bytearray | None) -> None:
        """One event: a part begins, has data, or ends (None)."""
        if isinstance(event, MultipartSegment):
            self._begin(event)
        elif self._part is not None and self._part.name == "image":
            self._add_to_image(event or b"")
        elif self._part is not None and self._part.filename is None:
            self._text += event or b""
            if len(self._text) > _MAX_FIELD_BYTES:
                name = self._part.name
                raise InvalidRequest({name: [f"{name} may have at most {_MAX_FIELD_BYTES} bytes; received more."]})
            if event is None:
                self.fields.append((self._part.name, self._text.decode("utf-8")))

    def _begin(self, part: MultipartSegment) -> None:
        self._part = part
        self._text.clear()
        part.filename = received_name(part.header("Content-Disposition", ""), part.filename)
        if part.name != "image":
            if part.filename is not None:
                self.other_files.append(part.name)
        elif part.filename is None and part.content_type in (None, "", "text/plain"):
            raise _bad_body("image must be a file part with a file name; received a text field.")
        elif self.filename is not None:
            raise _bad_body("image must be one file; received more than one. Send one request per image.")
        else:
            self.filename = part.filename or ""

    def _add_to_image(self, data: bytes | bytearray) -> None:
        from imgproc_local.codecs.picture.formats import max_local_bytes

        self.image += data
        self._image_bytes += len(data)
        self._head += data[: 4 - len(self._head)]  # they identify a TIFF
        maximum = self._max_image_bytes
        if self._is_local and self._image_bytes > maximum:
            maximum = max_local_bytes(self._head, maximum)
        if self._image_bytes > maximum:
            raise _too_large(maximum)

    def flush(self) -> None:
        self._incoming.write(self.image)
        self.image.clear()


def _bad_body(message: str) -> InvalidRequest:
    return InvalidRequest({"image": [message]})


def _too_large(max_image_bytes: int) -> UploadTooLarge:
    return UploadTooLarge(
        f"image may have at most {max_image_bytes} bytes ({max_image_bytes / 1024 / 1024:.4g} MB); received more."
    )


# ---- what the form asks for ----


def _read_plan(operation: Operation, form: _Form) -> tuple[Plan, dict[str, list[str]]]:
    """What the form asks for, and the problems found in it, by field. The plan is valid only if there are none."""
    own = requests.FIELDS_OF[operation]
    parameters = requests.Parameters(lambda name: _last(form.fields, name))
    read = {name: parameters.read(field) for name, field in requests.TEXT_FIELDS.items() if name in own}
    read["languages"] = _languages(form.fields if "languages" in own else [], parameters.errors) or None
    read["folder"] = received_folder(read["folder"] or "")
    sent = {name: value for name, value in read.items() if value is not None}  # all else has the defaults of a Plan
    plan = msgspec.convert({"operation": operation, **sent}, Plan)
    parameters.errors |= requests.format_problem(plan.format)
    if plan.role in (Role.LINK, Role.BUTTON) and not (plan.context or "context" in parameters.errors):
        aim = "where the link leads" if plan.role is Role.LINK else "what the button does"
        parameters.errors["context"] = [f"context must say {aim}, as the alt text has to; received none."]
    if form.filename is None:
        received = f"one with the name {requests.shown(form.other_files[0])}" if form.other_files else "none"
        parameters.errors["image"] = [f"image is required: a file part of the form; received {received}."]
    return plan, parameters.errors


def _ignored_fields(operation: Operation, form: _Form) -> list[str]:
    """The names of the parts that the operation does not know, in the order in which they were sent."""
    own = requests.FIELDS_OF[operation]
    names = [name for name, _ in form.fields if ("languages" if _is_language(name) else name) not in own]
    return list(dict.fromkeys(names + form.other_files))


def _message(work: str, job_id: str, operation: Operation, ignored: list[str]) -> str:
    """What the answer to an upload says to people; it names the first of the ignored parts."""
    message = f"{work} dispatched. Poll GET /api/v1/jobs/{job_id} for the result."
    if not ignored:
        return message
    names = ", ".join(map(requests.shown, ignored[: requests.MAX_SHOWN]))
    meant = difflib.get_close_matches(ignored[0], requests.FIELDS_OF[operation], n=1, cutoff=0.8)
    hint = f" Did you mean {meant[0]!r}?" if meant else ""
    return f"{message} Ignored, because {operation} has no such field: {names}.{hint}"


def _is_language(name: str) -> bool:
    return name == "languages" or _LANGUAGES_ITEM.fullmatch(name) is not None


def _last(fields: Fields, name: str) -> list[str]:
    """The last value of a field, without white space around it; none if there is no such field or it is empty.

    Widths that are sent one by one count as one list.
    """
    values = [value.strip() for field, value in fields if field == name]
    value = ",".join(filter(None, values)) if name == "widths" else "".join(values[-1:])
    return [value] if value else []


def _languages(fields: Fields, errors: dict[str, list[str]]) -> tuple[str, ...]:
    """The codes, in every notation that clients use for a list: see api/README.md, "Uploads"."""
    items = [(name, value.strip()) for name, value in fields if _is_language(name)]
    items.sort(key=lambda item: int(re.sub(r"\D", "", item[0]) or -1))  # those without a number first
    problems: list[str] = []
    sent: dict[str, None] = {}
    for _, value in items:
        try:
            listed = msgspec.json.decode(value, type=list[str]) if value.startswith("[") else value.split(",")
        except msgspec.MsgspecError:
            problems.append(
                f"languages must be codes separated by commas, or a JSON array; received {requests.shown(value)}."
            )
            continue
        sent |= dict.fromkeys(tag.strip() for tag in listed if tag.strip())
    read = {tag: language_of(tag) for tag in list(sent)[:_MAX_FIELDS]}  # as many messages at most
    problems += [
        f"{reason or 'languages must be ISO 639-1 codes that GET /languages lists'}; received {requests.shown(tag)}."
        for tag, (code, reason) in read.items()
        if not code
    ]
    codes = tuple(dict.fromkeys(code for code, _ in read.values() if code))
    if len(codes) > MAX_LANGUAGES or len(sent) > len(read):
        problems.append(f"languages may have at most {MAX_LANGUAGES} codes; received {len(sent)} tags.")
    if problems:
        errors["languages"] = problems
    return codes


# ---- the requests ----


async def _dispatch(request: Request[Any, Any, Any], operation: Operation, work: str) -> Response[wire.DispatchBody]:
    """Accept one upload and answer 202. A refused upload leaves no file and no row, and costs nothing."""
    services, key = requests.services_of(request), requests.authenticated_key(request)
    idempotency_key = requests.read_idempotency_key(request.headers)
    wait_s = requests.read_wait_s(request.headers)
    if idempotency_key is None:  # a repeated request gets its job's answer even when the queue is full
        await services.jobs.require_room(key.account_id)
    with services.blobs.incoming() as incoming:
        form = await read_form(request, incoming, services.config.max_upload_bytes, is_local=key.for_page)
        plan, problems = _read_plan(operation, form)
        name = form.filename or ""
        job, is_new = await services.engine.accept(key, plan, incoming, name, problems, idempotency_key)
    status = Status.PENDING if is_new else job.status
    if wait_s is not None:
        status = (await services.engine.wait(job.id, wait_s, key.account_id, job)).status
    word = wire.STATUS_WORDS[services.config.status_set][status]
    ignored = _ignored_fields(operation, form)
    dispatch = wire.Dispatch(job.id, word, _message(work, job.id, operation, ignored))
    body = wire.DispatchBody(dispatch, ignored or UNSET)
    headers = {"Location": f"/api/v1/jobs/{job.id}", "X-Project-Id": job.project_id}
    return Response(body, status_code=202, headers=headers | requests.preference_applied(wait_s))


def _upload(operation: Operation, work: str, summary: str) -> HTTPRouteHandler:
    """The handler of an operation's uploads. `work` is what its answer says was dispatched."""

    @post(
        f"/images/{operation.value}",
        "images",
        wire.DispatchBody,
        status=202,
        headers=[PREFER, IDEMPOTENCY_KEY],
        body=operation,
        operationId=operation.value,
        summary=summary,
        description=f"The type is detected from the bytes; accepted: {', '.join(ACCEPTED_FORMATS[operation])}.",
    )
    async def upload(request: Request[Any, Any, Any]) -> Response[wire.DispatchBody]:
        return await _dispatch(request, operation, work)

    return upload


HANDLERS = [
    _upload(Operation.ANALYZE, "Image analysis", "SEO file name and alt text per language"),
    _upload(Operation.OPTIMIZE, "Image optimization", "A smaller file that looks the same"),
    _upload(Operation.CONVERT, "Image conversion", "The image in another format"),
    _upload(Operation.PROCESS, "Image processing", "Analyze, optimize and convert in one call"),
]
