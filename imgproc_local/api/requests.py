"""Reads requests: whose they are and how often they may come, their headers, parameters and JSON bodies.

A key is checked from the headers alone, before the body is read. The rate limit is a sliding window log: it counts
exactly the accepted requests of the last 60 seconds. A rejected one is not counted, so a client that waits
`retry_after_s` is accepted. A `Field` describes a form field or query parameter for the OpenAPI document and for the
reader at once.
"""

from __future__ import annotations

import math
import re
import time
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from litestar import Request
from litestar.connection import ASGIConnection
from litestar.datastructures import Headers
from litestar.exceptions import NotFoundException
from litestar.handlers import BaseRouteHandler
from msgspec import UNSET, Struct, UnsetType

from imgproc_local.compose import Services
from imgproc_local.domain import plan
from imgproc_local.domain.errors import InvalidRequest, RateLimited, Unauthenticated
from imgproc_local.domain.image import CONVERT_TARGETS, Format
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.plan import HIGHEST_TARGET, LOWEST_TARGET, TARGETS, Operation, Role
from imgproc_local.storage.accounts import ApiKey

T = TypeVar("T")
_Word = TypeVar("_Word", bound=str)

ULID = "[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}"
MAX_SHOWN = 5
"""A message names at most this many things that were received."""

MAX_IDEMPOTENCY_KEY = 255
_MAX_WAIT_S = 60
MAX_JSON_BYTES = 16 * 1024
MAX_ITEMS_BYTES = 32 * 1024 * 1024
"""The body of a request with a list of `domain.plan.MAX_ITEMS` items: 3 kB of each."""
_WAIT = re.compile(r"\s*wait\s*=\s*\"?(\d{1,100})\"?\s*(?:;.*)?", re.IGNORECASE)


# ---- whose request it is ----

_WINDOW_S = 60.0
RATE_HEADERS = "imgproc_rate_headers"
"""The key in `scope["state"]` under which `require_key` stores headers of the response."""
TRUSTED_PROXY = "imgproc_trusted_proxy"
"""Set in the `scope["state"]` of a request whose connection comes from a trusted proxy."""


class RateLimiter:
    """Limits the requests of each key in the last 60 seconds. `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._accepted_s: dict[str, deque[float]] = {}
        """The times of the requests of each key that count, oldest first."""

    def acquire(self, key_id: str, limit: int) -> tuple[bool, int, int]:
        """Count one request of `key_id` if fewer than `limit` were counted in the last 60 seconds. 0 is no limit.

        Returns whether it is allowed, how many more are allowed now, and in how many seconds there will be one more.
        """
        if limit <= 0:
            return True, 1_000_000, 0  # at 0 remaining requests, clients would pause
        now_s = self._clock()
        accepted_s = self._accepted_s.setdefault(key_id, deque())
        while accepted_s and accepted_s[0] <= now_s - _WINDOW_S:
            accepted_s.popleft()
        is_allowed = len(accepted_s) < limit
        if is_allowed:
            accepted_s.append(now_s)
        excess = max(0, len(accepted_s) - limit)  # where the limit was lowered: so many must pass first
        next_s = accepted_s[excess] + _WINDOW_S - now_s
        return is_allowed, max(0, limit - len(accepted_s)), max(1, math.ceil(next_s))


async def refuse_trailing_slash(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """A Litestar guard of all handlers: Litestar would answer `/languages/`, which is another path."""
    path = connection.scope.get("raw_path", b"/")  # Litestar has removed the slash from `path`
    if path != b"/" and path.endswith(b"/"):
        raise NotFoundException


async def require_key(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """A Litestar guard. Stores the ApiKey as `scope["user"]`. Raises: Unauthenticated, RateLimited."""
    services = services_of(connection)
    key = await services.store.keys.authenticate(sent_key(connection))
    limit = services.config.rate_limit_per_minute if key.rate_limit is None else key.rate_limit
    limiter: RateLimiter = connection.app.state.rate_limiter
    is_allowed, remaining, next_s = limiter.acquire(key.id, limit)
    connection.scope["user"] = key
    connection.scope["state"][RATE_HEADERS] = [
        (b"x-ratelimit-limit", b"%d" % limit),
        (b"x-ratelimit-remaining", b"%d" % remaining),
        (b"x-ratelimit-reset", b"%d" % math.ceil(time.time() + next_s)),
    ]
    if not is_allowed:
        raise RateLimited(next_s)


def sent_key(connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """The key in the headers. `Authorization` takes precedence over `X-API-Key`, even if its key is not valid.

    Raises: Unauthenticated, where there is none.
    """
    authorization = connection.headers.get("authorization")
    secret = connection.headers.get("x-api-key", "")
    if authorization is not None:
        scheme, _, secret = authorization.strip().partition(" ")
        secret = secret if scheme.lower() == "bearer" else ""
    if not secret.strip():
        raise Unauthenticated
    return secret.strip()


def services_of(connection: ASGIConnection[Any, Any, Any, Any]) -> Services:
    services: Services = connection.app.state.services
    return services


def authenticated_key(connection: ASGIConnection[Any, Any, Any, Any]) -> ApiKey:
    """The API key that `require_key` stored."""
    key: ApiKey = connection.scope["user"]
    return key


def caller(connection: ASGIConnection[Any, Any, Any, Any]) -> tuple[Services, str]:
    """The services, and the identifier of the account whose key the request has."""
    return services_of(connection), authenticated_key(connection).account_id


# ---- form fields and query parameters ----


class Field(Struct, frozen=True):
    """A form field or query parameter. `schema` is its JSON Schema, by which a value is also read."""

    name: str
    description: str
    schema: dict[str, Any]
    required: bool = False

    def parsed(self, text: str) -> tuple[str | float | None, str]:
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
            case {"type": "boolean"}:
                return {"true": True, "false": False}.get(text.lower()), "true or false"
            case {"maxLength": most}:
                text, pattern = unicodedata.normalize("NFC", text), self.schema.get("pattern")
                is_valid = len(text) <= most and re.fullmatch(pattern or "(?s).*", text)
                without = " without control characters" if pattern else ""
                return text if is_valid else None, f"at most {most} characters{without}"
        return text.lower() if re.fullmatch(ULID, text) else None, "a ULID of 26 characters"


class _QualityTarget(Field, frozen=True):
    """The quality of results: a name in `TARGETS`, or a score."""

    def parsed(self, text: str) -> tuple[str | float | None, str]:
        expected = f"one of {', '.join(TARGETS)}, or a score from {LOWEST_TARGET:g} to {HIGHEST_TARGET:g}"
        if text.lower() in TARGETS:
            return text.lower(), expected
        is_score = re.fullmatch(r"\d{2}(\.\d{1,6})?", text, re.ASCII) and LOWEST_TARGET <= float(text) <= HIGHEST_TARGET
        return float(text) if is_score else None, expected


class _Widths(Field, frozen=True):
    """Widths, separated by commas."""

    def parsed(self, text: str) -> tuple[Any, str]:
        try:
            return plan.parse_widths(text), plan.WIDTHS_EXPECTED
        except ValueError:
            return None, plan.WIDTHS_EXPECTED


def words(name: str, description: str, known: Iterable[str]) -> Field:
    return Field(name, description, {"type": "string", "enum": list(known)})


def integer(name: str, description: str, minimum: int, maximum: int, *, required: bool = False, **more: Any) -> Field:
    return Field(name, description, {"type": "integer", "minimum": minimum, "maximum": maximum, **more}, required)


def _line(name: str, description: str, max_chars: int) -> Field:
    """A text without control characters."""
    return Field(name, description, {"type": "string", "maxLength": max_chars, "pattern": _NO_CONTROLS})


def ulid(name: str, description: str) -> Field:
    return Field(name, description, {"type": "string", "pattern": f"^{ULID}$"})


_WIDTH = r"([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])"
_NO_CONTROLS = r"^[^\u0000-\u001f\u007f-\u009f]*$"
FORMAT = words("format", "format to convert to. Default: webp", CONVERT_TARGETS)
TEXT_FIELDS = {
    field.name: field
    for field in (
        FORMAT,
        ulid("project_id", "an existing project; wins over project_name"),
        _line("project_name", "name of the project, which is created if it is new. Default: API Uploads", 255),
        _line(
            "folder",
            "where the file was on the sender's disk, its parts joined by slashes (local addition)",
            plan.MAX_FOLDER_CHARS,
        ),
        Field(
            "context",
            "words of the page or article that the picture is for. The vision model reads them as data; they are"
            " deleted when the texts have been written or have failed (local addition)",
            {"type": "string", "maxLength": plan.MAX_CONTEXT_CHARS},
        ),
        words("role", "link and button need a context. Default: informative (local addition)", Role),
        integer("max_width_px", "results are scaled down to fit, never up (local addition)", 1, plan.MAX_SIDE_PX),
        integer("max_height_px", "results are scaled down to fit, never up (local addition)", 1, plan.MAX_SIDE_PX),
        # not an array: client generators send those in several notations
        _Widths(
            "widths",
            f"widths at which the picture is converted, too: {plan.WIDTHS_EXPECTED} (local addition)",
            {"type": "string", "pattern": f"^{_WIDTH}(,{_WIDTH}){{0,{plan.MAX_WIDTHS - 1}}}$"},
        ),
        Field(
            "only_smaller",
            "whether the converted file is kept only if it is smaller than the optimized one or, in convert, than the"
            " upload. Default: false (local addition)",
            {"type": "boolean"},
        ),
        # not a choice between two types: client generators make a class of that
        _QualityTarget(
            "quality_target",
            "how closely results must match the upload: visually-lossless, web, small, or a score from 50 to 95."
            " Default: as the service is set (local addition)",
            {"type": "string", "pattern": rf"^({'|'.join(TARGETS)}|([5-8]\d|9[0-4])(\.\d{{1,6}})?|95(\.0{{1,6}})?)$"},
        ),
    )
}
"""The fields of uploads besides the image and `languages`."""
_SIZE_AND_QUALITY = ("max_width_px", "max_height_px", "quality_target")
FIELDS_OF = {
    Operation.ANALYZE: ("languages", "project_id", "project_name", "folder", "context", "role"),
    Operation.OPTIMIZE: ("project_id", "project_name", "folder", *_SIZE_AND_QUALITY),
    Operation.CONVERT: ("format", "widths", "only_smaller", "project_id", "project_name", "folder", *_SIZE_AND_QUALITY),
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
        received = " and ".join(shown(value) for value in self._values(name)[:MAX_SHOWN]) or "none"
        self.errors[name] = [f"{name} must be {expected}; received {received}."]


def read_query(request: Request[Any, Any, Any]) -> Parameters:
    return Parameters(lambda name: request.query_params.getall(name, []))


def shown(text: str) -> str:
    """The text received, shortened for a message."""
    return repr(text) if len(text) <= 40 else f"{text[:39] + '…'!r} ({len(text)} characters)"


def language_problem(name: str, code: str | None) -> dict[str, list[str]]:
    """What is wrong with a field that names a language; empty if nothing is, or it was not sent."""
    if code is None or code in LANGUAGES:
        return {}
    return {name: [f"{name} must be an ISO 639-1 code that GET /languages lists; received {code[:40]!r}."]}


def format_problem(target: str | UnsetType) -> dict[str, list[str]]:
    """What is wrong with a field that names a format to convert to; empty if nothing is, or it was not sent."""
    from imgproc_local.codecs.picture.formats import install_advice

    advice = None if target is UNSET else install_advice(Format(target))
    return {"format": [advice]} if advice else {}


# ---- headers ----


def read_idempotency_key(headers: Headers) -> str | None:
    """The `Idempotency-Key` header. Raises: InvalidRequest."""
    key = headers.get("idempotency-key")
    if key is not None and not (1 <= len(key) <= MAX_IDEMPOTENCY_KEY and key.isprintable()):
        expected = f"1 to {MAX_IDEMPOTENCY_KEY} printable characters of ISO 8859-1"
        problem = f"Idempotency-Key must have {expected}; received {shown(key)}."
        raise InvalidRequest({"Idempotency-Key": [problem]})
    return key


def read_version(headers: Headers) -> int | None:
    """The version in `If-Match`; None without one, or for any. Raises: InvalidRequest. Source: RFC 9110, 13.1.1."""
    tag = headers.get("if-match", "*").strip()
    match = re.fullmatch(r'"([0-9]{1,9})"', tag)
    if match is None and tag != "*":
        problem = f'If-Match must be the version of a text in quotes, such as "3"; received {shown(tag)}.'
        raise InvalidRequest({"If-Match": [problem]})
    return int(match[1]) if match else None


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
        received = shown(body.decode(errors="replace"))
        raise InvalidRequest({"body": [f"Expected {expected}: {error}; received {received}."]}) from error
