"""Downloads of archives from the local page.

A page can't save a response of `fetch` without holding it in memory. Therefore it sends the request first, receives an
address, and lets the browser download from there. A download sends no secret of the session: the ticket in the address
is one itself.
"""

from __future__ import annotations

import secrets
import time
from typing import Any
from urllib.parse import quote

from litestar import Request, Response, post
from litestar.enums import HttpMethod

from imgproc_local.api.auth import services_of
from imgproc_local.api.exports import ArchiveResponse, archive_stem, read_export_fields
from imgproc_local.domain.errors import NotFound
from imgproc_local.domain.export import ExportFields
from imgproc_local.domain.filename import download_name
from imgproc_local.engine.exports import require_complete
from imgproc_local.web.local import get

MAX_TICKETS = 16
"""At most this many downloads can be started; for a new one, the oldest ticket is deleted."""
TICKET_VALID_S = 600

_Tickets = dict[str, tuple[ExportFields, float]]
"""Downloads that can be started, even more than once, until an instant of the monotonic clock."""


@post("/local/exports")
async def begin(request: Request[Any, Any, Any]) -> Response[Any]:
    """The address of an archive. What it would contain, the page asks the API."""
    services = services_of(request)
    fields = await read_export_fields(request)
    account_id = await services.store.keys.account_id()
    plan = await services.exporter.plan(account_id, fields)
    require_complete(fields, plan)
    services.exporter.require_room(account_id)
    tickets = _tickets(request)
    ticket_id = secrets.token_urlsafe(16)
    while len(tickets) >= MAX_TICKETS:
        del tickets[next(iter(tickets))]
    tickets[ticket_id] = fields, time.monotonic() + TICKET_VALID_S
    name = quote(download_name(archive_stem(plan), ".zip"), safe="")
    return Response({"data": {"url": f"/local/exports/{ticket_id}/{name}"}}, status_code=201)


@get("/local/exports/{ticket_id:str}/{name:str}")
async def download(request: Request[Any, Any, Any]) -> Response[Any]:
    """The archive. Its name in the address is for the browser, and is not compared."""
    services = services_of(request)
    fields, expires_s = _tickets(request).get(request.path_params["ticket_id"], (ExportFields(), 0.0))
    if expires_s < time.monotonic():
        raise NotFound("This download has expired. Begin it again on the local page.")
    if request.method == HttpMethod.HEAD:
        return Response(b"", media_type="application/zip", status_code=200)
    return ArchiveResponse(await services.exporter.open(await services.store.keys.account_id(), fields))


def _tickets(request: Request[Any, Any, Any]) -> _Tickets:
    tickets: _Tickets = request.app.state.setdefault("export_tickets", {})
    return tickets


HANDLERS = [begin]
OPEN_HANDLERS = [download]
"""These need no session."""
