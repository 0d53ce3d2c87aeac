"""Who may use the local page, and its endpoints for its overview, API keys, sessions and exports.

Listening on loopback is not enough. Every user of the machine can connect, a foreign site can let its name resolve to
127.0.0.1 (DNS rebinding), and any page can send requests here. So a request needs a host name of this service, and the
secret of a session.

The page sends the secret of its session in the `Authorization` header and keeps it in `localStorage`, which browsers
separate by scheme, host and port. It must not be a cookie: browsers ignore the port of cookies, so they would give it
to the servers of other users on this host, and add it to requests that the pages of these servers cause. A request that
has the secret can therefore only come from the page, and its origin need not be checked.

Not prevented: a program that listens at this address while the service is stopped has the same origin.

Answers are JSON objects with `data`. The keys that the page creates belong to the default account.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
import unicodedata
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from litestar import Request, Response, delete, post, route
from litestar.connection import ASGIConnection
from litestar.enums import HttpMethod
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException
from litestar.handlers import BaseRouteHandler
from msgspec import Struct
from msgspec.structs import asdict

from imgproc_local.api.exports import ArchiveResponse, archive_stem, read_export_fields
from imgproc_local.api.requests import TRUSTED_PROXY, read_json, sent_key, services_of
from imgproc_local.compose import used_model_status
from imgproc_local.domain.addresses import ALL_INTERFACES, host_name, is_loopback_name, parse_address
from imgproc_local.domain.errors import InvalidRequest, NotFound, Unauthenticated
from imgproc_local.domain.export import ExportFields
from imgproc_local.domain.filename import download_name
from imgproc_local.domain.image import CONVERT_TARGETS
from imgproc_local.domain.plan import MAX_LANGUAGES, TIFF_SIZE_FACTOR
from imgproc_local.engine.exports import require_complete
from imgproc_local.storage.accounts import ApiKey, audit, link_page

log = logging.getLogger(__name__)

_MAX_NAME_CHARS = 100
_MAX_RATE_LIMIT = 1_000_000

Body = dict[str, Any]
Connection = ASGIConnection[Any, Any, Any, Any]

get = partial(route, http_method=[HttpMethod.GET, HttpMethod.HEAD])
"""Registers a handler for GET and for HEAD, whose response has no body. Source: RFC 9110, section 9.3.2."""


# ---- guards ----


async def require_own_host(connection: Connection, _: BaseRouteHandler) -> None:
    """Refuse a `Host` that is neither loopback nor the configured or the public host, because of DNS rebinding.

    Neither TLS nor a trusted proxy needs this check: the browser has compared the name with the certificate, and the
    proxy knows its names.
    """
    if connection.scope["scheme"] == "https" or connection.scope["state"].get(TRUSTED_PROXY):
        return
    host, config = connection.headers.get("host", ""), services_of(connection).config
    is_public = bool(config.public_address) and host_name(host) == urlsplit(config.public_address).hostname
    if not is_public and not is_own_host(host, config.host):
        raise PermissionDeniedException(
            f"Expected the address that `imgproc-local serve` printed as Host, received {host[:80]!r}."
        )


def is_own_host(host: str, configured: str) -> bool:
    """Whether a `Host` header names this service. The port is not compared."""
    name = host_name(host)
    if is_loopback_name(name) or name == configured.strip("[]").lower():
        return True
    # a service on all interfaces has addresses that no setting names; DNS rebinding needs a name
    return configured.strip("[]") in ALL_INTERFACES and parse_address(name) is not None


async def require_session(connection: Connection, _: BaseRouteHandler) -> None:
    """Refuse a request without the secret of a session. Stores the id of the session as `scope["auth"]`."""
    connection.scope["auth"] = await _session_of(connection)
    if connection.scope["auth"] is None:
        raise _no_session()


async def _session_of(connection: Connection) -> str | None:
    """The id of the session whose secret the request has."""
    try:
        key = await services_of(connection).store.keys.authenticate(sent_key(connection))
    except Unauthenticated:
        return None
    return key.id if key.for_page else None


def _no_session() -> NotAuthorizedException:
    return NotAuthorizedException("There is no session. Open the link that `imgproc-local sign-in` prints.")


# ---- overview ----


@get("/local/overview")
async def _overview(request: Request[Any, Any, Any]) -> Body:
    """What the page has to know at its start. The model is null without one; with a `problem` of the model, pictures
    are described from metadata.
    """
    from imgproc_local.codecs.picture.formats import FORMATS, install_advice

    config = services_of(request).config
    used = await asyncio.to_thread(used_model_status, config)
    advice = {name: install_advice(name) for name in FORMATS}
    overview = {
        "max_upload_bytes": config.max_upload_bytes,
        "max_tiff_bytes": config.max_upload_bytes * TIFF_SIZE_FACTOR,
        "max_languages": MAX_LANGUAGES,
        "formats": {
            name: {"name": row.name, "mime": row.mime, "extensions": row.extensions, "available": not advice[name]}
            for name, row in FORMATS.items()
        },
        "targets": [name for name in CONVERT_TARGETS if not advice[name]],
        "rate_limit_per_minute": config.rate_limit_per_minute,
        "described_by": {"model": used.model, "problem": used.problem},
    }
    return {"data": overview}


# ---- API keys ----

_KEY_FIELDS = ("id", "name", "account", "rate_limit", "created_at", "revoked_at")
"""What is shown of an ApiKey."""


class _NewKey(Struct, frozen=True, forbid_unknown_fields=True):
    """`rate_limit` is in requests per minute. None means the setting rate_limit_per_minute, 0 means no limit."""

    name: str
    rate_limit: int | None = None


class Link(Struct, frozen=True, forbid_unknown_fields=True):
    """The `token` of a sign-in link; empty without one."""

    token: str


@get("/local/keys")
async def _list_keys(request: Request[Any, Any, Any]) -> Body:
    return {"data": [_fields(key) for key in await services_of(request).store.keys.all()]}


@post("/local/keys")
async def _create_key(request: Request[Any, Any, Any]) -> Body:
    """Only this answer has the secret of the key, as `key`."""
    expected = "a JSON object with name (text) and optionally rate_limit (integer)"
    requested = await read_json(request, _NewKey, expected)
    keys = services_of(request).store.keys
    key, secret = await keys.create(_checked_name(requested), rate_limit=requested.rate_limit)
    audit("key.create", key=key.id, account=key.account_id, session=request.auth)
    return {"data": _fields(key) | {"key": secret}}


@delete("/local/keys/{key_id:str}")
async def _revoke_key(request: Request[Any, Any, Any]) -> None:
    key_id = request.path_params["key_id"].lower()
    await services_of(request).store.keys.revoke(key_id)
    audit("key.revoke", key=key_id, session=request.auth)


def _fields(key: ApiKey) -> Body:
    return {name: getattr(key, name) for name in _KEY_FIELDS}


def _checked_name(sent: _NewKey) -> str:
    """The name, stripped and in NFC. Raises: InvalidRequest, also for a wrong rate limit."""
    errors: dict[str, list[str]] = {}
    name = unicodedata.normalize("NFC", sent.name.strip())
    if not 1 <= len(name) <= _MAX_NAME_CHARS or not name.isprintable():
        errors["name"] = [f"name must be 1 to {_MAX_NAME_CHARS} printable characters; received {sent.name[:40]!r}."]
    if (limit := sent.rate_limit) is not None and not 0 <= limit <= _MAX_RATE_LIMIT:
        problem = f"rate_limit must be an integer from 0 (no limit) to {_MAX_RATE_LIMIT}; received {limit}."
        errors["rate_limit"] = [problem]
    if errors:
        raise InvalidRequest(errors)
    return name


# ---- sessions ----


@get("/local/sessions")
async def _list_sessions(request: Request[Any, Any, Any]) -> Body:
    """The browsers that are signed in. `current` marks the one that asks."""
    sessions = await services_of(request).store.sessions.all()
    return {"data": [asdict(each) | {"current": each.id == request.auth} for each in sessions]}


@delete("/local/sessions/{session_id:str}")
async def _revoke_session(request: Request[Any, Any, Any]) -> None:
    session_id = request.path_params["session_id"].lower()
    await services_of(request).store.sessions.revoke(session_id)
    audit("session.revoke", session=session_id, by=request.auth)


@post("/local/sign-in", status_code=200)
async def _sign_in(request: Request[Any, Any, Any]) -> Body:
    """Sign a browser in that is not: with a link, which is used up then. The answer has the secret of its session."""
    services = services_of(request)
    link = await read_json(request, Link, "a JSON object with token (text)")
    secret = None
    if await _session_of(request) is None:
        opened = await services.store.sessions.sign_in(link.token, request.headers.get("user-agent", ""))
        if opened is None:
            raise _no_session()
        session, secret = opened
        audit("session.begin", session=session.id)
    if link.token:
        await asyncio.to_thread(_remove_link_page, services.config.data_dir)
    return {"data": {"secret": secret}}


@post("/local/sign-out", status_code=204)
async def _sign_out(request: Request[Any, Any, Any]) -> None:
    """End the browser's session."""
    await services_of(request).store.sessions.revoke(request.auth)
    audit("session.end", session=request.auth)


def _remove_link_page(folder: Path) -> None:
    try:
        link_page(folder).unlink(missing_ok=True)
    except OSError as error:
        log.warning("The file that opened the sign-in link could not be removed (%s)", error)


# ---- exports ----
#
# A page can't save a response of `fetch` without holding it in memory. Therefore it sends the request first, receives
# an address, and lets the browser download from there. A download sends no secret of the session: the ticket in the
# address is one itself.

MAX_TICKETS = 16
"""At most this many downloads can be started; for a new one, the oldest ticket is deleted."""
TICKET_VALID_S = 600

_Tickets = dict[str, tuple[ExportFields, float]]
"""Downloads that can be started, even more than once, until an instant of the monotonic clock."""


@post("/local/exports")
async def _begin_export(request: Request[Any, Any, Any]) -> Response[Any]:
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
async def _download_export(request: Request[Any, Any, Any]) -> Response[Any]:
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


HANDLERS = [_overview, _list_keys, _create_key, _revoke_key, _list_sessions, _revoke_session, _sign_out, _begin_export]
OPEN_HANDLERS = [_sign_in, _download_export]
"""These need no session."""
