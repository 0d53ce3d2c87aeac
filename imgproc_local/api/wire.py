"""The JSON bodies of the interface, and how they are made from the data of the domain.

README.md says what their fields mean. Structs of the domain with the same fields are sent as they are.

A job's status is sent as a word of status set A or B, as the setting `status_set` says. See "Status" in the README of
this folder.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import asdict, replace

from imgproc_local.domain.alt_text import MAX_ALT_CHARS, MAX_LONG_CHARS
from imgproc_local.domain.export import MissingFile, NeededText
from imgproc_local.domain.image import compression_percentage
from imgproc_local.domain.job import Job, Project, StageState, Status
from imgproc_local.domain.languages import Language
from imgproc_local.domain.plan import Affordability, Role
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import NeedsTextReason, SuggestedRole, TextState

T = TypeVar("T")
StatusSet = Literal["A", "B"]

STATUS_WORDS: dict[StatusSet, dict[Status, str]] = {
    "A": {status: status.value for status in Status},
    "B": dict.fromkeys(Status, "processing")
    | {Status.PENDING: "pending", Status.COMPLETED: "done", Status.FAILED: "failed"},
}

ERROR_CODE_HEADER = "X-Error-Code"
"""The header that distinguishes errors of the same status. Its values are the codes in `domain/errors.py`."""

_Include = Literal["removed", "details"]
"""The parts of a job that are sent only if the request asks for them."""
INCLUDE: tuple[_Include, ...] = get_args(_Include)


# ---- bodies ----

_Ulid = Annotated[str, Meta(pattern="^[0-9a-z]{26}$", examples=["01kaj0r2t6x3m8v4q7n5c9zwhd"])]
# the words of set A; `openapi.build` replaces them if the setting `status_set` is B
_StatusWord = Annotated[str, Meta(extra_json_schema={"enum": [status.value for status in Status]})]
_LanguageCode = Annotated[str, Meta(min_length=2, max_length=2, examples=["en"])]
Count = Annotated[int, Meta(ge=0)]
_StageWord = Literal["analyze", "optimize", "convert"]
_Reason = Annotated[str, Meta(extra_json_schema={"enum": list(NeedsTextReason)})]
_Role = Annotated[str, Meta(extra_json_schema={"enum": list(Role)})]
_SuggestedRole = Annotated[str, Meta(extra_json_schema={"enum": list(SuggestedRole)})]


class LanguagesBody(Struct, frozen=True):
    data: list[Language]


class Dispatch(Struct, frozen=True):
    job_id: _Ulid
    status: _StatusWord
    message: str


class DispatchBody(Struct, frozen=True):
    data: Dispatch
    warnings: list[str] | UnsetType = UNSET


class TranslationBody(Struct, frozen=True, kw_only=True):
    language_code: _LanguageCode
    seo_filename: Annotated[str, Meta(max_length=80)]
    seo_alt_text: Annotated[str, Meta(max_length=MAX_ALT_CHARS)]
    source: Literal["vision", "embedded", "facts", "pixels", "person"]
    needs_text: bool
    needs_text_reason: _Reason | None
    long_description: str | UnsetType = UNSET


class EditedTranslation(TranslationBody, frozen=True, kw_only=True):
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
        str | UnsetType, Meta(description="stored as ASCII words joined by hyphens", extra_json_schema={"minLength": 1})
    ] = UNSET
    long_description: Annotated[
        str | UnsetType,
        Meta(
            description="one paragraph of plain text; empty for none", extra_json_schema={"maxLength": MAX_LONG_CHARS}
        ),
    ] = UNSET
    decorative: Annotated[bool | UnsetType, Meta(description="true if the alt text shall be empty")] = UNSET


class ProjectNameBody(Struct, frozen=True):
    id: _Ulid
    name: str


class DetailsBody(Struct, frozen=True):
    created_at: str
    project: ProjectNameBody
    operation: Literal[_StageWord, "process"]
    languages: list[str]
    width_px: Count
    height_px: Count
    format: str
    pages: Annotated[int, Meta(ge=1)]
    optimized_format: str | None
    max_width_px: int | None
    max_height_px: int | None
    role: _Role
    texts: dict[str, TextState]


class ImageBody(Struct, frozen=True):
    id: _Ulid
    status: _StatusWord
    original_filename: str
    original_size: Count
    optimized_size: int | None
    converted_format: Literal["webp", "avif"] | None
    converted_size: int | None
    compression_percentage: int | None
    translations: list[TranslationBody]
    suggested_role: _SuggestedRole | None
    suggested_role_reason: str | None
    removed: list[Annotated[str, Meta(extra_json_schema={"enum": sorted(Removed)})]] | UnsetType = UNSET
    details: DetailsBody | UnsetType = UNSET


class StageErrorBody(Struct, frozen=True):
    stage: _StageWord
    message: str


class JobData(Struct, frozen=True):
    job_id: _Ulid
    status: _StatusWord
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
    needs_text: tuple[NeededText, ...]
    missing: tuple[MissingFile, ...]


# ---- from the domain ----


def as_body(value: Any, body: type[T]) -> T:
    """The body with the fields of `value`, which has attributes of the same names."""
    return msgspec.convert(value, body, from_attributes=True)


def status_words(status_set: StatusSet) -> list[str]:
    """The words of a status set, in the order in which a job can have them."""
    return list(dict.fromkeys(STATUS_WORDS[status_set].values()))


def edited_translation_body(job: Job, language_code: str) -> EditedTranslationBody:
    text = next(each for each in job.translations if each.language_code == language_code)
    fields = asdict(as_body(text, TranslationBody)) | asdict(job.text_states[language_code])
    return EditedTranslationBody(EditedTranslation(**fields))


def _details(job: Job) -> DetailsBody:
    width_px, height_px = job.info.display_size_px
    return DetailsBody(
        created_at=job.created_at,
        project=ProjectNameBody(job.project_id, job.project_name),
        operation=job.operation,  # type: ignore[arg-type] # one of domain.plan.Operation
        languages=list(job.languages),
        width_px=width_px,
        height_px=height_px,
        format=job.info.format,
        pages=job.info.pages,
        optimized_format=job.optimized.format if job.optimized else None,
        max_width_px=job.max_width_px,
        max_height_px=job.max_height_px,
        role=job.role,
        texts=dict(job.text_states),
    )


def _job_data(job: Job, status_set: StatusSet, include: Collection[_Include] = ()) -> JobData:
    word = STATUS_WORDS[status_set][job.status]
    original_size = job.original.size_bytes
    texts = [as_body(translation, TranslationBody) for translation in job.translations]
    if "details" not in include:
        texts = [replace(text, long_description=UNSET) for text in texts]
    optimized_size = job.optimized.size_bytes if job.optimized else None
    saved_percentage = None if optimized_size is None else compression_percentage(original_size, optimized_size)
    errors = [
        StageErrorBody(stage.name.value, stage.error or "")
        for stage in job.stages
        if stage.state is StageState.FAILED and job.status is Status.FAILED
    ]
    image = ImageBody(
        id=job.image_id,
        status=word,
        original_filename=job.original_filename,
        original_size=original_size,
        optimized_size=optimized_size,
        converted_format=job.converted.format if job.converted else None,  # type: ignore[arg-type] # CONVERT_TARGETS
        converted_size=job.converted.size_bytes if job.converted else None,
        compression_percentage=saved_percentage,
        translations=texts,
        suggested_role=job.suggestion.role if job.suggestion else None,
        suggested_role_reason=job.suggestion.reason if job.suggestion else None,
        removed=list(job.removed) if "removed" in include else UNSET,
        details=_details(job) if "details" in include else UNSET,
    )
    return JobData(job.id, word, image, errors or UNSET)


def job_body(job: Job, status_set: StatusSet, include: Collection[_Include] = ()) -> JobBody:
    return JobBody(_job_data(job, status_set, include))


def jobs_body(
    jobs: Sequence[Job], next_cursor: str | None, status_set: StatusSet, include: Collection[_Include] = ()
) -> JobsBody:
    return JobsBody([_job_data(job, status_set, include) for job in jobs], next_cursor)
