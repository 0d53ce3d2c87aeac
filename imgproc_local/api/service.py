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
"""How often a test may begin. Requests need no key, so they could cause many."""
_BEAT_TIMEOUT_S = 8.0
"""For how long a request waits for the test. `imgproc-local health` waits for longer, so that it gets the reason."""


class Heartbeat:
    """Tests whether the data folder can be written and workers started. Requests that wait for one test share it."""

    def __init__(self) -> None:
        self._begun_at_s = -_BEAT_EVERY_S
        self._test: asyncio.Task[None] | None = None
        self._tested = ""

    async def beat(self, services: Services) -> None:
        """Raises: StorageFailed, where the last test failed or takes too long. NoWorker is one.

        A test that takes too long goes on, and no other begins: the start of a worker may be slow.
        """
        now_s = time.monotonic()
        if self._test is None or (self._test.done() and now_s - self._begun_at_s >= _BEAT_EVERY_S):
            self._begun_at_s = now_s
            self._test = asyncio.create_task(self._run_test(services))
        try:
            async with asyncio.timeout(_BEAT_TIMEOUT_S):
                await asyncio.shield(self._test)
        except TimeoutError:
            raise StorageFailed(f"{self._tested} within {_BEAT_TIMEOUT_S:g} seconds.") from None

    async def _run_test(self, services: Services) -> None:
        self._tested = "The data folder could not be written"
        await services.jobs.check_writable()
        # on a full disk the database file can still have free pages
        await asyncio.to_thread(services.blobs.check_writable)
        self._tested = "No process that works on pictures could be started"
        await asyncio.to_thread(services.engine.workers.check_start)


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


_TEXT = {"text/plain": {"schema": {"type": "string"}}}
_KEY_OR_NONE: list[dict[str, list[str]]] = [{}, {"bearer": []}, {"apiKey": []}]


@get("/metrics", "service", _TEXT, security=_KEY_OR_NONE, guard=_require_loopback_or_key)
async def metrics(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Counts and states for Prometheus (local addition, outside /api/v1).

    A client on the service's machine needs no key.
    """
    measured: Metrics = request.app.state.metrics
    await measured.read_state()
    return Response(await asyncio.to_thread(measured.exposition), media_type="text/plain; version=0.0.4")
