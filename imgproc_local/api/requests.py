"""Reads form fields, request headers, query parameters and JSON bodies.

A `Field` describes a form field or query parameter for the OpenAPI document and for the reader at once.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from litestar import Request
from litestar.datastructures import Headers
from msgspec import Struct

from imgproc_local.api.uploads import Fields, MultipartForm
from imgproc_local.domain.errors import InvalidRequest
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
_Word = TypeVar("_Word", bound=str)

ULID = "[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}"
_MAX_IGNORED_SHOWN = 5
_LANGUAGES_ITEM = re.compile(r"languages\[(\d{0,4})\]")
"""A list item's field name: `languages[]`, `languages[0]`, `languages[1]` …"""

MAX_IDEMPOTENCY_KEY = 255
_MAX_WAIT_S = 60
MAX_JSON_BYTES = 16 * 1024
_WAIT = re.compile(r"\s*wait\s*=\s*\"?(\d{1,100})\"?\s*(?:;.*)?", re.IGNORECASE)


class Field(Struct, frozen=True):
    """A form field or query parameter. `schema` is its JSON Schema, by which a value is also read."""

    name: str
    description: str
    schema: dict[str, Any]
    required: bool = False

    def parsed(self, text: str) -> tuple[str | int | None, str]:
        """The value that `text` stands for, None if it is invalid, and what is expected.

        Words and identifiers are in lower case.
        """
        match self.schema:
            case {"enum": words}:
                expected = " or ".join(words) if len(words) < 3 else f"one of {', '.join(words)}"
                return text.lower() if text.lower() in words else None, expected
            case {"minimum": minimum, "maximum": maximum}:
                is_valid = re.fullmatch(r"[+-]?[0-9]{1,12}", text) and minimum <= int(text) <= maximum
                return int(text) if is_valid else None, f"an integer from {minimum} to {maximum}"
            case {"maxLength": most}:
                text, pattern = unicodedata.normalize("NFC", text), self.schema.get("pattern")
                is_valid = len(text) <= most and re.fullmatch(pattern or "(?s).*", text)
                without = " without control characters" if pattern else ""
                return text if is_valid else None, f"at most {most} characters{without}"
        return text.lower() if re.fullmatch(ULID, text) else None, "a ULID of 26 characters"


def words(name: str, description: str, known: Iterable[str]) -> Field:
    return Field(name, description, {"type": "string", "enum": list(known)})


def integer(name: str, description: str, minimum: int, maximum: int, *, required: bool = False, **more: Any) -> Field:
    return Field(name, description, {"type": "integer", "minimum": minimum, "maximum": maximum, **more}, required)


def ulid(name: str, description: str) -> Field:
    return Field(name, description, {"type": "string", "pattern": f"^{ULID}$"})


FORMAT = words("format", "format to convert to. Default: webp", CONVERT_TARGETS)
TEXT_FIELDS = {
    field.name: field
    for field in (
        FORMAT,
        ulid("project_id", "an existing project; wins over project_name"),
        Field(
            "project_name",
            "name of the project, which is created if it is new. Default: API Uploads",
            {"type": "string", "maxLength": 255, "pattern": r"^[^\u0000-\u001f\u007f-\u009f]*$"},
        ),
        Field(
            "context",
            "words of the page or article that the picture is for. The vision model reads them as data; they are"
            " deleted when the texts have been written or have failed (local addition)",
            {"type": "string", "maxLength": MAX_CONTEXT_CHARS},
        ),
        integer("max_width_px", "results are scaled down to fit, never up (local addition)", 1, MAX_SIDE_PX),
        integer("max_height_px", "results are scaled down to fit, never up (local addition)", 1, MAX_SIDE_PX),
    )
}
"""The fields of uploads besides the image and `languages`."""
FIELDS_OF = {
    Operation.ANALYZE: ("languages", "project_id", "project_name", "context"),
    Operation.OPTIMIZE: ("project_id", "project_name", "max_width_px", "max_height_px"),
    Operation.CONVERT: ("format", "project_id", "project_name", "max_width_px", "max_height_px"),
    Operation.PROCESS: ("languages", *TEXT_FIELDS),
}
"""The fields of each operation besides the image."""


class Parameters:
    """Query parameters or form fields: `values` returns those of a name. What is wrong is collected in `errors`."""

    def __init__(self, values: Callable[[str], list[str]]) -> None:
        self.errors: dict[str, list[str]] = {}
        self._values = values

    def require_valid(self) -> None:
        """Raises: InvalidRequest, if one of the parameters that were read is invalid."""
        if self.errors:
            raise InvalidRequest(self.errors)

    def read(self, field: Field) -> Any:
        """The value of a parameter, which may be sent once; None if it was not sent or is invalid."""
        values = self._values(field.name)
        value, expected = field.parsed("".join(values[:1]))
        if len(values) > 1:
            self._refuse(field.name, "sent once")
        elif value is None and (values or field.required):
            self._refuse(field.name, expected)
        return value if len(values) == 1 else None

    def words(self, name: str, known: Sequence[_Word]) -> list[_Word]:
        """The words of `known` that a list has. The parameter may be repeated, or its words separated by commas."""
        words = [word.strip() for value in self._values(name) for word in value.split(",")]
        if not set(words) <= set(known):
            self._refuse(name, f"a list of {', '.join(known)}, separated by commas")
        return [word for word in known if word in words]

    def _refuse(self, name: str, expected: str) -> None:
        received = " and ".join(_shown(value) for value in self._values(name)[:_MAX_IGNORED_SHOWN]) or "none"
        self.errors[name] = [f"{name} must be {expected}; received {received}."]


def read_query(request: Request[Any, Any, Any]) -> Parameters:
    return Parameters(lambda name: request.query_params.getall(name, []))


def _shown(text: str) -> str:
    """The text received, shortened for a message."""
    return repr(text) if len(text) <= 40 else f"{text[:39] + '…'!r} ({len(text)} characters)"


# ---- form fields ----


def read_plan(operation: Operation, form: MultipartForm) -> tuple[Plan, dict[str, list[str]]]:
    """What the form asks for, and the problems found in it, by field. The plan is valid only if there are none."""
    own = FIELDS_OF[operation]
    parameters = Parameters(lambda name: _last(form.fields, name))
    read = {name: parameters.read(field) for name, field in TEXT_FIELDS.items() if name in own}
    read["languages"] = _languages(form.fields if "languages" in own else [], parameters.errors)
    read["format"] = Format(read.get("format") or Format.WEBP)
    read["project_name"] = read["project_name"] or DEFAULT_PROJECT_NAME
    read["context"] = read.get("context") or ""
    if form.filename is None:
        received = f"one with the name {_shown(form.other_files[0])}" if form.other_files else "none"
        parameters.errors["image"] = [f"image is required: a file part of the form; received {received}."]
    return Plan(operation, **read), parameters.errors


def ignored_fields(form: MultipartForm) -> str:
    """What the answer to an upload says about parts that it ignores, naming the first of them; "" if there are none."""
    unknown = [name for name, _ in form.fields if name not in TEXT_FIELDS and not _is_language(name)]
    shown = [_shown(name) for name in dict.fromkeys(unknown + form.other_files)][:_MAX_IGNORED_SHOWN]
    return f"Ignored, because uploads have no such field: {', '.join(shown)}." if shown else ""


def _is_language(name: str) -> bool:
    return name == "languages" or _LANGUAGES_ITEM.fullmatch(name) is not None


def _last(fields: Fields, name: str) -> list[str]:
    """The last value of a field, without white space around it; none if there is no such field or it is empty."""
    value = next((value.strip() for field, value in reversed(fields) if field == name), "")
    return [value] if value else []


def _languages(fields: Fields, errors: dict[str, list[str]]) -> tuple[str, ...]:
    """The codes, in every notation that clients use for a list: see api/README.md, "Uploads"."""
    items = [(name, value.strip()) for name, value in fields if _is_language(name)]
    items.sort(key=lambda item: int(re.sub(r"\D", "", item[0]) or -1))  # those without a number first
    problems: list[str] = []
    codes: dict[str, None] = {}
    for _, value in items:
        try:
            listed = msgspec.json.decode(value, type=list[str]) if value.startswith("[") else value.split(",")
        except msgspec.MsgspecError:
            problems.append(f"languages must be codes separated by commas, or a JSON array; received {_shown(value)}.")
            continue
        codes |= dict.fromkeys(code.strip().lower() for code in listed if code.strip())
    problems += [
        f"languages must be ISO 639-1 codes that GET /languages lists; received {_shown(code)}."
        for code in codes
        if code not in LANGUAGES
    ]
    if len(codes) > MAX_LANGUAGES:
        problems.append(f"languages may have at most {MAX_LANGUAGES} codes; received {len(codes)}.")
    if problems:
        errors["languages"] = problems
    return tuple(codes) or DEFAULT_LANGUAGES


# ---- headers ----


def read_idempotency_key(headers: Headers) -> str | None:
    """The `Idempotency-Key` header. Raises: InvalidRequest."""
    key = headers.get("idempotency-key")
    if key is not None and not (1 <= len(key) <= MAX_IDEMPOTENCY_KEY and key.isprintable()):
        problem = f"Idempotency-Key must have 1 to {MAX_IDEMPOTENCY_KEY} printable characters; received {len(key)}."
        raise InvalidRequest({"Idempotency-Key": [problem]})
    return key


def read_wait_s(headers: Headers) -> int | None:
    """Seconds of `Prefer: wait=N`, at most `_MAX_WAIT_S`; None without one. Other preferences are ignored.

    Source: RFC 7240, section 4.3.
    """
    for preference in ",".join(headers.getall("prefer", [])).split(","):
        match = _WAIT.fullmatch(preference)
        if match:
            return min(int(match[1]), _MAX_WAIT_S)
    return None


def preference_applied(wait_s: int | None) -> dict[str, str]:
    """The response header that says which wait was applied."""
    return {} if wait_s is None else {"Preference-Applied": f"wait={wait_s}"}


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
    Raises: InvalidRequest, UploadTooLarge, UploadTimedOut, ServiceStopping.
    """
    body = b"".join([chunk async for chunk in request.app.state.uploads.chunks(request, max_bytes)])
    if not body:
        if without_body is not None:
            return without_body
        raise InvalidRequest({"body": [f"Expected {expected}, received no body."]})
    try:
        return msgspec.json.decode(body, type=body_type)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidRequest({"body": [f"Expected {expected}: {error}."]}) from error
