"""The responses to errors: those of the service by `TABLE`, Litestar's own in the same shape, all others as 500."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException
from msgspec import UNSET, Struct

from imgproc_local.api import wire
from imgproc_local.domain import errors

log = logging.getLogger(__name__)

TABLE: dict[type[errors.ServiceError], tuple[int, type[Struct], dict[str, str]]] = {
    errors.InvalidRequest: (422, wire.ValidationErrorBody, {}),
    errors.UploadTooLarge: (413, wire.ErrorBody, {}),
    errors.UploadTimedOut: (408, wire.ErrorBody, {"Connection": "close"}),
    errors.Unauthenticated: (401, wire.ErrorBody, {"WWW-Authenticate": "Bearer"}),
    errors.RateLimited: (429, wire.RateLimitBody, {}),
    errors.InsufficientCredits: (402, wire.InsufficientCreditsBody, {}),
    errors.NotFound: (404, wire.ErrorBody, {}),
    errors.FileNotReady: (404, wire.NotReadyBody, {}),
    errors.NoSuchVersion: (409, wire.ErrorBody, {}),
    errors.OriginalRemoved: (409, wire.ErrorBody, {}),
    errors.NothingToRemake: (409, wire.ErrorBody, {}),
    errors.TextOfPerson: (409, wire.ErrorBody, {}),
    errors.TextsUnfinished: (409, wire.ErrorBody, {}),
    errors.IdempotencyConflict: (409, wire.ErrorBody, {}),
    errors.ExportIncomplete: (409, wire.ExportIncompleteBody, {}),
    errors.QueueFull: (503, wire.ErrorBody, {}),
    errors.TooManyStreams: (503, wire.ErrorBody, {}),
    errors.TooManyExports: (503, wire.ErrorBody, {}),
    errors.TextChanged: (412, wire.TextChangedBody, {}),
    errors.ServiceStopping: (503, wire.ErrorBody, {"Connection": "close"}),
    errors.StorageFailed: (503, wire.ErrorBody, {"Retry-After": "30"}),
}
"""The status, body and headers of each error. One that has `retry_after_s` is sent with `Retry-After` too."""


def _row(error: errors.ServiceError) -> tuple[int, type[Struct], dict[str, str]] | None:
    """The row of `TABLE` for the class of an error, or for the nearest base class."""
    return next((TABLE[kind] for kind in type(error).__mro__ if kind in TABLE), None)


def results(items: Sequence[Any], outcomes: Sequence[Any], body: type[Struct]) -> wire.ResultsBody:
    """The answer for many items, which have an `image_id` and may have a `language_code`.

    The outcome of an item is an error, or has the fields of `body`.
    """
    return wire.ResultsBody(
        [
            _problem_of(outcome, item) if isinstance(outcome, errors.ServiceError) else wire.as_body(outcome, body)
            for item, outcome in zip(items, outcomes, strict=True)
        ]
    )


def _problem_of(error: errors.ServiceError, item: Any) -> wire.ItemProblem:
    """The result of an item that has this error, with the status that a request for it alone would have."""
    row = _row(error)
    assert row is not None, f"{error!r} is no answer"
    data = wire.as_body(error.data, wire.EditedTranslation) if isinstance(error, errors.TextChanged) else UNSET
    return wire.ItemProblem(item.image_id, error.message, row[0], getattr(item, "language_code", UNSET), data)


def _service_error(request: Request[Any, Any, Any], error: errors.ServiceError) -> Response[Any]:
    """The response to an error of the service."""
    row = _row(error)
    if row is None:
        return unexpected(request, error)
    if isinstance(error, errors.StorageFailed):
        log.error("%s", error.message)
    status, body, headers = row
    headers = {wire.ERROR_CODE_HEADER: error.code, **headers}
    if (retry_after_s := getattr(error, "retry_after_s", None)) is not None:
        headers["Retry-After"] = str(retry_after_s)
    return Response(wire.as_body(error, body), status_code=status, headers=headers)


_HTTP_MESSAGES = {
    404: "There is nothing at this path; the API's paths begin with /api/v1 and are listed in /api/v1/openapi.json.",
    405: "This path does not support this method; /api/v1/openapi.json lists those that it supports.",
}


def _http_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    """The response to one of Litestar's own errors, in the same shape as all others."""
    if error.status_code >= 500:
        return unexpected(request, error)
    message = _HTTP_MESSAGES.get(error.status_code, error.detail)
    return Response(wire.ErrorBody(message), status_code=error.status_code, headers=error.headers)


def _not_unicode(request: Request[Any, Any, Any], error: UnicodeDecodeError) -> Response[Any]:
    """The response to text that is not UTF-8, in any part of the request."""
    message = f"Text must be UTF-8; received the byte 0x{error.object[error.start]:02x}."
    return _service_error(request, errors.InvalidRequest({"request": [message]}))


def unexpected(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """The response to an error that nothing else handles. Only the log says what it was."""
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return Response(wire.ErrorBody("Server Error"), status_code=500)


HANDLERS: dict[int | type[Exception], Callable[..., Response[Any]]] = {
    errors.ServiceError: _service_error,
    HTTPException: _http_error,
    UnicodeDecodeError: _not_unicode,
    Exception: unexpected,
}
