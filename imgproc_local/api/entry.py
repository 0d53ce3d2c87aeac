"""What happens to every request before and after its handler: proxies, request ids, counts, the audit log."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from imgproc_local.api.bodies import ErrorBody
from imgproc_local.api.proxy import apply_forwarded, is_refused
from imgproc_local.api.service import UNMATCHED, RequestCounts
from imgproc_local.domain.addresses import Network
from imgproc_local.storage.accounts import ApiKey
from imgproc_local.system.audit import audit, request_id

REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
"""A client's `X-Request-Id` that is well-formed. Any other is replaced, because request ids are written to logs."""
MESSAGE_BYPASSED = "This service is behind a proxy, which gives it TLS. Send the request to the proxy."


class Entry:
    """Wraps the ASGI application `app`; `proxies` are those whose forwarded headers are trusted."""

    def __init__(self, app: ASGIApp, proxies: Sequence[Network], counts: RequestCounts) -> None:
        self._app = app
        self._proxies = proxies
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        identifier = _request_id(scope)
        token = request_id.set(identifier)

        async def send_observed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = ((b"x-request-id", identifier.encode()), (b"x-content-type-options", b"nosniff"))
                message["headers"] = [*message["headers"], *headers]
                self._observe(scope, message["status"])
            await send(message)

        try:
            if is_refused(scope, self._proxies):
                await _refuse(send_observed)
                return
            apply_forwarded(scope, self._proxies)
            await self._app(scope, receive, send_observed)
        finally:
            request_id.reset(token)

    def _observe(self, scope: HTTPScope, status: int) -> None:
        """Count the request, and write the use of a key to the audit log."""
        route = scope.get("path_template") or UNMATCHED
        self._counts.add(scope["method"], route, status)
        key = scope.get("user")
        if isinstance(key, ApiKey):
            audit("key.use", key=key.id, account=key.account_id, method=scope["method"], route=route, status=status,
                  client=client_address(scope))  # fmt: skip


def client_address(scope: Scope) -> str | None:
    """The address of the client; None if it is behind a proxy that does not state it."""
    client = scope.get("client")
    return str(client[0]) if client else None


def _request_id(scope: Scope) -> str:
    """The client's `X-Request-Id` if it is well-formed, else a new one."""
    sent = [value for name, value in scope["headers"] if name == b"x-request-id"]
    if len(sent) == 1 and REQUEST_ID.fullmatch(sent[0]):
        return sent[0].decode()
    return secrets.token_hex(8)


async def _refuse(send: Send) -> None:
    """Answer a request that avoids the proxy."""
    body = msgspec.json.encode(ErrorBody(MESSAGE_BYPASSED))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
