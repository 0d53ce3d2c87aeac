"""The stages of jobs: claimed by the lanes, and recorded as done or failed.

What must be true together is written in one transaction: the result of a stage and its file reference; the failure of a
stage and the release of its credits.

A request to write one text anew (`translations.py`) is claimed, recorded and requeued like a stage that writes one
language, but is a row of `regenerations`, because it changes no status of its job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.job import Job, StageName, StoredFile
from imgproc_local.domain.plan import Operation, Plan, Role
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import RoleSuggestion, Translation
from imgproc_local.storage.accounts import move_credits
from imgproc_local.storage.database import Database, Row, Transaction
from imgproc_local.storage.jobs import read_job
from imgproc_local.storage.translations import insert_translation, store_regenerated

MAX_ATTEMPTS = 3
"""A stage fails after the process has ended this many times while the stage was running."""
_INTERRUPTED = (
    f"Interrupted: the service ended {MAX_ATTEMPTS} times while it worked on this image. It is not tried again."
)


class ClaimedStage(Struct, frozen=True):
    """A stage to run, and what it needs to know. `attempts` includes this run.

    `row_id` is that of its row: in `stages`, or, with the kind "text", in `regenerations`. A stage of that kind writes
    one stored text anew. `record` is what was read from the upload; None if that must be read again.
    """

    job: Job
    stage: StageName
    kind: Literal["stage", "text"]
    row_id: int
    attempts: int
    info: ImageInfo
    plan: Plan
    record: bytes | None


class Stages:
    """The stages of all jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_turn_of_texts = True
        self._last_account_with_text = ""

    async def claim(self, lane: str) -> ClaimedStage | None:
        """The next stage of `lane`, now running; None if none can start. queries.sql has the order of each kind.

        Stages that write texts take turns with texts that are to be written anew.
        """
        async with self._database.transaction() as tx:
            parameters = {"lane": lane, "at": tx.at, "last_account_id": self._last_account_with_text}
            statements = ("claim_text", "claim_stage") if self._is_turn_of_texts else ("claim_stage", "claim_text")
            for statement in statements:
                row = await tx.one(statement, parameters)
                if row is not None:
                    return await self._claimed(tx, row)
        return None

    async def _claimed(self, tx: Transaction, row: Row) -> ClaimedStage:
        if row["name"] == StageName.ANALYZE:
            self._is_turn_of_texts = row["kind"] == "stage"
        if row["kind"] == "text":
            self._last_account_with_text = row["account_id"]
        job = await read_job(tx, row["job_id"])
        requested = await tx.one("plan_of_job", {"job_id": job.id})
        assert requested is not None
        return ClaimedStage(
            job=job,
            stage=StageName(row["name"]),
            kind=row["kind"],
            row_id=row["id"],
            attempts=row["attempts"],
            info=job.info,
            plan=Plan(
                operation=Operation(job.operation),
                languages=(row["language_code"],) if row["kind"] == "text" else job.languages,
                format=Format(requested["convert_to"]),
                project_name=job.project_name,
                context=requested["context"],
                max_width_px=job.max_width_px,
                max_height_px=job.max_height_px,
                role=Role(requested["role"]),
            ),
            record=requested["record"],
        )

    async def record_done(
        self,
        claimed: ClaimedStage,
        file: StoredFile | None,
        texts: Sequence[Translation],
        removed: Sequence[Removed] = (),
        suggestion: RoleSuggestion | None = None,
    ) -> Job | None:
        """Store the result of a stage: a file that the blobs already hold, texts, or both.

        `removed` are the kinds of private data that the upload holds and the result does not; `suggestion` is the role
        that the picture seems to have.
        None where the job has been deleted; the result is not stored then.
        """
        result = {
            "id": claimed.row_id,
            "sha256": file.sha256 if file else None,
            "size": file.size_bytes if file else None,
            "format": file.format.value if file else None,
            "removed": msgspec.json.encode(removed).decode(),
        }
        async with self._database.transaction() as tx:
            if claimed.kind == "text" and (kept := await store_regenerated(tx, claimed.row_id, texts[0])):
                return await self._fail(tx, claimed.kind, claimed.row_id, kept)
            if await tx.one(f"finish_{claimed.kind}", {**result, "at": tx.at}) is None:
                return None
            if claimed.kind == "stage":
                for position, text in enumerate(texts):
                    await insert_translation(tx, claimed.job, position, text)
            if suggestion is not None:
                stored = {"job_id": claimed.job.id, "suggestion": msgspec.json.encode(suggestion).decode()}
                await tx.run("set_suggestion", stored)
            if claimed.stage is StageName.ANALYZE:
                await tx.run("delete_context", {"job_id": claimed.job.id})
            await tx.run("delete_record_of_settled", {"job_id": claimed.job.id})
            return await read_job(tx, claimed.job.id)

    async def record_failed(self, claimed: ClaimedStage, message: str) -> Job | None:
        """Store the failure of a stage and release its credits; None where the job has been deleted."""
        async with self._database.transaction() as tx:
            return await self._fail(tx, claimed.kind, claimed.row_id, message)

    async def _fail(self, tx: Transaction, kind: str, row_id: int, message: str) -> Job | None:
        row = await tx.one(f"fail_{kind}", {"id": row_id, "at": tx.at, "error": message})
        if row is None:
            return None
        await move_credits(tx, row["account_id"], "release", row["price"], row["job_id"], row["paid_as"])
        if row["paid_as"] == StageName.ANALYZE:
            await tx.run("delete_context", {"job_id": row["job_id"]})
        await tx.run("delete_record_of_settled", {"job_id": row["job_id"]})
        return await read_job(tx, row["job_id"])

    async def requeue(self, claimed: ClaimedStage) -> None:
        """Put a stage back into the queue after an orderly stop, or because the disk had no space for its result.

        The attempt does not count.
        """
        async with self._database.transaction() as tx:
            await tx.run(f"requeue_{claimed.kind}", {"id": claimed.row_id, "not_counted": 1})

    async def recover(self) -> tuple[int, int]:
        """Requeue the stages that a killed process left running. Returns the numbers of requeued and failed stages."""
        requeued = failed = 0
        async with self._database.transaction() as tx:
            for row in await tx.all("interrupted_stages"):
                if row["attempts"] >= MAX_ATTEMPTS:
                    await self._fail(tx, row["kind"], row["id"], _INTERRUPTED)
                    failed += 1
                else:
                    await tx.run(f"requeue_{row['kind']}", {"id": row["id"], "not_counted": 0})
                    requeued += 1
        return requeued, failed
