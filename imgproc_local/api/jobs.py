"""Reading, listing and deleting jobs."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, delete
from litestar.params import FromPath

from imgproc_local.api.auth import authenticated_key, require_key
from imgproc_local.api.bodies import JobBody, JobsBody
from imgproc_local.api.requests import ULID, get, preference_applied, read_integer, read_list, read_query, read_wait_s
from imgproc_local.api.wire import INCLUDE, job_body, jobs_body, status_word, status_words
from imgproc_local.compose import Services
from imgproc_local.domain.errors import InvalidRequest
from imgproc_local.domain.job import Status
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.storage.job_filters import JobFilters

DEFAULT_PAGE_SIZE = 20
MAX_PAGE_SIZE = 500


@get("/jobs/{job_id:str}", guards=[require_key])
async def get_job(request: Request[Any, Any, Any], job_id: FromPath[str]) -> Response[JobBody]:
    services: Services = request.app.state.services
    account_id = authenticated_key(request).account_id
    wait_s = read_wait_s(request.headers)
    errors = dict[str, list[str]]()
    include = read_list(read_query(request), "include", INCLUDE, errors)
    if errors:
        raise InvalidRequest(errors)
    if wait_s is None:
        job = await services.jobs.get(job_id.lower(), account_id)
    else:
        job = await services.engine.wait(job_id.lower(), wait_s, account_id)
    return Response(job_body(job, services.config.status_set, include), headers=preference_applied(wait_s))


@get("/jobs", guards=[require_key])
async def list_jobs(request: Request[Any, Any, Any]) -> Response[JobsBody]:
    services: Services = request.app.state.services
    account_id = authenticated_key(request).account_id
    query, errors = read_query(request), dict[str, list[str]]()
    include = read_list(query, "include", INCLUDE, errors)
    limit = read_integer(query, "limit", errors, default=DEFAULT_PAGE_SIZE, minimum=1, maximum=MAX_PAGE_SIZE)
    status_set = services.config.status_set
    words = read_list(query, "status", status_words(status_set), errors)
    for name in ("needs_text", "larger_than_optimized"):
        if (value := query.get(name)) not in (None, "true"):
            errors[name] = [f"{name} must be true or not sent; received {str(value)[:40]!r}."]
    language_missing = query.get("language_missing")
    if language_missing is not None and language_missing.lower() not in LANGUAGES:
        errors["language_missing"] = [
            f"language_missing must be an ISO 639-1 code that GET /languages lists; received {language_missing[:40]!r}."
        ]
    for name in ("cursor", "project_id"):
        value = query.get(name)
        if value is not None and not ULID.fullmatch(value):
            errors[name] = [f"{name} must be a ULID of 26 characters; received {value[:40]!r}."]
    if errors:
        raise InvalidRequest(errors)
    jobs = await services.jobs.page(
        account_id,
        limit + 1,
        JobFilters(
            statuses=tuple(status for status in Status if status_word(status, status_set) in words) or None,
            project_id=query["project_id"].lower() if "project_id" in query else None,
            needs_text="needs_text" in query,
            language_missing=language_missing.lower() if language_missing else None,
            larger_than_optimized="larger_than_optimized" in query,
        ),
        query["cursor"].lower() if "cursor" in query else None,
    )
    has_more = len(jobs) > limit  # one more than `limit` was read
    jobs = jobs[:limit]
    return Response(
        jobs_body(jobs, jobs[-1].id if has_more else None, status_set, include),
        headers={"X-Total-Count": str(await services.jobs.count(account_id))},
    )


@delete("/jobs/{job_id:str}", status_code=204, guards=[require_key])
async def delete_job(request: Request[Any, Any, Any], job_id: FromPath[str]) -> None:
    services: Services = request.app.state.services
    await services.engine.delete(job_id.lower(), authenticated_key(request).account_id)
