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
    ImageBody,
    JobBody,
    JobData,
    JobsBody,
    ProjectNameBody,
    StageErrorBody,
    TranslationBody,
)
from imgproc_local.domain.image import compression_percentage
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


def as_body(value: Any, body: type[T]) -> T:
    """The body with the fields of `value`, which has attributes of the same names."""
    return msgspec.convert(value, body, from_attributes=True)


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
    message = f"{DISPATCHED[job.operation]} dispatched. Poll GET /api/v1/jobs/{job.id} for the result. {note}"
    return DispatchBody(Dispatch(job.id, status_word(status, status_set), message.rstrip()))


def edited_translation_body(translation: Translation, state: TextState) -> EditedTranslationBody:
    text = as_body(translation, TranslationBody)
    return EditedTranslationBody(EditedTranslation(**asdict(text), **asdict(state)))


def _details(job: Job, details: JobDetails) -> DetailsBody:
    width_px, height_px = details.info.display_size_px
    return DetailsBody(
        created_at=job.created_at,
        project=ProjectNameBody(job.project_id, details.project_name),
        operation=job.operation,  # type: ignore[arg-type] # one of domain.plan.Operation
        languages=list(details.languages),
        width_px=width_px,
        height_px=height_px,
        format=details.info.format,
        pages=details.info.pages,
        optimized_format=job.optimized.format if job.optimized else None,
        max_width_px=details.max_width_px,
        max_height_px=details.max_height_px,
        texts=dict(job.text_states),
    )


def job_data(job: Job, status_set: StatusSet, include: Collection[Include] = ()) -> JobData:
    word = status_word(job.status, status_set)
    original_size = job.original.size_bytes
    optimized_size = job.optimized.size_bytes if job.optimized else None
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
        compression_percentage=(
            None if optimized_size is None else compression_percentage(original_size, optimized_size)
        ),
        translations=[as_body(translation, TranslationBody) for translation in job.translations],
        removed=list(job.removed) if "removed" in include else UNSET,
        details=_details(job, job.details) if "details" in include and job.details else UNSET,
    )
    return JobData(job.id, word, image, errors or UNSET)


def job_body(job: Job, status_set: StatusSet, include: Collection[Include] = ()) -> JobBody:
    return JobBody(job_data(job, status_set, include))


def jobs_body(
    jobs: Sequence[Job], next_cursor: str | None, status_set: StatusSet, include: Collection[Include] = ()
) -> JobsBody:
    return JobsBody([job_data(job, status_set, include) for job in jobs], next_cursor)
