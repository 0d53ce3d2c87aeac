"""Who calls, and whether he may: decided from the headers alone, before a byte of the body is read."""

from __future__ import annotations

from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.types import Message, Scope

from imgproc_local.compose import Services
from imgproc_local.domain.errors import RateLimited, Unauthenticated
from imgproc_local.domain.keys import ApiKey
from imgproc_local.domain.limits import Allowance

ALLOWANCE = "imgproc_allowance"
NO_LIMIT_REMAINING = 1_000_000
"""Told as remaining where the key has no limit: a client that reads 0 would pause."""


async def require_key(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """A guard: the key's owner becomes `scope["user"]`. Raises `Unauthenticated`, `RateLimited`."""
    services: Services = connection.app.state.services
    key = await services.store.keys.authenticate(_secret(connection))
    limit = services.config.rate_limit_per_minute if key.rate_limit is None else key.rate_limit
    allowance = services.window.count(key.id, limit)
    connection.scope["user"] = key
    connection.scope["state"][ALLOWANCE] = allowance
    if not allowance.allowed:
        raise RateLimited(allowance.retry_after_s)


def _secret(connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """The key as sent. `Authorization` wins over `X-API-Key`, also where it is the wrong one."""
    authorization = connection.headers.get("authorization")
    if authorization is not None:
        scheme, _, secret = authorization.strip().partition(" ")
        if scheme.lower() == "bearer" and secret.strip():
            return secret.strip()
        raise Unauthenticated
    secret = connection.headers.get("x-api-key", "").strip()
    if not secret:
        raise Unauthenticated
    return secret


async def tell_allowance(message: Message, scope: Scope) -> None:
    """A `before_send` hook: every authenticated answer carries what is left of the key's minute."""
    if message["type"] != "http.response.start":
        return
    allowance: Allowance | None = scope.get("state", {}).get(ALLOWANCE)
    if allowance is None:
        return
    remaining = allowance.remaining if allowance.limit else NO_LIMIT_REMAINING
    message["headers"] = [
        *message["headers"],
        (b"x-ratelimit-limit", str(allowance.limit).encode()),
        (b"x-ratelimit-remaining", str(remaining).encode()),
    ]


def caller(connection: ASGIConnection[Any, Any, Any, Any]) -> ApiKey:
    """The key that `require_key` let in."""
    key: ApiKey = connection.scope["user"]
    return key
