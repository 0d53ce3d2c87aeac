"""The OpenAPI 3.1 document: the schemas of the bodies, and what handlers say of themselves. The `opt` of each holds its
Operation Object.

The identifier of an operation, its method, path and summary are those of its handler: the docstring of a handler is
published. “Local addition” marks operations that the published interface does not have (README.md).

It is not Litestar's own document, because handlers read their parameters and uploads from the request. It stays simple
enough for client generators, of which `tests.ordeals.generated_clients` runs three: optional fields of requests have no
`default`, because openapi-typescript would require them and openapi-generator would send them. Their descriptions name
the default.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import route
from litestar.enums import HttpMethod
from litestar.handlers import HTTPRouteHandler
from litestar.types import AnyCallable, Guard
from msgspec import Struct
from msgspec.structs import asdict

from imgproc_local import __version__
from imgproc_local.api import wire
from imgproc_local.api.errors import TABLE
from imgproc_local.api.reference import add_examples
from imgproc_local.api.requests import FIELDS_OF, MAX_IDEMPOTENCY_KEY, TEXT_FIELDS, Field, require_key
from imgproc_local.domain import errors
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.plan import MAX_LANGUAGES, Operation

Content = dict[str, Any]
"""Media types and their Media Type Objects. In it and everywhere else, a Struct stands for its own schema."""

_TEXT = {"type": "string"}
PREFER = Field("Prefer", "wait=N holds the answer until the work has ended, at most N seconds (up to 60)", _TEXT)
IDEMPOTENCY_KEY = Field(
    "Idempotency-Key",
    "the same key and body within 24 hours answer with the same job",
    {"type": "string", "minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY, "pattern": "^[ -~¡-¬®-ÿ]+$"},
)
IF_NONE_MATCH = Field(
    "If-None-Match", "the ETag of a file that the client has", {"type": "string", "pattern": '^"[!#-~]*"$'}
)
IF_MATCH = Field("If-Match", "the version that the text must have", {"type": "string", "pattern": '^"[0-9]+"$'})
_PATH_PARAMETERS = {
    "job_id": Field("id", "the job_id of a dispatch, in upper or lower case", _TEXT, required=True),
    "image_id": Field("id", "the id of a job's image, in upper or lower case", _TEXT, required=True),
    "language_code": Field("lang", "the language of one of the image's texts, ISO 639-1", _TEXT, required=True),
}
"""The parameter that stands for each one of a handler's path."""
_FILE = {"type": "string", "format": "binary"}
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
    in_path = [_PATH_PARAMETERS[name] for name in re.findall(r"{(\w+):str}", path)]
    raised = [*raises, *([errors.NotFound] if in_path else []), *([errors.InvalidRequest] if query else [])]
    places = {"path": in_path, "query": query, "header": headers}
    parameters = [asdict(field) | {"in": place} for place, fields in places.items() for field in fields]
    described: dict[str, Any] = {"tags": [tag], "parameters": parameters}
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
    responses |= {500: wire.ErrorBody} if guard else {}
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


def results_content(result: type[Struct]) -> Content:
    """The content of `wire.ResultsBody`, whose results are `result` or a problem."""
    item = {"title": f"{result.__name__}Result", "oneOf": [result, wire.ItemProblem]}
    data = {"type": "array", "items": item}
    title = f"{result.__name__}Results"
    return json_content({"title": title, "type": "object", "properties": {"data": data}, "required": ["data"]})


def file_content(media_type: str) -> Content:
    """The content of a response that is a file.

    The general type is listed beside the true one because openapi-python-client knows no other type of binary content.
    """
    return {"application/octet-stream": {"schema": _FILE}, media_type: {"schema": _FILE}}


# ---- the document ----

_TAGS = ("images", "translations", "jobs", "exports", "account", "service")
"""Groups of operations. Generators make a class or a module of each."""
_REF = "#/components/schemas/{name}"
_UPLOAD_FIELDS: dict[str, Any] = {
    "image": {
        **_FILE,
        "contentMediaType": "application/octet-stream",
        "description": "the image, as a part with a file name",
    },
    "languages": {
        "type": "array",
        "items": {"type": "string", "enum": sorted(LANGUAGES)},
        "maxItems": MAX_LANGUAGES,
        "description": "ISO 639-1 codes; repeat the field, or send languages[], languages[0] …, one JSON array or one"
        " comma-separated value. A locale code such as pt-BR is taken too, for its language. Default: en",
    },
    **{name: {**field.schema, "description": field.description} for name, field in TEXT_FIELDS.items()},
}


def _paths(handlers: Sequence[HTTPRouteHandler], outside: Sequence[HTTPRouteHandler]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for handler in (*handlers, *outside):
        (path,) = handler.paths
        path = re.sub(r"{(\w+):str}", lambda match: f"{{{_PATH_PARAMETERS[match[1]].name}}}", path)
        method = next(str(method).lower() for method in sorted(handler.http_methods) if method != "HEAD")
        item = paths.setdefault(path, {"servers": [{"url": "/"}]} if handler in outside else {})
        summary, _, description = inspect.cleandoc(handler.fn.__doc__ or "").partition("\n\n")
        texts = {"summary": " ".join(summary.split()), "description": " ".join(description.split())}
        item[method] = {"operationId": handler.handler_name, **texts, **handler.opt["operation"]}
    return paths


def _schemas(structs: Sequence[type[Struct]]) -> dict[str, Any]:
    """Every schema by its name."""
    _, schemas = msgspec.json.schema_components(dict.fromkeys(structs), ref_template=_REF)
    for name, own in FIELDS_OF.items():
        properties = {field: _UPLOAD_FIELDS[field] for field in ("image", *own)}
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
    schemas["TextName"]["properties"]["version"].pop("default")
    return schemas


def _add_enum_types(schema: Any) -> None:
    """Add the type to each enum, because generators need it and msgspec omits it."""
    if isinstance(schema, dict) and "enum" in schema:
        schema.setdefault("type", "string")
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _add_enum_types(part)


def build(
    handlers: Sequence[HTTPRouteHandler], outside: Sequence[HTTPRouteHandler], status_set: wire.StatusSet
) -> bytes:
    """The document as JSON, with the status words of `status_set`. `outside` are handlers outside the API's prefix.

    Only a document with set A has examples.
    """
    structs: list[type[Struct]] = []

    def reference(struct: type[Struct]) -> dict[str, str]:
        structs.append(struct)
        return {"$ref": _REF.format(name=struct.__name__)}

    # decoded, because operations share parts, which may have different examples
    paths = msgspec.json.decode(msgspec.json.encode(_paths(handlers, outside), enc_hook=reference))
    if status_set == "A":
        add_examples(paths)
    in_set_a = msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Image Processing Service, local",
                "version": __version__,
                "description": "SEO file names, alt texts, smaller files and modern formats, on this machine."
                " Sizes are bytes; times are RFC 3339 in UTC. Errors carry a `message` for people."
                " The program's interface page (imgproc_local/api/README.md; packages for Linux install it below"
                " /usr/share/doc/imgproc-local) explains every field.",
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/api/v1"}],
            "security": [{"bearer": []}, {"apiKey": []}],
            "tags": [{"name": name} for name in _TAGS],
            "paths": paths,
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
