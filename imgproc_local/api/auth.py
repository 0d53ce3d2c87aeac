"""Authentication and rate limiting, from the headers alone, before the body is read.

The rate limit is a sliding window log: it counts exactly the accepted requests of the last 60 seconds. A rejected one
is not counted, so a client that waits `retry_after_s` is accepted.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

from litestar.connection import ASGIConnection
from litestar.exceptions import NotFoundException
from litestar.handlers import BaseRouteHandler

from imgproc_local.compose import Services
from imgproc_local.domain.errors import RateLimited, Unauthenticated
from imgproc_local.storage.accounts import ApiKey

_WINDOW_S = 60.0
RATE_HEADERS = "imgproc_rate_headers"
"""The key in `scope["state"]` under which `require_key` stores headers of the response."""
TRUSTED_PROXY = "imgproc_trusted_proxy"
"""Set in the `scope["state"]` of a request whose connection comes from a trusted proxy."""


class RateLimiter:
    """Limits the requests of each key in the last 60 seconds. `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._accepted_s: dict[str, deque[float]] = {}
        """The times of the requests of each key that count, oldest first."""

    def acquire(self, key_id: str, limit: int) -> tuple[int, int]:
        """Count one request of `key_id` if fewer than `limit` were counted in the last 60 seconds. 0 is no limit.

        Returns how many more are allowed, and 0, or the seconds after which this one would be.
        """
        if limit <= 0:
            return 1_000_000, 0  # at 0 remaining requests, clients would pause
        now_s = self._clock()
        accepted_s = self._accepted_s.setdefault(key_id, deque())
        while accepted_s and accepted_s[0] <= now_s - _WINDOW_S:
            accepted_s.popleft()
        if len(accepted_s) >= limit:
            wait_s = accepted_s[len(accepted_s) - limit] + _WINDOW_S - now_s
            return 0, max(1, math.ceil(wait_s))
        accepted_s.append(now_s)
        return limit - len(accepted_s), 0


def refuse_trailing_slash(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """A Litestar guard of all handlers: Litestar would answer `/languages/`, which is another path."""
    path = connection.scope.get("raw_path", b"/")  # Litestar has removed the slash from `path`
    if path != b"/" and path.endswith(b"/"):
        raise NotFoundException


async def require_key(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """A Litestar guard. Stores the ApiKey as `scope["user"]`. Raises: Unauthenticated, RateLimited."""
    services = services_of(connection)
    key = await services.store.keys.authenticate(sent_key(connection))
    limit = services.config.rate_limit_per_minute if key.rate_limit is None else key.rate_limit
    limiter: RateLimiter = connection.app.state.rate_limiter
    remaining, retry_after_s = limiter.acquire(key.id, limit)
    connection.scope["user"] = key
    connection.scope["state"][RATE_HEADERS] = [
        (b"x-ratelimit-limit", b"%d" % limit),
        (b"x-ratelimit-remaining", b"%d" % remaining),
    ]
    if retry_after_s:
        raise RateLimited(retry_after_s)


def sent_key(connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """The key in the headers. `Authorization` takes precedence over `X-API-Key`, even if its key is not valid.

    Raises: Unauthenticated, where there is none.
    """
    authorization = connection.headers.get("authorization")
    secret = connection.headers.get("x-api-key", "")
    if authorization is not None:
        scheme, _, secret = authorization.strip().partition(" ")
        secret = secret if scheme.lower() == "bearer" else ""
    if not secret.strip():
        raise Unauthenticated
    return secret.strip()


def services_of(connection: ASGIConnection[Any, Any, Any, Any]) -> Services:
    services: Services = connection.app.state.services
    return services


def authenticated_key(connection: ASGIConnection[Any, Any, Any, Any]) -> ApiKey:
    """The API key that `require_key` stored."""
    key: ApiKey = connection.scope["user"]
    return key


def caller(connection: ASGIConnection[Any, Any, Any, Any]) -> tuple[Services, str]:
    """The services, and the identifier of the account whose key the request has."""
    return services_of(connection), authenticated_key(connection).account_id
