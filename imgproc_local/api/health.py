"""Whether the service works: the data folder can be written, and stages run."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from litestar import Request, Response

from imgproc_local.api.bodies import ErrorBody, HealthBody
from imgproc_local.api.requests import get
from imgproc_local.compose import Services
from imgproc_local.domain.errors import StorageFailed

BEAT_EVERY_S = 1.0
"""How long a test write that succeeded counts for later requests. They need no key, so they could cause many writes."""
BEAT_TIMEOUT_S = 5.0
"""A test write that takes longer has failed."""


class Heartbeat:
    """Writes to the data folder for a test, and remembers when it last did and whether that failed."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._begun_at_s = -BEAT_EVERY_S
        self._failure: str | None = None

    async def beat(self, services: Services) -> None:
        """Make a test write unless the last one still counts. Raises: StorageFailed, where it failed or took too long.

        Requests that wait while another's test write fails get its failure too, instead of making one each.
        """
        asked_at_s = time.monotonic()
        async with self._lock:
            fresh = self._failure is None and asked_at_s - self._begun_at_s < BEAT_EVERY_S
            if not fresh and self._begun_at_s < asked_at_s:
                self._begun_at_s = time.monotonic()
                self._failure = await self._write(services)
            if self._failure is not None:
                raise StorageFailed(self._failure)

    async def _write(self, services: Services) -> str | None:
        """Why the data folder can't be written; None where it can."""
        try:
            async with asyncio.timeout(BEAT_TIMEOUT_S):
                await services.jobs.check_writable()
                # on a full disk the database file can still have free pages
                await asyncio.to_thread(services.blobs.check_writable)
        except TimeoutError:
            return f"The data folder could not be written within {BEAT_TIMEOUT_S:g} seconds."
        except StorageFailed as error:
            return error.message
        return None


@get("/healthz")
async def healthz(request: Request[Any, Any, Any]) -> Response[HealthBody | ErrorBody]:
    services: Services = request.app.state.services
    heartbeat: Heartbeat = request.app.state.heartbeat
    if (problem := services.engine.problem) is not None:
        return Response(ErrorBody(problem), status_code=503)
    await heartbeat.beat(services)
    return Response(HealthBody("ok"))
