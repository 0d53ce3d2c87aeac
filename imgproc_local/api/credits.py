"""The balance, and whether a batch is affordable."""

from __future__ import annotations

from typing import Any

from litestar import Request

from imgproc_local.api.auth import authenticated_key, require_key
from imgproc_local.api.bodies import AffordBody, Balance, BalanceBody
from imgproc_local.api.requests import get, read_format, read_integer, read_query
from imgproc_local.api.wire import afford_body
from imgproc_local.compose import Services
from imgproc_local.domain.errors import InvalidRequest
from imgproc_local.domain.plan import MAX_LANGUAGES

MAX_IMAGES = 100
"""The largest batch that `GET /credits/afford` calculates. Source: api/README.md, "Credits"."""


@get("/credits/balance", guards=[require_key])
async def balance(request: Request[Any, Any, Any]) -> BalanceBody:
    services: Services = request.app.state.services
    return BalanceBody(Balance(await services.store.credits.balance(authenticated_key(request).account_id)))


@get("/credits/afford", guards=[require_key])
async def afford(request: Request[Any, Any, Any]) -> AffordBody:
    services: Services = request.app.state.services
    query, errors = read_query(request), dict[str, list[str]]()
    images = read_integer(query, "images", errors, minimum=1, maximum=MAX_IMAGES)
    languages = read_integer(query, "languages", errors, minimum=1, maximum=MAX_LANGUAGES, default=1)
    read_format(query.get("format", ""), errors)
    if errors:
        raise InvalidRequest(errors)
    current = await services.store.credits.balance(authenticated_key(request).account_id)
    return afford_body(services.engine.affordability(images, languages, current))
