"""What an account has: its jobs, its projects and its credits."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response
from litestar.params import FromPath

from imgproc_local.api.auth import caller
from imgproc_local.api.operations import PREFER, delete, get
from imgproc_local.api.requests import (
    FORMAT,
    Field,
    integer,
    preference_applied,
    read_query,
    read_wait_s,
    ulid,
    words,
)
from imgproc_local.api.wire import (
    INCLUDE,
    AffordBody,
    Balance,
    BalanceBody,
    JobBody,
    JobsBody,
    ProjectsBody,
    job_body,
    jobs_body,
    status_word,
    status_words,
)
from imgproc_local.domain.job import Status
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.plan import MAX_LANGUAGES
from imgproc_local.storage.jobs import JobFilters

DEFAULT_PAGE_SIZE = 20
MAX_IMAGES = 100
"""The largest batch that `GET /credits/afford` calculates. Source: README.md, "Credits"."""

PARTS = Field(
    "include",
    "more parts of a job to send, separated by commas: removed, details",
    {"type": "string", "pattern": "^ *(removed|details) *(, *(removed|details) *)*$"},
)
STATUS = words("status", "only jobs of this status; several are repeated or separated by commas", status_words("A"))
PROJECT_ID = ulid("project_id", "only jobs of this project")
# filters that can only be switched on are words, because some clients send the boolean as 1
NEEDS_TEXT = words("needs_text", "only jobs with an alt text that a person has to write", ["true"])
LANGUAGE_MISSING = words(
    "language_missing", "only jobs that have no text in this language, or one that a person has to write", LANGUAGES
)
LARGER = words(
    "larger_than_optimized", "only jobs whose converted file is not smaller than the optimized one", ["true"]
)
CURSOR = ulid("cursor", "next_cursor of the page before")
LIMIT = integer("limit", "jobs per page", 1, 500, default=DEFAULT_PAGE_SIZE)

BATCH_IMAGES = integer("images", "number of images", 1, MAX_IMAGES, required=True)
BATCH_LANGUAGES = integer("languages", "alt-text languages per image", 1, MAX_LANGUAGES, default=1)


@get(
    "/jobs/{job_id:str}",
    "jobs",
    "A job and its results",
    JobBody,
    query=[PARTS],
    headers=[PREFER],
)
async def get_job(request: Request[Any, Any, Any], job_id: FromPath[str]) -> Response[JobBody]:
    services, account_id = caller(request)
    wait_s = read_wait_s(request.headers)
    parameters = read_query(request)
    include = parameters.words(PARTS.name, INCLUDE)
    parameters.require_valid()
    if wait_s is None:
        job = await services.jobs.get(job_id.lower(), account_id)
    else:
        job = await services.engine.wait(job_id.lower(), wait_s, account_id)
    return Response(job_body(job, services.config.status_set, include), headers=preference_applied(wait_s))


@get(
    "/jobs",
    "jobs",
    "The account's jobs, newest first (local addition)",
    JobsBody,
    query=[STATUS, PROJECT_ID, NEEDS_TEXT, LANGUAGE_MISSING, LARGER, PARTS, CURSOR, LIMIT],
)
async def list_jobs(request: Request[Any, Any, Any]) -> Response[JobsBody]:
    services, account_id = caller(request)
    parameters, status_set = read_query(request), services.config.status_set
    include = parameters.words(PARTS.name, INCLUDE)
    limit = parameters.read(LIMIT) or DEFAULT_PAGE_SIZE
    wanted = parameters.words(STATUS.name, status_words(status_set))
    filters = JobFilters(
        statuses=tuple(status for status in Status if status_word(status, status_set) in wanted) or None,
        project_id=parameters.read(PROJECT_ID),
        needs_text=bool(parameters.read(NEEDS_TEXT)),
        language_missing=parameters.read(LANGUAGE_MISSING),
        larger_than_optimized=bool(parameters.read(LARGER)),
    )
    cursor = parameters.read(CURSOR)
    parameters.require_valid()
    jobs = await services.jobs.page(account_id, limit + 1, filters, cursor)
    has_more = len(jobs) > limit  # one more than `limit` was read
    jobs = jobs[:limit]
    return Response(
        jobs_body(jobs, jobs[-1].id if has_more else None, status_set, include),
        headers={"X-Total-Count": str(await services.jobs.count(account_id))},
    )


@delete("/jobs/{job_id:str}", "jobs", "Cancel a job and delete it with its files (local addition)", None, status=204)
async def delete_job(request: Request[Any, Any, Any], job_id: FromPath[str]) -> None:
    services, account_id = caller(request)
    await services.engine.delete(job_id.lower(), account_id)


@get("/projects", "account", "The account's projects by name (local addition)", ProjectsBody)
async def list_projects(request: Request[Any, Any, Any]) -> ProjectsBody:
    services, account_id = caller(request)
    return ProjectsBody(list(await services.jobs.projects(account_id)))


@get("/credits/balance", "account", "The credit balance", BalanceBody)
async def balance(request: Request[Any, Any, Any]) -> BalanceBody:
    services, account_id = caller(request)
    return BalanceBody(Balance(await services.store.credits.balance(account_id)))


@get(
    "/credits/afford",
    "account",
    "Whether the full pipeline is affordable for a batch",
    AffordBody,
    query=[BATCH_IMAGES, BATCH_LANGUAGES, FORMAT],
)
async def afford(request: Request[Any, Any, Any]) -> AffordBody:
    services, account_id = caller(request)
    parameters = read_query(request)
    images = parameters.read(BATCH_IMAGES)
    languages = parameters.read(BATCH_LANGUAGES) or 1
    parameters.read(FORMAT)  # every format has the same price
    parameters.require_valid()
    current = await services.store.credits.balance(account_id)
    return AffordBody(services.engine.affordability(images, languages, current))


HANDLERS = [get_job, list_jobs, delete_job, list_projects, balance, afford]
