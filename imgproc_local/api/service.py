"""What the service says about itself: its languages, whether it works, and its counts and states for Prometheus."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from litestar import Request, Response
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from imgproc_local.api.metrics import Metrics
from imgproc_local.api.openapi import get
from imgproc_local.api.requests import TRUSTED_PROXY, require_key, services_of
from imgproc_local.api.wire import ErrorBody, HealthBody, LanguagesBody
from imgproc_local.compose import Services
from imgproc_local.domain.addresses import host_name, is_loopback, is_loopback_name
from imgproc_local.domain.errors import StorageFailed
from imgproc_local.domain.languages import LANGUAGES


@get("/languages", "service", LanguagesBody, guard=None)
async def languages() -> LanguagesBody:
    """The languages that texts can be written in."""
    return LanguagesBody(list(LANGUAGES.values()))


# ---- health ----

_BEAT_EVERY_S = 1.0
"""How long a test write that succeeded counts for later requests. They need no key, so they could cause many writes."""
_BEAT_TIMEOUT_S = 5.0
"""A test write that takes longer has failed."""


class Heartbeat:
    """Writes to the data folder for a test. Requests that wait for one write share it and its failure."""

    def __init__(self) -> None:
        self._begun_at_s = -_BEAT_EVERY_S
        self._write: asyncio.Task[None] | None = None

    async def beat(self, services: Services) -> None:
        """Raises: StorageFailed, where a test write failed or took too long."""
        now_s, last = time.monotonic(), self._write
        if last is None or (last.done() and (last.exception() or now_s - self._begun_at_s >= _BEAT_EVERY_S)):
            self._begun_at_s = now_s
            last = self._write = asyncio.create_task(_test_write(services))
        await asyncio.shield(last)


async def _test_write(services: Services) -> None:
    try:
        async with asyncio.timeout(_BEAT_TIMEOUT_S):
            await services.jobs.check_writable()
            # on a full disk the database file can still have free pages
            await asyncio.to_thread(services.blobs.check_writable)
    except TimeoutError:
        raise StorageFailed(f"The data folder could not be written within {_BEAT_TIMEOUT_S:g} seconds.") from None


@get("/healthz", "service", HealthBody, raises=[StorageFailed], guard=None)
async def healthz(request: Request[Any, Any, Any]) -> Response[HealthBody | ErrorBody]:
    """Whether the service works (local addition, outside /api/v1)."""
    services = services_of(request)
    if (problem := services.engine.problem) is not None:
        return Response(ErrorBody(problem), status_code=503)
    await request.app.state.heartbeat.beat(services)
    return Response(HealthBody("ok"))


# ---- metrics ----


async def _require_loopback_or_key(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Allow a client on this machine, and others with an API key. Raises: Unauthenticated, RateLimited.

    Through a proxy every client needs a key: a proxy may pass on a header in which the client calls itself local.
    """
    client = connection.client
    # a page of a foreign site can reach this machine by DNS rebinding, but only under its own host name
    name = host_name(connection.headers.get("host", ""))
    is_local = client is not None and is_loopback(client.host) and is_loopback_name(name)
    if not is_local or connection.scope["state"].get(TRUSTED_PROXY):
        await require_key(connection, handler)


@get(
    "/metrics",
    "service",
    {"text/plain": {"schema": {"type": "string"}}},
    security=[{}, {"bearer": []}, {"apiKey": []}],
    guard=_require_loopback_or_key,
)
async def metrics(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Counts and states for Prometheus (local addition, outside /api/v1).

    A client on the service's machine needs no key.
    """
    measured: Metrics = request.app.state.metrics
    await measured.read_state()
    return Response(await asyncio.to_thread(measured.exposition), media_type="text/plain; version=0.0.4")
