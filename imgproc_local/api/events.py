"""Event streams: the changes of one job, or of any job of an account, on one connection.

A stream remembers which jobs have changed, at most `MAX_UNREAD_JOBS`, and reads them when the client is ready for them.
So a job that changes several times meanwhile is sent once, in its present state.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
from litestar import Request
from litestar.enums import HttpMethod
from litestar.response import Stream

from imgproc_local.api.openapi import Content, get
from imgproc_local.api.requests import authenticated_key, caller, services_of
from imgproc_local.api.wire import INCLUDE, job_body
from imgproc_local.compose import Services
from imgproc_local.domain.errors import StorageFailed, TooManyStreams

log = logging.getLogger(__name__)

_MAX_STREAMS = 64
"""Open streams of an account. A client can follow twenty jobs at once beside open pages, and the streams of one account
are a small part of the connections that the server accepts.
"""
KEEP_ALIVE_S = 15.0
"""Seconds without an event after which a comment is sent, so that proxies keep the connection open."""
CHECK_KEY_EVERY_S = 1.5
"""How long a stream continues at most after its key was revoked, for example by a sign-out of the page."""
_EVENTS: Content = {"text/event-stream": {"schema": {"type": "string"}}}
"""Text for OpenAPI 3.1, which has no schema for a stream. The data of each event is JSON: see README.md."""
_PAUSE_S = 0.3
"""The pause after jobs were sent. Changes of a job during the pause are sent as one."""


@get("/jobs/{job_id:str}/events", "jobs", _EVENTS)
async def job_events(request: Request[Any, Any, Any]) -> Stream:
    """Server-Sent Events of a job, after its changes, until it is final (local addition)."""
    services, account_id = caller(request)
    job_id = request.path_params["job_id"].lower()
    await services.jobs.get(job_id, account_id)
    return _stream(request, _job_events(services, job_id, account_id))


@get("/events", "jobs", _EVENTS)
async def account_events(request: Request[Any, Any, Any]) -> Stream:
    """Server-Sent Events of all jobs of the account: a snapshot, then every change (local addition)."""
    return _stream(request, _account_events(*caller(request)))


HANDLERS = [job_events, account_events]


def _stream(request: Request[Any, Any, Any], events: AsyncGenerator[bytes, None]) -> Stream:
    """The response that sends `events`, whose items are b"" after `CHECK_KEY_EVERY_S` without one.

    Raises: TooManyStreams.
    """
    if request.app.state.open_streams[authenticated_key(request).account_id] >= _MAX_STREAMS:
        raise TooManyStreams(_MAX_STREAMS)
    return Stream(
        # Litestar would iterate the events of a HEAD request, whose response has no body
        iter(()) if request.method == HttpMethod.HEAD else _sent(request, events),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _sent(request: Request[Any, Any, Any], events: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """`events` and comments, until the key of the request is revoked or the database can't be read.

    A client that connects again gets 503 until the database can be read.
    """
    services = services_of(request)
    open_streams: Counter[str] = request.app.state.open_streams
    key = authenticated_key(request)
    open_streams[key.account_id] += 1
    sent_s = time.monotonic()
    try:
        async with aclosing(events):
            async for event in events:
                if not await services.store.keys.is_in_force(key.id):
                    return
                if event or time.monotonic() >= sent_s + KEEP_ALIVE_S:
                    yield event or b": no changes\n\n"
                    sent_s = time.monotonic()
    except StorageFailed as error:
        log.error("The event stream of an account was ended: %s", error.message)
    finally:
        open_streams[key.account_id] -= 1


async def _job_events(services: Services, job_id: str, account_id: str) -> AsyncGenerator[bytes, None]:
    async for job in services.engine.follow(job_id, account_id, quiet_s=CHECK_KEY_EVERY_S):
        yield _event("status", job_body(job, services.config.status_set)) if job else b""


async def _account_events(services: Services, account_id: str) -> AsyncGenerator[bytes, None]:
    """The events of the account until the service stops."""
    with services.engine.updates.subscribed(account_id) as subscription:
        yield _event("snapshot", {})
        while True:
            await subscription.wait(CHECK_KEY_EVERY_S)
            if subscription.is_closed:
                return
            changed = subscription.take(100)  # jobs of one read
            yield _event("reset", {}) if changed is None else await _events_of(services, account_id, changed)
            if changed:
                await asyncio.sleep(_PAUSE_S)


async def _events_of(services: Services, account_id: str, changed: list[str]) -> bytes:
    """The events of these jobs in the order of their uploads; those that do not exist any more were deleted."""
    jobs = {job.id: job for job in await services.jobs.several(changed, account_id)} if changed else {}
    return b"".join(
        _event("job", job_body(jobs[job_id], services.config.status_set, INCLUDE))
        if job_id in jobs
        else _event("deleted", {"job_id": job_id})
        for job_id in sorted(changed)
    )


def _event(name: str, data: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"
