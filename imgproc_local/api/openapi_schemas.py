"""The schemas of the OpenAPI document, from the Structs of the bodies and from the form fields of uploads.

Uploads are read as streams and not into a Struct; therefore their fields are described here. Everything is written so
that client generators make usable types of it. Optional fields of requests have no `default`: openapi-typescript would
require them, and openapi-generator would send them. Their descriptions name the default.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from imgproc_local.api import bodies
from imgproc_local.api.requests import MAX_PROJECT_NAME
from imgproc_local.domain.export import ExportFields
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.plan import MAX_CONTEXT_CHARS, MAX_LANGUAGES, MAX_SIDE_PX, Operation

REF = "#/components/schemas/{name}"

FILE = {"type": "string", "format": "binary"}
"""A file. OpenAPI 3.1 describes it by its media type alone; generators still need the format of OpenAPI 3.0."""

_IMAGE = Annotated[
    str,
    Meta(
        description="the image, as a part with a file name",
        extra_json_schema={"format": "binary", "contentMediaType": "application/octet-stream"},
    ),
]
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
        description="name of the project, which is created if it is new. Default: API Uploads",
        max_length=MAX_PROJECT_NAME,
        pattern=r"^[^\u0000-\u001f\u007f-\u009f]*$",
    ),
]
_CONTEXT = Annotated[
    str,
    Meta(
        description="words of the page or article that the picture is for. The vision model reads them as data; they"
        " are deleted when the texts have been written or have failed (local addition)",
        max_length=MAX_CONTEXT_CHARS,
    ),
]
_FORMAT = Annotated[Literal["webp", "avif"], Meta(description="format to convert to. Default: webp")]
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


class AnalyzeFields(Struct):
    image: _IMAGE
    languages: _LANGUAGES | UnsetType = UNSET
    project_id: _PROJECT_ID | UnsetType = UNSET
    project_name: _PROJECT_NAME | UnsetType = UNSET
    context: _CONTEXT | UnsetType = UNSET


class OptimizeFields(Struct):
    image: _IMAGE
    project_id: _PROJECT_ID | UnsetType = UNSET
    project_name: _PROJECT_NAME | UnsetType = UNSET
    max_width_px: _MAX_WIDTH | UnsetType = UNSET
    max_height_px: _MAX_HEIGHT | UnsetType = UNSET


class ConvertFields(Struct):
    image: _IMAGE
    format: _FORMAT | UnsetType = UNSET
    project_id: _PROJECT_ID | UnsetType = UNSET
    project_name: _PROJECT_NAME | UnsetType = UNSET
    max_width_px: _MAX_WIDTH | UnsetType = UNSET
    max_height_px: _MAX_HEIGHT | UnsetType = UNSET


class ProcessFields(Struct):
    image: _IMAGE
    languages: _LANGUAGES | UnsetType = UNSET
    format: _FORMAT | UnsetType = UNSET
    project_id: _PROJECT_ID | UnsetType = UNSET
    project_name: _PROJECT_NAME | UnsetType = UNSET
    context: _CONTEXT | UnsetType = UNSET
    max_width_px: _MAX_WIDTH | UnsetType = UNSET
    max_height_px: _MAX_HEIGHT | UnsetType = UNSET


UPLOAD_FIELDS: dict[Operation, type[Struct]] = {
    Operation.ANALYZE: AnalyzeFields,
    Operation.OPTIMIZE: OptimizeFields,
    Operation.CONVERT: ConvertFields,
    Operation.PROCESS: ProcessFields,
}
BODIES: list[type[Struct]] = [
    bodies.LanguagesBody,
    bodies.DispatchBody,
    bodies.JobBody,
    bodies.EditedTranslationBody,
    bodies.TranslationEdit,
    bodies.JobsBody,
    bodies.StatusEvent,
    bodies.ProjectsBody,
    bodies.AccountEvent,
    bodies.Snapshot,
    bodies.DeletedJob,
    bodies.Totals,
    bodies.BalanceBody,
    bodies.AffordBody,
    bodies.ExportPreviewBody,
    bodies.HealthBody,
    bodies.ErrorBody,
    bodies.ValidationErrorBody,
    bodies.RateLimitBody,
    bodies.InsufficientCreditsBody,
    bodies.NotReadyBody,
    bodies.ExportIncompleteBody,
    ExportFields,
]
IMAGES_AND_PROJECT = {
    "properties": {"images": {"type": "array"}, "project_id": {"type": "string"}},
    "required": ["images", "project_id"],
}
"""Matches a request that has both fields; an export may have only one of them."""


def schema_of(struct: type[Struct]) -> dict[str, Any]:
    """A reference to the schema of a Struct."""
    return {"$ref": REF.format(name=struct.__name__)}


def components() -> dict[str, Any]:
    """Every schema by its name."""
    _, schemas = msgspec.json.schema_components([*BODIES, *UPLOAD_FIELDS.values()], ref_template=REF)
    _add_enum_types(schemas)
    export = schemas[ExportFields.__name__]
    for field in export["properties"].values():
        field.pop("default", None)
    export["not"] = IMAGES_AND_PROJECT
    schemas[bodies.TranslationEdit.__name__]["minProperties"] = 1
    return schemas


def _add_enum_types(schema: Any) -> None:
    """Add the type to each enum, because generators need it and msgspec omits it."""
    if isinstance(schema, dict):
        if "enum" in schema:
            schema.setdefault("type", "string")
        for part in schema.values():
            _add_enum_types(part)
    elif isinstance(schema, list):
        for part in schema:
            _add_enum_types(part)
