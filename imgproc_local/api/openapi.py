"""The OpenAPI 3.1 document: every operation with its parameters, bodies and responses. It is one long file, because it
is one table.

It is not derived from the signatures of the handlers, because these do not name the errors. A test compares it with the
routes. “Local addition” marks operations that the published interface does not have (api/README.md). Schemas are in
`openapi_schemas`, what operations share in `openapi_parts`. The document stays simple enough for client generators:
`tests.ordeals.generated_clients` runs three of them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from litestar import Request, Response

from imgproc_local import __version__
from imgproc_local.api import bodies, wire
from imgproc_local.api.openapi_parts import (
    DISPATCH_HEADERS,
    DISPOSITION,
    IDEMPOTENCY_KEY,
    IF_NONE_MATCH,
    IMAGE_ID,
    INCLUDE,
    INTEGER_1_100,
    JOB_ID,
    LANGUAGE,
    LANGUAGE_CODE,
    ONLY_TRUE,
    PREFER,
    PREFERENCE_APPLIED,
    STATUS,
    TOTAL_COUNT,
    ULID,
    json_response,
    link,
    query,
    response_header,
    with_shared_responses,
)
from imgproc_local.api.openapi_schemas import FILE, UPLOAD_FIELDS, components, schema_of
from imgproc_local.api.requests import get
from imgproc_local.compose import Services
from imgproc_local.domain.export import ExportFields
from imgproc_local.domain.plan import ACCEPTED_FORMATS, MAX_LANGUAGES, Operation

TAGS = {
    "images": "Uploads and files",
    "translations": "Texts of an image",
    "jobs": "Jobs and their changes",
    "exports": "Archives",
    "account": "Credits and projects of the account",
    "service": "The service itself",
}
"""Groups of operations. Generators make a class or a module of each."""


def _upload(operation: Operation, summary: str) -> dict[str, Any]:
    accepted = ", ".join(file_format.value for file_format in ACCEPTED_FORMATS[operation])
    form = {"multipart/form-data": {"schema": schema_of(UPLOAD_FIELDS[operation])}}
    return {
        "operationId": operation.value,
        "tags": ["images"],
        "summary": summary,
        "description": f"The type is detected from the bytes; accepted: {accepted}.",
        "parameters": [PREFER, IDEMPOTENCY_KEY],
        "requestBody": {"required": True, "content": form},
        "responses": with_shared_responses(
            {
                "202": {
                    **json_response(bodies.DispatchBody, "dispatched; poll the job", DISPATCH_HEADERS),
                    "links": {
                        name: link(name, "$response.body#/data/job_id")
                        for name in ("get_job", "job_events", "delete_job")
                    },
                },
                "402": json_response(bodies.InsufficientCreditsBody, "the balance does not cover it"),
                "408": json_response(bodies.ErrorBody, "the upload paused for too long, or was too slow"),
                "409": json_response(bodies.ErrorBody, "the Idempotency-Key was sent with another body"),
                "413": json_response(bodies.ErrorBody, "more bytes than one image may have"),
                "422": json_response(bodies.ValidationErrorBody, "a field is invalid, or the image can't be used"),
            }
        ),
    }


def _file_content(media_type: str) -> dict[str, Any]:
    """The content of a response that is a file.

    The general type is listed beside the true one because openapi-python-client knows no other type of binary content.
    """
    return {"application/octet-stream": {"schema": FILE}, media_type: {"schema": FILE}}


def _download(summary: str, operation_id: str) -> dict[str, Any]:
    missing = json_response(
        bodies.ErrorBody,
        "with `message`: no such image, or its file was removed or is damaged; with `error`: its stage is not done",
    )
    missing["content"]["application/json"]["schema"] = {
        "title": "NoFileBody",
        "oneOf": [schema_of(bodies.ErrorBody), schema_of(bodies.NotReadyBody)],
    }
    return _operation(
        "images",
        operation_id,
        summary,
        {
            "200": {
                "description": "the file; its Content-Type is that of the image, never application/octet-stream",
                "headers": {**DISPOSITION, "ETag": response_header("SHA-256 of the file, in quotation marks")},
                "content": _file_content("image/*"),
            },
            "304": {"description": "If-None-Match names the file's ETag"},
            "404": missing,
        },
        [IMAGE_ID, IF_NONE_MATCH],
    )


def _thumbnail() -> dict[str, Any]:
    return _operation(
        "images",
        "thumbnail",
        "The upload as WebP of at most 512 pixels on each side (local addition)",
        {
            "200": {
                "description": "the thumbnail; its Content-Type is image/webp, never application/octet-stream",
                "headers": {"ETag": response_header("changes with the content")},
                "content": _file_content("image/webp"),
            },
            "304": {"description": "If-None-Match names the thumbnail's ETag"},
            "404": json_response(bodies.ErrorBody, "no such image in this account, or its upload was removed"),
            "422": json_response(bodies.ValidationErrorBody, "no thumbnail can be made: the picture is damaged"),
        },
        [IMAGE_ID, IF_NONE_MATCH],
    )


def _export() -> dict[str, Any]:
    export = _operation(
        "exports",
        "export",
        "A ZIP archive of finished files, with their texts as alt.csv and alt.json (local addition)",
        {
            "200": {
                "description": "the archive, application/zip; with dry_run, what it would contain, as JSON",
                "headers": DISPOSITION,
                "content": {
                    **_file_content("application/zip"),
                    "application/json": {"schema": schema_of(bodies.ExportPreviewBody)},
                },
            },
            "404": json_response(bodies.ErrorBody, "no such image or project in this account"),
            "408": json_response(bodies.ErrorBody, "the body was not received in time"),
            "409": json_response(bodies.ExportIncompleteBody, "texts or files are missing; nothing was exported"),
            "413": json_response(bodies.ErrorBody, "more bytes than the body may have"),
            "422": json_response(
                bodies.ValidationErrorBody, "a field is invalid, or there are more than 10,000 images"
            ),
        },
    )
    export["description"] = (
        "The archive is sent while it is made. The same request for the same data gives the same bytes."
    )
    export["requestBody"] = _json_request_body(ExportFields, required=False)
    return export


def _json_request_body(struct: type[msgspec.Struct], *, required: bool = True) -> dict[str, Any]:
    return {"required": required, "content": {"application/json": {"schema": schema_of(struct)}}}


def _operation(
    tag: str,
    operation_id: str,
    summary: str,
    responses: dict[str, Any],
    parameters: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    return {
        "operationId": operation_id,
        "tags": [tag],
        "summary": summary,
        "parameters": parameters or [],
        "responses": with_shared_responses(responses),
    }


def _translation(
    operation_id: str,
    summary: str,
    responses: dict[str, Any],
    status: str = "200",
    headers: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """An operation that changes one text of an image and responds with it."""
    text = json_response(bodies.EditedTranslationBody, "the text as it is now", headers)
    no_text = json_response(bodies.ErrorBody, "no such image in this account, or it has no text in this language (yet)")
    return _operation(
        "translations", operation_id, summary, {status: text, "404": no_text, **responses}, [IMAGE_ID, LANGUAGE]
    )


def _translation_paths() -> dict[str, Any]:
    path = "/images/{id}/translations/{lang}"
    edit = _translation(
        "edit_translation",
        "Edit an alt text or file name by hand (local addition)",
        {
            "408": json_response(bodies.ErrorBody, "the body was not received in time"),
            "413": json_response(bodies.ErrorBody, "the body has more than 16 KiB"),
            "422": json_response(bodies.ValidationErrorBody, "a field is invalid, or none was sent"),
        },
    )
    edit["requestBody"] = _json_request_body(bodies.TranslationEdit)
    no_version = {"409": json_response(bodies.ErrorBody, "there is no such version; nothing was changed")}
    regenerate = _translation(
        "regenerate_translation",
        "Have one text written anew (local addition)",
        {
            "402": json_response(bodies.InsufficientCreditsBody, "the balance does not cover it"),
            "409": json_response(bodies.ErrorBody, "the uploaded picture was removed because of its age"),
        },
        "202",
        PREFERENCE_APPLIED,
    )
    regenerate["description"] = "It costs as much as analyze for one language. The credits are given back if it fails."
    regenerate["parameters"].append(PREFER)
    undo = _translation("undo_translation", "Restore the version before a change (local addition)", no_version)
    redo = _translation("redo_translation", "Repeat a change that was undone (local addition)", no_version)
    return {
        path: {"patch": edit},
        f"{path}/regenerate": {"post": regenerate},
        f"{path}/undo": {"post": undo},
        f"{path}/redo": {"post": redo},
    }


def _paths() -> dict[str, Any]:
    invalid = json_response(bodies.ValidationErrorBody, "a parameter is invalid")
    no_job = json_response(bodies.ErrorBody, "no such job in this account")
    return {
        "/languages": {
            "get": {
                "operationId": "languages",
                "tags": ["service"],
                "summary": "The languages that texts can be written in",
                "security": [],
                "responses": {"200": json_response(bodies.LanguagesBody, "every language")},
            }
        },
        "/images/analyze": {"post": _upload(Operation.ANALYZE, "SEO file name and alt text per language")},
        "/images/optimize": {"post": _upload(Operation.OPTIMIZE, "A smaller file that looks the same")},
        "/images/convert": {"post": _upload(Operation.CONVERT, "The image in WebP or AVIF")},
        "/images/process": {"post": _upload(Operation.PROCESS, "Analyze, optimize and convert in one call")},
        "/images/{id}/original": {"get": _download("The upload as it was received (local addition)", "original")},
        "/images/{id}/thumbnail": {"get": _thumbnail()},
        "/images/{id}/optimized": {"get": _download("The optimized file", "optimized")},
        "/images/{id}/converted": {"get": _download("The converted file (local addition)", "converted")},
        **_translation_paths(),
        "/jobs": {
            "get": _operation(
                "jobs",
                "list_jobs",
                "The account's jobs, newest first (local addition)",
                {"200": json_response(bodies.JobsBody, "one page", TOTAL_COUNT), "422": invalid},
                [
                    query("status", "only jobs of this status; several are repeated or separated by commas", STATUS),
                    query("project_id", "only jobs of this project", ULID),
                    query("needs_text", "only jobs with an alt text that a person has to write", ONLY_TRUE),
                    query(
                        "language_missing",
                        "only jobs that have no text in this language, or one that a person has to write",
                        LANGUAGE_CODE,
                    ),
                    query(
                        "larger_than_optimized",
                        "only jobs whose converted file is not smaller than the optimized one",
                        ONLY_TRUE,
                    ),
                    INCLUDE,
                    query("cursor", "next_cursor of the page before", ULID),
                    query("limit", "jobs per page", {"type": "integer", "minimum": 1, "maximum": 500, "default": 20}),
                ],
            )
        },
        "/jobs/{id}": {
            "get": _operation(
                "jobs",
                "get_job",
                "A job and its results",
                {
                    "200": {
                        **json_response(bodies.JobBody, "the job in its present state", PREFERENCE_APPLIED),
                        "links": {
                            **{
                                name: link(name, "$response.body#/data/image/id")
                                for name in ("original", "thumbnail", "optimized", "converted")
                            },
                            "delete_job": link("delete_job", "$response.body#/data/job_id"),
                        },
                    },
                    "404": no_job,
                    "422": invalid,
                },
                [JOB_ID, PREFER, INCLUDE],
            ),
            "delete": _operation(
                "jobs",
                "delete_job",
                "Cancel a job and delete it with its files (local addition)",
                {"204": {"description": "deleted"}, "404": no_job},
                [JOB_ID],
            ),
        },
        "/jobs/{id}/events": {
            "get": _operation(
                "jobs",
                "job_events",
                "Server-Sent Events of a job (local addition)",
                {
                    "200": {
                        "description": "a stream of events (Server-Sent Events in the HTML standard): one per change,"
                        " the first at once, until the job is final; the schema is that of one event",
                        "content": {"text/event-stream": {"schema": schema_of(bodies.StatusEvent)}},
                    },
                    "404": no_job,
                },
                [JOB_ID],
            )
        },
        "/projects": {
            "get": _operation(
                "account",
                "list_projects",
                "The account's projects by name (local addition)",
                {"200": json_response(bodies.ProjectsBody, "every project")},
            )
        },
        "/events": {
            "get": _operation(
                "jobs",
                "account_events",
                "Server-Sent Events of all jobs of the account (local addition)",
                {
                    "200": {
                        "description": "a stream of events (Server-Sent Events in the HTML standard): a snapshot and"
                        " totals at once, then the changes of any job; the schema is that of one event",
                        "content": {"text/event-stream": {"schema": schema_of(bodies.AccountEvent)}},
                    },
                },
            )
        },
        "/exports": {"post": _export()},
        "/credits/balance": {
            "get": _operation(
                "account", "balance", "The credit balance", {"200": json_response(bodies.BalanceBody, "the balance")}
            )
        },
        "/credits/afford": {
            "get": _operation(
                "account",
                "afford",
                "Whether the full pipeline is affordable for a batch",
                {
                    "200": json_response(bodies.AffordBody, "required, balance and shortfall, in credits"),
                    "422": invalid,
                },
                [
                    query("images", "number of images", INTEGER_1_100, required=True),
                    query(
                        "languages",
                        "alt-text languages per image",
                        {"type": "integer", "minimum": 1, "maximum": MAX_LANGUAGES, "default": 1},
                    ),
                    query("format", "target format", {"type": "string", "enum": ["webp", "avif"], "default": "webp"}),
                ],
            )
        },
        "/openapi.json": {
            "get": {
                "operationId": "openapi",
                "tags": ["service"],
                "summary": "This document",
                "security": [],
                "responses": {
                    "200": {
                        "description": "OpenAPI 3.1",
                        "content": {"application/json": {"schema": {"type": "object"}}},
                    }
                },
            }
        },
        "/metrics": {
            "servers": [{"url": "/"}],
            "get": {
                "operationId": "metrics",
                "tags": ["service"],
                "summary": "Counts and states for Prometheus (local addition, outside /api/v1)",
                "description": "A client on the service's machine needs no key.",
                "security": [{}, {"bearer": []}, {"apiKey": []}],
                "parameters": [],
                "responses": with_shared_responses(
                    {
                        "200": {
                            "description": "the text format of Prometheus",
                            "content": {"text/plain": {"schema": {"type": "string"}}},
                        }
                    }
                ),
            },
        },
        "/healthz": {
            "servers": [{"url": "/"}],
            "get": {
                "operationId": "healthz",
                "tags": ["service"],
                "summary": "Whether the service works (local addition, outside /api/v1)",
                "security": [],
                "responses": {
                    "200": json_response(bodies.HealthBody, "the service works"),
                    "503": json_response(
                        bodies.ErrorBody, "the data folder can't be written, or some stages are not processed"
                    ),
                },
            },
        },
    }


@cache
def build(status_set: wire.StatusSet = "A") -> bytes:
    """The document as JSON, with the status words of `status_set`."""
    in_set_a = msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Image Processing Service, local",
                "version": __version__,
                "description": "SEO file names, alt texts, smaller files and modern formats, on this machine."
                " Sizes are bytes; times are RFC 3339 in UTC. Errors carry a `message` for people.",
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/api/v1"}],
            "security": [{"bearer": []}, {"apiKey": []}],
            "tags": [{"name": name, "description": description} for name, description in TAGS.items()],
            "paths": _paths(),
            "components": {
                "schemas": components(),
                "securitySchemes": {
                    "bearer": {"type": "http", "scheme": "bearer"},
                    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                },
            },
        }
    )
    # schemas list the status words of set A; wherever this list occurs, it is replaced by the configured one
    set_a, configured = (msgspec.json.encode(wire.status_words(each)) for each in ("A", status_set))
    return in_set_a.replace(set_a, configured)


@get("/openapi.json")
async def document(request: Request[Any, Any, Any]) -> Response[bytes]:
    services: Services = request.app.state.services
    return Response(build(services.config.status_set), media_type="application/json")
