"""The OpenAPI 3.1 document: what the handlers say of themselves (`operations`), and the schemas of the bodies.

It is not Litestar's own document, because handlers read their parameters and uploads from the request. It stays simple
enough for client generators, of which `tests.ordeals.generated_clients` runs three: optional fields of requests have no
`default`, because openapi-typescript would require them and openapi-generator would send them. Their descriptions name
the default.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response
from litestar.handlers import HTTPRouteHandler
from msgspec import Meta, Struct

from imgproc_local import __version__
from imgproc_local.api import account, bodies, events, exports, images, service, translations, wire
from imgproc_local.api.operations import (
    DISPOSITION,
    PATH_PARAMETERS,
    file_content,
    get,
    operation,
    response,
    responses_with_key,
)
from imgproc_local.api.requests import FIELDS_OF, MAX_PROJECT_NAME
from imgproc_local.compose import Services
from imgproc_local.domain.export import ExportFields
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.plan import MAX_CONTEXT_CHARS, MAX_LANGUAGES, MAX_SIDE_PX, Operation

TAGS = {
    "images": "Uploads and files",
    "translations": "Texts of an image",
    "jobs": "Jobs and their changes",
    "exports": "Archives",
    "account": "Credits and projects of the account",
    "service": "The service itself",
}
"""Groups of operations. Generators make a class or a module of each."""
REF = "#/components/schemas/{name}"
EVENT_DATA = [bodies.JobBody, bodies.Snapshot, bodies.DeletedJob, bodies.Totals]
"""Structs that are sent as the `data` of an event, and as no body."""


Language = Annotated[str, Meta(extra_json_schema={"enum": sorted(LANGUAGES)})]


class UploadFields(Struct):
    """The fields of uploads, of which each operation has some. They are read as a stream, not into this Struct.

    The default values mean nothing; they make the fields optional.
    """

    image: Annotated[
        str,
        Meta(
            description="the image, as a part with a file name",
            extra_json_schema={"format": "binary", "contentMediaType": "application/octet-stream"},
        ),
    ]
    languages: Annotated[
        list[Language],
        Meta(
            description="ISO 639-1 codes; repeat the field, or send languages[], languages[0] …, one JSON array or"
            " one comma-separated value. Default: en",
            max_length=MAX_LANGUAGES,
        ),
    ] = []
    format: Annotated[Literal["webp", "avif"], Meta(description="format to convert to. Default: webp")] = "webp"
    project_id: Annotated[str, Meta(description="ULID of an existing project; wins over project_name")] = ""
    project_name: Annotated[
        str,
        Meta(
            description="name of the project, which is created if it is new. Default: API Uploads",
            max_length=MAX_PROJECT_NAME,
            pattern=r"^[^\u0000-\u001f\u007f-\u009f]*$",
        ),
    ] = ""
    context: Annotated[
        str,
        Meta(
            description="words of the page or article that the picture is for. The vision model reads them as data;"
            " they are deleted when the texts have been written or have failed (local addition)",
            max_length=MAX_CONTEXT_CHARS,
        ),
    ] = ""
    max_width_px: Annotated[
        int,
        Meta(
            description="maximum width in pixels, as displayed: results are scaled down to fit inside max_width_px"
            " and max_height_px, and never up; absent is no limit (local addition)",
            ge=1,
            le=MAX_SIDE_PX,
        ),
    ] = 1
    max_height_px: Annotated[
        int, Meta(description="maximum height in pixels; see max_width_px (local addition)", ge=1, le=MAX_SIDE_PX)
    ] = 1


exports.export.opt |= operation(
    "exports",
    "A ZIP archive of finished files, with their texts as alt.csv and alt.json (local addition)",
    {
        200: {
            "description": "the archive, application/zip; with dry_run, what it would contain, as JSON",
            "headers": DISPOSITION,
            "content": file_content("application/zip") | {"application/json": {"schema": bodies.ExportPreviewBody}},
        },
        404: "no such image or project in this account",
        408: "the body was not received in time",
        409: (bodies.ExportIncompleteBody, "texts or files are missing; nothing was exported"),
        413: "more bytes than the body may have",
        422: "a field is invalid, or there are more than 10,000 images",
    },
    body=ExportFields,
    is_body_required=False,
    description="The archive is sent while it is made. The same request for the same data gives the same bytes.",
)


@get(
    "/openapi.json",
    "service",
    "This document",
    {200: {"description": "OpenAPI 3.1", "content": {"application/json": {"schema": {"type": "object"}}}}},
    guard=None,
)
async def openapi(request: Request[Any, Any, Any]) -> Response[bytes]:
    services: Services = request.app.state.services
    return Response(build(services.config.status_set), media_type="application/json")


HANDLERS: Sequence[HTTPRouteHandler] = (
    service.languages,
    images.analyze,
    images.optimize,
    images.convert,
    images.process,
    images.original,
    images.thumbnail,
    images.optimized,
    images.converted,
    translations.edit_translation,
    translations.undo_translation,
    translations.redo_translation,
    translations.regenerate_translation,
    account.list_jobs,
    account.get_job,
    account.delete_job,
    account.list_projects,
    account.balance,
    account.afford,
    events.job_events,
    events.account_events,
    exports.export,
    openapi,
)
"""The handlers below the prefix of the API."""
OUTSIDE: Sequence[HTTPRouteHandler] = (service.metrics, service.healthz)


def _paths() -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for handler in (*HANDLERS, *OUTSIDE):
        (path,) = handler.paths
        names = re.findall(r"{(\w+):str}", path)
        for name in names:
            path = path.replace(f"{{{name}:str}}", f"{{{PATH_PARAMETERS[name]['name']}}}")
        method = next(str(method).lower() for method in sorted(handler.http_methods) if method != "HEAD")
        item = paths.setdefault(path, {"servers": [{"url": "/"}]} if handler in OUTSIDE else {})
        item[method] = _operation(handler, [PATH_PARAMETERS[name] for name in names])
    return paths


def _operation(handler: HTTPRouteHandler, path_parameters: list[dict[str, Any]]) -> dict[str, Any]:
    described = {"operationId": handler.handler_name, **handler.opt["operation"]}
    described["parameters"] = [*path_parameters, *described["parameters"]]
    if form := described.pop("form", None):
        schema = {"$ref": REF.format(name=_form_name(form))}
        described["requestBody"] = {"required": True, "content": {"multipart/form-data": {"schema": schema}}}
    if handler.guards:
        described["responses"] = responses_with_key(described["responses"])
    else:
        responses = described["responses"].items()
        described["responses"] = {str(status): response(status, each, {}) for status, each in responses}
        described["security"] = []
    return described


def _form_name(form: Operation) -> str:
    return f"{form.value.capitalize()}Fields"


def _schemas(structs: Sequence[type[Struct]]) -> dict[str, Any]:
    """Every schema by its name."""
    _, schemas = msgspec.json.schema_components([*dict.fromkeys(structs), *EVENT_DATA, UploadFields], ref_template=REF)
    _add_enum_types(schemas)
    for struct in (UploadFields, ExportFields):
        for field in schemas[struct.__name__]["properties"].values():
            field.pop("default", None)
    upload = schemas.pop(UploadFields.__name__)
    del upload["description"]
    for form, own in FIELDS_OF.items():
        properties = {name: upload["properties"][name] for name in ("image", *own)}
        schemas[_form_name(form)] = {**upload, "title": _form_name(form), "properties": properties}
    export = schemas[ExportFields.__name__]
    export["not"] = {  # a request with both fields; an export may have only one of them
        "properties": {"images": {"type": "array"}, "project_id": {"type": "string"}},
        "required": ["images", "project_id"],
    }
    schemas[bodies.TranslationEdit.__name__]["minProperties"] = 1
    return schemas


def _add_enum_types(schema: Any) -> None:
    """Add the type to each enum, because generators need it and msgspec omits it."""
    if isinstance(schema, dict) and "enum" in schema:
        schema.setdefault("type", "string")
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _add_enum_types(part)


@cache
def build(status_set: wire.StatusSet = "A") -> bytes:
    """The document as JSON, with the status words of `status_set`."""
    structs: list[type[Struct]] = []

    def reference(struct: type[Struct]) -> dict[str, str]:
        structs.append(struct)
        return {"$ref": REF.format(name=struct.__name__)}

    paths = msgspec.json.encode(_paths(), enc_hook=reference)
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
            "paths": msgspec.Raw(paths),
            "components": {
                "schemas": _schemas(structs),
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
