"""Authentication and rate limiting, from the headers alone, before the body is read.

The rate limit is a sliding window log: it counts exactly the calls of the last 60 seconds. A rejected call is not
counted, so a client that waits `retry_after_s` is accepted.
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
STATE_KEY = "imgproc_rate_limit"
"""Where the `scope["state"]` of a request has its RateLimitResult."""
UNLIMITED_REMAINING = 1_000_000
"""The `X-RateLimit-Remaining` of a key without a limit. Clients would pause at 0."""


class RateLimitResult(Struct, frozen=True):
    """Whether a call is allowed, and how many calls remain. `limit` is in calls per minute; 0 means unlimited."""

    allowed: bool
    limit: int
    remaining: int
    retry_after_s: int = 0


class RateLimiter:
    """Limits the calls of each key in the last 60 seconds. `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._calls: dict[str, deque[float]] = {}

    def acquire(self, key_id: str, limit: int) -> RateLimitResult:
        """Count one call of `key_id` if fewer than `limit` were counted in the last 60 seconds."""
        if limit <= 0:
            return RateLimitResult(allowed=True, limit=0, remaining=0)
        now = self._clock()
        calls = self._calls.setdefault(key_id, deque())
        while calls and calls[0] <= now - WINDOW_S:
            calls.popleft()
        if len(calls) >= limit:
            wait_s = calls[len(calls) - limit] + WINDOW_S - now
            return RateLimitResult(allowed=False, limit=limit, remaining=0, retry_after_s=max(1, math.ceil(wait_s)))
        calls.append(now)
        return RateLimitResult(allowed=True, limit=limit, remaining=limit - len(calls))


def refuse_trailing_slash(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """A guard of handlers without a key: Litestar would answer `/languages/`, which is another path.

    `require_key` calls it, because Litestar copies the handler for each guard, which takes 0.1 ms.
    """
    if connection.scope.get("raw_path", b"").endswith(b"/"):  # Litestar has removed the slash from `path`
        raise NotFoundException


async def require_key(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """A Litestar guard. Stores the ApiKey as `scope["user"]`. Raises: Unauthenticated, RateLimited."""
    refuse_trailing_slash(connection, handler)
    services: Services = connection.app.state.services
    key = await services.store.keys.authenticate(_sent_key(connection))
    limit = services.config.rate_limit_per_minute if key.rate_limit is None else key.rate_limit
    if key.for_page:
        limit = 0
    limiter: RateLimiter = connection.app.state.rate_limiter
    result = limiter.acquire(key.id, limit)
    connection.scope["user"] = key
    connection.scope["state"][STATE_KEY] = result
    if not result.allowed:
        raise RateLimited(result.retry_after_s)


def _sent_key(connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """The key in the headers. `Authorization` takes precedence over `X-API-Key`, even if its key is not valid."""
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


async def add_rate_limit_headers(message: Message, scope: Scope) -> None:
    """A `before_send` hook that adds the X-RateLimit headers to each authenticated response."""
    if message["type"] != "http.response.start":
        return
    result: RateLimitResult | None = scope.get("state", {}).get(STATE_KEY)
    if result is None:
        return
    remaining = result.remaining if result.limit else UNLIMITED_REMAINING
    message["headers"] = [
        *message["headers"],
        (b"x-ratelimit-limit", str(result.limit).encode()),
        (b"x-ratelimit-remaining", str(remaining).encode()),
    ]


def authenticated_key(connection: ASGIConnection[Any, Any, Any, Any]) -> ApiKey:
    """The API key that `require_key` stored."""
    key: ApiKey = connection.scope["user"]
    return key
