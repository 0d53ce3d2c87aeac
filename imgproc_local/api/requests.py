"""Reads form fields, request headers, query parameters and JSON bodies."""

from __future__ import annotations

import asyncio
import difflib
import re
import unicodedata
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from litestar import Request
from litestar.datastructures import Headers
from litestar.exceptions import InternalServerException

from imgproc_local.api.uploads import Fields, MultipartForm
from imgproc_local.domain.errors import InvalidRequest, UploadTimedOut, UploadTooLarge
from imgproc_local.domain.image import Format
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.plan import (
    CONVERT_TARGETS,
    DEFAULT_LANGUAGES,
    DEFAULT_PROJECT_NAME,
    MAX_CONTEXT_CHARS,
    MAX_LANGUAGES,
    MAX_SIDE_PX,
    Operation,
    Plan,
)

T = TypeVar("T")
Word = TypeVar("Word", bound=str)

TEXT_FIELDS = ("languages", "format", "project_id", "project_name", "context", "max_width_px", "max_height_px")
"""The fields of uploads besides the image; each operation has some of them."""
MAX_IGNORED_SHOWN = 5
MAX_PROJECT_NAME = 255
_LANGUAGES_ITEM = re.compile(r"languages\[(\d{0,4})\]")
"""A list item's field name: `languages[]`, `languages[0]`, `languages[1]` …"""
ULID = re.compile(r"[0-9a-hjkmnp-tv-z]{26}", re.IGNORECASE | re.ASCII)

MAX_IDEMPOTENCY_KEY = 255
MAX_WAIT_S = 60
MAX_JSON_BYTES = 16 * 1024
JSON_TIMEOUT_S = 10
_WAIT = re.compile(r"\s*wait\s*=\s*\"?(\d{1,100})\"?\s*(?:;.*)?", re.IGNORECASE)


# ---- form fields ----


def read_plan(operation: Operation, form: MultipartForm) -> tuple[Plan, dict[str, list[str]]]:
    """What the form asks for, and the problems found in it, by field. The plan is valid only if there are none."""
    fields = form.fields
    errors: dict[str, list[str]] = {}
    languages: tuple[str, ...] = DEFAULT_LANGUAGES
    convert_to = Format.WEBP
    context = ""
    if operation in (Operation.ANALYZE, Operation.PROCESS):
        languages = _languages(fields, errors)
        context = _last(fields, "context")
        if len(context) > MAX_CONTEXT_CHARS:
            errors["context"] = [f"context may have at most {MAX_CONTEXT_CHARS} characters; received {len(context)}."]
    if operation in (Operation.CONVERT, Operation.PROCESS):
        convert_to = read_format(_last(fields, "format"), errors)
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
        format=convert_to,
        project_id=project_id.lower() if project_id else None,
        project_name=project_name or DEFAULT_PROJECT_NAME,
        context=context,
        max_width_px=max_width_px,
        max_height_px=max_height_px,
    )
    if form.filename is None:
        received = f"one with the name {_shown(form.other_files[0])}" if form.other_files else "none"
        errors["image"] = [f"image is required: a file part of the form; received {received}."]
    return plan, errors


def ignored_fields(form: MultipartForm) -> str:
    """What the answer to an upload says about the fields that it ignores; "" if there are none.

    At most the first `MAX_IGNORED_SHOWN` of them are named.
    """
    unknown = [name for name, _ in form.fields if not _is_text_field(name)]
    unknown += [name for name in form.other_files if not _is_text_field(name)]
    shown = []
    for name in list(dict.fromkeys(unknown))[:MAX_IGNORED_SHOWN]:
        near = difflib.get_close_matches(name, TEXT_FIELDS, n=1)
        shown.append(f"{_shown(name)} (did you mean {near[0]!r}?)" if near else _shown(name))
    sentences = [f"Ignored, because uploads have no such field: {', '.join(shown)}."] if shown else []
    files = [_shown(name) for name in dict.fromkeys(form.other_files) if _is_text_field(name)][:MAX_IGNORED_SHOWN]
    if files:
        sentences.append(f"Ignored, because a text was expected and a file was sent: {', '.join(files)}.")
    return " ".join(sentences)


def _is_text_field(name: str) -> bool:
    return name in TEXT_FIELDS or _LANGUAGES_ITEM.fullmatch(name) is not None


def read_format(text: str, errors: dict[str, list[str]]) -> Format:
    """The format that `text` names; WebP if it is empty or unknown. An unknown name is reported in `errors`."""
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
    return read_integer(text, name, errors, minimum=1, maximum=MAX_SIDE_PX)


def _last(fields: Fields, name: str) -> str:
    return next((value.strip() for field, value in reversed(fields) if field == name), "")


def _languages(fields: Fields, errors: dict[str, list[str]]) -> tuple[str, ...]:
    """The codes, in every notation that clients use for a list: see api/README.md, "Uploads"."""
    plain: list[str] = []
    indexed: list[tuple[int, str]] = []
    for name, value in fields:
        match = _LANGUAGES_ITEM.fullmatch(name)
        if name == "languages" or (match and not match[1]):
            plain += _split(value, errors)
        elif match:
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
        problems.append(f"languages may have at most {MAX_LANGUAGES} codes; received {len(codes)}.")
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
            f"languages must be codes separated by commas, or a JSON array of strings; received {_shown(value)}."
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


class Parameters:
    """The query parameters of a request. What is wrong with one is collected; `require_valid` raises it all."""

    def __init__(self, request: Request[Any, Any, Any]) -> None:
        self._query = request.query_params
        self._errors: dict[str, list[str]] = {}

    def require_valid(self) -> None:
        """Raises: InvalidRequest, if one of the parameters that were read is invalid."""
        if self._errors:
            raise InvalidRequest(self._errors)

    def words(self, name: str, known: Sequence[Word]) -> list[Word]:
        """The words of `known` that a list has. The parameter may be repeated, or its words separated by commas."""
        values = self._query.getall(name, [])
        words = [word.strip() for value in values for word in value.split(",")]
        if not set(words) <= set(known):
            self._refuse(name, f"a list of {', '.join(known)}, separated by commas")
        return [word for word in known if word in words]

    def integer(self, name: str, minimum: int, maximum: int, default: int | None = None) -> int:
        """An integer from `minimum` to `maximum`. Without a default, the parameter is required."""
        text = self._text(name)
        if text is None:
            if default is None and name not in self._errors:
                self._refuse(name, f"an integer from {minimum} to {maximum}")
            return minimum if default is None else default
        return read_integer(text, name, self._errors, minimum=minimum, maximum=maximum)

    def only_true(self, name: str) -> bool:
        """Whether a filter that can only be switched on was sent."""
        text = self._text(name)
        if text not in (None, "true"):
            self._refuse(name, "true or not sent")
        return text is not None

    def ulid(self, name: str) -> str | None:
        text = self._text(name)
        if text is not None and not ULID.fullmatch(text):
            self._refuse(name, "a ULID of 26 characters")
        return text and text.lower()

    def language(self, name: str) -> str | None:
        text = self._text(name)
        if text is not None and text.lower() not in LANGUAGES:
            self._refuse(name, "an ISO 639-1 code that GET /languages lists")
        return text and text.lower()

    def format(self, name: str) -> Format:
        return read_format(self._text(name) or "", self._errors)

    def _text(self, name: str) -> str | None:
        """The value of a parameter that may be sent once; None if it was not sent."""
        values = self._query.getall(name, [])
        if len(values) > 1:
            self._refuse(name, "sent once")
        return values[0] if len(values) == 1 else None

    def _refuse(self, name: str, expected: str) -> None:
        received = " and ".join(_shown(value) for value in self._query.getall(name, [])[:MAX_IGNORED_SHOWN]) or "none"
        self._errors[name] = [f"{name} must be {expected}; received {received}."]


def read_integer(text: str, name: str, errors: dict[str, list[str]], *, minimum: int, maximum: int) -> int:
    """The integer in `text`. If it is malformed or out of range, that is reported in `errors`, and the
    result is `minimum`.
    """
    if not re.fullmatch(r"[+-]?[0-9]{1,12}", text) or not minimum <= int(text) <= maximum:
        errors[name] = [f"{name} must be an integer from {minimum} to {maximum}; received {_shown(text)}."]
        return minimum
    return int(text)


# ---- JSON bodies ----


async def read_json(
    request: Request[Any, Any, Any],
    body_type: type[T],
    expected: str,
    max_bytes: int = MAX_JSON_BYTES,
    without_body: T | None = None,
) -> T:
    """The body as `body_type`. `expected` describes it for the message, such as "a JSON object with name (text)".

    A request without a body gives `without_body`; it is refused if that is None.
    Raises: InvalidRequest, UploadTooLarge, UploadTimedOut.
    """
    body = await _body(request, max_bytes)
    if not body:
        if without_body is not None:
            return without_body
        raise InvalidRequest({"body": [f"Expected {expected}, received no body."]})
    try:
        return msgspec.json.decode(body, type=body_type)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidRequest({"body": [f"Expected {expected}: {error}."]}) from error


async def _body(request: Request[Any, Any, Any], max_bytes: int) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(JSON_TIMEOUT_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise UploadTooLarge(f"Expected a body of at most {max_bytes} bytes, received more.")
    except InternalServerException:  # Litestar raises this when the client has disconnected
        raise InvalidRequest({"body": ["The connection was closed before the whole body was received."]}) from None
    except TimeoutError:
        raise UploadTimedOut(f"The body was not received within {JSON_TIMEOUT_S} seconds.") from None
    return bytes(body)
