"""What an account has: its jobs, its projects and its credits."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response

from imgproc_local.api import requests, wire
from imgproc_local.api.openapi import PREFER, delete, get
from imgproc_local.domain.job import Status
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.plan import MAX_LANGUAGES
from imgproc_local.storage.jobs import JobFilters

_DEFAULT_PAGE_SIZE = 20
MAX_IMAGES = 100
"""The largest batch that `GET /credits/afford` calculates. Source: README.md, "Credits"."""

PARTS = requests.Field(
    "include",
    "more parts of a job to send, separated by commas: removed, details",
    {"type": "string", "pattern": "^ *(removed|details) *(, *(removed|details) *)*$"},
)
_STATUS = requests.words("status", "only jobs of this status; several are separated by commas", wire.status_words("A"))
_PROJECT_ID = requests.ulid("project_id", "only jobs of this project")
# filters that can only be switched on are words, because some clients send the boolean as 1
_NEEDS_TEXT = requests.words("needs_text", "only jobs with an alt text that a person has to write", ["true"])
_LANGUAGE_MISSING = requests.words("language_missing", "only jobs that can't be published in this language", LANGUAGES)
_LARGER = requests.words(
    "larger_than_optimized", "only jobs whose conversion is not smaller than the optimization", ["true"]
)
_CURSOR = requests.ulid("cursor", "next_cursor of the page before")
LIMIT = requests.integer("limit", "jobs per page", 1, 500, default=_DEFAULT_PAGE_SIZE)

_BATCH_IMAGES = requests.integer("images", "number of images", 1, MAX_IMAGES, required=True)
_BATCH_LANGUAGES = requests.integer("languages", "alt-text languages per image", 1, MAX_LANGUAGES, default=1)


@get("/jobs/{job_id:str}", "jobs", wire.JobBody, query=[PARTS], headers=[PREFER])
async def get_job(request: Request[Any, Any, Any]) -> Response[wire.JobBody]:
    """A job and its results."""
    services, account_id = requests.caller(request)
    job_id = request.path_params["job_id"].lower()
    wait_s = requests.read_wait_s(request.headers)
    parameters = requests.read_query(request)
    include = parameters.words(PARTS.name, wire.INCLUDE)
    parameters.require_valid()
    if wait_s is None:
        job = await services.jobs.get(job_id, account_id)
    else:
        job = await services.engine.wait(job_id, wait_s, account_id)
    body = wire.job_body(job, services.config.status_set, include)
    return Response(body, headers=requests.preference_applied(wait_s))


_LIST_PARAMETERS = [_STATUS, _PROJECT_ID, _NEEDS_TEXT, _LANGUAGE_MISSING, _LARGER, PARTS, _CURSOR, LIMIT]


@get("/jobs", "jobs", wire.JobsBody, query=_LIST_PARAMETERS)
async def list_jobs(request: Request[Any, Any, Any]) -> Response[wire.JobsBody]:
    """The account's jobs, newest first (local addition)."""
    services, account_id = requests.caller(request)
    parameters, status_set = requests.read_query(request), services.config.status_set
    include = parameters.words(PARTS.name, wire.INCLUDE)
    limit = parameters.read(LIMIT) or _DEFAULT_PAGE_SIZE
    wanted = parameters.words(_STATUS.name, wire.status_words(status_set))
    filters = JobFilters(
        statuses=tuple(status for status in Status if wire.STATUS_WORDS[status_set][status] in wanted) or None,
        project_id=parameters.read(_PROJECT_ID),
        needs_text=bool(parameters.read(_NEEDS_TEXT)),
        language_missing=parameters.read(_LANGUAGE_MISSING),
        larger_than_optimized=bool(parameters.read(_LARGER)),
    )
    cursor = parameters.read(_CURSOR)
    parameters.require_valid()
    jobs = await services.jobs.page(account_id, limit + 1, filters, cursor)
    has_more = len(jobs) > limit  # one more than `limit` was read
    jobs = jobs[:limit]
    listed = [wire.job_data(job, status_set, include) for job in jobs]
    total = str(await services.jobs.count(account_id))
    return Response(wire.JobsBody(listed, jobs[-1].id if has_more else None), headers={"X-Total-Count": total})


@delete("/jobs/{job_id:str}", "jobs", None, status=204)
async def delete_job(request: Request[Any, Any, Any]) -> None:
    """Cancel a job and delete it with its files (local addition)."""
    services, account_id = requests.caller(request)
    await services.engine.delete(request.path_params["job_id"].lower(), account_id)


@get("/projects", "account", wire.ProjectsBody)
async def list_projects(request: Request[Any, Any, Any]) -> wire.ProjectsBody:
    """The account's projects by name (local addition)."""
    services, account_id = requests.caller(request)
    return wire.ProjectsBody(await services.jobs.projects(account_id))


@get("/credits/balance", "account", wire.BalanceBody)
async def balance(request: Request[Any, Any, Any]) -> wire.BalanceBody:
    """The credit balance."""
    services, account_id = requests.caller(request)
    return wire.BalanceBody(wire.Balance(await services.store.credits.balance(account_id)))


@get("/credits/afford", "account", wire.AffordBody, query=[_BATCH_IMAGES, _BATCH_LANGUAGES, requests.FORMAT])
async def afford(request: Request[Any, Any, Any]) -> wire.AffordBody:
    """Whether the full pipeline is affordable for a batch: required, balance and shortfall, in credits."""
    services, account_id = requests.caller(request)
    parameters = requests.read_query(request)
    images = parameters.read(_BATCH_IMAGES)
    languages = parameters.read(_BATCH_LANGUAGES) or 1
    parameters.read(requests.FORMAT)  # every format has the same price
    parameters.require_valid()
    current = await services.store.credits.balance(account_id)
    return wire.AffordBody(services.config.stage_prices.affordability(images, languages, current))


HANDLERS = [get_job, list_jobs, delete_job, list_projects, balance, afford]
