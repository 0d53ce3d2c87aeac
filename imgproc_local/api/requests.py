"""Reads form fields, request headers, query parameters and JSON bodies."""

from __future__ import annotations

import asyncio
import difflib
import re
import unicodedata
from collections.abc import Callable, Sequence
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

FIELDS_OF = {
    Operation.ANALYZE: ("languages", "project_id", "project_name", "context"),
    Operation.OPTIMIZE: ("project_id", "project_name", "max_width_px", "max_height_px"),
    Operation.CONVERT: ("format", "project_id", "project_name", "max_width_px", "max_height_px"),
    Operation.PROCESS: (
        "languages", "format", "project_id", "project_name", "context", "max_width_px", "max_height_px"
    ),
}  # fmt: skip
"""The fields of each operation besides the image."""
TEXT_FIELDS = FIELDS_OF[Operation.PROCESS]
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
    own = FIELDS_OF[operation]
    fields = Parameters(lambda name: _last(form.fields, name) if name in own else [])
    plan = Plan(
        operation=operation,
        languages=_languages(form.fields if "languages" in own else [], fields.errors),
        context=fields.text("context", MAX_CONTEXT_CHARS),
        format=fields.format("format"),
        max_width_px=fields.integer("max_width_px", 1, MAX_SIDE_PX, default=0) or None,
        max_height_px=fields.integer("max_height_px", 1, MAX_SIDE_PX, default=0) or None,
        project_id=fields.ulid("project_id"),
        project_name=fields.text("project_name", MAX_PROJECT_NAME) or DEFAULT_PROJECT_NAME,
    )
    if any(unicodedata.category(character) == "Cc" for character in plan.project_name):
        fields.errors["project_name"] = ["project_name must be text without control characters."]
    if form.filename is None:
        received = f"one with the name {_shown(form.other_files[0])}" if form.other_files else "none"
        fields.errors["image"] = [f"image is required: a file part of the form; received {received}."]
    return plan, fields.errors


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


def _last(fields: Fields, name: str) -> list[str]:
    """The last value of a field, without white space around it; none if there is no such field or it is empty."""
    value = next((value.strip() for field, value in reversed(fields) if field == name), "")
    return [value] if value else []


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


def read_query(request: Request[Any, Any, Any]) -> Parameters:
    return Parameters(lambda name: request.query_params.getall(name, []))


class Parameters:
    """Query parameters or form fields: `values` returns those of a name. What is wrong is collected in `errors`."""

    def __init__(self, values: Callable[[str], list[str]]) -> None:
        self.errors: dict[str, list[str]] = {}
        self._values = values

    def require_valid(self) -> None:
        """Raises: InvalidRequest, if one of the parameters that were read is invalid."""
        if self.errors:
            raise InvalidRequest(self.errors)

    def words(self, name: str, known: Sequence[Word]) -> list[Word]:
        """The words of `known` that a list has. The parameter may be repeated, or its words separated by commas."""
        words = [word.strip() for value in self._values(name) for word in value.split(",")]
        if not set(words) <= set(known):
            self._refuse(name, f"a list of {', '.join(known)}, separated by commas")
        return [word for word in known if word in words]

    def integer(self, name: str, minimum: int, maximum: int, default: int | None = None) -> int:
        """An integer from `minimum` to `maximum`. Without a default, the parameter is required."""
        text = self._one(name)
        if text is None and default is not None:
            return default
        if name in self.errors:
            return minimum
        if text is None or not re.fullmatch(r"[+-]?[0-9]{1,12}", text) or not minimum <= int(text) <= maximum:
            self._refuse(name, f"an integer from {minimum} to {maximum}")
            return minimum
        return int(text)

    def text(self, name: str, max_chars: int) -> str:
        """A text in Unicode NFC."""
        text = unicodedata.normalize("NFC", self._one(name) or "")
        if len(text) > max_chars:
            self.errors[name] = [f"{name} may have at most {max_chars} characters; received {len(text)}."]
        return text

    def only_true(self, name: str) -> bool:
        """Whether a filter that can only be switched on was sent."""
        text = self._one(name)
        if text not in (None, "true"):
            self._refuse(name, "true or not sent")
        return text is not None

    def ulid(self, name: str) -> str | None:
        text = self._one(name)
        if text is not None and not ULID.fullmatch(text):
            self._refuse(name, "a ULID of 26 characters")
        return text and text.lower()

    def language(self, name: str) -> str | None:
        text = self._one(name)
        if text is not None and text.lower() not in LANGUAGES:
            self._refuse(name, "an ISO 639-1 code that GET /languages lists")
        return text and text.lower()

    def format(self, name: str) -> Format:
        """A format to convert to; WebP if the parameter was not sent or is empty."""
        wanted = (self._one(name) or Format.WEBP.value).lower()
        if wanted not in CONVERT_TARGETS:
            self._refuse(name, "webp or avif")
            return Format.WEBP
        return Format(wanted)

    def _one(self, name: str) -> str | None:
        """The value of a parameter that may be sent once; None if it was not sent."""
        values = self._values(name)
        if len(values) > 1:
            self._refuse(name, "sent once")
        return values[0] if len(values) == 1 else None

    def _refuse(self, name: str, expected: str) -> None:
        received = " and ".join(_shown(value) for value in self._values(name)[:MAX_IGNORED_SHOWN]) or "none"
        self.errors[name] = [f"{name} must be {expected}; received {received}."]


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
