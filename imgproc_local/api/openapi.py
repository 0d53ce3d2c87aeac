"""The OpenAPI 3.1 document, from the same Structs that the handlers respond with.

Written as a table, not derived from the signatures of the handlers: uploads are streams, which no Struct describes, and
errors are part of the interface too. A test compares the table with the routes. It is one long file because it is one
table.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response
from msgspec import UNSET, Meta, Struct, UnsetType

from imgproc_local import __version__
from imgproc_local.api import wire
from imgproc_local.api.auth import refuse_trailing_slash
from imgproc_local.api.exports import ExportFields
from imgproc_local.api.requests import MAX_IDEMPOTENCY_KEY, MAX_PROJECT_NAME, get
from imgproc_local.compose import Services
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.plan import ACCEPTED_FORMATS, MAX_CONTEXT_CHARS, MAX_LANGUAGES, MAX_SIDE_PX, Operation

REF = "#/components/schemas/{name}"

_LANGUAGES = Annotated[
    list[Annotated[str, Meta(extra_json_schema={"enum": sorted(LANGUAGES)})]],
    Meta(
        description="ISO 639-1 codes; repeat the field, or send languages[], languages[0] …, one JSON array or one"
        " comma-separated value. Default: en",
        max_length=MAX_LANGUAGES,
    ),
]
_PROJECT_ID = Annotated[str, Meta(description="ULID of an existing project; wins over project_name")]
_PROJECT_NAME = Annotated[
    str,
    Meta(
        description="name of the project, which is created if it is new; default API Uploads",
        max_length=MAX_PROJECT_NAME,
        pattern=r"^[^\u0000-\u001f\u007f-\u009f]*$",
    ),
]
_CONTEXT = Annotated[
    str,
    Meta(
        description="what the page or article says that the picture is for; the vision model reads it as data, and it"
        " is deleted when the texts have been written (local addition)",
        max_length=MAX_CONTEXT_CHARS,
    ),
]
_FORMAT = Annotated[Literal["webp", "avif"], Meta(description="format to convert to")]
_MAX_WIDTH = Annotated[
    int,
    Meta(
        description="maximum width in pixels, as displayed: results are scaled down to fit inside max_width_px and"
        " max_height_px, and never up; absent is no limit (local addition)",
        ge=1,
        le=MAX_SIDE_PX,
    ),
]
_MAX_HEIGHT = Annotated[
    int, Meta(description="maximum height in pixels; see max_width_px (local addition)", ge=1, le=MAX_SIDE_PX)
]
_IMAGE = {"type": "string", "contentMediaType": "application/octet-stream", "description": "the image file"}


class AnalyzeFields(Struct):
    languages: _LANGUAGES = msgspec.field(default_factory=lambda: ["en"])
    project_id: _PROJECT_ID = ""
    project_name: _PROJECT_NAME = "API Uploads"
    context: _CONTEXT = ""


class OptimizeFields(Struct):
    project_id: _PROJECT_ID = ""
    project_name: _PROJECT_NAME = "API Uploads"
    max_width_px: _MAX_WIDTH | UnsetType = UNSET
    max_height_px: _MAX_HEIGHT | UnsetType = UNSET


class ConvertFields(Struct):
    format: _FORMAT = "webp"
    project_id: _PROJECT_ID = ""
    project_name: _PROJECT_NAME = "API Uploads"
    max_width_px: _MAX_WIDTH | UnsetType = UNSET
    max_height_px: _MAX_HEIGHT | UnsetType = UNSET


class ProcessFields(Struct):
    languages: _LANGUAGES = msgspec.field(default_factory=lambda: ["en"])
    format: _FORMAT = "webp"
    project_id: _PROJECT_ID = ""
    project_name: _PROJECT_NAME = "API Uploads"
    context: _CONTEXT = ""
    max_width_px: _MAX_WIDTH | UnsetType = UNSET
    max_height_px: _MAX_HEIGHT | UnsetType = UNSET


FIELDS: dict[Operation, type[Struct]] = {
    Operation.ANALYZE: AnalyzeFields,
    Operation.OPTIMIZE: OptimizeFields,
    Operation.CONVERT: ConvertFields,
    Operation.PROCESS: ProcessFields,
}
BODIES: list[type[Struct]] = [
    wire.LanguagesBody,
    wire.DispatchBody,
    wire.JobBody,
    wire.EditedTranslationBody,
    wire.TranslationEdit,
    wire.JobsBody,
    wire.StatusEvent,
    wire.ProjectsBody,
    wire.AccountEvent,
    wire.Snapshot,
    wire.DeletedJob,
    wire.Totals,
    wire.BalanceBody,
    wire.AffordBody,
    wire.ExportPreviewBody,
    wire.HealthBody,
    wire.ErrorBody,
    wire.ValidationErrorBody,
    wire.RateLimitBody,
    wire.InsufficientCreditsBody,
    wire.NotReadyBody,
    wire.ExportIncompleteBody,
    ExportFields,
]

RATE_HEADERS = {
    "X-RateLimit-Limit": {"schema": {"type": "integer"}, "description": "requests per rolling minute; 0 is no limit"},
    "X-RateLimit-Remaining": {"schema": {"type": "integer"}, "description": "requests left in this minute"},
}
RETRY_AFTER = {"Retry-After": {"schema": {"type": "integer"}, "description": "seconds"}}


def _json(body: type[Struct], description: str, headers: dict[str, Any] | None = None) -> dict[str, Any]:
    schema = {"$ref": REF.format(name=body.__name__)}
    answer: dict[str, Any] = {"description": description, "content": {"application/json": {"schema": schema}}}
    if headers:
        answer["headers"] = headers
    return answer


def _keyed(answers: dict[str, Any]) -> dict[str, Any]:
    """The responses of an endpoint that needs a key: its own, and those of the guard."""
    return {
        **{
            status: {**answer, "headers": {**RATE_HEADERS, **answer.get("headers", {})}}
            for status, answer in answers.items()
        },
        "401": _json(
            wire.ErrorBody,
            "missing or wrong key",
            {"WWW-Authenticate": {"schema": {"const": "Bearer"}, "description": "how to authenticate"}},
        ),
        "429": _json(wire.RateLimitBody, "more requests than the key may make in a minute", RATE_HEADERS | RETRY_AFTER),
        "503": _json(
            wire.ErrorBody, "the queue is full, or the data folder can't be written; nothing was stored", RETRY_AFTER
        ),
    }


def _link(operation_id: str, identifier: str) -> dict[str, Any]:
    """How to call an operation with an identifier of the answer. Source: OpenAPI 3.1, "Link Object"."""
    return {"operationId": operation_id, "parameters": {"id": identifier}}


def _header(name: str, description: str, **schema: Any) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": {"type": "string", **schema},
    }


def _query(name: str, description: str, schema: dict[str, Any], required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": required, "description": description, "schema": schema}


def _path_id(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "description": description, "schema": {"type": "string"}}


TOTAL_COUNT = {"X-Total-Count": {"schema": {"type": "integer"}, "description": "number of all jobs of the account"}}
STATUS = {"type": "string", "enum": wire.status_words("A")}
ULID = {"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}$"}
PREFER = _header("Prefer", "wait=N holds the answer until the job is final or N seconds (at most 60) have passed")
IDEMPOTENCY_KEY = _header(
    "Idempotency-Key",
    "the same key and body within 24 hours answer with the same job",
    minLength=1,
    maxLength=MAX_IDEMPOTENCY_KEY,
    pattern="^[ -~]+$",
)
PREFERENCE_APPLIED = {"Preference-Applied": {"schema": {"type": "string"}, "description": "the wait that was applied"}}
JOB_ID = _path_id("id", "the job_id of a dispatch, in either case")
IMAGE_ID = _path_id("id", "the id of a job's image, in either case")
LANGUAGE = _path_id("lang", "the language of one of the image's translations, ISO 639-1")
INCLUDE = _query(
    "include",
    "parts of a job that its body has only where they are asked for, separated by commas: removed, details",
    {"type": "string", "pattern": "^ *(removed|details) *(, *(removed|details) *)*$"},
)
INTEGER_1_100 = {"type": "integer", "minimum": 1, "maximum": 100}


def _upload(operation: Operation, summary: str, schemas: dict[str, Any]) -> dict[str, Any]:
    fields = schemas[FIELDS[operation].__name__]
    form = {**fields, "properties": {"image": _IMAGE, **fields["properties"]}, "required": ["image"]}
    accepted = ", ".join(accepted.value for accepted in ACCEPTED_FORMATS[operation])
    return {
        "operationId": operation.value,
        "summary": summary,
        "description": f"The type is detected from the bytes; accepted: {accepted}.",
        "parameters": [PREFER, IDEMPOTENCY_KEY],
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": form}}},
        "responses": _keyed(
            {
                "202": {
                    **_json(wire.DispatchBody, "dispatched; poll the job", PREFERENCE_APPLIED),
                    "links": {
                        name: _link(name, "$response.body#/data/job_id")
                        for name in ("get_job", "job_events", "delete_job")
                    },
                },
                "402": _json(wire.InsufficientCreditsBody, "the balance does not cover it"),
                "408": _json(wire.ErrorBody, "no bytes of the upload were received in time"),
                "409": _json(wire.ErrorBody, "the Idempotency-Key was sent with another body"),
                "413": _json(wire.ErrorBody, "more bytes than one image may have"),
                "422": _json(wire.ValidationErrorBody, "a field is invalid, or the image can't be used"),
            }
        ),
    }


def _download(summary: str, operation_id: str) -> dict[str, Any]:
    missing = _json(wire.ErrorBody, "no such image (message), or its stage is not done yet (error)")
    missing["content"]["application/json"]["schema"] = {
        "oneOf": [{"$ref": REF.format(name="ErrorBody")}, {"$ref": REF.format(name="NotReadyBody")}]
    }
    return {
        "operationId": operation_id,
        "summary": summary,
        "parameters": [IMAGE_ID],
        "responses": _keyed(
            {
                "200": {
                    "description": "the file",
                    "headers": {
                        "Content-Disposition": {"schema": {"type": "string"}, "description": "attachment (RFC 6266)"},
                        "ETag": {"schema": {"type": "string"}, "description": "content address of the file"},
                    },
                    "content": {"image/*": {"schema": {"type": "string", "contentMediaType": "image/*"}}},
                },
                "304": {"description": "If-None-Match names the file's ETag"},
                "404": missing,
            }
        ),
    }


NOT_BOTH = {
    "properties": {"images": {"type": "array"}, "project_id": {"type": "string"}},
    "required": ["images", "project_id"],
}
"""An export is of images or of a project."""


def _export() -> dict[str, Any]:
    preview = {"$ref": REF.format(name=wire.ExportPreviewBody.__name__)}
    body = {"$ref": REF.format(name=ExportFields.__name__)}
    return {
        "operationId": "export",
        "summary": "A ZIP archive of finished files, with their texts as alt.csv and alt.json (local addition)",
        "description": "The archive is sent while it is made. The same request gives the same bytes.",
        "parameters": [],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": _keyed(
            {
                "200": {
                    "description": "the archive; with dry_run, what it would contain",
                    "headers": {
                        "Content-Disposition": {"schema": {"type": "string"}, "description": "attachment (RFC 6266)"},
                    },
                    "content": {
                        "application/zip": {"schema": {"type": "string", "contentMediaType": "application/zip"}},
                        "application/json": {"schema": preview},
                    },
                },
                "404": _json(wire.ErrorBody, "no such image or project in this account"),
                "408": _json(wire.ErrorBody, "no bytes of the body were received in time"),
                "409": _json(wire.ExportIncompleteBody, "texts or files are missing; nothing was exported"),
                "413": _json(wire.ErrorBody, "more bytes than the body may have"),
                "422": _json(wire.ValidationErrorBody, "a field is invalid, or there are more than 10,000 images"),
            }
        ),
    }


def _thumbnail() -> dict[str, Any]:
    return {
        "operationId": "thumbnail",
        "summary": "The upload as WebP of at most 512 pixels on each side (local addition)",
        "parameters": [IMAGE_ID],
        "responses": _keyed(
            {
                "200": {
                    "description": "the thumbnail",
                    "headers": {"ETag": {"schema": {"type": "string"}, "description": "changes with the content"}},
                    "content": {"image/webp": {"schema": {"type": "string", "contentMediaType": "image/webp"}}},
                },
                "304": {"description": "If-None-Match names the thumbnail's ETag"},
                "404": _json(wire.ErrorBody, "no such image in this account, or its upload was removed"),
                "422": _json(wire.ValidationErrorBody, "no thumbnail can be made, because the picture is damaged"),
            }
        ),
    }


def _operation(
    operation_id: str, summary: str, answers: dict[str, Any], parameters: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    return {
        "operationId": operation_id,
        "summary": summary,
        "parameters": parameters or [],
        "responses": _keyed(answers),
    }


def _translation(
    operation_id: str, summary: str, answers: dict[str, Any], status: str = "200", headers: dict[str, Any] | None = None
) -> dict[str, Any]:
    """An operation that changes one text of an image and responds with it."""
    written = _json(wire.EditedTranslationBody, "the text as it is now", headers)
    no_text = _json(wire.ErrorBody, "no such image in this account, or it has no text in this language (yet)")
    return _operation(operation_id, summary, {status: written, "404": no_text, **answers}, [IMAGE_ID, LANGUAGE])


def _translation_paths() -> dict[str, Any]:
    path = "/images/{id}/translations/{lang}"
    edit = _translation(
        "edit_translation",
        "Edit an alt text or file name by hand (local addition)",
        {
            "408": _json(wire.ErrorBody, "the body was not received in time"),
            "413": _json(wire.ErrorBody, "the body has more than 16 KiB"),
            "422": _json(wire.ValidationErrorBody, "a field is invalid, or none was sent"),
        },
    )
    schema = {"$ref": REF.format(name="TranslationEdit"), "minProperties": 1}
    edit["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    no_version = {"409": _json(wire.ErrorBody, "there is no such version; nothing was changed")}
    regenerate = _translation(
        "regenerate_translation",
        "Have one text written anew (local addition)",
        {
            "402": _json(wire.InsufficientCreditsBody, "the balance does not cover it"),
            "409": _json(wire.ErrorBody, "the uploaded picture was removed because of its age"),
        },
        "202",
        PREFERENCE_APPLIED,
    )
    regenerate["description"] = "It costs what analyze costs for one language, which is given back if it fails."
    regenerate["parameters"].append(PREFER)
    undo = _translation("undo_translation", "Restore the version before a change (local addition)", no_version)
    redo = _translation("redo_translation", "Repeat a change that was undone (local addition)", no_version)
    return {
        path: {"patch": edit},
        f"{path}/regenerate": {"post": regenerate},
        f"{path}/undo": {"post": undo},
        f"{path}/redo": {"post": redo},
    }


def _paths(schemas: dict[str, Any]) -> dict[str, Any]:
    invalid = _json(wire.ValidationErrorBody, "a parameter is invalid")
    no_job = _json(wire.ErrorBody, "no such job in this account")
    return {
        "/languages": {
            "get": {
                "operationId": "languages",
                "summary": "The languages that metadata can be written in",
                "security": [],
                "responses": {"200": _json(wire.LanguagesBody, "every language")},
            }
        },
        "/images/analyze": {"post": _upload(Operation.ANALYZE, "SEO file name and alt text per language", schemas)},
        "/images/optimize": {"post": _upload(Operation.OPTIMIZE, "A smaller file that looks the same", schemas)},
        "/images/convert": {"post": _upload(Operation.CONVERT, "The image in WebP or AVIF", schemas)},
        "/images/process": {"post": _upload(Operation.PROCESS, "Analyze, optimize and convert in one call", schemas)},
        "/images/{id}/original": {"get": _download("The upload as it was received (local addition)", "original")},
        "/images/{id}/thumbnail": {"get": _thumbnail()},
        "/images/{id}/optimized": {"get": _download("The optimized file", "optimized")},
        "/images/{id}/converted": {"get": _download("The converted file (local addition)", "converted")},
        **_translation_paths(),
        "/jobs": {
            "get": _operation(
                "list_jobs",
                "The account's jobs, newest first (local addition)",
                {"200": _json(wire.JobsBody, "one page", TOTAL_COUNT), "422": invalid},
                [
                    _query("status", "only jobs of this status", STATUS),
                    _query("project_id", "only jobs of this project", ULID),
                    _query("needs_text", "only jobs with an alt text that a person has to write", {"enum": [True]}),
                    _query(
                        "language_missing",
                        "only jobs without a text in this language, or whose text in it a person has to write",
                        {"type": "string", "enum": sorted(LANGUAGES)},
                    ),
                    _query(
                        "larger_than_optimized",
                        "only jobs whose converted file is not smaller than the optimized one",
                        {"enum": [True]},
                    ),
                    INCLUDE,
                    _query("cursor", "next_cursor of the page before", ULID),
                    _query("limit", "jobs per page", {"type": "integer", "minimum": 1, "maximum": 500, "default": 20}),
                ],
            )
        },
        "/jobs/{id}": {
            "get": _operation(
                "get_job",
                "A job and its results",
                {
                    "200": {
                        **_json(wire.JobBody, "the job in its present state", PREFERENCE_APPLIED),
                        "links": {
                            **{
                                name: _link(name, "$response.body#/data/image/id")
                                for name in ("original", "thumbnail", "optimized", "converted")
                            },
                            "delete_job": _link("delete_job", "$response.body#/data/job_id"),
                        },
                    },
                    "404": no_job,
                    "422": invalid,
                },
                [JOB_ID, PREFER, INCLUDE],
            ),
            "delete": _operation(
                "delete_job",
                "Cancel what has not started and remove the files (local addition)",
                {"204": {"description": "deleted"}, "404": no_job},
                [JOB_ID],
            ),
        },
        "/jobs/{id}/events": {
            "get": _operation(
                "job_events",
                "Server-Sent Events of a job (local addition)",
                {
                    "200": {
                        "description": "a stream of events (Server-Sent Events in the HTML standard): one per change,"
                        " the first at once, until the job is final; the schema is that of one event",
                        "content": {"text/event-stream": {"schema": {"$ref": REF.format(name="StatusEvent")}}},
                    },
                    "404": no_job,
                },
                [JOB_ID],
            )
        },
        "/projects": {
            "get": _operation(
                "list_projects",
                "The account's projects by name (local addition)",
                {"200": _json(wire.ProjectsBody, "every project")},
            )
        },
        "/events": {
            "get": _operation(
                "account_events",
                "Server-Sent Events of all jobs of the account (local addition)",
                {
                    "200": {
                        "description": "a stream of events (Server-Sent Events in the HTML standard): a snapshot and"
                        " totals at once, then the changes of any job; the schema is that of one event",
                        "content": {"text/event-stream": {"schema": {"$ref": REF.format(name="AccountEvent")}}},
                    },
                },
            )
        },
        "/exports": {"post": _export()},
        "/credits/balance": {
            "get": _operation("balance", "The credit balance", {"200": _json(wire.BalanceBody, "the balance")})
        },
        "/credits/afford": {
            "get": _operation(
                "afford",
                "Whether the full pipeline is affordable for a batch",
                {"200": _json(wire.AffordBody, "required, balance and shortfall, in credits"), "422": invalid},
                [
                    _query("images", "number of images", INTEGER_1_100, required=True),
                    _query(
                        "languages",
                        "alt-text languages per image",
                        {"type": "integer", "minimum": 1, "maximum": MAX_LANGUAGES, "default": 1},
                    ),
                    _query("format", "target format", {"enum": ["webp", "avif"], "default": "webp"}),
                ],
            )
        },
        "/openapi.json": {
            "get": {
                "operationId": "openapi",
                "summary": "This document",
                "security": [],
                "responses": {"200": {"description": "OpenAPI 3.1", "content": {"application/json": {}}}},
            }
        },
        "/metrics": {
            "servers": [{"url": "/"}],
            "get": {
                "operationId": "metrics",
                "summary": "Counts and states for Prometheus (local addition, outside /api/v1)",
                "description": "On this machine no key is needed.",
                "security": [{}, {"bearer": []}, {"apiKey": []}],
                "parameters": [],
                "responses": _keyed(
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
                "summary": "Whether the service works (local addition, outside /api/v1)",
                "security": [],
                "responses": {
                    "200": _json(wire.HealthBody, "it does"),
                    "503": _json(wire.ErrorBody, "the data folder can't be written, or no stages are processed"),
                },
            },
        },
    }


@cache
def build(status_set: wire.StatusSet = "A") -> bytes:
    """The document as JSON, with the status words of `status_set`."""
    _, schemas = msgspec.json.schema_components([*BODIES, *FIELDS.values()], ref_template=REF)
    schemas[ExportFields.__name__]["not"] = NOT_BOTH
    paths = _paths(schemas)
    for fields in FIELDS.values():
        del schemas[fields.__name__]
    document = msgspec.json.encode(
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
            "paths": paths,
            "components": {
                "schemas": schemas,
                "securitySchemes": {
                    "bearer": {"type": "http", "scheme": "bearer"},
                    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                },
            },
        }
    )
    words_a, words = (msgspec.json.encode(wire.status_words(words)) for words in ("A", status_set))
    return document.replace(words_a, words)


@get("/openapi.json", guards=[refuse_trailing_slash])
async def document(request: Request[Any, Any, Any]) -> Response[bytes]:
    services: Services = request.app.state.services
    return Response(build(services.config.status_set), media_type="application/json")
