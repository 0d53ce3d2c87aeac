"""The JSON bodies of the interface, and how they are made from the data of the domain. This is one long file,
because it is a list of short bodies that refer to each other.

README.md says what their fields mean. Structs of the domain with the same fields are sent as they are.

A job's status is sent as a word of status set A or B, as the setting `status_set` says. See "Status" in the README of
this folder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace

from imgproc_local.domain.alt_text import MAX_ALT_CHARS, MAX_LONG_CHARS
from imgproc_local.domain.export import MissingFile, NeededText, published
from imgproc_local.domain.image import ConvertTarget, compression_percentage
from imgproc_local.domain.job import Job, Project, StageName, StageState, Status
from imgproc_local.domain.languages import Language
from imgproc_local.domain.plan import MAX_ITEMS, Affordability, Role
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import NeedsTextReason, Note, Review, SuggestedRole, TextName, TextState, Words

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
_Text = str | UnsetType
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
    review: Annotated[str, Meta(extra_json_schema={"enum": list(Review)})] | UnsetType | None = UNSET
    model: str | UnsetType = UNSET


class EditedTranslation(TranslationBody, frozen=True, kw_only=True):
    can_undo: bool
    can_redo: bool
    regenerating: bool
    error: str | None
    version: Annotated[int, Meta(ge=1)]


class EditedTranslationBody(Struct, frozen=True):
    data: EditedTranslation


class ChangedText(EditedTranslation, frozen=True, kw_only=True):
    """The result of an item that was changed."""

    image_id: _Ulid


class ItemProblem(Struct, frozen=True):
    """The result of an item that could not be changed. `data` is the text in force, if it was changed meanwhile."""

    image_id: str
    problem: str
    status: int
    language_code: str | UnsetType = UNSET
    data: EditedTranslation | UnsetType = UNSET


class ResultsBody(Struct, frozen=True):
    """The results of a request with a list of items, in the same order; `openapi.results_content` describes it."""

    data: list[Any]


class TranslationEdit(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a PATCH; at least one field is sent."""

    seo_alt_text: Annotated[_Text, published("one line of plain text", minLength=1, maxLength=MAX_ALT_CHARS)] = UNSET
    seo_filename: Annotated[_Text, published("stored as ASCII words joined by hyphens", minLength=1)] = UNSET
    long_description: Annotated[
        _Text, published("one paragraph of plain text; empty for none", maxLength=MAX_LONG_CHARS)
    ] = UNSET
    decorative: Annotated[bool | UnsetType, Meta(description="true if the alt text shall be empty")] = UNSET
    accept: Annotated[bool | UnsetType, Meta(description="true to accept the alt text as it is")] = UNSET


class EditItem(TranslationEdit, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The edit of one text of many."""

    image_id: str
    language_code: str
    version: int | UnsetType = UNSET

    @property
    def name(self) -> TextName:
        return TextName(self.image_id, self.language_code, None if self.version is UNSET else self.version)


ITEMS = Meta(min_length=1, max_length=MAX_ITEMS)


class EditItems(Struct, frozen=True, forbid_unknown_fields=True):
    texts: Annotated[list[EditItem], ITEMS]


class TextNames(Struct, frozen=True, forbid_unknown_fields=True):
    texts: Annotated[list[TextName], ITEMS]


class NewTextNames(TextNames, frozen=True, forbid_unknown_fields=True):
    replace: bool | UnsetType = UNSET
    from_language: str | UnsetType = UNSET


class ProjectNameBody(Struct, frozen=True):
    id: _Ulid
    name: str


class NoteBody(Struct, frozen=True):
    code: str
    message: str


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
    widths: list[int]
    only_smaller: bool
    role: _Role
    texts: dict[str, TextState]
    sha256: str
    folder: str
    taken_at: str | None
    quality_target: str | float | None
    optimized_score: float | None
    converted_score: float | None
    optimized_notes: list[NoteBody]
    converted_notes: list[NoteBody]
    words: Words
    remaking: bool
    remake_error: str | None


class VariantBody(Struct, frozen=True):
    width: Annotated[int, Meta(ge=1)]
    height: Annotated[int, Meta(ge=1)]
    size: Count
    url: str


class ImageBody(Struct, frozen=True):
    id: _Ulid
    status: _StatusWord
    original_filename: str
    original_size: Count
    optimized_size: int | None
    converted_format: ConvertTarget | None
    converted_size: int | None
    compression_percentage: int | None
    translations: list[TranslationBody]
    suggested_role: _SuggestedRole | None
    suggested_role_reason: str | None
    variants: list[VariantBody] | UnsetType = UNSET
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
    names: list[str]
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


class TextChangedBody(Struct, frozen=True):
    message: str
    data: EditedTranslation


class ExportIncompleteBody(Struct, frozen=True):
    message: str
    needs_text: tuple[NeededText, ...]
    missing: tuple[MissingFile, ...]


# ---- from the domain ----


def as_body(value: Any, body: type[T]) -> T:
    """The body with the fields of `value`, which has attributes of the same names."""
    return msgspec.convert(value, body, from_attributes=True)


def note_bodies(notes: Iterable[Note]) -> list[NoteBody]:
    return [NoteBody(note, note.message) for note in notes]


def status_words(status_set: StatusSet) -> list[str]:
    """The words of a status set, in the order in which a job can have them."""
    return list(dict.fromkeys(STATUS_WORDS[status_set].values()))


def _details(job: Job) -> DetailsBody:
    width_px, height_px = job.info.display_size_px
    scores = {stage.name: round(stage.score, 1) for stage in job.stages if stage.score is not None}
    # those that have the same name
    own = {name: getattr(job, name) for name in DetailsBody.__struct_fields__ if hasattr(job, name)}
    return DetailsBody(
        **own,
        project=ProjectNameBody(job.project_id, job.project_name),
        width_px=width_px,
        height_px=height_px,
        format=job.info.format,
        pages=job.info.pages,
        optimized_format=optimized.format if (optimized := job.file("optimized")) else None,
        texts=dict(job.text_states),
        sha256=job.original.sha256,
        taken_at=job.info.taken_at,
        optimized_score=scores.get(StageName.OPTIMIZE),
        converted_score=scores.get(StageName.CONVERT),
        optimized_notes=note_bodies(job.notes("optimized")),
        converted_notes=note_bodies(job.notes("converted")),
    )


def _variants(job: Job) -> list[VariantBody]:
    url = f"/api/v1/images/{job.image_id}/converted?width="
    return [
        VariantBody(each.width_px, each.height_px, each.size_bytes, f"{url}{each.width_px}") for each in job.variants
    ]


def job_data(job: Job, status_set: StatusSet, include: Collection[_Include] = ()) -> JobData:
    word = STATUS_WORDS[status_set][job.status]
    original_size = job.original.size_bytes
    texts = [as_body(translation, TranslationBody) for translation in job.translations]
    if "details" not in include:
        texts = [replace(text, long_description=UNSET, review=UNSET, model=UNSET) for text in texts]
    optimized, converted = job.file("optimized"), job.file("converted")
    optimized_size = optimized.size_bytes if optimized else None
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
        converted_format=converted.format if converted else None,  # type: ignore[arg-type] # CONVERT_TARGETS
        converted_size=converted.size_bytes if converted else None,
        compression_percentage=saved_percentage,
        translations=texts,
        suggested_role=job.suggestion.role if job.suggestion else None,
        suggested_role_reason=job.suggestion.reason if job.suggestion else None,
        variants=_variants(job) if job.widths else UNSET,
        removed=list(job.removed) if "removed" in include else UNSET,
        details=_details(job) if "details" in include else UNSET,
    )
    return JobData(job.id, word, image, errors or UNSET)


def job_body(job: Job, status_set: StatusSet, include: Collection[_Include] = ()) -> JobBody:
    return JobBody(job_data(job, status_set, include))
