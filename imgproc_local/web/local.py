"""The page's endpoints for its overview (limits and vision model), API keys, and its sessions.

Answers are JSON objects with `data`. The keys that the page creates belong to the default account.
"""

from __future__ import annotations

import asyncio
import logging
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from litestar import Request, delete, post
from litestar.exceptions import NotAuthorizedException
from msgspec import Struct

from imgproc_local.api.auth import services_of
from imgproc_local.api.requests import read_json
from imgproc_local.compose import used_model_status
from imgproc_local.domain.errors import InvalidRequest
from imgproc_local.domain.plan import MAX_LANGUAGES, TIFF_SIZE_FACTOR
from imgproc_local.storage.sessions import PageSession, link_page
from imgproc_local.system.audit import audit
from imgproc_local.web.guard import NO_SESSION, get, session_of

log = logging.getLogger(__name__)

MAX_NAME_CHARS = 100
MAX_RATE_LIMIT = 1_000_000

Body = dict[str, Any]
KEY_FIELDS = ("id", "name", "account", "rate_limit", "created_at", "revoked_at")
SESSION_FIELDS = ("id", "browser", "created_at", "expires_at")
"""What is shown of an ApiKey and of a PageSession; `browser` is the User-Agent."""


class NewKey(Struct, frozen=True, forbid_unknown_fields=True):
    """`rate_limit` is in requests per minute. None means the setting rate_limit_per_minute, 0 means no limit.

    A key `for_page` is used by the page itself, and is revoked when the browser's session ends.
    """

    name: str
    rate_limit: int | None = None
    for_page: bool = False


class Link(Struct, frozen=True, forbid_unknown_fields=True):
    """The `token` of a sign-in link; empty without one."""

    token: str


@get("/local/overview")
async def overview(request: Request[Any, Any, Any]) -> Body:
    """What the page has to know at its start. The model is null without one; with a `problem` of the model, pictures
    are described from metadata.
    """
    config = services_of(request).config
    used = await asyncio.to_thread(used_model_status, config)
    overview = {
        "max_upload_bytes": config.max_upload_bytes,
        "max_tiff_bytes": config.max_upload_bytes * TIFF_SIZE_FACTOR,
        "max_languages": MAX_LANGUAGES,
        "rate_limit_per_minute": config.rate_limit_per_minute,
        "described_by": {"model": used.model, "problem": used.problem},
    }
    return {"data": overview}


# ---- API keys ----


@get("/local/keys")
async def list_keys(request: Request[Any, Any, Any]) -> Body:
    return {"data": [_fields(key, KEY_FIELDS) for key in await services_of(request).store.keys.all()]}


@post("/local/keys")
async def create_key(request: Request[Any, Any, Any]) -> Body:
    """Only this answer has the secret of the key, as `key`."""
    store, session = services_of(request).store, _current_session(request)
    expected = "a JSON object with name (text) and optionally rate_limit (integer)"
    requested = await read_json(request, NewKey, expected)
    key, secret = await store.keys.create(_checked_name(requested), rate_limit=requested.rate_limit)
    audit("key.create", key=key.id, account=key.account_id, session=session.id)
    if requested.for_page:
        await store.sessions.set_key(session.id, key.id)
    return {"data": _fields(key, KEY_FIELDS) | {"key": secret}}


@delete("/local/keys/{key_id:str}")
async def revoke_key(request: Request[Any, Any, Any]) -> None:
    key_id = request.path_params["key_id"].lower()
    await services_of(request).store.keys.revoke(key_id)
    audit("key.revoke", key=key_id, session=_current_session(request).id)


def _checked_name(requested: NewKey) -> str:
    """The name, stripped and in NFC. Raises: InvalidRequest, also for a wrong rate limit."""
    errors: dict[str, list[str]] = {}
    name = unicodedata.normalize("NFC", requested.name.strip())
    if not 1 <= len(name) <= MAX_NAME_CHARS or not name.isprintable():
        errors["name"] = [f"name must be 1 to {MAX_NAME_CHARS} printable characters; received {requested.name[:40]!r}."]
    if requested.rate_limit is not None and not 0 <= requested.rate_limit <= MAX_RATE_LIMIT:
        errors["rate_limit"] = [
            f"rate_limit must be an integer from 0 (no limit) to {MAX_RATE_LIMIT}; received {requested.rate_limit}."
        ]
    if errors:
        raise InvalidRequest(errors)
    return name


# ---- sessions ----


@get("/local/sessions")
async def list_sessions(request: Request[Any, Any, Any]) -> Body:
    """The browsers that are signed in. `current` marks the one that asks."""
    current = _current_session(request).id
    sessions = await services_of(request).store.sessions.all()
    return {"data": [_fields(each, SESSION_FIELDS) | {"current": each.id == current} for each in sessions]}


@delete("/local/sessions/{session_id:str}")
async def revoke_session(request: Request[Any, Any, Any]) -> None:
    session_id = request.path_params["session_id"].lower()
    await services_of(request).store.sessions.revoke(session_id)
    audit("session.revoke", session=session_id, by=_current_session(request).id)


@post("/local/sign-in", status_code=200)
async def sign_in(request: Request[Any, Any, Any]) -> Body:
    """Sign a browser in that is not: with a link, which is used up then. The answer has the secret of its session."""
    services = services_of(request)
    link = await read_json(request, Link, "a JSON object with token (text)")
    secret = None
    if await session_of(request) is None:
        opened = await services.store.sessions.sign_in(link.token, request.headers.get("user-agent", ""))
        if opened is None:
            raise NotAuthorizedException(NO_SESSION)
        session, secret = opened
        audit("session.begin", session=session.id)
    if link.token:
        await asyncio.to_thread(_remove_link_page, services.config.data_dir)
    return {"data": {"secret": secret}}


@post("/local/sign-out", status_code=204)
async def sign_out(request: Request[Any, Any, Any]) -> None:
    """End the browser's session and revoke the key of its page."""
    session = _current_session(request)
    await services_of(request).store.sessions.revoke(session.id)
    audit("session.end", session=session.id)


def _remove_link_page(folder: Path) -> None:
    try:
        link_page(folder).unlink(missing_ok=True)
    except OSError as error:
        log.warning("The file that opened the sign-in link could not be removed (%s)", error)


def _fields(value: Struct, names: Sequence[str]) -> Body:
    return {name: getattr(value, name) for name in names}


def _current_session(request: Request[Any, Any, Any]) -> PageSession:
    """The session that `require_session` stored."""
    session: PageSession = request.scope["user"]
    return session


HANDLERS = [overview, list_keys, create_key, revoke_key, list_sessions, revoke_session, sign_out]
OPEN_HANDLERS = [sign_in]
"""These need no session."""
