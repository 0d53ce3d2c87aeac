"""How handlers describe themselves for the OpenAPI document: the `opt` of each holds what `operation` returns.

The identifier of an operation, its method, path and path parameters are those of its handler, and it may send the
errors of the guard if it has one. “Local addition” marks operations that the published interface does not have
(README.md).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from litestar import route
from litestar.enums import HttpMethod
from litestar.handlers import HTTPRouteHandler
from litestar.types import AnyCallable, Guard
from msgspec import Struct

from imgproc_local.api import bodies
from imgproc_local.api.auth import require_key
from imgproc_local.api.requests import MAX_IDEMPOTENCY_KEY
from imgproc_local.api.wire import ERROR_CODE_HEADER, status_words
from imgproc_local.domain.languages import LANGUAGES

Headers = dict[str, Any]
Schema = type[Struct] | dict[str, Any]
"""A schema of OpenAPI. In it and everywhere else, a Struct stands for its own schema."""
Described = str | tuple[Schema, str] | tuple[Schema, str, Headers] | dict[str, Any]
"""A response: its description, where the status tells the body; or its body, description and headers; or a Response
Object.
"""

ERROR_BODIES: dict[int, type[Struct]] = {
    402: bodies.InsufficientCreditsBody,
    422: bodies.ValidationErrorBody,
    429: bodies.RateLimitBody,
}
"""The body of errors of a status, if it is not `ErrorBody`."""
FILE = {"type": "string", "format": "binary"}
"""A file. OpenAPI 3.1 describes it by its media type alone; generators still need the format of OpenAPI 3.0."""


def header(description: str, **schema: Any) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string", **schema}}


RATE_HEADERS = {
    "X-RateLimit-Limit": header("requests per rolling minute; 0 is no limit", type="integer"),
    "X-RateLimit-Remaining": header("requests left in this rolling minute", type="integer"),
}
RETRY_AFTER = {"Retry-After": header("seconds to wait before the next try", type="integer")}
ERROR_CODE = {ERROR_CODE_HEADER: header("code of the error, such as not_found")}
PREFERENCE_APPLIED = {"Preference-Applied": header("the wait that was applied")}
DISPOSITION = {"Content-Disposition": header("attachment with a file name (RFC 6266)")}


def operation(
    tag: str,
    summary: str,
    responses: dict[int, Described],
    *parameters: dict[str, Any],
    body: type[Struct] | None = None,
    is_body_required: bool = True,
    **more: Any,
) -> dict[str, Any]:
    """The `opt` of a handler. `body` is that of a request as JSON; `more` are other fields of the Operation Object."""
    described = {"tags": [tag], "summary": summary, "parameters": parameters, "responses": responses, **more}
    if body is not None:
        content = {"application/json": {"schema": body}}
        described["requestBody"] = {"required": is_body_required, "content": content}
    return {"operation": described}


def endpoint(
    method: HttpMethod,
    path: str,
    tag: str,
    summary: str,
    responses: dict[int, Described],
    *parameters: dict[str, Any],
    guard: Guard | None = require_key,
    **more: Any,
) -> Callable[[AnyCallable], HTTPRouteHandler]:
    """Registers a handler with its `operation`. The first of `responses` has the status that it answers with.

    A handler of GET answers HEAD too, without a body. Source: RFC 9110, section 9.3.2.
    """
    return route(
        path,
        http_method=[HttpMethod.GET, HttpMethod.HEAD] if method is HttpMethod.GET else method,
        status_code=next(iter(responses)),
        guards=[guard] if guard else None,
        opt=operation(tag, summary, responses, *parameters, **more),
    )


get = partial(endpoint, HttpMethod.GET)
post = partial(endpoint, HttpMethod.POST)
patch = partial(endpoint, HttpMethod.PATCH)
delete = partial(endpoint, HttpMethod.DELETE)


def response(status: int, described: Described, shared: Headers) -> dict[str, Any]:
    """The Response Object. `shared` are headers that it has besides its own."""
    if isinstance(described, str):
        body = None if status < 400 else ERROR_BODIES.get(status, bodies.ErrorBody)
        described = (body, described) if body else {"description": described}
    if isinstance(described, tuple):
        content = {"application/json": {"schema": described[0]}}
        shared = {**shared, **dict(*described[2:])}
        described = {"description": described[1], "content": content}
    headers = {**shared, **described.get("headers", {})}
    return {**described, "headers": headers} if headers else described


def responses_with_key(responses: dict[int, Described]) -> dict[str, Any]:
    """The responses of a handler that needs a key: its own, and those that every such handler may send."""
    return {
        **{
            str(status): response(status, described, {**RATE_HEADERS, **(ERROR_CODE if status >= 400 else {})})
            for status, described in responses.items()
        },
        "401": response(
            401,
            "missing or wrong key",
            ERROR_CODE | {"WWW-Authenticate": header("how to authenticate", const="Bearer")},
        ),
        "429": response(
            429, "more requests than the key may make in a minute", ERROR_CODE | RATE_HEADERS | RETRY_AFTER
        ),
        "500": response(500, "an error in the service; its log has the details", {}),
        "503": response(
            503,
            "the service is too busy or stopping, or the data folder can't be written; nothing was stored",
            ERROR_CODE | RETRY_AFTER,
        ),
    }


def file_content(media_type: str) -> dict[str, Any]:
    """The content of a response that is a file.

    The general type is listed beside the true one because openapi-python-client knows no other type of binary content.
    """
    return {"application/octet-stream": {"schema": FILE}, media_type: {"schema": FILE}}


def links(identifier: str, *operation_ids: str) -> dict[str, Any]:
    """How to call operations with an identifier of the response. Source: OpenAPI 3.1, "Link Object"."""
    return {
        name: {"operationId": name, "parameters": {"id": f"$response.body#/data/{identifier}"}}
        for name in operation_ids
    }


def request_header(name: str, description: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, **header(description, **schema)}


def query(name: str, description: str, schema: dict[str, Any], required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": required, "description": description, "schema": schema}


def _path(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, **header(description)}


STATUS = {"type": "string", "enum": status_words("A")}
ULID = {"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}$"}
LANGUAGE_CODE = {"type": "string", "enum": sorted(LANGUAGES)}
ONLY_TRUE = {"type": "string", "enum": ["true"]}
"""A filter that can only be switched on. It is a string, because some clients send the boolean as 1."""

PREFER = request_header(
    "Prefer", "wait=N holds the answer until the work is done or has failed, or N seconds (at most 60) have passed"
)
IDEMPOTENCY_KEY = request_header(
    "Idempotency-Key",
    "the same key and body within 24 hours answer with the same job",
    minLength=1,
    maxLength=MAX_IDEMPOTENCY_KEY,
    pattern="^[ -~]+$",
)
IF_NONE_MATCH = request_header("If-None-Match", "the ETag of a file that the client has", pattern='^"[!#-~]*"$')
INCLUDE = query(
    "include",
    "more parts of a job to send, separated by commas: removed, details",
    {"type": "string", "pattern": "^ *(removed|details) *(, *(removed|details) *)*$"},
)
PATH_PARAMETERS = {
    "job_id": _path("id", "the job_id of a dispatch, in upper or lower case"),
    "image_id": _path("id", "the id of a job's image, in upper or lower case"),
    "language_code": _path("lang", "the language of one of the image's translations, ISO 639-1"),
}
"""The parameter that stands for each one of a handler's path."""
