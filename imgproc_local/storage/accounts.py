"""Accounts: their API keys, their credits and their projects.

Every movement of credits is a row of the ledger; a trigger keeps the balance equal to their sum. An upload belongs to
exactly one project, which is looked up or created in the transaction that stores the upload.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import string

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from imgproc_local.domain.errors import InsufficientCredits, InvalidRequest, NotFound, Unauthenticated
from imgproc_local.domain.plan import Plan
from imgproc_local.storage.database import Database, Row, Transaction, new_id

DEFAULT_ACCOUNT = "default"

_ALPHABET = string.ascii_letters + string.digits
_SECRET_LENGTH = 32
_PREFIX = "imgp_"


class ApiKey(Struct, frozen=True):
    """An API key as stored, without its secret. `account` is the account's name, `name` the key's.

    `rate_limit` is in requests per minute; None means the setting `rate_limit_per_minute`, 0 means no limit. Times are
    RFC 3339. `for_page` says that the local page made the key for itself: such a key has no rate limit.
    """

    id: str
    account_id: str
    account: str
    name: str
    rate_limit: int | None
    created_at: str
    revoked_at: str | None = None
    for_page: bool = False


class Keys:
    """API keys and the accounts that they belong to. Every new account is granted `first_balance` credits."""

    def __init__(self, database: Database, first_balance: int) -> None:
        self._database = database
        self._first_balance = first_balance

    async def account_id(self, name: str = DEFAULT_ACCOUNT, create: bool = False) -> str:
        """The id of the account called `name`. An unknown one is created if `create` is set; else raises NotFound."""
        async with self._database.reading() as read:
            found = await read.value("account_by_name", {"name": name})
        if found is None and create:
            async with self._database.transaction() as tx:
                return await self._account(tx, name)
        if found is None:
            raise NotFound(f"There is no account named {name!r}; `keys create --account` makes one.")
        return str(found)

    async def create(
        self, name: str, account: str = DEFAULT_ACCOUNT, rate_limit: int | None = None
    ) -> tuple[ApiKey, str]:
        """A new key and its secret, which can't be read again. If there is no `account` of this name, it is created."""
        secret = _PREFIX + "".join(secrets.choice(_ALPHABET) for _ in range(_SECRET_LENGTH))
        async with self._database.transaction() as tx:
            account_id = await self._account(tx, account)
            key = ApiKey(new_id(), account_id, account, name, rate_limit, tx.at)
            await tx.run("insert_key", {**asdict(key), "hash": _hash(secret)})
        return key, secret

    async def _account(self, tx: Transaction, name: str) -> str:
        found = await tx.value("account_by_name", {"name": name})
        if found is not None:
            return str(found)
        account_id = new_id()
        await tx.run("insert_account", {"id": account_id, "name": name, "at": tx.at})
        await move_credits(tx, account_id, "grant", self._first_balance)
        return account_id

    async def authenticate(self, secret: str) -> ApiKey:
        """The key that `secret` belongs to. Raises: Unauthenticated, for one that is unknown or not in force."""
        wanted = _hash(secret)
        async with self._database.reading() as read:
            row = await read.one("key_by_hash", {"hash": wanted, "at": read.at})
        if row is None or not hmac.compare_digest(bytes(row["hash"]), wanted):
            raise Unauthenticated
        return _key(row)

    async def is_in_force(self, key_id: str) -> bool:
        """Whether the key is neither revoked nor that of an expired page session."""
        async with self._database.reading() as read:
            return bool(await read.value("key_in_force", {"id": key_id, "at": read.at}))

    async def all(self) -> list[ApiKey]:
        """Every key, revoked ones too, oldest first."""
        async with self._database.reading() as read:
            return [_key(row) for row in await read.all("list_keys")]

    async def revoke(self, key_id: str) -> None:
        """Refuse the key from now on. Raises: NotFound, for an unknown or already revoked one."""
        async with self._database.transaction() as tx:
            revoked = await tx.value("revoke_key", {"id": key_id.lower(), "at": tx.at})
        if revoked is None:
            raise NotFound(f"There is no key with the id {key_id!r} that is not revoked; `keys list` shows the ids.")


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _key(row: Row) -> ApiKey:
    return msgspec.convert(dict(row), ApiKey, strict=False)  # `for_page` is 0 or 1


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
    await tx.run(
        "insert_movement",
        {"account_id": account_id, "kind": kind, "amount": amount, "job_id": job_id, "stage": stage, "at": tx.at},
    )


async def require_credits(tx: Transaction, account_id: str, required: int) -> None:
    """Raises: InsufficientCredits, where the balance of the account is smaller."""
    account = await _account_by_id(tx, account_id)
    if account["balance"] < required:
        raise InsufficientCredits(required, account["balance"], account["name"])


async def _account_by_id(tx: Transaction, account_id: str) -> Row:
    account = await tx.one("account_by_id", {"account_id": account_id})
    assert account is not None
    return account


# ---- projects ----


async def project_of_plan(tx: Transaction, account_id: str, plan: Plan) -> str:
    """The id of the project that `plan` names. A project with an unknown name is created.

    Raises:
        InvalidRequest: the plan names a project by an id that this account does not have.
    """
    if plan.project_id is not None:
        return await require_project(tx, account_id, plan.project_id)
    project_id = await tx.value("project_by_name", {"account_id": account_id, "name": plan.project_name})
    if project_id is None:
        project_id = new_id()
        names = {"id": project_id, "account_id": account_id, "name": plan.project_name}
        await tx.run("insert_project", {**names, "at": tx.at})
    return str(project_id)


async def require_project(tx: Transaction, account_id: str, project_id: str) -> str:
    """The id as it is stored. Raises: InvalidRequest, where the account has no such project."""
    found = await tx.value("project_by_id", {"id": project_id, "account_id": account_id})
    if found is None:
        message = f"project_id must name a project of this account; {project_id!r} does not."
        raise InvalidRequest({"project_id": [message]})
    return str(found)
