"""Who may use the service: accounts with their credits and projects, API keys, the browsers of the local page, and the
log of what they did.

Every movement of credits is a row of the ledger; a trigger keeps the balance equal to their sum. An upload belongs to
exactly one project, which is looked up or created in the transaction that stores the upload.

Whoever can write to the data folder can use the command line, and so can sign in to the page: `serve` and `sign-in`
make a link that opens it once, within `LINK_VALID_S`. The page exchanges its token for the secret of a session, which
ends by a sign-out, a revocation, or after `SESSION_VALID_S`. The secret of a session is a key of the default account,
too.
Invariant: the database holds hashes of secrets, never a secret.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
import string
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from imgproc_local.domain.errors import InsufficientCredits, InvalidRequest, NotFound, Unauthenticated
from imgproc_local.domain.plan import Plan
from imgproc_local.storage.database import Database, Row, Transaction, new_id, rfc3339

DEFAULT_ACCOUNT = "default"
LINK_VALID_S = 10 * 60
SESSION_VALID_S = 30 * 24 * 3600
END_ALL = ("delete_sessions", "delete_links")
"""The statements that end every session and make unused links invalid."""


class ApiKey(Struct, frozen=True):
    """An API key as stored, without its secret. `account` is the account's name, `name` the key's.

    `rate_limit` is in requests per minute; None means the setting `rate_limit_per_minute`, 0 means no limit. Times are
    RFC 3339. One that is `for_page` is a session of the local page, whose id it has.
    """

    id: str
    account_id: str
    account: str
    name: str
    rate_limit: int | None
    created_at: str
    revoked_at: str | None = None
    for_page: bool = False


class _PageSession(Struct, frozen=True):
    """A browser that is signed in. `browser` is how it names itself; the instants are RFC 3339."""

    id: str
    browser: str
    created_at: str
    expires_at: str


class Keys:
    """API keys and the accounts that they belong to. Every new account is granted `first_balance` credits."""

    def __init__(self, database: Database, first_balance: int) -> None:
        self._database = database
        self._first_balance = first_balance

    async def account_id(self, name: str = DEFAULT_ACCOUNT, create: bool = False) -> str:
        """The id of the account called `name`. An unknown one is created if `create` is set; else raises NotFound."""
        found = await self._database.read_value("account_by_name", {"name": name})
        if found is None and create:
            async with self._database.transaction() as tx:
                return await self.account_in(tx, name)
        if found is None:
            raise NotFound(f"There is no account named {name!r}; `imgproc-local keys create --account` makes one.")
        return str(found)

    async def create(
        self, name: str, account: str = DEFAULT_ACCOUNT, rate_limit: int | None = None
    ) -> tuple[ApiKey, str]:
        """A new key and its secret, which can't be read again. If there is no `account` of this name, it is created."""
        secret = "imgp_" + "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(32))
        async with self._database.transaction() as tx:
            account_id = await self.account_in(tx, account)
            key = ApiKey(new_id(), account_id, account, name, rate_limit, tx.at)
            await tx.run("insert_key", {**asdict(key), "hash": _hash(secret)})
        return key, secret

    async def account_in(self, tx: Transaction, name: str = DEFAULT_ACCOUNT) -> str:
        """As `account_id` with `create`, in a transaction of the caller."""
        found = await tx.value("account_by_name", {"name": name})
        if found is not None:
            return str(found)
        account_id = new_id()
        await tx.run("insert_account", {"id": account_id, "name": name})
        await move_credits(tx, account_id, "grant", self._first_balance)
        return account_id

    async def authenticate(self, secret: str) -> ApiKey:
        """The key or session that `secret` belongs to. Raises: Unauthenticated, for one that is not in force."""
        wanted = _hash(secret)
        async with self._database.reading() as read:
            row = await read.one("key_by_hash", {"hash": wanted})
        if row is None or not hmac.compare_digest(bytes(row["hash"]), wanted):
            raise Unauthenticated
        return _key(row)

    async def is_in_force(self, key_id: str) -> bool:
        """Whether the key is not revoked, or the session of the page has not ended."""
        return bool(await self._database.read_value("key_in_force", {"id": key_id}))

    async def all(self) -> list[ApiKey]:
        """Every key, revoked ones too, oldest first."""
        return [_key(row) for row in await self._database.read_all("list_keys")]

    async def revoke(self, key_id: str) -> None:
        """Refuse the key from now on. Raises: NotFound, for an unknown or already revoked one."""
        async with self._database.transaction() as tx:
            revoked = await tx.value("revoke_key", {"id": key_id.lower()})
        if revoked is None:
            raise NotFound(f"There is no key {key_id!r} that is not revoked; `imgproc-local keys list` shows the ids.")


def _hash(secret: str) -> bytes:
    """What is stored instead of a secret. The time that a look-up by hash takes reveals nothing about the secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _key(row: Row) -> ApiKey:
    return msgspec.convert(dict(row), ApiKey, strict=False)  # `for_page` is 0 or 1


# ---- the local page ----


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

    def __init__(self, database: Database, keys: Keys) -> None:
        self._database = database
        self._keys = keys

    async def new_link(self) -> str:
        """The token of a new link."""
        token = secrets.token_urlsafe(32)
        async with self._database.transaction() as tx:
            await tx.run("delete_expired_links")
            await tx.run("delete_expired_sessions")
            await tx.run("insert_link", {"hash": _hash(token), "expires_at": _after(tx, LINK_VALID_S)})
        return token

    async def sign_in(self, token: str, browser: str) -> tuple[_PageSession, str] | None:
        """A new session and its secret; None where `token` is not that of a valid link. The link is used up."""
        wanted = _hash(token)
        if await self._database.read_value("link_valid", {"hash": wanted}) is None:  # must not wait for the writer
            return None
        secret = "imgs_" + secrets.token_urlsafe(32)
        async with self._database.transaction() as tx:
            if await tx.value("use_link", {"hash": wanted}) is None:
                return None
            await self._keys.account_in(tx)  # the account that the session is a key of
            shown = "".join(char for char in browser if char.isprintable())[:200]
            session = _PageSession(new_id(), shown, tx.at, _after(tx, SESSION_VALID_S))
            await tx.run("insert_session", {**asdict(session), "hash": _hash(secret)})
        return session, secret

    async def all(self) -> list[_PageSession]:
        """Every session that has not expired, oldest first."""
        return [_PageSession(*row) for row in await self._database.read_all("list_sessions")]

    async def revoke(self, session_id: str) -> None:
        """End a session. Raises: NotFound."""
        async with self._database.transaction() as tx:
            if await tx.value("delete_session", {"id": session_id.lower()}) is None:
                raise NotFound(f"There is no session with the id {session_id!r}; `sessions list` shows the ids.")

    async def revoke_all(self) -> list[str]:
        """End every session and make unused links invalid. Returns the ids."""
        async with self._database.transaction() as tx:
            ids = [str(row["id"]) for row in await tx.all("list_sessions", {"at": ""})]  # expired ones too
            for statement in END_ALL:
                await tx.run(statement)
        return ids


def _after(tx: Transaction, seconds: int) -> str:
    return rfc3339(tx.now + timedelta(seconds=seconds))


# ---- credits ----


class Credits:
    """The balances of accounts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def balance(self, account_id: str) -> int:
        async with self._database.reading() as read:
            return int((await _account_by_id(read, account_id))["balance"])

    async def grant(self, account_id: str, amount: int) -> int:
        """Add `amount` credits and return the new balance."""
        async with self._database.transaction() as tx:
            await move_credits(tx, account_id, "grant", amount)
            return int((await _account_by_id(tx, account_id))["balance"])


async def move_credits(
    tx: Transaction, account_id: str, kind: str, amount: int, job_id: str | None = None, stage: str | None = None
) -> None:
    """Add `amount` credits to an account; a negative amount takes credits."""
    movement = {"account_id": account_id, "kind": kind, "amount": amount, "job_id": job_id, "stage": stage}
    await tx.run("insert_movement", movement)


async def require_credits(tx: Transaction, account_id: str, required: int) -> None:
    """Raises: InsufficientCredits, where the balance of the account is smaller."""
    account = await _account_by_id(tx, account_id)
    if account["balance"] < required:
        raise InsufficientCredits(required, account["balance"], account["name"])


async def _account_by_id(tx: Transaction, account_id: str) -> Row:
    return await tx.row("account_by_id", {"account_id": account_id})


# ---- projects ----


async def project_of_plan(tx: Transaction, account_id: str, plan: Plan) -> str:
    """The id of the project that `plan` names. A project with an unknown name is created.

    Raises:
        InvalidRequest: the plan names a project by an id that this account does not have.
    """
    if plan.project_id is not None:
        return await require_project(tx, account_id, plan.project_id)
    return await project_named(tx, account_id, plan.project_name)


async def project_named(tx: Transaction, account_id: str, name: str) -> str:
    """The id of the account's project of this name, which is created if there is none."""
    project_id = await tx.value("project_by_name", {"account_id": account_id, "name": name})
    if project_id is None:
        project_id = new_id()
        await tx.run("insert_project", {"id": project_id, "account_id": account_id, "name": name})
    return str(project_id)


async def require_project(tx: Transaction, account_id: str, project_id: str) -> str:
    """The id as it is stored. Raises: InvalidRequest, where the account has no such project."""
    found = await tx.value("project_by_id", {"id": project_id, "account_id": account_id})
    if found is None:
        message = f"project_id must name a project of this account; {project_id!r} does not."
        raise InvalidRequest({"project_id": [message]})
    return str(found)


# ---- the audit log ----
#
# One line for each use of an API key and each act of an administrator. A line has the act and short facts such as
# identifiers, and never contents: no secret, file name, text or name of a key. The handlers of the logger write it;
# without a handler, as in tests, it is discarded.

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The identifier of the request of the current task, for log lines; "" outside a request. A thread that
`asyncio.to_thread` starts has the value of its task."""

audit_log = logging.getLogger("imgproc_local.audit")
audit_log.propagate = False
audit_log.setLevel(logging.INFO)


def audit(act: str, **facts: str | int | None) -> None:
    """Log the line `act name=value …`, without values that are None, and with the id of the current request, if any."""
    fields = {**facts, "request": request_id.get() or None}
    audit_log.info("%s", " ".join([act, *(f"{name}={value}" for name, value in fields.items() if value is not None)]))
