"""The responses to errors: those of the service by `TABLE`, Litestar's own in the same shape, all others as 500."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from litestar import Litestar, Request, Response
from litestar.exceptions import HTTPException
from litestar.routes import HTTPRoute
from litestar.types import Message, Scope

from imgproc_local.api.bodies import (
    ErrorBody,
    ExportIncompleteBody,
    InsufficientCreditsBody,
    NotReadyBody,
    RateLimitBody,
    ValidationErrorBody,
)
from imgproc_local.api.wire import ERROR_CODE_HEADER, export_incomplete_body
from imgproc_local.domain.errors import (
    ExportIncomplete,
    FileNotReady,
    IdempotencyConflict,
    InsufficientCredits,
    InvalidRequest,
    NoSuchVersion,
    NotFound,
    OriginalRemoved,
    QueueFull,
    RateLimited,
    ServiceError,
    ServiceStopping,
    StorageFailed,
    TooManyExports,
    TooManyStreams,
    Unauthenticated,
    UploadTimedOut,
    UploadTooLarge,
)

log = logging.getLogger(__name__)

STORAGE_RETRY_AFTER_S = 30

Body = ErrorBody | ValidationErrorBody | RateLimitBody | InsufficientCreditsBody | NotReadyBody | ExportIncompleteBody


def _plain(error: Any) -> Body:
    return ErrorBody(error.message)


def _retry_after(error: Any) -> dict[str, str]:
    return {"Retry-After": str(error.retry_after_s)}


def _no_headers(_: Any) -> dict[str, str]:
    return {}


TABLE: dict[type[ServiceError], tuple[int, Callable[[Any], Body], Callable[[Any], Mapping[str, str]]]] = {
    InvalidRequest: (422, lambda error: ValidationErrorBody(error.message, error.errors), _no_headers),
    UploadTooLarge: (413, _plain, _no_headers),
    UploadTimedOut: (408, _plain, lambda _: {"Connection": "close"}),
    Unauthenticated: (401, _plain, lambda _: {"WWW-Authenticate": "Bearer"}),
    RateLimited: (429, lambda error: RateLimitBody(error.message, error.retry_after_s), _retry_after),
    InsufficientCredits: (
        402,
        lambda error: InsufficientCreditsBody(error.message, error.required, error.balance, error.shortfall),
        _no_headers,
    ),
    NotFound: (404, _plain, _no_headers),
    FileNotReady: (404, lambda error: NotReadyBody(error.message), _no_headers),
    NoSuchVersion: (409, _plain, _no_headers),
    OriginalRemoved: (409, _plain, _no_headers),
    IdempotencyConflict: (409, _plain, _no_headers),
    QueueFull: (503, _plain, _retry_after),
    TooManyStreams: (503, _plain, _retry_after),
    ExportIncomplete: (409, lambda error: export_incomplete_body(error.message, error.problems), _no_headers),
    TooManyExports: (503, _plain, _retry_after),
    ServiceStopping: (503, _plain, lambda _: {"Connection": "close"}),
    StorageFailed: (503, _plain, lambda _: {"Retry-After": str(STORAGE_RETRY_AFTER_S)}),
}


def service_error(request: Request[Any, Any, Any], error: ServiceError) -> Response[Any]:
    """The response to an error of the service: the row of `TABLE` for its class, or for the nearest base class."""
    for kind in type(error).__mro__:
        if kind in TABLE:
            status, body, headers = TABLE[kind]
            if isinstance(error, StorageFailed):
                log.error("%s", error.message)
            return Response(body(error), status_code=status, headers={ERROR_CODE_HEADER: error.code, **headers(error)})
    return unexpected(request, error)


HTTP_MESSAGES = {
    404: "There is nothing at this path; the API's paths begin with /api/v1 and are listed in /api/v1/openapi.json.",
    405: "This path does not support this method; /api/v1/openapi.json lists those that it supports.",
}


def _allow(app: Litestar, path: str) -> str:
    """The value of `Allow` for `path`: its methods. Source: RFC 9110, section 10.2.1."""
    methods: set[str] = set()
    for route in app.routes:
        if isinstance(route, HTTPRoute) and _matches(route.path, path):
            methods |= set(route.methods)
    return ", ".join(sorted(methods))


async def complete_allow(message: Message, scope: Scope) -> None:
    """A `before_send` hook that lists every method in the `Allow` header of an answer to OPTIONS.

    Litestar itself lists only the methods of the handler that was registered first for the path.
    """
    if message["type"] == "http.response.start" and scope.get("method") == "OPTIONS" and message["status"] == 204:
        headers = [(name, value) for name, value in message["headers"] if name.lower() != b"allow"]
        message["headers"] = [*headers, (b"allow", _allow(scope["litestar_app"], scope["path"]).encode())]


def _matches(pattern: str, path: str) -> bool:
    """Whether `path` is one of the route `pattern`, whose parameters are in braces."""
    expected, received = pattern.strip("/").split("/"), path.strip("/").split("/")
    return len(expected) == len(received) and all(
        part == sent or part.startswith("{") for part, sent in zip(expected, received, strict=True)
    )


def http_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    """The response to one of Litestar's own errors, in the same shape as all others."""
    if error.status_code >= 500:
        return unexpected(request, error)
    message = HTTP_MESSAGES.get(error.status_code, error.detail)
    headers = {"Allow": _allow(request.app, request.url.path)} if error.status_code == 405 else {}
    return Response(ErrorBody(message), status_code=error.status_code, headers=headers)


def not_unicode(request: Request[Any, Any, Any], error: UnicodeDecodeError) -> Response[Any]:
    """The response to text that is not UTF-8, in any part of the request."""
    message = f"Text must be UTF-8; received the byte 0x{error.object[error.start]:02x}."
    return service_error(request, InvalidRequest({"request": [message]}))


def unexpected(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """The response to an error that nothing else handles. Only the log says what it was."""
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return Response(ErrorBody("Server Error"), status_code=500)


HANDLERS: dict[int | type[Exception], Callable[..., Response[Any]]] = {
    ServiceError: service_error,
    HTTPException: http_error,
    UnicodeDecodeError: not_unicode,
    Exception: unexpected,
}
