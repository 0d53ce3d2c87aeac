"""Accounts and their API keys."""

from __future__ import annotations

import hmac

from imgproc_local.domain.errors import NotFound, Unauthenticated
from imgproc_local.domain.keys import ApiKey, hash_secret, new_secret
from imgproc_local.storage.clock import Clock, new_id, rfc3339
from imgproc_local.storage.credits import move
from imgproc_local.storage.database import Database, Row, Transaction

DEFAULT_ACCOUNT = "default"


class Keys:
    """`first_balance` is granted to every account on its creation."""

    def __init__(self, database: Database, clock: Clock, first_balance: int) -> None:
        self._database = database
        self._clock = clock
        self._first_balance = first_balance

    async def account_id(self, name: str = DEFAULT_ACCOUNT, create: bool = False) -> str:
        """The id of the account called `name`. Raises `NotFound` where there is none and `create` is not set."""
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
        """A new key of `account`, which is created where it is new, and the key's secret: it can't be had again."""
        secret = new_secret()
        at = rfc3339(self._clock())
        async with self._database.transaction() as tx:
            account_id = await self._account(tx, account)
            key = ApiKey(new_id(), account_id, account, name, rate_limit, at)
            await tx.run(
                "insert_key",
                {
                    "id": key.id,
                    "account_id": account_id,
                    "name": name,
                    "hash": hash_secret(secret),
                    "rate_limit": rate_limit,
                    "at": at,
                },
            )
        return key, secret

    async def _account(self, tx: Transaction, name: str) -> str:
        found = await tx.value("account_by_name", {"name": name})
        if found is not None:
            return str(found)
        account_id, at = new_id(), rfc3339(self._clock())
        await tx.run("insert_account", {"id": account_id, "name": name, "at": at})
        await move(tx, account_id, "grant", self._first_balance, at)
        return account_id

    async def authenticate(self, secret: str) -> ApiKey:
        """The key that `secret` belongs to. Raises `Unauthenticated` for an unknown or revoked one."""
        wanted = hash_secret(secret)
        async with self._database.reading() as read:
            row = await read.one("key_by_hash", {"hash": wanted})
        if row is None or not hmac.compare_digest(bytes(row["hash"]), wanted):
            raise Unauthenticated
        return _key(row)

    async def all(self) -> list[ApiKey]:
        """Every key, revoked ones too, oldest first."""
        async with self._database.reading() as read:
            return [_key(row) for row in await read.all("list_keys")]

    async def revoke(self, key_id: str) -> None:
        """Make the key useless from now on. Raises `NotFound` for an unknown or already revoked one."""
        async with self._database.transaction() as tx:
            revoked = await tx.value("revoke_key", {"id": key_id.lower(), "at": rfc3339(self._clock())})
        if revoked is None:
            raise NotFound(f"There is no key with the id {key_id!r} in force; `keys list` shows the ids.")


def _key(row: Row) -> ApiKey:
    return ApiKey(
        id=row["id"],
        account_id=row["account_id"],
        account=row["account"],
        name=row["name"],
        rate_limit=row["rate_limit"],
        created_at=row["created_at"],
        revoked_at=row["revoked_at"],
    )
