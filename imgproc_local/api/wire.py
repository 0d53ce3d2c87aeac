"""Every JSON body of the interface, and how it is made from the domain. No other module knows the names of the fields;
therefore this is one long file.

A job's status is sent as a word of status set A or B, as the setting `status_set` says. The words of set A are the
values of `Status`; `SET_B` has the word of set B for each. See "Status" in the README of this folder.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from imgproc_local.domain.alt_text import MAX_ALT_CHARS
from imgproc_local.domain.export import ExportProblems, MissingFile, NeededText
from imgproc_local.domain.image import compression_percentage
from imgproc_local.domain.job import Job, JobDetails, JobTotals, Project, StageState, Status
from imgproc_local.domain.languages import Language
from imgproc_local.domain.plan import Affordability
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import TextState, Translation

StatusSet = Literal["A", "B"]

SET_B = {
    Status.PENDING: "pending",
    Status.ANALYZING: "processing",
    Status.OPTIMIZING: "processing",
    Status.CONVERTING: "processing",
    Status.COMPLETED: "done",
    Status.FAILED: "failed",
}

ERROR_CODE_HEADER = "X-Error-Code"
"""The header that tells apart errors of the same status. Its values are the codes of `domain/errors.py`."""

Include = Literal["removed", "details"]
"""The parts of a job that a body has only where the request asks for them."""

Ulid = Annotated[
    str, Meta(description="ULID in lower case", pattern="^[0-9a-z]{26}$", examples=["01kaj0r2t6x3m8v4q7n5c9zwhd"])
]
StatusWord = Annotated[
    str,
    Meta(
        description="the status of the job",
        # these are the words of set A; `openapi.build` replaces them when the setting chooses set B
        extra_json_schema={"enum": [status.value for status in Status]},
    ),
]
LanguageCode = Annotated[str, Meta(description="ISO 639-1 code", min_length=2, max_length=2, examples=["en"])]
Bytes = Annotated[int, Meta(description="size in bytes", ge=0)]


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
            " picture, its colours and date (pixels), or by hand (person)"
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
    can_undo: Annotated[bool, Meta(description="whether there is an earlier version of the text")]
    can_redo: Annotated[bool, Meta(description="whether there is a later version of the text")]
    remarks: Annotated[list[str], Meta(description="advice on the alt text, in English; empty if there is none")]
    regenerating: Annotated[bool, Meta(description="whether the text is being written anew")]
    error: Annotated[str | None, Meta(description="why the text could not be written anew the last time")]


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
    id: Annotated[str, Meta(description="ULID in lower case")]
    name: Annotated[str, Meta(description="name of the project")]


class TextStateBody(Struct, frozen=True):
    can_undo: Annotated[bool, Meta(description="whether there is an earlier version of the text")]
    can_redo: Annotated[bool, Meta(description="whether there is a later version of the text")]
    regenerating: Annotated[bool, Meta(description="whether the text is being written anew")]
    error: Annotated[str | None, Meta(description="why the text could not be written anew the last time")]


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
    original_filename: Annotated[str, Meta(description="name of the uploaded file")]
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
        Meta(description="with include=removed: the kinds of private data that the results do not carry, sorted"),
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
    id: Annotated[str, Meta(description="ULID in lower case")]
    name: Annotated[str, Meta(description="name of the project")]
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
    saved_bytes: Annotated[int, Meta(description="how many bytes smaller their smallest results are", ge=0)]


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
    original_filename: Annotated[str, Meta(description="name of the uploaded file")]
    languages: Annotated[
        list[LanguageCode], Meta(description="the requested languages that have no text about the content")
    ]


class MissingFileBody(Struct, frozen=True):
    image_id: Ulid
    original_filename: Annotated[str, Meta(description="name of the uploaded file")]
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
    needs_text: Annotated[list[NeededTextBody], Meta(description="every image without a text in some language")]
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
    required: Annotated[int, Meta(description="credits that the dispatch needs")]
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


# ---- domain -> wire ----

LISTED_PROBLEMS = 20
"""Missing texts and files that an error lists. `dry_run` lists all."""


def export_preview_body(images: int, files: int, size_bytes: int, problems: ExportProblems) -> ExportPreviewBody:
    return ExportPreviewBody(
        ExportPreview(images, files, size_bytes, _needed_texts(problems.needs_text), _missing_files(problems.missing))
    )


def export_incomplete_body(message: str, problems: ExportProblems) -> ExportIncompleteBody:
    return ExportIncompleteBody(
        message,
        len(problems.needs_text),
        _needed_texts(problems.needs_text[:LISTED_PROBLEMS]),
        len(problems.missing),
        _missing_files(problems.missing[:LISTED_PROBLEMS]),
    )


def _needed_texts(listed: Sequence[NeededText]) -> list[NeededTextBody]:
    return [NeededTextBody(text.image_id, text.original_filename, list(text.languages)) for text in listed]


def _missing_files(listed: Sequence[MissingFile]) -> list[MissingFileBody]:
    return [MissingFileBody(file.image_id, file.original_filename, file.variant, file.reason) for file in listed]


def afford_body(checked: Affordability) -> AffordBody:
    return AffordBody(Afford(checked.can_afford, checked.required, checked.balance, checked.shortfall))


def status_word(status: Status, status_set: StatusSet) -> str:
    return SET_B[status] if status_set == "B" else status.value


def status_words(status_set: StatusSet) -> list[str]:
    """The words of a status set, in the order in which a job can have them."""
    return list(dict.fromkeys(status_word(status, status_set) for status in Status))


def statuses_of(word: str, status_set: StatusSet) -> list[Status]:
    """The statuses that a status word means; empty for a word that is not in the configured set."""
    return [status for status in Status if status_word(status, status_set) == word]


def language_body(language: Language) -> LanguageBody:
    return LanguageBody(language.code, language.name, language.native_name)


DISPATCHED = {
    "analyze": "Image analysis",
    "optimize": "Image optimization",
    "convert": "Image conversion",
    "process": "Image processing",
}


def dispatch_body(job: Job, status: Status, status_set: StatusSet) -> DispatchBody:
    message = f"{DISPATCHED[job.operation]} dispatched. Poll GET /api/v1/jobs/{job.id} for the result."
    return DispatchBody(Dispatch(job.id, status_word(status, status_set), message))


def translation_body(translation: Translation) -> TranslationBody:
    return TranslationBody(
        language_code=translation.language_code,
        seo_filename=translation.seo_filename,
        seo_alt_text=translation.seo_alt_text,
        source=translation.source.value,
        needs_text=translation.needs_text,
    )


def edited_translation_body(
    translation: Translation, state: TextState, remarks: Sequence[str]
) -> EditedTranslationBody:
    body = translation_body(translation)
    return EditedTranslationBody(
        EditedTranslation(
            body.language_code,
            body.seo_filename,
            body.seo_alt_text,
            body.source,
            body.needs_text,
            state.can_undo,
            state.can_redo,
            list(remarks),
            state.regenerating,
            state.error,
        )
    )


def _details(job: Job, details: JobDetails) -> DetailsBody:
    width_px, height_px = details.info.display_size_px
    return DetailsBody(
        created_at=job.created_at,
        project=ProjectNameBody(job.project_id, details.project_name),
        operation=job.operation,  # type: ignore[arg-type] # one of domain.plan.Operation
        languages=list(details.languages),
        width_px=width_px,
        height_px=height_px,
        format=details.info.format.value,
        pages=details.info.pages,
        optimized_format=job.optimized.format.value if job.optimized else None,
        max_width_px=details.max_width_px,
        max_height_px=details.max_height_px,
        texts={
            code: TextStateBody(text.can_undo, text.can_redo, text.regenerating, text.error)
            for code, text in job.text_states.items()
        },
    )


def job_data(job: Job, status_set: StatusSet, include: Collection[Include] = ()) -> JobData:
    word = status_word(job.status, status_set)
    optimized, converted = job.optimized, job.converted
    converted_format: Literal["webp", "avif"] | None = None
    if converted is not None:
        converted_format = "avif" if converted.format == "avif" else "webp"
    errors = [
        StageErrorBody(stage.name.value, stage.error or "")
        for stage in job.stages
        if stage.state is StageState.FAILED and job.status is Status.FAILED
    ]
    return JobData(
        job_id=job.id,
        status=word,
        image=ImageBody(
            id=job.image_id,
            status=word,
            original_filename=job.original_filename,
            original_size=job.original.size_bytes,
            optimized_size=optimized.size_bytes if optimized else None,
            converted_format=converted_format,
            converted_size=converted.size_bytes if converted else None,
            compression_percentage=(
                compression_percentage(job.original.size_bytes, optimized.size_bytes) if optimized else None
            ),
            translations=[translation_body(translation) for translation in job.translations],
            removed=[kind.value for kind in job.removed] if "removed" in include else UNSET,
            details=_details(job, job.details) if "details" in include and job.details else UNSET,
        ),
        errors=errors or UNSET,
    )


def job_body(job: Job, status_set: StatusSet, include: Collection[Include] = ()) -> JobBody:
    return JobBody(job_data(job, status_set, include))


def jobs_body(
    jobs: Sequence[Job], next_cursor: str | None, status_set: StatusSet, include: Collection[Include] = ()
) -> JobsBody:
    return JobsBody([job_data(job, status_set, include) for job in jobs], next_cursor)


def projects_body(projects: Sequence[Project]) -> ProjectsBody:
    return ProjectsBody([ProjectBody(project.id, project.name, project.pictures) for project in projects])


def snapshot(totals: JobTotals) -> Snapshot:
    return Snapshot(totals.unfinished, totals.total)


def totals_data(totals: JobTotals) -> Totals:
    return Totals(
        totals.waiting, totals.running, totals.finished, totals.failed, totals.original_bytes, totals.saved_bytes
    )
