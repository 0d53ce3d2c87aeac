"""Makes the bodies of the interface from the data of the domain.

A job's status is sent as a word of status set A or B, as the setting `status_set` says. The words of set A are the
values of `Status`; `SET_B` has the word of set B for each. See "Status" in the README of this folder.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal, TypeVar, get_args

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict

from imgproc_local.api.bodies import (
    DetailsBody,
    Dispatch,
    DispatchBody,
    EditedTranslation,
    EditedTranslationBody,
    ExportIncompleteBody,
    ExportPreviewBody,
    ImageBody,
    JobBody,
    JobData,
    JobsBody,
    ProjectNameBody,
    StageErrorBody,
    TextStateBody,
    TranslationBody,
)
from imgproc_local.domain.export import ExportProblems
from imgproc_local.domain.image import Format, compression_percentage
from imgproc_local.domain.job import Job, JobDetails, StageState, Status
from imgproc_local.domain.result import TextState, Translation

T = TypeVar("T")

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
"""The header that distinguishes errors of the same status. Its values are the codes in `domain/errors.py`."""

Include = Literal["removed", "details"]
"""The parts of a job that are sent only if the request asks for them."""
INCLUDE: tuple[Include, ...] = get_args(Include)

CONVERTED_FORMATS: dict[Format, Literal["webp", "avif"]] = {Format.WEBP: "webp", Format.AVIF: "avif"}

MAX_LISTED_PROBLEMS = 20
"""An error lists at most this many images that need a text, and as many missing files. `dry_run` lists all."""


def as_body(value: Any, body: type[T]) -> T:
    """The body with the fields of `value`, which has attributes of the same names."""
    return msgspec.convert(value, body, from_attributes=True)


def data_body(value: Any, body: type[T]) -> T:
    """A body whose only field is `data`."""
    return as_body({"data": value}, body)


def export_preview_body(images: int, files: int, size_bytes: int, problems: ExportProblems) -> ExportPreviewBody:
    preview = {"images": images, "files": files, "bytes": size_bytes}
    return data_body(preview | {"needs_text": problems.needs_text, "missing": problems.missing}, ExportPreviewBody)


def export_incomplete_body(message: str, problems: ExportProblems) -> ExportIncompleteBody:
    body = {
        "message": message,
        "needs_text_total": len(problems.needs_text),
        "needs_text": problems.needs_text[:MAX_LISTED_PROBLEMS],
        "missing_total": len(problems.missing),
        "missing": problems.missing[:MAX_LISTED_PROBLEMS],
    }
    return as_body(body, ExportIncompleteBody)


def status_word(status: Status, status_set: StatusSet) -> str:
    return SET_B[status] if status_set == "B" else status.value


def status_words(status_set: StatusSet) -> list[str]:
    """The words of a status set, in the order in which a job can have them."""
    return list(dict.fromkeys(status_word(status, status_set) for status in Status))


DISPATCHED = {
    "analyze": "Image analysis",
    "optimize": "Image optimization",
    "convert": "Image conversion",
    "process": "Image processing",
}


def dispatch_body(job: Job, status: Status, status_set: StatusSet, note: str) -> DispatchBody:
    """The answer to an upload. A `note` that is not empty is appended to its message."""
    message = f"{DISPATCHED[job.operation]} dispatched. Poll GET /api/v1/jobs/{job.id} for the result."
    if note:
        message += f" {note}"
    return DispatchBody(Dispatch(job.id, status_word(status, status_set), message))


def edited_translation_body(translation: Translation, state: TextState) -> EditedTranslationBody:
    return EditedTranslationBody(
        EditedTranslation(**asdict(as_body(translation, TranslationBody)), **asdict(as_body(state, TextStateBody)))
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
        texts={code: as_body(state, TextStateBody) for code, state in job.text_states.items()},
    )


def job_data(job: Job, status_set: StatusSet, include: Collection[Include] = ()) -> JobData:
    word = status_word(job.status, status_set)
    optimized, converted = job.optimized, job.converted
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
            converted_format=CONVERTED_FORMATS[converted.format] if converted else None,
            converted_size=converted.size_bytes if converted else None,
            compression_percentage=(
                compression_percentage(job.original.size_bytes, optimized.size_bytes) if optimized else None
            ),
            translations=[as_body(translation, TranslationBody) for translation in job.translations],
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
