"""The OpenAPI 3.1 document: what the handlers say of themselves (`operations`), and the schemas of the bodies.

It is not Litestar's own document, because handlers read their parameters and uploads from the request. It stays simple
enough for client generators, of which `tests.ordeals.generated_clients` runs three: optional fields of requests have no
`default`, because openapi-typescript would require them and openapi-generator would send them. Their descriptions name
the default.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from imgproc_local import __version__
from imgproc_local.api import account, events, exports, images, service, translations, wire
from imgproc_local.api.auth import services_of
from imgproc_local.api.operations import FILE, PATH_PARAMETERS, get, json_content
from imgproc_local.api.requests import FIELDS_OF, TEXT_FIELDS
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.plan import MAX_LANGUAGES

TAGS = ("images", "translations", "jobs", "exports", "account", "service")
"""Groups of operations. Generators make a class or a module of each."""
REF = "#/components/schemas/{name}"
UPLOAD_FIELDS: dict[str, Any] = {
    "image": {
        **FILE,
        "contentMediaType": "application/octet-stream",
        "description": "the image, as a part with a file name",
    },
    "languages": {
        "type": "array",
        "items": {"type": "string", "enum": sorted(LANGUAGES)},
        "maxItems": MAX_LANGUAGES,
        "description": "ISO 639-1 codes; repeat the field, or send languages[], languages[0] …, one JSON array or one"
        " comma-separated value. Default: en",
    },
    **{name: {**field.schema, "description": field.description} for name, field in TEXT_FIELDS.items()},
}


@get("/openapi.json", "service", json_content({"type": "object"}), guard=None)
async def openapi(request: Request[Any, Any, Any]) -> Response[bytes]:
    """This document."""
    return Response(build(services_of(request).config.status_set), media_type="application/json")


HANDLERS: Sequence[HTTPRouteHandler] = (
    service.languages,
    *images.HANDLERS,
    *translations.HANDLERS,
    *account.HANDLERS,
    *events.HANDLERS,
    exports.export,
    openapi,
)
"""The handlers below the prefix of the API."""
OUTSIDE: Sequence[HTTPRouteHandler] = (service.metrics, service.healthz)


def _paths() -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for handler in (*HANDLERS, *OUTSIDE):
        (path,) = handler.paths
        path = re.sub(r"{(\w+):str}", lambda match: f"{{{PATH_PARAMETERS[match[1]].name}}}", path)
        method = next(str(method).lower() for method in sorted(handler.http_methods) if method != "HEAD")
        item = paths.setdefault(path, {"servers": [{"url": "/"}]} if handler in OUTSIDE else {})
        summary, _, description = inspect.cleandoc(handler.fn.__doc__ or "").partition("\n\n")
        texts = {"summary": " ".join(summary.split()), "description": " ".join(description.split())}
        item[method] = {"operationId": handler.handler_name, **texts, **handler.opt["operation"]}
    return paths


def _schemas(structs: Sequence[type[Struct]]) -> dict[str, Any]:
    """Every schema by its name."""
    _, schemas = msgspec.json.schema_components(dict.fromkeys(structs), ref_template=REF)
    for name, own in FIELDS_OF.items():
        properties = {field: UPLOAD_FIELDS[field] for field in ("image", *own)}
        title = f"{name.capitalize()}Fields"
        schemas[title] = {"title": title, "type": "object", "properties": properties, "required": ["image"]}
    _add_enum_types(schemas)
    export = schemas["ExportFields"]
    for field in export["properties"].values():
        field.pop("default", None)
    export["not"] = {  # a request with both fields; an export may have only one of them
        "properties": {"images": {"type": "array"}, "project_id": {"type": "string"}},
        "required": ["images", "project_id"],
    }
    schemas["TranslationEdit"]["minProperties"] = 1
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
                " Sizes are bytes; times are RFC 3339 in UTC. Errors carry a `message` for people."
                " The program's interface page (imgproc_local/api/README.md) explains every field.",
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/api/v1"}],
            "security": [{"bearer": []}, {"apiKey": []}],
            "tags": [{"name": name} for name in TAGS],
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
