"""The filters of a list of jobs, and the statements that read it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from imgproc_local.domain.job import Status


class JobFilters(Struct, frozen=True):
    """Which jobs a list has: those that match every filter that is set.

    `needs_text`: a person has to write an alt text. `language_missing`: the job has no text in this language, or a
    person has to write it. `larger_than_optimized`: the converted file is not smaller than the optimized one.
    """

    statuses: tuple[Status, ...] | None = None
    project_id: str | None = None
    needs_text: bool = False
    language_missing: str | None = None
    larger_than_optimized: bool = False


NO_FILTERS = JobFilters()


def list_queries(filters: JobFilters) -> list[str]:
    """The names of the statements that together list the jobs that match `filters`."""
    if filters.needs_text:
        return ["list_jobs_needing_text"]
    all_jobs = "list_jobs" if filters.project_id is None else "list_jobs_of_project"
    queries = {Status.COMPLETED: all_jobs, Status.FAILED: "list_failed_jobs"}
    # most jobs are completed, so that an index of these would not shorten the search
    return list({queries.get(status, "list_open_jobs") for status in filters.statuses or (Status.COMPLETED,)})


def list_parameters(filters: JobFilters) -> dict[str, Any]:
    """The parameters that the statements of `list_queries` take from the filters."""
    return {
        "project_id": filters.project_id,
        "statuses": msgspec.json.encode(list(filters.statuses or ())).decode(),
        "needs_text": filters.needs_text,
        "language_missing": filters.language_missing,
        "larger_than_optimized": filters.larger_than_optimized,
    }
