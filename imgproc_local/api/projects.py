"""The projects of an account."""

from __future__ import annotations

from typing import Any

from litestar import Request

from imgproc_local.api.auth import authenticated_key, require_key
from imgproc_local.api.bodies import ProjectsBody
from imgproc_local.api.requests import get
from imgproc_local.api.wire import projects_body
from imgproc_local.compose import Services


@get("/projects", guards=[require_key])
async def list_projects(request: Request[Any, Any, Any]) -> ProjectsBody:
    services: Services = request.app.state.services
    return projects_body(await services.jobs.projects(authenticated_key(request).account_id))
