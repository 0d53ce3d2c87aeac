"""What many operations of the OpenAPI document share: headers, parameters and responses."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from imgproc_local.api import bodies
from imgproc_local.api.openapi_schemas import schema_of
from imgproc_local.api.requests import MAX_IDEMPOTENCY_KEY
from imgproc_local.api.wire import ERROR_CODE_HEADER, status_words
from imgproc_local.domain.languages import LANGUAGES


def response_header(description: str, **schema: Any) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string", **schema}}


RATE_HEADERS = {
    "X-RateLimit-Limit": response_header("requests per rolling minute; 0 is no limit", type="integer"),
    "X-RateLimit-Remaining": response_header("requests left in this rolling minute", type="integer"),
}
RETRY_AFTER = {"Retry-After": response_header("seconds to wait before the next try", type="integer")}
ERROR_CODE = {ERROR_CODE_HEADER: response_header("code of the error, such as not_found")}
PREFERENCE_APPLIED = {"Preference-Applied": response_header("the wait that was applied")}
TOTAL_COUNT = {"X-Total-Count": response_header("number of all jobs of the account", type="integer")}
DISPATCH_HEADERS = {
    "Location": response_header("path of the job"),
    "X-Project-Id": response_header("ULID of the project of the job"),
    **PREFERENCE_APPLIED,
}
DISPOSITION = {"Content-Disposition": response_header("attachment with a file name (RFC 6266)")}


def json_response(body: type[Struct], description: str, headers: dict[str, Any] | None = None) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": description,
        "content": {"application/json": {"schema": schema_of(body)}},
    }
    if headers:
        response["headers"] = headers
    return response


def with_shared_responses(responses: dict[str, Any]) -> dict[str, Any]:
    """The responses of an endpoint that needs a key: `responses`, and those that every such endpoint may send."""
    return {
        **{
            status: {**response, "headers": {**RATE_HEADERS, **response.get("headers", {}), **_error_header(status)}}
            for status, response in responses.items()
        },
        "401": json_response(
            bodies.ErrorBody,
            "missing or wrong key",
            ERROR_CODE | {"WWW-Authenticate": response_header("how to authenticate", const="Bearer")},
        ),
        "429": json_response(
            bodies.RateLimitBody,
            "more requests than the key may make in a minute",
            ERROR_CODE | RATE_HEADERS | RETRY_AFTER,
        ),
        "500": json_response(bodies.ErrorBody, "an error in the service; its log has the details"),
        "503": json_response(
            bodies.ErrorBody,
            "the service is too busy or stopping, or the data folder can't be written; nothing was stored",
            ERROR_CODE | RETRY_AFTER,
        ),
    }


def _error_header(status: str) -> dict[str, Any]:
    return ERROR_CODE if status.startswith("4") else {}


def link(operation_id: str, identifier: str) -> dict[str, Any]:
    """How to call an operation with an identifier of the response. Source: OpenAPI 3.1, "Link Object"."""
    return {"operationId": operation_id, "parameters": {"id": identifier}}


def request_header(name: str, description: str, **schema: Any) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": {"type": "string", **schema},
    }


def query(name: str, description: str, schema: dict[str, Any], required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": required, "description": description, "schema": schema}


def _path(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "description": description, "schema": {"type": "string"}}


STATUS = {"type": "string", "enum": status_words("A")}
ULID = {"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}$"}
LANGUAGE_CODE = {"type": "string", "enum": sorted(LANGUAGES)}
ONLY_TRUE = {"type": "string", "enum": ["true"]}
"""A filter that can only be switched on. It is a string, because some clients send the boolean as 1."""
INTEGER_1_100 = {"type": "integer", "minimum": 1, "maximum": 100}

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
JOB_ID = _path("id", "the job_id of a dispatch, in upper or lower case")
IMAGE_ID = _path("id", "the id of a job's image, in upper or lower case")
LANGUAGE = _path("lang", "the language of one of the image's translations, ISO 639-1")
INCLUDE = query(
    "include",
    "more parts of a job to send, separated by commas: removed, details",
    {"type": "string", "pattern": "^ *(removed|details) *(, *(removed|details) *)*$"},
)
