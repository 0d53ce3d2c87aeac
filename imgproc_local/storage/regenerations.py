"""Requests to write one stored text of a job anew. They wait beside the stages, and change no status of a job.

A row of `regenerations` and the credits that it holds are written together. The row is deleted when the new text is
stored; after a failure it remains with the reason, until the next request.
"""

from __future__ import annotations

from imgproc_local.domain.errors import InsufficientCredits, OriginalRemoved, QueueFull
from imgproc_local.domain.job import Job, StageName
from imgproc_local.domain.result import Translation
from imgproc_local.storage.accounts import move_credits
from imgproc_local.storage.database import Database, Transaction
from imgproc_local.storage.job_rows import MAX_ATTEMPTS, ClaimedStage, read_claimed, read_job
from imgproc_local.storage.translations import read_text, store_version

INTERRUPTED = f"Interrupted: the service ended {MAX_ATTEMPTS} times while it wrote this text. It is not tried again."


class Regenerations:
    """`limit` is the number of requests of one account that may wait; `stage` is the stage that writes texts."""

    stage = StageName.ANALYZE

    def __init__(self, database: Database, limit: int) -> None:
        self._database = database
        self._limit = limit
        self._claims = 0
        self._last_claims: dict[str, int] = {}

    async def request(self, job_id: str, language_code: str, price: int) -> tuple[Job, bool]:
        """Request a new text. Returns the job, and whether the request is new: a text has at most one waiting.

        Raises:
            NotFound: the job has no text in this language.
            OriginalRemoved: the uploaded picture was removed because of its age.
            QueueFull, InsufficientCredits: nothing was stored.
        """
        async with self._database.transaction() as tx:
            text = await read_text(tx, job_id, language_code)
            job = await read_job(tx, job_id)
            where = {"job_id": job_id, "language_code": language_code}
            earlier = await tx.one("regeneration_of_text", where)
            if earlier is not None and earlier["state"] != "failed":
                return job, False
            if job.original.expired:
                raise OriginalRemoved(
                    "The uploaded picture was removed because of its age, so no text can be written for it. Write the"
                    " text by hand, or send the picture again."
                )
            account_id = text["account_id"]
            if await tx.value("count_waiting_regenerations", {"account_id": account_id}) >= self._limit:
                raise QueueFull(self._limit, "texts to write anew")
            account = await tx.one("account_by_id", {"account_id": account_id})
            assert account is not None
            if account["balance"] < price:
                raise InsufficientCredits(price, account["balance"], account["name"])
            if earlier is not None:
                await tx.run("delete_regeneration", {"id": earlier["id"]})
            request_id = await tx.value("insert_regeneration", {**where, "account_id": account_id, "price": price})
            await move_credits(tx, account_id, "hold", -price, job_id, _ledger_stage(request_id))
            return await read_job(tx, job_id), True

    async def claim(self, *, interrupted: bool = True) -> ClaimedStage | None:
        """The next waiting request, now running, as an analyze stage of one language; None without one.

        Accounts take turns. Requests that ran when the process ended come after all others; with `interrupted` False
        they are left out.
        """
        async with self._database.reading() as read:
            if not await read.all("accounts_waiting_for_texts"):
                return None
        async with self._database.transaction() as tx:
            waiting = [
                (row["attempts"], self._last_claims.get(row["account_id"], 0), row["account_id"])
                for row in await tx.all("accounts_waiting_for_texts")
                if interrupted or row["attempts"] == 0
            ]
            if not waiting:
                return None
            attempts, _, account_id = min(waiting)
            row = await tx.one("claim_regeneration", {"account_id": account_id, "attempts": attempts})
            assert row is not None
            self._claims += 1
            self._last_claims[account_id] = self._claims
            return await read_claimed(
                tx, row["job_id"], self.stage, row["attempts"], (row["language_code"],), row["id"]
            )

    async def record_written(self, request_id: int, text: Translation) -> Job | None:
        """Store `text` as a new version; None where the job has been deleted."""
        async with self._database.transaction() as tx:
            row = await tx.one("finish_regeneration", {"id": request_id})
            if row is None:
                return None
            await store_version(tx, await read_text(tx, row["job_id"], row["language_code"]), text)
            return await read_job(tx, row["job_id"])

    async def record_failed(self, request_id: int, message: str) -> Job | None:
        """Store the failure and release the credits of the request; None where the job has been deleted."""
        async with self._database.transaction() as tx:
            return await self._fail(tx, request_id, message)

    async def _fail(self, tx: Transaction, request_id: int, message: str) -> Job | None:
        row = await tx.one("fail_regeneration", {"id": request_id, "error": message})
        if row is None:
            return None
        await move_credits(tx, row["account_id"], "release", row["price"], row["job_id"], _ledger_stage(request_id))
        return await read_job(tx, row["job_id"])

    async def requeue(self, request_id: int) -> None:
        """As `Jobs.requeue`: let a running request wait again. The attempt does not count."""
        async with self._database.transaction() as tx:
            await tx.run("requeue_regeneration", {"id": request_id})

    async def recover(self) -> tuple[int, int]:
        """Requeue the requests that a killed process left running. Returns the numbers of requeued and failed ones."""
        requeued = failed = 0
        async with self._database.transaction() as tx:
            for row in await tx.all("interrupted_regenerations"):
                if row["attempts"] >= MAX_ATTEMPTS:
                    await self._fail(tx, row["id"], INTERRUPTED)
                    failed += 1
                else:
                    await tx.run("requeue_interrupted_regeneration", {"id": row["id"]})
                    requeued += 1
        return requeued, failed


async def release_waiting(tx: Transaction, job_id: str) -> None:
    """Release the credits of the waiting requests of a job that is being deleted."""
    for row in await tx.all("pending_regenerations_of_job", {"job_id": job_id}):
        await move_credits(tx, row["account_id"], "release", row["price"], job_id, _ledger_stage(row["id"]))


def _ledger_stage(request_id: int) -> str:
    """The stage that the ledger has for a request; it differs between the requests of a text."""
    return f"regenerate-{request_id}"
