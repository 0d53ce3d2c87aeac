"""Lets pages of configured origins use the API from a browser (CORS).

Invariant: only paths of the API get these headers, never the local page. No answer allows credentials, and the API
reads no cookies: a page of an allowed origin needs an API key like every other client.
Source: Fetch Standard, "CORS protocol"; W3C, "Private Network Access".
"""

from __future__ import annotations

from collections.abc import Sequence

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

METHODS = ("GET", "HEAD", "POST", "PATCH", "DELETE")
REQUEST_HEADERS = (
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "If-None-Match",
    "Prefer",
    "X-API-Key",
    "X-Request-Id",
)
"""The headers of a request that the API reads and a browser would not send without permission."""
EXPOSED_HEADERS = (
    "Allow",
    "Content-Disposition",
    "ETag",
    "Location",
    "Preference-Applied",
    "Retry-After",
    "WWW-Authenticate",
    "X-Error-Code",
    "X-Project-Id",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-Request-Id",
    "X-Total-Count",
)
"""The headers of an answer that a page may read, besides those that it may always read."""
MAX_AGE_S = 600
"""How long a browser remembers the answer to a preflight."""


class CrossOrigin:
    """Wraps the ASGI application `app`. `origins` are those whose pages may use the paths below `prefix`."""

    def __init__(self, app: ASGIApp, origins: Sequence[str], prefix: str) -> None:
        self._app = app
        self._origins = {origin.encode() for origin in origins}
        self._prefix = f"{prefix}/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._origins or scope["type"] != ScopeType.HTTP or not scope["path"].startswith(self._prefix):
            await self._app(scope, receive, send)
            return
        origin = _header(scope, b"origin")
        headers = [(b"vary", b"Origin")]
        if origin in self._origins:
            headers.append((b"access-control-allow-origin", origin))
            if scope["method"] == "OPTIONS" and _header(scope, b"access-control-request-method"):
                await send({"type": "http.response.start", "status": 204, "headers": headers + _permissions(scope)})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            headers.append((b"access-control-expose-headers", ", ".join(EXPOSED_HEADERS).encode()))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *headers]
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _permissions(scope: HTTPScope) -> list[tuple[bytes, bytes]]:
    """What the answer to a preflight allows."""
    allowed = [
        (b"access-control-allow-methods", ", ".join(METHODS).encode()),
        (b"access-control-allow-headers", ", ".join(REQUEST_HEADERS).encode()),
        (b"access-control-max-age", str(MAX_AGE_S).encode()),
    ]
    if _header(scope, b"access-control-request-private-network") == b"true":
        allowed.append((b"access-control-allow-private-network", b"true"))
    return allowed


def _header(scope: HTTPScope, name: bytes) -> bytes:
    """The value of a header that is sent once; b"" otherwise."""
    values = [value for key, value in scope["headers"] if key == name]
    return values[0] if len(values) == 1 else b""
