"""The ASGI application, and what happens to every request before and after its handler.

Whoever serves it opens `services` before and closes them afterwards.

Invariants: `X-Forwarded-*` are read only on connections from a trusted proxy, because any client can send them.
Only paths of the API get CORS headers, never the local page. No answer allows credentials, and the API reads no
cookies: a page of an allowed origin needs an API key like every other client. Litestar's own CORS middleware would
apply to all paths, and does not answer browsers that ask for access to a private network.
Sources: Fetch Standard, "CORS protocol"; W3C, "Private Network Access".
"""

from __future__ import annotations

import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec
from litestar import Litestar, Request, Response, Router
from litestar.datastructures import Headers, State
from litestar.enums import ScopeType
from litestar.types import ASGIApp, ControllerRouterHandler, HTTPScope, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from imgproc_local.api import account, errors, events, exports, image_edits, images, service, translations, uploads
from imgproc_local.api.metrics import UNMATCHED, Metrics
from imgproc_local.api.openapi import build, get, json_content
from imgproc_local.api.reference import reference_page
from imgproc_local.api.requests import RATE_HEADERS, TRUSTED_PROXY, RateLimiter, refuse_trailing_slash, services_of
from imgproc_local.api.wire import ErrorBody, StatusSet
from imgproc_local.compose import Services
from imgproc_local.config import Config
from imgproc_local.domain.addresses import is_in, parse_address
from imgproc_local.storage.accounts import ApiKey, audit, request_id

_PREFIX = "/api/v1"
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
"""A client's `X-Request-Id` that is well-formed. Any other is replaced, because request ids are written to logs."""
_MESSAGE_BYPASSED = "This service is behind a proxy, which gives it TLS. Send the request to the proxy."
_HEADERS = b"Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Prefer, X-API-Key, X-Request-Id"
_PREFLIGHT_HEADERS = [
    (b"access-control-allow-methods", b"GET, HEAD, POST, PATCH, DELETE"),
    (b"access-control-allow-headers", _HEADERS),
    (b"access-control-max-age", b"600"),
]
"""What a page may send, and for how many seconds a browser remembers that."""


@get("/openapi.json", "service", json_content({"type": "object"}), guard=None)
async def openapi(request: Request[Any, Any, Any]) -> Response[bytes]:
    """This document."""
    return Response(document(services_of(request).config.status_set), media_type="application/json")


@get("/docs", "service", {"text/html": {"schema": {"type": "string"}}}, guard=None)
async def docs(request: Request[Any, Any, Any]) -> Response[bytes]:
    """This document as a page for people (local addition, outside /api/v1)."""
    page, policy = reference_page(document(services_of(request).config.status_set))
    return Response(page, media_type="text/html", headers={"Content-Security-Policy": policy})


_MODULES = (uploads, images, image_edits, translations, account, events, exports)
HANDLERS = [service.languages, *(handler for module in _MODULES for handler in module.HANDLERS), openapi]
"""The handlers below the prefix of the API."""
_OUTSIDE = [docs, service.metrics, service.healthz]


@cache
def document(status_set: StatusSet = "A") -> bytes:
    """The OpenAPI document as JSON, with the status words of `status_set`."""
    return build(HANDLERS, _OUTSIDE, status_set)


def make_app(
    services: Services, page: Sequence[ControllerRouterHandler] = (), monotonic: Callable[[], float] = time.monotonic
) -> Litestar:
    """The app on opened services: the API, and the handlers of the local page. `monotonic` counts seconds."""
    api = Router(path=_PREFIX, route_handlers=HANDLERS)
    metrics = Metrics(services)
    state = {"services": services, "metrics": metrics, "uploads": uploads.Uploads(), "open_streams": Counter()}
    state |= {"rate_limiter": RateLimiter(monotonic), "heartbeat": service.Heartbeat()}
    app = Litestar(
        route_handlers=[api, *_OUTSIDE, *page],
        state=State(state),
        guards=[refuse_trailing_slash],
        exception_handlers=errors.HANDLERS,
        before_send=[_complete_allow],
        openapi_config=None,
        logging_config=None,
        request_max_body_size=None,  # `read_form` and `read_json` limit the bodies that they read
        debug=False,
    )
    app.asgi_handler = Entry(app.asgi_handler, services.config, metrics)
    return app


async def _complete_allow(message: Message, scope: Scope) -> None:
    """A `before_send` hook that lists every method in the `Allow` header of an answer to OPTIONS.

    Litestar itself lists only the methods of the handler that was registered first for the path.
    """
    if message["type"] == "http.response.start" and scope.get("method") == "OPTIONS" and "path_template" in scope:
        routes = scope["litestar_app"].routes
        methods = next(route.methods for route in routes if route.path_format == scope["path_template"])
        headers = [(name, value) for name, value in message["headers"] if name.lower() != b"allow"]
        message["headers"] = [*headers, (b"allow", ", ".join(sorted(methods)).encode())]


def end_requests(app: Litestar) -> None:
    """End the requests that would delay a stop: uploads, long polls and event streams. No export begins any more."""
    app.state.services.engine.end_waits()
    app.state.services.exporter.end()
    app.state.uploads.end()


class Entry:
    """Wraps the ASGI application `app`."""

    def __init__(self, app: ASGIApp, config: Config, metrics: Metrics) -> None:
        self._proxies = config.trusted_proxies
        self._origins = {origin.encode() for origin in config.allowed_origins}
        self._metrics = metrics
        trusted = [str(network) for network in self._proxies]
        self._app: Any = ProxyHeadersMiddleware(app, trusted) if trusted else app  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        began_s = time.perf_counter()
        identifier = _request_id(scope)
        token = request_id.set(identifier)
        headers = [(b"x-request-id", identifier.encode()), (b"x-content-type-options", b"nosniff")]
        cors = self._cors_headers(scope) if self._origins and scope["path"].startswith(f"{_PREFIX}/") else []

        async def send_observed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *headers, *cors, *scope["state"].get(RATE_HEADERS, ())]
                self._observe(scope, message["status"], time.perf_counter() - began_s)
            await send(message)

        try:
            if self._is_bypassed(scope):
                await _answer(send_observed, 403, msgspec.json.encode(ErrorBody(_MESSAGE_BYPASSED)))
            elif _PREFLIGHT_HEADERS[0] in cors:
                await _answer(send_observed, 204)
            else:
                await self._app(scope, receive, send_observed)
        finally:
            request_id.reset(token)

    def _is_bypassed(self, scope: Any) -> bool:
        """Whether a request avoids the proxy: it comes from another machine, without TLS, to a service behind a proxy.

        Marks the requests that come from a trusted proxy.
        """
        address = parse_address(scope["client"][0]) if self._proxies and scope["client"] else None
        if address is not None:
            scope["client"] = (str(address), scope["client"][1])  # IPv4 that is mapped to IPv6 is IPv4
            if is_in(str(address), self._proxies):
                scope["state"][TRUSTED_PROXY] = True
                return False
        return bool(self._proxies) and scope["scheme"] != "https" and not (address and address.is_loopback)

    def _cors_headers(self, scope: HTTPScope) -> list[tuple[bytes, bytes]]:
        """The headers that let a page of an allowed origin read the answer; in a preflight, what it may send."""
        sent = Headers(scope["headers"])
        if len(sent.getall("origin", [])) != 1 or sent["origin"].encode() not in self._origins:
            return [(b"vary", b"Origin")]
        headers = [(b"vary", b"Origin"), (b"access-control-allow-origin", sent["origin"].encode())]
        if scope["method"] != "OPTIONS" or "access-control-request-method" not in sent:
            return [*headers, (b"access-control-expose-headers", b"*")]
        if sent.get("access-control-request-private-network") == "true":
            headers.append((b"access-control-allow-private-network", b"true"))
        return headers + _PREFLIGHT_HEADERS

    def _observe(self, scope: HTTPScope, status: int, duration_s: float) -> None:
        """Count the request, and write the use of a key to the audit log."""
        route = scope.get("path_template") or UNMATCHED
        self._metrics.answered(scope["method"], route, status, duration_s)
        key = scope.get("user")
        if isinstance(key, ApiKey):
            address: Any = scope["client"][0] if scope["client"] else None
            if address and scope["state"].get(TRUSTED_PROXY):
                address = parse_address(address)  # a proxy may pass on any text as the client's address
            audit("key.use", key=key.id, account=key.account_id, method=scope["method"], route=route, status=status,
                  client=str(address) if address else None)  # fmt: skip


def _request_id(scope: Scope) -> str:
    """The client's `X-Request-Id` if it is well-formed, else a new one."""
    sent = [value for name, value in scope["headers"] if name == b"x-request-id"]
    if len(sent) == 1 and _REQUEST_ID.fullmatch(sent[0]):
        return sent[0].decode()
    return secrets.token_hex(8)


async def _answer(send: Send, status: int, body: bytes = b"") -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))] if body else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
