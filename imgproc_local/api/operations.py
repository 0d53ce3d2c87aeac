"""How handlers describe themselves for the OpenAPI document: the `opt` of each holds its Operation Object.

The identifier of an operation, its method and path are those of its handler. “Local addition” marks operations that the
published interface does not have (README.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

from litestar import route
from litestar.enums import HttpMethod
from litestar.handlers import HTTPRouteHandler
from litestar.types import AnyCallable, Guard
from msgspec import Struct

from imgproc_local.api.auth import require_key
from imgproc_local.api.bodies import ErrorBody
from imgproc_local.api.errors import TABLE
from imgproc_local.api.requests import MAX_IDEMPOTENCY_KEY, Field
from imgproc_local.api.wire import ERROR_CODE_HEADER
from imgproc_local.domain import errors
from imgproc_local.domain.plan import Operation

Content = dict[str, Any]
"""Media types and their Media Type Objects. In it and everywhere else, a Struct stands for its own schema."""

ERRORS = {
    401: "missing or wrong key",
    402: "the balance does not cover it",
    404: "the account has nothing with this identifier, or the file is not there (yet)",
    408: "the body was not received in time",
    409: "the state of the job or text, or an earlier request with this Idempotency-Key, does not allow it",
    413: "the body has more bytes than allowed",
    422: "a field or parameter is invalid, or the image can't be used",
    429: "more requests than the key may make in a minute",
    500: "an error in the service; its log has the details",
    503: "the service is too busy or stopping, or the data folder can't be written; nothing was stored",
}
RATE_HEADERS = ("X-RateLimit-Limit", "X-RateLimit-Remaining")
RESPONSE_HEADERS = {
    "Content-Disposition": "attachment with a file name (RFC 6266)",
    "ETag": "SHA-256 of the file, in quotation marks, or another mark that changes with the content",
    "Location": "path of the job",
    "Preference-Applied": "the wait that was applied",
    "Retry-After": "seconds to wait before the next try",
    "WWW-Authenticate": "how to authenticate",
    ERROR_CODE_HEADER: "code of the error, such as not_found",
    "X-Project-Id": "ULID of the project of the job",
    "X-RateLimit-Limit": "requests per rolling minute; 0 is no limit",
    "X-RateLimit-Remaining": "requests left in this rolling minute",
    "X-Total-Count": "number of all jobs of the account",
}
PREFER = Field(
    "Prefer",
    "wait=N holds the answer until the work is done or has failed, or N seconds (at most 60) have passed",
    {"type": "string"},
)
IDEMPOTENCY_KEY = Field(
    "Idempotency-Key",
    "the same key and body within 24 hours answer with the same job",
    {"type": "string", "minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY, "pattern": "^[ -~]+$"},
)
IF_NONE_MATCH = Field(
    "If-None-Match", "the ETag of a file that the client has", {"type": "string", "pattern": '^"[!#-~]*"$'}
)
PATH_PARAMETERS = {
    "job_id": Field("id", "the job_id of a dispatch, in upper or lower case", {"type": "string"}, required=True),
    "image_id": Field("id", "the id of a job's image, in upper or lower case", {"type": "string"}, required=True),
    "language_code": Field(
        "lang", "the language of one of the image's texts, ISO 639-1", {"type": "string"}, required=True
    ),
}
"""The parameter that stands for each one of a handler's path."""
FILE = {"type": "string", "format": "binary"}
"""A file. OpenAPI 3.1 describes it by its media type alone; generators still need the format of OpenAPI 3.0."""


def endpoint(
    method: HttpMethod,
    path: str,
    tag: str,
    summary: str,
    answer: type[Struct] | Content | None,
    *,
    status: int = 200,
    query: Sequence[Field] = (),
    headers: Sequence[Field] = (),
    body: type[Struct] | Operation | None = None,
    is_body_required: bool = True,
    sends: Sequence[str] = (),
    raises: Sequence[type[errors.ServiceError]] = (),
    guard: Guard | None = require_key,
    **more: Any,
) -> Callable[[AnyCallable], HTTPRouteHandler]:
    """Registers a handler with its Operation Object, to which `more` are added.

    `answer` is the body of its response as JSON, or its content; `sends` are the headers of the response. `body` is
    that of a request as JSON, or the operation whose form is sent. `raises` are the errors of the handler beside those
    that follow from the guard, the path, the parameters and the body.

    A handler of GET answers HEAD too, without a body. Source: RFC 9110, section 9.3.2.
    """
    in_path = [PATH_PARAMETERS[name] for name in re.findall(r"{(\w+):str}", path)]
    described: dict[str, Any] = {
        "tags": [tag],
        "summary": summary,
        "parameters": [
            {"name": field.name, "in": place, "required": field.required, "description": field.description,
             "schema": field.schema}
            for place, fields in (("path", in_path), ("query", query), ("header", headers))
            for field in fields
        ],
    }  # fmt: skip
    raised = [*raises, *([errors.NotFound] if in_path else []), *([errors.InvalidRequest] if query else [])]
    if isinstance(body, Operation):
        form = {"schema": {"$ref": f"#/components/schemas/{body.capitalize()}Fields"}}
        described["requestBody"] = {"required": True, "content": {"multipart/form-data": form}}
        raised += [errors.InsufficientCredits, errors.IdempotencyConflict]
    elif body is not None:
        content = {"application/json": {"schema": body}}
        described["requestBody"] = {"required": is_body_required, "content": content}
    if body is not None:
        raised += [errors.UploadTimedOut, errors.UploadTooLarge, errors.InvalidRequest]
    if guard:
        raised += [errors.Unauthenticated, errors.RateLimited, errors.StorageFailed]
    else:
        described["security"] = []
    rate_headers = RATE_HEADERS if guard else ()
    described["responses"] = {str(status): _response(status, [*sends, *rate_headers], answer)}
    if IF_NONE_MATCH in headers:
        described["responses"]["304"] = _response(304, rate_headers, None)
    described["responses"] |= _error_responses(raised, rate_headers)
    return route(
        path,
        http_method=[HttpMethod.GET, HttpMethod.HEAD] if method is HttpMethod.GET else method,
        status_code=status,
        guards=[guard] if guard else None,
        opt={"operation": described | more},
    )


get = partial(endpoint, HttpMethod.GET)
post = partial(endpoint, HttpMethod.POST)
patch = partial(endpoint, HttpMethod.PATCH)
delete = partial(endpoint, HttpMethod.DELETE)


def _error_responses(raised: Sequence[type[errors.ServiceError]], rate_headers: Sequence[str]) -> dict[str, Any]:
    """The responses to the errors that a handler may raise, by status."""
    bodies: dict[int, list[Any]] = {500: [ErrorBody]} if rate_headers else {}
    for kind in raised:
        status, body, _ = TABLE[kind]
        if body not in bodies.setdefault(status, []):
            bodies[status].append(body)
    responses = {}
    for status, listed in sorted(bodies.items()):
        one_of = {"application/json": {"schema": {"title": "NoFileBody", "oneOf": listed}}}
        names = {401: ["WWW-Authenticate"], 429: ["Retry-After"], 503: ["Retry-After"]}.get(status, [])
        names += [] if status == 500 else [ERROR_CODE_HEADER]
        names += rate_headers if status not in (401, 500, 503) else []
        responses[str(status)] = _response(status, names, listed[0] if len(listed) == 1 else one_of)
    return responses


def _response(status: int, headers: Sequence[str], answer: type[Struct] | Content | None) -> dict[str, Any]:
    """The Response Object."""
    described: dict[str, Any] = {"description": ERRORS.get(status) or HTTPStatus(status).phrase}
    if headers:
        text = {"type": "string"}
        described["headers"] = {name: {"description": RESPONSE_HEADERS[name], "schema": text} for name in headers}
    if answer is not None:
        described["content"] = answer if isinstance(answer, dict) else {"application/json": {"schema": answer}}
    return described


def file_content(media_type: str) -> Content:
    """The content of a response that is a file.

    The general type is listed beside the true one because openapi-python-client knows no other type of binary content.
    """
    return {"application/octet-stream": {"schema": FILE}, media_type: {"schema": FILE}}
