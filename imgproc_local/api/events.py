"""The event stream of an account: every change of any of its jobs, on one connection.

A stream holds only the identifiers of changed jobs, and reads these jobs when the client is ready for them. So a job
that changes several times meanwhile is sent once, in its present state, and a slow client costs little memory.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from litestar import Request
from litestar.enums import HttpMethod
from litestar.response import Stream

from imgproc_local.api.auth import authenticated_key, require_key
from imgproc_local.api.bodies import DeletedJob
from imgproc_local.api.requests import get
from imgproc_local.api.wire import Include, job_body, snapshot, totals_data
from imgproc_local.compose import Services
from imgproc_local.domain.errors import StorageFailed
from imgproc_local.domain.keys import ApiKey
from imgproc_local.engine.updates import Changes

log = logging.getLogger(__name__)

KEEP_ALIVE_S = 15.0
"""Seconds without an event after which a comment is sent, so that proxies keep the connection open."""
TOTALS_EVERY_S, TOTALS_SHARE = 1.0, 0.1
"""Totals are sent at most once in `TOTALS_EVERY_S`, and less often where reading them would take more than
`TOTALS_SHARE` of the time. Reading those of 5,000 jobs takes about 10 ms.
"""
CHECK_KEY_EVERY_S = 2.0
"""How long a stream continues at most after its key was revoked, for example by a sign-out of the page."""
JOBS_PER_READ = 100
PAUSE_S = 0.1
"""The pause after jobs were sent. Changes of a job during the pause are sent as one."""
INCLUDE: tuple[Include, ...] = ("removed", "details")


@get("/events", guards=[require_key])
async def account_events(request: Request[Any, Any, Any]) -> Stream:
    services: Services = request.app.state.services
    key = authenticated_key(request)
    services.engine.require_room_for_subscription(key.account_id)
    return Stream(
        # Litestar would iterate the events of a HEAD request, whose response has no body
        iter(()) if request.method == HttpMethod.HEAD else _events(services, key),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _events(services: Services, key: ApiKey) -> AsyncIterator[bytes]:
    """The events of the account of `key`, until the service stops, the key is revoked or the database can't be read."""
    with services.engine.account_changes(key.account_id) as subscription, _storage_errors_logged():
        totals = await services.jobs.totals(key.account_id)
        yield _event("snapshot", snapshot(totals)) + _event("totals", totals_data(totals))
        sent_s = checked_s = time.monotonic()
        next_totals_s = sent_s + TOTALS_EVERY_S
        are_totals_stale = False
        while True:
            due_s = next_totals_s if are_totals_stale else sent_s + KEEP_ALIVE_S
            await subscription.wait(max(0.0, min(due_s, checked_s + CHECK_KEY_EVERY_S) - time.monotonic()))
            if subscription.is_closed:
                return
            if time.monotonic() >= checked_s + CHECK_KEY_EVERY_S:
                if not await services.store.keys.is_in_force(key.id):
                    return
                checked_s = time.monotonic()
            changes = subscription.take(JOBS_PER_READ)
            events = await _events_of_changes(services, key.account_id, changes)
            are_totals_stale = are_totals_stale or bool(events)
            if are_totals_stale and (began_s := time.monotonic()) >= next_totals_s:
                before, totals = totals, await services.jobs.totals(key.account_id)
                took_s, are_totals_stale = time.monotonic() - began_s, False
                next_totals_s = began_s + max(TOTALS_EVERY_S, took_s / TOTALS_SHARE)
                events += _event("totals", totals_data(totals)) if totals != before else b""
            if not events and time.monotonic() >= sent_s + KEEP_ALIVE_S:
                events = b": no changes\n\n"
            if events:
                yield events
                sent_s = time.monotonic()
            if changes.changed:
                await asyncio.sleep(PAUSE_S)


async def _events_of_changes(services: Services, account_id: str, changes: Changes) -> bytes:
    """The events of these changes: `reset`, deletions, and then changed jobs in the order of their uploads."""
    events = [] if changes.is_complete else [_event("reset", {})]
    events += [_event("deleted", DeletedJob(job_id)) for job_id in changes.deleted]
    if changes.changed:
        status_set = services.config.status_set
        for job in reversed(await services.jobs.several(changes.changed, account_id)):
            events.append(_event("job", job_body(job, status_set, INCLUDE)))
    return b"".join(events)


@contextmanager
def _storage_errors_logged() -> Iterator[None]:
    """Ends the block at a storage error. A client that connects again gets 503 until the database can be read."""
    try:
        yield
    except StorageFailed as error:
        log.error("The event stream of an account was ended: %s", error.message)


def _event(name: str, data: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"
