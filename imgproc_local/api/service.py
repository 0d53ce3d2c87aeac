"""What the service says about itself: its languages, whether it works, and its counts and states for Prometheus.

Source: the Prometheus documentation, "Exposition formats", version 0.0.4.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from litestar import Request, Response
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

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

_MEDIA_TYPE = "text/plain; version=0.0.4"
UNMATCHED = "unmatched"
"""The `route` of requests that match no route. Clients choose their paths, which would make any number of series."""
KNOWN_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


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
async def metrics(request: Request[Any, Any, Any]) -> Response[str]:
    """Counts and states for Prometheus (local addition, outside /api/v1).

    A client on the service's machine needs no key.
    """
    services = services_of(request)
    counts: Counter[tuple[str, str, int]] = request.app.state.request_counts
    requests = [
        ({"method": method, "route": route, "status": str(status)}, count)
        for (method, route, status), count in sorted(counts.items())
    ]
    queue = [({"lane": lane, "state": state}, count) for lane, state, count in await services.jobs.queue_depths()]
    of_files = "Bytes of the files of jobs; a file that several jobs share is counted once."
    metrics = [
        _metric("imgproc_requests_total", "counter", "Requests that were answered.", requests),
        _metric("imgproc_queue_stages", "gauge", "Stages that wait or run, by lane and state.", queue),
        _metric("imgproc_stored_bytes", "gauge", of_files, [({}, await services.jobs.stored_bytes())]),
    ]
    return Response("".join(metrics), media_type=_MEDIA_TYPE)


def _metric(name: str, kind: str, help_text: str, samples: Sequence[tuple[Mapping[str, str], int]]) -> str:
    """A metric with its samples, each of which has labels and a value."""
    lines = [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        pairs = ",".join(f'{label}="{text}"' for label, text in labels.items())
        lines.append(f"{name}{{{pairs}}} {value}" if pairs else f"{name} {value}")
    return "\n".join(lines) + "\n"
