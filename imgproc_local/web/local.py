"""The page's endpoints for its overview (limits and vision model), the API keys, and its sessions."""

from __future__ import annotations

import asyncio
import logging
import unicodedata
from pathlib import Path
from typing import Any

from litestar import Request, delete, post
from litestar.exceptions import NotAuthorizedException
from litestar.params import FromPath
from msgspec import Struct

from imgproc_local.api.requests import read_json
from imgproc_local.compose import Services, used_model_status
from imgproc_local.config import Config
from imgproc_local.domain.errors import InvalidRequest
from imgproc_local.domain.plan import MAX_LANGUAGES, TIFF_SIZE_FACTOR
from imgproc_local.storage.accounts import ApiKey
from imgproc_local.storage.sessions import PageSession, link_page
from imgproc_local.system.audit import audit
from imgproc_local.web.guard import NO_SESSION, get, session_of

log = logging.getLogger(__name__)

MAX_NAME_CHARS = 100
MAX_RATE_LIMIT = 1_000_000


class DescribedBy(Struct, frozen=True):
    """The vision model in use, None without one. With a `problem`, pictures are described from metadata."""

    model: str | None
    problem: str | None


class Overview(Struct, frozen=True):
    """What the page has to know at its start."""

    max_upload_bytes: int
    max_tiff_bytes: int
    max_languages: int
    rate_limit_per_minute: int
    described_by: DescribedBy


class OverviewBody(Struct, frozen=True):
    data: Overview


class Key(Struct, frozen=True, omit_defaults=True):
    """An API key. `key` is its secret, which only the response to its creation contains."""

    id: str
    name: str
    account: str
    rate_limit: int | None
    created_at: str
    revoked_at: str | None
    key: str | None = None


class KeyBody(Struct, frozen=True):
    data: Key


class KeysBody(Struct, frozen=True):
    data: list[Key]


class Session(Struct, frozen=True):
    """A browser that is signed in. `browser` is its User-Agent; `current` marks the one that asks."""

    id: str
    browser: str
    created_at: str
    expires_at: str
    current: bool


class SessionsBody(Struct, frozen=True):
    data: list[Session]


class Link(Struct, frozen=True, forbid_unknown_fields=True):
    """The `token` of a sign-in link; empty without one."""

    token: str


class SignedIn(Struct, frozen=True):
    """The secret of a new session; None for a browser that was signed in already."""

    secret: str | None


class SignedInBody(Struct, frozen=True):
    data: SignedIn


class NewKey(Struct, frozen=True, forbid_unknown_fields=True):
    """`rate_limit` is in requests per minute. None means the setting rate_limit_per_minute, 0 means no limit.

    A key `for_page` is used by the page itself, and is revoked when the browser's session ends.
    """

    name: str
    rate_limit: int | None = None
    for_page: bool = False


@get("/local/overview")
async def overview(request: Request[Any, Any, Any]) -> OverviewBody:
    services: Services = request.app.state.services
    config = services.config
    described_by = await asyncio.to_thread(_described_by, config)
    return OverviewBody(
        Overview(
            config.max_upload_bytes,
            config.max_upload_bytes * TIFF_SIZE_FACTOR,
            MAX_LANGUAGES,
            config.rate_limit_per_minute,
            described_by,
        )
    )


@get("/local/keys")
async def list_keys(request: Request[Any, Any, Any]) -> KeysBody:
    services: Services = request.app.state.services
    return KeysBody([_key(key) for key in await services.store.keys.all()])


@post("/local/keys")
async def create_key(request: Request[Any, Any, Any]) -> KeyBody:
    services: Services = request.app.state.services
    expected = "a JSON object with name (text) and optionally rate_limit (integer)"
    requested = _checked(await read_json(request, NewKey, expected))
    key, secret = await services.store.keys.create(requested.name, rate_limit=requested.rate_limit)
    audit("key.create", key=key.id, account=key.account_id, session=_current_session(request).id)
    if requested.for_page:
        await services.store.sessions.set_key(_current_session(request).id, key.id)
    return KeyBody(_key(key, secret))


@delete("/local/keys/{key_id:str}")
async def revoke_key(request: Request[Any, Any, Any], key_id: FromPath[str]) -> None:
    services: Services = request.app.state.services
    await services.store.keys.revoke(key_id)
    audit("key.revoke", key=key_id.lower(), session=_current_session(request).id)


@get("/local/sessions")
async def list_sessions(request: Request[Any, Any, Any]) -> SessionsBody:
    services: Services = request.app.state.services
    current = _current_session(request).id
    return SessionsBody(
        [
            Session(session.id, session.browser, session.created_at, session.expires_at, session.id == current)
            for session in await services.store.sessions.all()
        ]
    )


@delete("/local/sessions/{session_id:str}")
async def revoke_session(request: Request[Any, Any, Any], session_id: FromPath[str]) -> None:
    services: Services = request.app.state.services
    await services.store.sessions.revoke(session_id)
    audit("session.revoke", session=session_id.lower(), by=_current_session(request).id)


@post("/local/sign-in", status_code=200)
async def sign_in(request: Request[Any, Any, Any]) -> SignedInBody:
    """Sign a browser in that is not: with a link, which is used up then."""
    services: Services = request.app.state.services
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
    return SignedInBody(SignedIn(secret))


@post("/local/sign-out", status_code=204)
async def sign_out(request: Request[Any, Any, Any]) -> None:
    """End the browser's session and revoke the key of its page."""
    services: Services = request.app.state.services
    session = _current_session(request)
    await services.store.sessions.revoke(session.id)
    audit("session.end", session=session.id)


def _remove_link_page(folder: Path) -> None:
    try:
        link_page(folder).unlink(missing_ok=True)
    except OSError as error:
        log.warning("The file that opened the sign-in link could not be removed (%s)", error)


def _current_session(request: Request[Any, Any, Any]) -> PageSession:
    """The session that `require_session` stored."""
    session: PageSession = request.scope["user"]
    return session


def _described_by(config: Config) -> DescribedBy:
    used = used_model_status(config)
    return DescribedBy(used.model, used.problem)


def _key(key: ApiKey, secret: str | None = None) -> Key:
    return Key(key.id, key.name, key.account, key.rate_limit, key.created_at, key.revoked_at, secret)


def _checked(requested: NewKey) -> NewKey:
    """`requested` with its name stripped and in NFC. Raises: InvalidRequest."""
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
    return NewKey(name, requested.rate_limit, requested.for_page)


HANDLERS = [overview, list_keys, create_key, revoke_key, list_sessions, revoke_session, sign_out]
OPEN_HANDLERS = [sign_in]
"""These need no session."""
