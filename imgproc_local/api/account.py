"""What an account has: its jobs, its projects and its credits."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response
from litestar.params import FromPath

from imgproc_local.api import operations
from imgproc_local.api.auth import authenticated_key
from imgproc_local.api.bodies import AffordBody, Balance, BalanceBody, JobBody, JobsBody, ProjectsBody
from imgproc_local.api.operations import delete, get, query
from imgproc_local.api.requests import preference_applied, read_query, read_wait_s
from imgproc_local.api.wire import INCLUDE, data_body, job_body, jobs_body, status_word, status_words
from imgproc_local.compose import Services
from imgproc_local.domain.job import Status
from imgproc_local.domain.plan import MAX_LANGUAGES
from imgproc_local.storage.jobs import JobFilters

DEFAULT_PAGE_SIZE = 20
MAX_PAGE_SIZE = 500
MAX_IMAGES = 100
"""The largest batch that `GET /credits/afford` calculates. Source: README.md, "Credits"."""
INVALID = "a parameter is invalid"
NO_JOB = "no such job in this account"


@get(
    "/jobs/{job_id:str}",
    "jobs",
    "A job and its results",
    {
        200: {
            "description": "the job in its present state",
            "headers": operations.PREFERENCE_APPLIED,
            "content": {"application/json": {"schema": JobBody}},
            "links": {
                **operations.links("image/id", "original", "thumbnail", "optimized", "converted"),
                **operations.links("job_id", "delete_job"),
            },
        },
        404: NO_JOB,
        422: INVALID,
    },
    operations.PREFER,
    operations.INCLUDE,
)
async def get_job(request: Request[Any, Any, Any], job_id: FromPath[str]) -> Response[JobBody]:
    services: Services = request.app.state.services
    account_id = authenticated_key(request).account_id
    wait_s = read_wait_s(request.headers)
    parameters = read_query(request)
    include = parameters.words("include", INCLUDE)
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
    {
        200: (
            JobsBody,
            "one page",
            {"X-Total-Count": operations.header("number of all jobs of the account", type="integer")},
        ),
        422: INVALID,
    },
    query("status", "only jobs of this status; several are repeated or separated by commas", operations.STATUS),
    query("project_id", "only jobs of this project", operations.ULID),
    query("needs_text", "only jobs with an alt text that a person has to write", operations.ONLY_TRUE),
    query(
        "language_missing",
        "only jobs that have no text in this language, or one that a person has to write",
        operations.LANGUAGE_CODE,
    ),
    query(
        "larger_than_optimized",
        "only jobs whose converted file is not smaller than the optimized one",
        operations.ONLY_TRUE,
    ),
    operations.INCLUDE,
    query("cursor", "next_cursor of the page before", operations.ULID),
    query(
        "limit",
        "jobs per page",
        {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE, "default": DEFAULT_PAGE_SIZE},
    ),
)
async def list_jobs(request: Request[Any, Any, Any]) -> Response[JobsBody]:
    services: Services = request.app.state.services
    account_id = authenticated_key(request).account_id
    parameters, status_set = read_query(request), services.config.status_set
    include = parameters.words("include", INCLUDE)
    limit = parameters.integer("limit", 1, MAX_PAGE_SIZE, DEFAULT_PAGE_SIZE)
    words = parameters.words("status", status_words(status_set))
    filters = JobFilters(
        statuses=tuple(status for status in Status if status_word(status, status_set) in words) or None,
        project_id=parameters.ulid("project_id"),
        needs_text=parameters.only_true("needs_text"),
        language_missing=parameters.language("language_missing"),
        larger_than_optimized=parameters.only_true("larger_than_optimized"),
    )
    cursor = parameters.ulid("cursor")
    parameters.require_valid()
    jobs = await services.jobs.page(account_id, limit + 1, filters, cursor)
    has_more = len(jobs) > limit  # one more than `limit` was read
    jobs = jobs[:limit]
    return Response(
        jobs_body(jobs, jobs[-1].id if has_more else None, status_set, include),
        headers={"X-Total-Count": str(await services.jobs.count(account_id))},
    )


@delete(
    "/jobs/{job_id:str}",
    "jobs",
    "Cancel a job and delete it with its files (local addition)",
    {204: "deleted", 404: NO_JOB},
)
async def delete_job(request: Request[Any, Any, Any], job_id: FromPath[str]) -> None:
    services: Services = request.app.state.services
    await services.engine.delete(job_id.lower(), authenticated_key(request).account_id)


@get("/projects", "account", "The account's projects by name (local addition)", {200: (ProjectsBody, "every project")})
async def list_projects(request: Request[Any, Any, Any]) -> ProjectsBody:
    services: Services = request.app.state.services
    return data_body(await services.jobs.projects(authenticated_key(request).account_id), ProjectsBody)


@get("/credits/balance", "account", "The credit balance", {200: (BalanceBody, "the balance")})
async def balance(request: Request[Any, Any, Any]) -> BalanceBody:
    services: Services = request.app.state.services
    return BalanceBody(Balance(await services.store.credits.balance(authenticated_key(request).account_id)))


@get(
    "/credits/afford",
    "account",
    "Whether the full pipeline is affordable for a batch",
    {200: (AffordBody, "required, balance and shortfall, in credits"), 422: INVALID},
    query("images", "number of images", {"type": "integer", "minimum": 1, "maximum": MAX_IMAGES}, required=True),
    query(
        "languages",
        "alt-text languages per image",
        {"type": "integer", "minimum": 1, "maximum": MAX_LANGUAGES, "default": 1},
    ),
    query("format", "target format", {"type": "string", "enum": ["webp", "avif"], "default": "webp"}),
)
async def afford(request: Request[Any, Any, Any]) -> AffordBody:
    services: Services = request.app.state.services
    parameters = read_query(request)
    images = parameters.integer("images", 1, MAX_IMAGES)
    languages = parameters.integer("languages", 1, MAX_LANGUAGES, default=1)
    parameters.format("format")
    parameters.require_valid()
    current = await services.store.credits.balance(authenticated_key(request).account_id)
    return data_body(services.engine.affordability(images, languages, current), AffordBody)
