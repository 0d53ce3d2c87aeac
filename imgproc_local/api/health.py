"""Whether the service would do its work: the store takes a write, and every lane claims."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from litestar import Request, Response

from imgproc_local.api.requests import get
from imgproc_local.api.wire import ErrorBody, HealthBody
from imgproc_local.compose import Services
from imgproc_local.domain.errors import StorageFailed

BEAT_EVERY_S = 1.0
"""Asked without a key, so at most one write a second."""
BEAT_TIMEOUT_S = 5.0


class Heartbeat:
    """Remembers the last proof that the store can be written."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._begun_at_s = -BEAT_EVERY_S
        self._failure: str | None = None

    async def beat(self, services: Services) -> None:
        """Raises `StorageFailed` where the store can't be written in time.

        A failure is also told to those who were waiting while it was found, so that they don't queue up for more.
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
        """Why the store can't be written, None where it can."""
        try:
            async with asyncio.timeout(BEAT_TIMEOUT_S):
                await services.jobs.beat()
                # on a full disk the database still has room in its own file
                await asyncio.to_thread(services.blobs.beat)
        except TimeoutError:
            return "The store did not take a write in time."
        except StorageFailed as error:
            return error.message
        return None


@get("/healthz")
async def healthz(request: Request[Any, Any, Any]) -> Response[HealthBody | ErrorBody]:
    services: Services = request.app.state.services
    heartbeat: Heartbeat = request.app.state.heartbeat
    if not services.engine.is_claiming:
        return Response(ErrorBody("The stages are not being claimed; see the service's log."), status_code=503)
    await heartbeat.beat(services)
    return Response(HealthBody("ok"))
