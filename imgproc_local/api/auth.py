"""Who calls, and how often: decided from the headers alone, before a byte of the body is read.

The rate limit is exact, not a token bucket: at any instant the calls counted are those of the last 60 seconds. A
refused call is not counted, so a client that waits `retry_after_s` is accepted.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

from litestar.connection import ASGIConnection
from litestar.exceptions import NotFoundException
from litestar.handlers import BaseRouteHandler
from litestar.types import Message, Scope
from msgspec import Struct

from imgproc_local.compose import Services
from imgproc_local.domain.errors import RateLimited, Unauthenticated
from imgproc_local.domain.keys import ApiKey

WINDOW_S = 60.0
ALLOWANCE = "imgproc_allowance"
"""Key of the request's state."""
NO_LIMIT_REMAINING = 1_000_000
"""Sent as remaining where the key has no limit, because a client that reads 0 would pause."""


class Allowance(Struct, frozen=True):
    """Whether a call is allowed, and how many more are. `limit` is calls per minute; 0 is no limit."""

    allowed: bool
    limit: int
    remaining: int
    retry_after_s: int = 0


class RollingWindow:
    """Counts calls per key over the last minute. `clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._calls: dict[str, deque[float]] = {}

    def count(self, key_id: str, limit: int) -> Allowance:
        """Count one call of `key_id`, unless the last minute already holds `limit` of them."""
        if limit <= 0:
            return Allowance(allowed=True, limit=0, remaining=0)
        now = self._clock()
        calls = self._calls.setdefault(key_id, deque())
        while calls and calls[0] <= now - WINDOW_S:
            calls.popleft()
        if len(calls) >= limit:
            wait_s = calls[len(calls) - limit] + WINDOW_S - now
            return Allowance(allowed=False, limit=limit, remaining=0, retry_after_s=max(1, math.ceil(wait_s)))
        calls.append(now)
        return Allowance(allowed=True, limit=limit, remaining=limit - len(calls))


def refuse_trailing_slash(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """A guard of handlers without a key: Litestar would answer `/languages/`, which is another path.

    `require_key` calls it, because Litestar copies the handler for each guard, which takes 0.1 ms.
    """
    if connection.scope.get("raw_path", b"").endswith(b"/"):  # Litestar has removed the slash from `path`
        raise NotFoundException


async def require_key(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """A guard: stores the key as `scope["user"]`. Raises: Unauthenticated, RateLimited."""
    refuse_trailing_slash(connection, _)
    services: Services = connection.app.state.services
    key = await services.store.keys.authenticate(_secret(connection))
    limit = services.config.rate_limit_per_minute if key.rate_limit is None else key.rate_limit
    window: RollingWindow = connection.app.state.window
    allowance = window.count(key.id, limit)
    connection.scope["user"] = key
    connection.scope["state"][ALLOWANCE] = allowance
    if not allowance.allowed:
        raise RateLimited(allowance.retry_after_s)


def _secret(connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """The key as sent. `Authorization` wins over `X-API-Key`, even where it holds no valid key."""
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


async def add_rate_headers(message: Message, scope: Scope) -> None:
    """A `before_send` hook: each authenticated response says how many calls the key has left."""
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
    """The key that `require_key` accepted."""
    key: ApiKey = connection.scope["user"]
    return key
