"""How handlers describe themselves for the OpenAPI document: the `opt` of each holds its Operation Object.

The identifier of an operation, its method, path and summary are those of its handler: the docstring of a handler is
published. “Local addition” marks operations that the published interface does not have (README.md).
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
from msgspec.structs import asdict

from imgproc_local.api.auth import require_key
from imgproc_local.api.errors import TABLE
from imgproc_local.api.requests import MAX_IDEMPOTENCY_KEY, Field
from imgproc_local.api.wire import ErrorBody
from imgproc_local.domain import errors
from imgproc_local.domain.plan import Operation

Content = dict[str, Any]
"""Media types and their Media Type Objects. In it and everywhere else, a Struct stands for its own schema."""

TEXT = {"type": "string"}
PREFER = Field(
    "Prefer",
    "wait=N holds the answer until the work is done or has failed, or N seconds (at most 60) have passed",
    TEXT,
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
    "job_id": Field("id", "the job_id of a dispatch, in upper or lower case", TEXT, required=True),
    "image_id": Field("id", "the id of a job's image, in upper or lower case", TEXT, required=True),
    "language_code": Field("lang", "the language of one of the image's texts, ISO 639-1", TEXT, required=True),
}
"""The parameter that stands for each one of a handler's path."""
FILE = {"type": "string", "format": "binary"}
"""A file. OpenAPI 3.1 describes it by its media type alone; generators still need the format of OpenAPI 3.0."""


def endpoint(
    method: HttpMethod,
    path: str,
    tag: str,
    answer: type[Struct] | Content | None,
    *,
    status: int = 200,
    query: Sequence[Field] = (),
    headers: Sequence[Field] = (),
    body: type[Struct] | Operation | None = None,
    is_body_required: bool = True,
    raises: Sequence[type[errors.ServiceError]] = (),
    guard: Guard | None = require_key,
    **more: Any,
) -> Callable[[AnyCallable], HTTPRouteHandler]:
    """Registers a handler with its Operation Object, to which `more` are added.

    `answer` is the body of its response as JSON, or its content. `body` is that of a request as JSON, or the operation
    whose form is sent. `raises` are the errors of the handler beside those that follow from the guard, the path, the
    parameters and the body.

    A handler of GET answers HEAD too, without a body. Source: RFC 9110, section 9.3.2.
    """
    in_path = [PATH_PARAMETERS[name] for name in re.findall(r"{(\w+):str}", path)]
    raised = [*raises, *([errors.NotFound] if in_path else []), *([errors.InvalidRequest] if query else [])]
    described: dict[str, Any] = {
        "tags": [tag],
        "parameters": [
            asdict(field) | {"in": place}
            for place, fields in (("path", in_path), ("query", query), ("header", headers))
            for field in fields
        ],
    }
    if body is not None:
        form = {"$ref": f"#/components/schemas/{body.capitalize()}Fields"} if isinstance(body, Operation) else None
        content = {"multipart/form-data": {"schema": form}} if form else {"application/json": {"schema": body}}
        described["requestBody"] = {"required": is_body_required, "content": content}
        raised += [errors.UploadTimedOut, errors.UploadTooLarge, errors.InvalidRequest]
    if isinstance(body, Operation):
        raised += [errors.InsufficientCredits, errors.IdempotencyConflict]
    if guard:
        raised += [errors.Unauthenticated, errors.RateLimited, errors.StorageFailed]
    else:
        described["security"] = []
    responses = {status: answer} | ({304: None} if IF_NONE_MATCH in headers else {}) | _error_bodies(raised)
    responses |= {500: ErrorBody} if guard else {}
    described["responses"] = {str(status): _response(status, body) for status, body in responses.items()}
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


def _error_bodies(raised: Sequence[type[errors.ServiceError]]) -> dict[int, type[Struct] | Content]:
    """The bodies of the errors that a handler may raise, by status."""
    bodies: dict[int, list[type[Struct]]] = {}
    for kind in raised:
        status, body, _ = TABLE[kind]
        if body not in bodies.setdefault(status, []):
            bodies[status].append(body)
    return {
        status: listed[0] if len(listed) == 1 else json_content({"title": "NoFileBody", "oneOf": listed})
        for status, listed in sorted(bodies.items())
    }


def _response(status: int, answer: type[Struct] | Content | None) -> dict[str, Any]:
    """The Response Object."""
    content = answer if isinstance(answer, dict) else json_content(answer) if answer else None
    return {"description": HTTPStatus(status).phrase} | ({"content": content} if content else {})


def json_content(schema: type[Struct] | dict[str, Any]) -> Content:
    return {"application/json": {"schema": schema}}


def file_content(media_type: str) -> Content:
    """The content of a response that is a file.

    The general type is listed beside the true one because openapi-python-client knows no other type of binary content.
    """
    return {"application/octet-stream": {"schema": FILE}, media_type: {"schema": FILE}}
