"""Access to the local page. Whoever can write to the data folder can use the command line, and so can sign in.

`serve` and `sign-in` make a link that opens the page once, within `LINK_VALID_S`. The page exchanges its token for the
secret of a new session. The session ends by a sign-out, a revocation, or after `SESSION_VALID_S`, and with it the API
key that the page made for itself. Invariant: the database holds hashes of secrets, never a secret.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from datetime import timedelta
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from imgproc_local.domain.errors import NotFound
from imgproc_local.storage.database import Database, Row, Transaction, new_id, rfc3339

SECRET_BYTES = 32
SESSION_PREFIX = "imgs_"
"""Begins the secret of every session. The secrets of older versions do not have it. They were cookies, may be known to
servers on other ports of the host, and are refused.
"""
LINK_VALID_S = 10 * 60
SESSION_VALID_S = 30 * 24 * 3600
END_ALL = ("revoke_session_keys", "delete_sessions", "delete_links")
"""The statements that end every session and make unused links invalid."""
MAX_BROWSER_CHARS = 200
"""Characters of a browser's name that are stored. `User-Agent` has no limit."""


class PageSession(Struct, frozen=True):
    """A browser that is signed in. `browser` is how it names itself; the instants are RFC 3339."""

    id: str
    browser: str
    created_at: str
    expires_at: str
    key_id: str | None


def link_page(folder: Path) -> Path:
    """The file that opens a sign-in link to the server on the data folder `folder`. A sign-in removes it.

    It is in the home folder and has a visible name, because browsers from the Snap Store can read neither hidden
    folders nor /tmp.
    """
    digest = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home raises RuntimeError for users without one
    return Path(home, f"imgproc-local-{digest[:12]}.html")


class Sessions:
    """The sign-in links and sessions of one data folder."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def new_link(self) -> str:
        """The token of a new link."""
        token = secrets.token_urlsafe(SECRET_BYTES)
        async with self._database.transaction() as tx:
            await _delete_expired(tx)
            await tx.run("insert_link", {"hash": _hash(token), "expires_at": _after(tx, LINK_VALID_S)})
        return token

    async def sign_in(self, token: str, browser: str) -> tuple[PageSession, str] | None:
        """A new session and its secret; None where `token` is not that of a valid link. The link is used up."""
        wanted = _hash(token)
        async with self._database.reading() as read:  # a wrong token must not wait for the writer
            if await read.value("link_valid", {"hash": wanted, "at": read.at}) is None:
                return None
        secret = SESSION_PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        async with self._database.transaction() as tx:
            await _delete_expired(tx)
            if await tx.value("use_link", {"hash": wanted}) is None:
                return None
            shown = "".join(char for char in browser if char.isprintable())[:MAX_BROWSER_CHARS]
            session = PageSession(new_id(), shown, tx.at, _after(tx, SESSION_VALID_S), None)
            await tx.run("insert_session", {**asdict(session), "hash": _hash(secret)})
        return session, secret

    async def by_secret(self, secret: str) -> PageSession | None:
        """The session that `secret` belongs to; None where there is none or it has expired."""
        if not secret.startswith(SESSION_PREFIX):
            return None
        async with self._database.reading() as read:
            row = await read.one("session_by_hash", {"hash": _hash(secret), "at": read.at})
        return None if row is None else _session(row)

    async def all(self) -> list[PageSession]:
        """Every session that has not expired, oldest first."""
        async with self._database.reading() as read:
            return [_session(row) for row in await read.all("list_sessions", {"at": read.at})]

    async def set_key(self, session_id: str, key_id: str) -> None:
        """Make `key_id` the key that ends with the session, and revoke the one before it."""
        async with self._database.transaction() as tx:
            row = await tx.one("session_by_id", {"id": session_id})
            # without a session, it was signed out meanwhile
            await tx.run("revoke_key", {"id": key_id if row is None else row["key_id"], "at": tx.at})
            await tx.run("set_session_key", {"id": session_id, "key_id": key_id})

    async def revoke(self, session_id: str) -> None:
        """End a session and revoke its key. Raises: NotFound."""
        async with self._database.transaction() as tx:
            row = await tx.one("session_by_id", {"id": session_id.lower()})
            if row is None:
                raise NotFound(f"There is no session with the id {session_id!r}; `sessions list` shows the ids.")
            await _end(tx, row)

    async def revoke_all(self) -> list[str]:
        """End every session, revoke their keys, and make unused links invalid. Returns the ids."""
        async with self._database.transaction() as tx:
            ids = [str(row["id"]) for row in await tx.all("list_sessions", {"at": ""})]  # expired ones too
            for statement in END_ALL:
                await tx.run(statement, {"at": tx.at})
        return ids


async def _delete_expired(tx: Transaction) -> None:
    await tx.run("delete_expired_links", {"at": tx.at})
    for row in await tx.all("expired_sessions", {"at": tx.at}):
        await _end(tx, row)


async def _end(tx: Transaction, session: Row) -> None:
    await tx.run("revoke_key", {"id": session["key_id"], "at": tx.at})
    await tx.run("delete_session", {"id": session["id"]})


def _after(tx: Transaction, seconds: int) -> str:
    return rfc3339(tx.now + timedelta(seconds=seconds))


def _hash(secret: str) -> bytes:
    """What is stored instead of a secret. The time that a look-up by hash takes reveals nothing about the secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _session(row: Row) -> PageSession:
    return PageSession(row["id"], row["browser"], row["created_at"], row["expires_at"], row["key_id"])
