"""Reads requests: uploads, their fields, query parameters and the headers that change how a request is answered.

An upload is read in one pass: the image streams to the disk, the few text fields to memory, each up to its limit.
Litestar's own forms would store a second copy in a temporary file before the handler runs.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import unicodedata
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

import msgspec
from litestar import Request, route
from litestar.datastructures import Headers
from litestar.enums import HttpMethod
from litestar.exceptions import InternalServerException
from msgspec import Struct
from multipart import MultipartError, MultipartSegment, PushMultipartParser, parse_options_header

from imgproc_local.domain.errors import InvalidRequest, ServiceStopping, UploadTimedOut, UploadTooLarge
from imgproc_local.domain.image import Format
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.plan import (
    CONVERT_TARGETS,
    DEFAULT_LANGUAGES,
    DEFAULT_PROJECT_NAME,
    MAX_CONTEXT_CHARS,
    MAX_LANGUAGES,
    MAX_SIDE_PX,
    TIFF_SIZE_FACTOR,
    Operation,
    Plan,
)
from imgproc_local.storage.blobs import Incoming

log = logging.getLogger(__name__)

MAX_FIELDS = 100
MAX_FIELD_BYTES = 16 * 1024
OVERHEAD_BYTES = MAX_FIELDS * MAX_FIELD_BYTES
"""The most bytes of a form besides its image."""
SIGNATURE_BYTES = 4
"""The bytes by which a TIFF is recognised, while it is received."""
WRITE_BYTES = 512 * 1024
"""Bytes that are collected before a thread writes them. Eight uploads at once need a few megabytes."""
CHUNK_TIMEOUT_S = 30
"""The longest time without a byte of an upload."""
SLOW_UPLOAD_S = 60
SLOW_UPLOAD_BYTES_PER_S = 16 * 1024
"""An upload may take `SLOW_UPLOAD_S`, and one second more for each `SLOW_UPLOAD_BYTES_PER_S` received. 50 MB may take
54 minutes; an upload of single bytes ends after a minute."""
MAX_PROJECT_NAME = 255
ULID = re.compile(r"[0-9a-hjkmnp-tv-z]{26}", re.IGNORECASE | re.ASCII)

MAX_IDEMPOTENCY_KEY = 255
MAX_WAIT_S = 60
_WAIT = re.compile(r"\s*wait\s*=\s*\"?(\d{1,100})\"?\s*(?:;.*)?", re.IGNORECASE)

Fields = list[tuple[str, str]]

get = partial(route, http_method=[HttpMethod.GET, HttpMethod.HEAD])
"""Registers a handler for GET and for HEAD, whose response has no body. Source: RFC 9110, section 9.3.2."""


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

    async def next_chunk(self, stream: AsyncIterator[bytes]) -> bytes:
        """The next bytes of a body. Raises: StopAsyncIteration, ServiceStopping, UploadTimedOut."""
        try:
            async with asyncio.timeout(0 if self._ended else CHUNK_TIMEOUT_S) as limit:
                self._limits.add(limit)
                try:
                    return await anext(stream)
                finally:
                    self._limits.discard(limit)
        except TimeoutError:
            if self._ended:
                raise ServiceStopping from None
            raise UploadTimedOut(f"No bytes of the upload were received for {CHUNK_TIMEOUT_S} seconds.") from None


class MultipartForm(Struct):
    """`filename` is None without an image; the bytes of the image are in the `Incoming` that `read_form` was given."""

    fields: Fields
    filename: str | None = None


async def read_form(
    request: Request[Any, Any, Any], incoming: Incoming, max_image_bytes: int, *, is_local: bool = False
) -> MultipartForm:
    """Read the whole body: the part `image` into `incoming`, text parts into the result.

    With `is_local`, a TIFF may have `TIFF_SIZE_FACTOR` times `max_image_bytes`.

    Raises:
        InvalidRequest: not a multipart form, cut off, or with more or larger fields than allowed.
        UploadTooLarge: the image has more than `max_image_bytes`; refused while reading.
        UploadTimedOut: nothing was received for `CHUNK_TIMEOUT_S`, or less than `SLOW_UPLOAD_BYTES_PER_S`.
        ServiceStopping: the service stops.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != "multipart/form-data" or not options.get("boundary"):
        received = repr(kind) if kind else "no Content-Type"
        raise _bad_body(f"The body must be multipart/form-data with a boundary; received {received}.")
    length = request.headers.get("content-length", "")
    max_body_bytes = max_image_bytes * (TIFF_SIZE_FACTOR if is_local else 1) + OVERHEAD_BYTES
    if length.isdecimal() and int(length) > max_body_bytes:
        raise _too_large(max_image_bytes)
    form = MultipartForm(fields=[])
    try:
        with PushMultipartParser(options["boundary"], max_segment_count=MAX_FIELDS, strict=False) as parser:
            reader = _PartReader(form, incoming, max_image_bytes, is_local=is_local)
            async for chunk in _chunks(request, max_body_bytes):
                for event in parser.parse(chunk):
                    reader.handle(event)
                if reader.pending_bytes >= WRITE_BYTES:
                    await asyncio.to_thread(reader.flush)
                if parser.closed:
                    break
            await asyncio.to_thread(reader.flush)
    except MultipartError as error:
        log.info("a multipart body was refused: %s", error)
        raise _bad_body("The multipart body is cut off or not well-formed (RFC 7578); nothing was stored.") from error
    return form


class _PartReader:
    """Adds the parser's events to the form and the image."""

    def __init__(self, form: MultipartForm, incoming: Incoming, max_image_bytes: int, *, is_local: bool) -> None:
        self._form = form
        self._incoming = incoming
        self._max_image_bytes = max_image_bytes
        self._is_local = is_local
        self._image_bytes = 0
        self._head = b""
        self._image_chunks: list[bytes | bytearray] = []
        self._text = bytearray()
        self._part: MultipartSegment | None = None
        self.pending_bytes = 0

    def handle(self, event: MultipartSegment | bytes | bytearray | None) -> None:
        if isinstance(event, MultipartSegment):
            self._begin(event)
        elif event is None:
            self._end()
        elif self._part is not None:
            self._payload(self._part, event)

    def _begin(self, part: MultipartSegment) -> None:
        self._part = part
        self._text.clear()
        if part.name != "image":
            return
        if part.filename is None and part.content_type in (None, "", "text/plain"):
            raise InvalidRequest({"image": ["image must be a file part with a file name; received a text field."]})
        if self._form.filename is not None:
            raise InvalidRequest(
                {"image": ["image must be one file; received more than one. Send one request per image."]}
            )
        self._form.filename = part.filename or ""

    def _payload(self, part: MultipartSegment, data: bytes | bytearray) -> None:
        if part.name == "image":
            self._image_bytes += len(data)
            self._head += data[: SIGNATURE_BYTES - len(self._head)]
            if self._image_bytes > self._max_image_bytes:
                self._require_allowed_size()
            self._image_chunks.append(data)
            self.pending_bytes += len(data)
        elif part.filename is None:
            self._text += data
            if len(self._text) > MAX_FIELD_BYTES:
                raise InvalidRequest(
                    {part.name: [f"{part.name} may have at most {MAX_FIELD_BYTES} bytes; received more."]}
                )

    def _require_allowed_size(self) -> None:
        """Raises: UploadTooLarge, unless the image is a TIFF that may be larger than others."""
        from imgproc_local.codecs.picture.probe import max_local_bytes

        maximum = max_local_bytes(self._head, self._max_image_bytes) if self._is_local else self._max_image_bytes
        if self._image_bytes > maximum:
            raise _too_large(maximum)

    def _end(self) -> None:
        part = self._part
        if part is not None and part.name != "image" and part.filename is None:
            self._form.fields.append((part.name, self._text.decode("utf-8")))

    def flush(self) -> None:
        for chunk in self._image_chunks:
            self._incoming.write(chunk)
        self._image_chunks.clear()
        self.pending_bytes = 0


async def _chunks(request: Request[Any, Any, Any], max_bytes: int) -> AsyncIterator[bytes]:
    """The body in pieces as they are received, limited in bytes and in time."""
    uploads: Uploads = request.app.state.uploads
    stream = aiter(request.stream())
    began_s = time.monotonic()
    received = 0
    while True:
        try:
            chunk = await uploads.next_chunk(stream)
        except StopAsyncIteration:
            return
        except InternalServerException:  # Litestar raises this when the client has disconnected
            raise _bad_body("The upload ended before its last byte.") from None
        received += len(chunk)
        if received > max_bytes:
            raise UploadTooLarge(f"The whole request may have at most {max_bytes} bytes; received more.")
        if time.monotonic() - began_s > SLOW_UPLOAD_S + received / SLOW_UPLOAD_BYTES_PER_S:
            raise UploadTimedOut(
                f"An upload that takes longer than {SLOW_UPLOAD_S} seconds must have at least {SLOW_UPLOAD_BYTES_PER_S}"
                f" bytes per second; received {received} bytes in {time.monotonic() - began_s:.0f} seconds."
            )
        if chunk:
            yield chunk


def _bad_body(message: str) -> InvalidRequest:
    return InvalidRequest({"image": [message]})


def _too_large(max_image_bytes: int) -> UploadTooLarge:
    return UploadTooLarge(
        f"image may have at most {max_image_bytes} bytes ({max_image_bytes / 1024 / 1024:.4g} MB); received more."
    )


# ---- fields -> Plan ----


def read_plan(operation: Operation, form: MultipartForm) -> tuple[Plan, dict[str, list[str]]]:
    """What the form asks for, and the problems found in it, by field. The plan is valid only where there are none."""
    fields = form.fields
    errors: dict[str, list[str]] = {}
    languages: tuple[str, ...] = DEFAULT_LANGUAGES
    target = Format.WEBP
    context = ""
    if operation in (Operation.ANALYZE, Operation.PROCESS):
        languages = _languages(fields, errors)
        context = _last(fields, "context")
        if len(context) > MAX_CONTEXT_CHARS:
            errors["context"] = [f"context may have at most {MAX_CONTEXT_CHARS} characters; received {len(context)}."]
    if operation in (Operation.CONVERT, Operation.PROCESS):
        target = read_format(_last(fields, "format"), errors)
    max_width_px = max_height_px = None
    if operation is not Operation.ANALYZE:
        max_width_px = _maximum(fields, "max_width_px", errors)
        max_height_px = _maximum(fields, "max_height_px", errors)
    project_id = _last(fields, "project_id") or None
    if project_id is not None and not ULID.fullmatch(project_id):
        errors["project_id"] = [f"project_id must be a ULID of 26 characters; received {_shown(project_id)}."]
    project_name = unicodedata.normalize("NFC", _last(fields, "project_name"))
    if len(project_name) > MAX_PROJECT_NAME:
        errors["project_name"] = [
            f"project_name may have at most {MAX_PROJECT_NAME} characters; received {len(project_name)}."
        ]
    if any(unicodedata.category(character) == "Cc" for character in project_name):
        errors["project_name"] = ["project_name must be text without control characters."]
    plan = Plan(
        operation=operation,
        languages=languages,
        format=target,
        project_id=project_id.lower() if project_id else None,
        project_name=project_name or DEFAULT_PROJECT_NAME,
        context=context,
        max_width_px=max_width_px,
        max_height_px=max_height_px,
    )
    if form.filename is None:
        errors["image"] = ["image is required: a file part of the form; received none."]
    return plan, errors


def read_format(text: str, errors: dict[str, list[str]]) -> Format:
    """The format that `text` names, WebP for ""; an unknown name is added to `errors`."""
    wanted = text.lower()
    if wanted in CONVERT_TARGETS:
        return Format(wanted)
    if wanted:
        errors["format"] = [f"format must be webp or avif; received {_shown(text)}."]
    return Format.WEBP


def _maximum(fields: Fields, name: str, errors: dict[str, list[str]]) -> int | None:
    """A maximum width or height; None if the form has no such field or it is empty."""
    text = _last(fields, name)
    if not text:
        return None
    return read_integer({name: text}, name, errors, minimum=1, maximum=MAX_SIDE_PX)


def _last(fields: Fields, name: str) -> str:
    return next((value.strip() for field, value in reversed(fields) if field == name), "")


def _languages(fields: Fields, errors: dict[str, list[str]]) -> tuple[str, ...]:
    """The codes, in every notation that clients use for a list: see api/README.md, "Uploads"."""
    plain: list[str] = []
    indexed: list[tuple[int, str]] = []
    for name, value in fields:
        if name in ("languages", "languages[]"):
            plain += _split(value, errors)
        elif match := re.fullmatch(r"languages\[(\d{1,4})\]", name):
            indexed += [(int(match[1]), code) for code in _split(value, errors)]
    codes = [*plain, *(code for _, code in sorted(indexed, key=lambda item: item[0]))]
    codes = list(dict.fromkeys(code.lower() for code in codes))
    problems = errors.setdefault("languages", [])
    problems += [
        f"languages must be ISO 639-1 codes that GET /languages lists; received {_shown(code)}."
        for code in codes
        if code not in LANGUAGES
    ]
    if len(codes) > MAX_LANGUAGES:
        problems.append(f"languages may be at most {MAX_LANGUAGES}; received {len(codes)}.")
    if not problems:
        del errors["languages"]
    return tuple(codes) or DEFAULT_LANGUAGES


def _split(value: str, errors: dict[str, list[str]]) -> list[str]:
    value = value.strip()
    if not value.startswith("["):
        return [code.strip() for code in value.split(",") if code.strip()]
    try:
        return [code.strip() for code in msgspec.json.decode(value, type=list[str]) if code.strip()]
    except msgspec.MsgspecError:
        errors.setdefault("languages", []).append(
            f"languages must be an array of strings where it is JSON; received {_shown(value)}."
        )
        return []


def _shown(text: str) -> str:
    """The text received, shortened for a message."""
    return repr(text if len(text) <= 40 else text[:39] + "…")


# ---- headers and query parameters ----


def read_idempotency_key(headers: Headers) -> str | None:
    """The `Idempotency-Key` header. Raises: InvalidRequest."""
    key = headers.get("idempotency-key")
    if key is None:
        return None
    if not 1 <= len(key) <= MAX_IDEMPOTENCY_KEY or not key.isprintable():
        problem = f"Idempotency-Key must have 1 to {MAX_IDEMPOTENCY_KEY} printable characters; received {len(key)}."
        raise InvalidRequest({"Idempotency-Key": [problem]})
    return key


def read_wait_s(headers: Headers) -> int | None:
    """Seconds of `Prefer: wait=N`, at most `MAX_WAIT_S`; None without one. Other preferences are ignored.

    Source: RFC 7240, section 4.3.
    """
    for preference in ",".join(headers.getall("prefer", [])).split(","):
        match = _WAIT.fullmatch(preference)
        if match:
            return min(int(match[1]), MAX_WAIT_S)
    return None


def preference_applied(wait_s: int | None) -> dict[str, str]:
    """The response header that says which wait was applied."""
    return {} if wait_s is None else {"Preference-Applied": f"wait={wait_s}"}


def read_integer(
    query: Mapping[str, Any],
    name: str,
    errors: dict[str, list[str]],
    *,
    minimum: int,
    maximum: int,
    default: int | None = None,
) -> int:
    """The integer parameter `name`; a malformed or out-of-range one, or a missing one without a default, is added to
    `errors`.
    """
    expected = f"{name} must be an integer from {minimum} to {maximum}"
    if name not in query:
        if default is None:
            errors[name] = [f"{expected}; it is required and was not sent."]
        return minimum if default is None else default
    text = str(query[name])
    if not re.fullmatch(r"[+-]?[0-9]{1,12}", text) or not minimum <= int(text) <= maximum:
        errors[name] = [f"{expected}; received {text[:40]!r}."]
        return minimum
    return int(text)
