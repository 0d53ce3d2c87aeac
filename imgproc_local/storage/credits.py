"""Balances. Every movement is a row of the ledger; a trigger keeps the balance its sum."""

from __future__ import annotations

from imgproc_local.storage.clock import Clock, rfc3339
from imgproc_local.storage.database import Database, Transaction


class Credits:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def balance(self, account_id: str) -> int:
        async with self._database.reading() as read:
            return int(await read.value("account_balance", {"account_id": account_id}))

    async def grant(self, account_id: str, amount: int) -> int:
        """Add `amount` credits and return the new balance."""
        async with self._database.transaction() as tx:
            await move(tx, account_id, "grant", amount, rfc3339(self._clock()))
            return int(await tx.value("account_balance", {"account_id": account_id}))


async def move(
    tx: Transaction,
    account_id: str,
    kind: str,
    amount: int,
    at: str,
    job_id: str | None = None,
    stage: str | None = None,
) -> None:
    """Move credits inside a transaction; negative amounts take."""
    await tx.run(
        "insert_movement",
        {"account_id": account_id, "kind": kind, "amount": amount, "job_id": job_id, "stage": stage, "at": at},
    )
