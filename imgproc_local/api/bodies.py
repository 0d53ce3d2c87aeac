"""The JSON bodies of answers, and that of a text's edit.

README.md says what their fields mean. Structs of the domain with the same fields are sent as they are. `wire` makes
the others from the data of the domain.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from imgproc_local.domain.alt_text import MAX_ALT_CHARS
from imgproc_local.domain.export import MissingFile, NeededText
from imgproc_local.domain.job import Project, Status
from imgproc_local.domain.languages import Language
from imgproc_local.domain.plan import Affordability
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import TextState

Ulid = Annotated[str, Meta(pattern="^[0-9a-z]{26}$", examples=["01kaj0r2t6x3m8v4q7n5c9zwhd"])]
# the words of set A; `openapi.build` replaces them if the setting `status_set` is B
StatusWord = Annotated[str, Meta(extra_json_schema={"enum": [status.value for status in Status]})]
LanguageCode = Annotated[str, Meta(min_length=2, max_length=2, examples=["en"])]
Count = Annotated[int, Meta(ge=0)]
StageWord = Literal["analyze", "optimize", "convert"]


class LanguagesBody(Struct, frozen=True):
    data: list[Language]


class Dispatch(Struct, frozen=True):
    job_id: Ulid
    status: StatusWord
    message: str


class DispatchBody(Struct, frozen=True):
    data: Dispatch


class TranslationBody(Struct, frozen=True):
    language_code: LanguageCode
    seo_filename: Annotated[str, Meta(max_length=80)]
    seo_alt_text: Annotated[str, Meta(max_length=MAX_ALT_CHARS)]
    source: Literal["vision", "embedded", "facts", "pixels", "person"]
    needs_text: bool


class EditedTranslation(TranslationBody, frozen=True):
    can_undo: bool
    can_redo: bool
    regenerating: bool
    error: str | None


class EditedTranslationBody(Struct, frozen=True):
    data: EditedTranslation


class TranslationEdit(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a PATCH; at least one field is sent."""

    seo_alt_text: Annotated[
        str | UnsetType,
        Meta(description="one line of plain text", extra_json_schema={"minLength": 1, "maxLength": MAX_ALT_CHARS}),
    ] = UNSET
    seo_filename: Annotated[
        str | UnsetType,
        Meta(description="stored as ASCII words joined by hyphens", extra_json_schema={"minLength": 1}),
    ] = UNSET


class ProjectNameBody(Struct, frozen=True):
    id: Ulid
    name: str


class DetailsBody(Struct, frozen=True):
    created_at: str
    project: ProjectNameBody
    operation: Literal[StageWord, "process"]
    languages: list[str]
    width_px: Count
    height_px: Count
    format: str
    pages: Annotated[int, Meta(ge=1)]
    optimized_format: str | None
    max_width_px: int | None
    max_height_px: int | None
    texts: dict[str, TextState]


class ImageBody(Struct, frozen=True):
    id: Ulid
    status: StatusWord
    original_filename: str
    original_size: Count
    optimized_size: int | None
    converted_format: Literal["webp", "avif"] | None
    converted_size: int | None
    compression_percentage: int | None
    translations: list[TranslationBody]
    removed: list[Annotated[str, Meta(extra_json_schema={"enum": sorted(Removed)})]] | UnsetType = UNSET
    details: DetailsBody | UnsetType = UNSET


class StageErrorBody(Struct, frozen=True):
    stage: StageWord
    message: str


class JobData(Struct, frozen=True):
    job_id: Ulid
    status: StatusWord
    image: ImageBody
    errors: list[StageErrorBody] | UnsetType = UNSET


class JobBody(Struct, frozen=True):
    data: JobData


class JobsBody(Struct, frozen=True):
    data: list[JobData]
    next_cursor: str | None


class ProjectsBody(Struct, frozen=True):
    data: list[Project]


class Balance(Struct, frozen=True):
    balance: Count


class BalanceBody(Struct, frozen=True):
    data: Balance


class AffordBody(Struct, frozen=True):
    data: Affordability


class ExportPreview(Struct, frozen=True):
    images: Count
    files: Count
    bytes: Count
    needs_text: tuple[NeededText, ...]
    missing: tuple[MissingFile, ...]


class ExportPreviewBody(Struct, frozen=True):
    data: ExportPreview


class HealthBody(Struct, frozen=True):
    status: Literal["ok"]


class StatusEvent(Struct, frozen=True):
    """One event of the stream of `GET /jobs/{id}/events`. Source: OpenAPI 3.2, "Sequential Media Types"."""

    event: Literal["status"]
    data: Annotated[
        str,
        Meta(
            extra_json_schema={
                "contentMediaType": "application/json",
                "contentSchema": {"$ref": "#/components/schemas/JobBody"},
            }
        ),
    ]


class AccountEvent(Struct, frozen=True):
    """One event of the stream of `GET /events`; its data is JSON on one line."""

    event: Literal["snapshot", "job", "deleted", "totals", "reset"]
    data: str


# ---- errors ----
# these are filled with the attributes of the error that have their fields' names


class ErrorBody(Struct, frozen=True):
    message: str


class ValidationErrorBody(Struct, frozen=True):
    message: str
    errors: dict[str, list[str]]


class RateLimitBody(Struct, frozen=True):
    message: Annotated[str, Meta(examples=["Too Many Attempts."])]
    retry_after_s: Annotated[int, Meta(ge=1)] = field(name="retry_after")


class InsufficientCreditsBody(Struct, frozen=True):
    message: str
    required: int
    balance: int
    shortfall: int


class NotReadyBody(Struct, frozen=True):
    message: str = field(name="error")


class ExportIncompleteBody(Struct, frozen=True):
    message: str
    needs_text_total: Count
    needs_text: tuple[NeededText, ...]
    missing_total: Count
    missing: tuple[MissingFile, ...]
