"""The JSON bodies of answers, and that of a text's edit. `wire` makes those of answers from the data of the domain."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from imgproc_local.domain.alt_text import MAX_ALT_CHARS
from imgproc_local.domain.job import Status
from imgproc_local.domain.privacy import Removed

Ulid = Annotated[
    str, Meta(description="ULID in lower case", pattern="^[0-9a-z]{26}$", examples=["01kaj0r2t6x3m8v4q7n5c9zwhd"])
]
StatusWord = Annotated[
    str,
    Meta(
        description="the status of the job",
        # the words of set A; `openapi.build` replaces them if the setting `status_set` is B
        extra_json_schema={"enum": [status.value for status in Status]},
    ),
]
LanguageCode = Annotated[str, Meta(description="ISO 639-1 code", min_length=2, max_length=2, examples=["en"])]
Bytes = Annotated[int, Meta(description="size in bytes", ge=0)]
OriginalFilename = Annotated[str, Meta(description="name of the uploaded file")]
ProjectId = Annotated[str, Meta(description="ULID in lower case")]
ProjectName = Annotated[str, Meta(description="name of the project")]
CanUndo = Annotated[bool, Meta(description="whether there is an earlier version of the text")]
CanRedo = Annotated[bool, Meta(description="whether there is a later version of the text")]
Regenerating = Annotated[bool, Meta(description="whether the text is being written anew")]
TextError = Annotated[str | None, Meta(description="why the text could not be written anew the last time")]
RemovedWord = Annotated[str, Meta(extra_json_schema={"enum": sorted(Removed)})]


class LanguageBody(Struct, frozen=True):
    code: LanguageCode
    name: Annotated[str, Meta(description="English name of the language")]
    native_name: Annotated[str, Meta(description="name of the language in that language")]


class LanguagesBody(Struct, frozen=True):
    data: list[LanguageBody]


class Dispatch(Struct, frozen=True):
    job_id: Ulid
    status: StatusWord
    message: Annotated[str, Meta(description="what was dispatched and the path to poll")]


class DispatchBody(Struct, frozen=True):
    data: Dispatch


class TranslationBody(Struct, frozen=True):
    language_code: LanguageCode
    seo_filename: Annotated[
        str, Meta(description="lower-case ASCII words joined by hyphens, no extension", max_length=80)
    ]
    seo_alt_text: Annotated[str, Meta(description="descriptive alt text in the language", max_length=MAX_ALT_CHARS)]
    source: Annotated[
        Literal["vision", "embedded", "facts", "pixels", "person"],
        Meta(
            description="how the texts were made: by the vision model (vision), from the file's own text in this"
            " language (embedded), from the words of a person in the file (facts), from nothing but the kind of"
            " picture and its date (pixels), or by hand (person)"
        ),
    ]
    needs_text: Annotated[
        bool,
        Meta(
            description="true if the source is pixels: the alt text says nothing about the content, and a person has to"
            " write one"
        ),
    ]


class EditedTranslation(TranslationBody, frozen=True):
    can_undo: CanUndo
    can_redo: CanRedo
    regenerating: Regenerating
    error: TextError


class EditedTranslationBody(Struct, frozen=True):
    data: EditedTranslation


class TranslationEdit(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a PATCH; at least one field is sent."""

    seo_alt_text: Annotated[
        str | UnsetType,
        Meta(
            description="one line of plain text; stored in Unicode NFC, without white space around it",
            extra_json_schema={"minLength": 1, "maxLength": MAX_ALT_CHARS},
        ),
    ] = UNSET
    seo_filename: Annotated[
        str | UnsetType,
        Meta(
            description="stored as lower-case ASCII words joined by hyphens, with a number if another image of the"
            " project has that name",
            extra_json_schema={"minLength": 1},
        ),
    ] = UNSET


class ProjectNameBody(Struct, frozen=True):
    id: ProjectId
    name: ProjectName


class TextStateBody(Struct, frozen=True):
    can_undo: CanUndo
    can_redo: CanRedo
    regenerating: Regenerating
    error: TextError


class DetailsBody(Struct, frozen=True):
    created_at: Annotated[str, Meta(description="when the upload was accepted, RFC 3339 in UTC")]
    project: Annotated[ProjectNameBody, Meta(description="the project of the job")]
    operation: Annotated[
        Literal["analyze", "optimize", "convert", "process"], Meta(description="what the request asked for")
    ]
    languages: Annotated[list[str], Meta(description="the requested languages, in order")]
    width_px: Annotated[int, Meta(description="width of the upload as displayed, its orientation applied", ge=0)]
    height_px: Annotated[int, Meta(description="height of the upload as displayed, its orientation applied", ge=0)]
    format: Annotated[str, Meta(description="format of the upload")]
    pages: Annotated[int, Meta(description="pages of the upload, of which the first is processed", ge=1)]
    optimized_format: Annotated[
        str | None, Meta(description="format of the optimized file; null until optimize is done")
    ]
    max_width_px: Annotated[int | None, Meta(description="requested maximum width of the results; null is none")]
    max_height_px: Annotated[int | None, Meta(description="requested maximum height of the results; null is none")]
    texts: Annotated[dict[str, TextStateBody], Meta(description="the state of each translation, by its language")]


class ImageBody(Struct, frozen=True):
    id: Annotated[str, Meta(pattern="^[0-9a-z]{26}$", description="the identifier for GET /images/{id}/optimized")]
    status: StatusWord
    original_filename: OriginalFilename
    original_size: Bytes
    optimized_size: Annotated[int | None, Meta(description="bytes; null until optimize is done")]
    converted_format: Annotated[
        Literal["webp", "avif"] | None, Meta(description="format of the converted file; null until convert is done")
    ]
    converted_size: Annotated[int | None, Meta(description="bytes; null until convert is done")]
    compression_percentage: Annotated[
        int | None, Meta(description="whole percent that optimize saved, 0 to 100; null until optimize is done")
    ]
    translations: Annotated[
        list[TranslationBody],
        Meta(description="one per requested language, in the order requested; empty until analyze is done"),
    ]
    removed: Annotated[
        list[RemovedWord] | UnsetType,
        Meta(description="with include=removed: kinds of private data in the upload that results do not carry, sorted"),
    ] = UNSET
    details: Annotated[DetailsBody | UnsetType, Meta(description="with include=details")] = UNSET


class StageErrorBody(Struct, frozen=True):
    stage: Annotated[Literal["analyze", "optimize", "convert"], Meta(description="which of the job's stages failed")]
    message: Annotated[str, Meta(description="the reason, for people")]


class JobData(Struct, frozen=True):
    job_id: Ulid
    status: StatusWord
    image: ImageBody
    errors: Annotated[
        list[StageErrorBody] | UnsetType, Meta(description="present only when the status is failed: why, per stage")
    ] = UNSET


class JobBody(Struct, frozen=True):
    data: JobData


class StatusEvent(Struct, frozen=True):
    """One event of the stream of `GET /jobs/{id}/events`. Source: OpenAPI 3.2, "Sequential Media Types"."""

    event: Annotated[Literal["status"], Meta(description="the only type of event")]
    data: Annotated[
        str,
        Meta(
            description="the body of `GET /jobs/{id}` as JSON, on one line",
            extra_json_schema={
                "contentMediaType": "application/json",
                "contentSchema": {"$ref": "#/components/schemas/JobBody"},
            },
        ),
    ]


class JobsBody(Struct, frozen=True):
    data: list[JobData]
    next_cursor: Annotated[
        str | None, Meta(description="send it as ?cursor= for the next, older page; null on the last")
    ]


class ProjectBody(Struct, frozen=True):
    id: ProjectId
    name: ProjectName
    pictures: Annotated[int, Meta(description="number of jobs", ge=0)]


class ProjectsBody(Struct, frozen=True):
    data: list[ProjectBody]


class Snapshot(Struct, frozen=True):
    """The data of the event `snapshot`."""

    open: Annotated[int, Meta(description="jobs that are not final", ge=0)]
    total: Annotated[int, Meta(description="all jobs of the account", ge=0)]


class DeletedJob(Struct, frozen=True):
    """The data of the event `deleted`."""

    job_id: Ulid


class Totals(Struct, frozen=True):
    """The data of the event `totals`."""

    waiting: Annotated[int, Meta(description="jobs of which no stage has started", ge=0)]
    running: Annotated[int, Meta(description="jobs that have started and are not final", ge=0)]
    finished: Annotated[int, Meta(description="completed jobs", ge=0)]
    failed: Annotated[int, Meta(description="failed jobs", ge=0)]
    original_bytes: Annotated[int, Meta(description="bytes of the uploads that have a result", ge=0)]
    saved_bytes: Annotated[int, Meta(description="how many bytes smaller their smallest results are in total", ge=0)]


class AccountEvent(Struct, frozen=True):
    """One event of the stream of `GET /events`."""

    event: Annotated[
        Literal["snapshot", "job", "deleted", "totals", "reset"], Meta(description="the type of the event")
    ]
    data: Annotated[
        str,
        Meta(
            description="JSON on one line: Snapshot, JobBody (as with include=removed,details), DeletedJob, Totals, or"
            " an empty object for reset",
            extra_json_schema={
                "contentMediaType": "application/json",
                "contentSchema": {
                    "anyOf": [
                        *(
                            {"$ref": f"#/components/schemas/{name}"}
                            for name in ("Snapshot", "JobBody", "DeletedJob", "Totals")
                        ),
                        {"type": "object", "maxProperties": 0},
                    ]
                },
            },
        ),
    ]


class Balance(Struct, frozen=True):
    balance: Annotated[int, Meta(description="credits", ge=0)]


class BalanceBody(Struct, frozen=True):
    data: Balance


class Afford(Struct, frozen=True):
    can_afford: Annotated[bool, Meta(description="true when the balance covers the requirement")]
    required: Annotated[int, Meta(description="credits needed for the described batch", ge=0)]
    balance: Annotated[int, Meta(description="credits", ge=0)]
    shortfall: Annotated[int, Meta(description="missing credits; 0 when can_afford is true", ge=0)]


class AffordBody(Struct, frozen=True):
    data: Afford


class NeededTextBody(Struct, frozen=True):
    image_id: Ulid
    original_filename: OriginalFilename
    languages: Annotated[
        list[LanguageCode], Meta(description="the requested languages that have no text about the content")
    ]


class MissingFileBody(Struct, frozen=True):
    image_id: Ulid
    original_filename: OriginalFilename
    variant: Annotated[Literal["optimized", "converted", "original"], Meta(description="which file is missing")]
    reason: Annotated[
        Literal["unfinished", "failed", "not_requested", "removed", "missing", "damaged"],
        Meta(
            description="its stage is not done, has failed or was not requested; or the file was removed because of its"
            " age, or is missing or damaged in the data folder"
        ),
    ]


class ExportPreview(Struct, frozen=True):
    images: Annotated[int, Meta(description="images with at least one file", ge=0)]
    files: Annotated[int, Meta(description="picture files; alt.csv and alt.json are added", ge=0)]
    bytes: Annotated[int, Meta(description="size of the picture files, before texts are written into them", ge=0)]
    needs_text: Annotated[
        list[NeededTextBody], Meta(description="every image with a requested language that needs a text")
    ]
    missing: Annotated[list[MissingFileBody], Meta(description="every requested file that does not exist")]


class ExportPreviewBody(Struct, frozen=True):
    data: ExportPreview


class HealthBody(Struct, frozen=True):
    status: Annotated[Literal["ok"], Meta(description="the data folder can be written and stages are processed")]


# ---- errors ----


class ErrorBody(Struct, frozen=True):
    message: Annotated[str, Meta(description="what was expected and what was received, for people")]


class ValidationErrorBody(Struct, frozen=True):
    message: Annotated[str, Meta(description="the first problem, and how many more there are")]
    errors: Annotated[dict[str, list[str]], Meta(description="every problem, by field")]


class RateLimitBody(Struct, frozen=True):
    message: Annotated[str, Meta(description="always the same text", examples=["Too Many Attempts."])]
    retry_after: Annotated[int, Meta(description="seconds", ge=1)]


class InsufficientCreditsBody(Struct, frozen=True):
    message: Annotated[str, Meta(description="what is missing and how to get it")]
    required: Annotated[int, Meta(description="credits that the request needs")]
    balance: Annotated[int, Meta(description="credits")]
    shortfall: Annotated[int, Meta(description="missing credits")]


class ExportIncompleteBody(Struct, frozen=True):
    message: Annotated[str, Meta(description="how much is missing, and how to export the rest")]
    needs_text_total: Annotated[int, Meta(description="images without a text; 0 if allow_needs_text was sent", ge=0)]
    needs_text: Annotated[list[NeededTextBody], Meta(description="the first 20 of them")]
    missing_total: Annotated[int, Meta(description="missing files; 0 if allow_missing was sent", ge=0)]
    missing: Annotated[list[MissingFileBody], Meta(description="the first 20 of them")]


class NotReadyBody(Struct, frozen=True):
    error: Annotated[str, Meta(description="which stage must be done before there is a file")]
