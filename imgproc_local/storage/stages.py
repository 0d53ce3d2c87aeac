"""The stages of jobs: claimed by the lanes, and recorded as done or failed.

What must be true together is written in one transaction: the result of a stage and its file reference; the failure of a
stage and the release of its credits.

A request to write one text anew (`translations.py`) is claimed, recorded and requeued like a stage, together with those
for other texts of the picture, but is a row of `regenerations`, because it changes no status of its job. A request to
make a result anew is a row of `remakes` for the same reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from imgproc_local.domain.errors import NotFound, NothingToRemake, OriginalRemoved, QueueFull, ServiceError
from imgproc_local.domain.job import Job, SizedFile, StageName, StoredFile
from imgproc_local.domain.plan import Plan, Remake, RemakeItem
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import Note, RoleSuggestion, Translation
from imgproc_local.storage.accounts import move_credits, require_credits
from imgproc_local.storage.database import Database, Row, Transaction
from imgproc_local.storage.jobs import read_job
from imgproc_local.storage.translations import insert_translation, store_regenerated

MAX_ATTEMPTS = 3
"""A stage fails after the process has ended this many times while the stage was running."""
_INTERRUPTED = f"Interrupted: the service ended {MAX_ATTEMPTS} times while it worked on this image, and gives up on it."


class ClaimedStage(Struct, frozen=True):
    """A stage to run, and what it needs to know. `attempts` includes this run.

    `row_ids` has that of its row: in `stages`; with the kind "text", those of all stored texts that it writes anew, in
    `regenerations`, in the order of the languages; with "remake", which makes a stored result anew, in `remakes`.
    `record` is what was read from the upload; None if that must be read again. `translated` is the stored text that is
    to be translated, if any.
    """

    job: Job
    stage: StageName
    kind: Literal["stage", "text", "remake"]
    row_ids: tuple[int, ...]
    attempts: int
    plan: Plan
    record: bytes | None = None
    translated: Translation | None = None


class Stages:
    """The stages of all jobs. `remake_limit` is the number of results of one account that may wait to be made anew."""

    def __init__(self, database: Database, remake_limit: int) -> None:
        self._database = database
        self._remake_limit = remake_limit
        self._last_kinds: dict[str, str] = {}
        """The kind of what was claimed last, by lane."""
        self._last_accounts: dict[str, str] = {}
        """The account for which each kind was claimed last."""

    async def claim(self, lane: str) -> ClaimedStage | None:
        """The next stage of `lane`, now running; None if none can start. queries.sql has the order of each kind.

        Stages take turns with texts and results that are to be made anew.
        """
        last = self._last_kinds.get(lane)
        async with self._database.transaction() as tx:
            for kind in sorted(("text", "remake", "stage"), key=lambda kind: kind == last):
                parameters = {"lane": lane, "last_account_id": self._last_accounts.get(kind, "")}
                if rows := await tx.all(f"claim_{kind}", parameters):
                    self._last_kinds[lane], self._last_accounts[kind] = kind, rows[0]["account_id"]
                    return await self._claimed(tx, rows)
        return None

    async def _claimed(self, tx: Transaction, rows: Sequence[Row]) -> ClaimedStage:
        row, kind = rows[0], rows[0]["kind"]
        job = await read_job(tx, row["job_id"])
        plan, record = await _plan_of(tx, job.id, row["id"] if kind == "remake" else None)
        translated = None
        if kind == "text":
            rows = sorted(rows, key=lambda row: job.languages.index(row["language_code"]))
            plan = replace(plan, languages=tuple(row["language_code"] for row in rows))
            texts = (text for text in job.translations if text.language_code == row["from_language"])
            translated = next(texts, None)
        row_ids = tuple(row["id"] for row in rows)
        return ClaimedStage(job, StageName(row["name"]), kind, row_ids, row["attempts"], plan, record, translated)

    async def plan_of(self, job: Job) -> Plan:
        """What the stages of a job are to make now."""
        async with self._database.reading() as read:
            return (await _plan_of(read, job.id))[0]

    async def request_remakes(
        self, account_id: str, wanted: Remake, prices: Mapping[StageName, int]
    ) -> tuple[list[str], list[RemakeItem | ServiceError]]:
        """Request results anew, in place of requests for the same results that wait or run, and release their credits.

        Returns the jobs, and the images, in order; in place of one without a request why it has none: NotFound,
        OriginalRemoved, NothingToRemake.
        Raises: QueueFull, InsufficientCredits: nothing was stored.
        """
        image_ids = [item.image_id.lower() for item in wanted.images]
        parameters: dict[str, Any] = {"image_ids": image_ids, "names": wanted.stages, "account_id": account_id}
        parameters |= {"prices": prices, "changes": wanted.changes}
        async with self._database.transaction() as tx:
            rows = {row["image_id"]: row for row in await tx.all("remakable", parameters)}
            problems = {image_id: _remake_problem(rows.get(image_id)) for image_id in image_ids}
            job_ids = [row["job_id"] for image_id, row in rows.items() if problems[image_id] is None]
            parameters["job_ids"] = job_ids
            for replaced in await tx.all("replaced_remakes", parameters):
                released = replaced["price"], replaced["job_id"], replaced["paid_as"]
                await move_credits(tx, account_id, "release", *released)
            requests = await tx.all("insert_remakes", parameters)
            await tx.run("delete_failed_remakes", parameters)
            if await tx.value("count_waiting_remakes", parameters) > self._remake_limit:
                raise QueueFull(self._remake_limit, "results to make anew")
            await require_credits(tx, account_id, sum(request["price"] for request in requests))
            await tx.run("hold_for_remakes", {"ids": [request["id"] for request in requests]})
        return job_ids, [problems[item.image_id.lower()] or item for item in wanted.images]

    async def record_done(
        self,
        claimed: ClaimedStage,
        file: StoredFile | None,
        texts: Sequence[Translation],
        removed: Sequence[Removed] = (),
        suggestion: RoleSuggestion | None = None,
        score: float | None = None,
        notes: Sequence[Note] = (),
        variants: Sequence[SizedFile] = (),
    ) -> Job | None:
        """Store the result of a stage: a file that the blobs already hold, texts, or both.

        A conversion that was not smaller, and is not kept, costs nothing.
        `removed` are the kinds of private data that the upload holds and the result does not; `suggestion` is the role
        that the picture seems to have; `score` and `notes` are those of the file,
        and `variants` the converted picture at other widths.
        None where the job has been deleted, or another request to make the result anew took the place of this one; the
        result is not stored then.
        """
        result = {"id": claimed.row_ids[0], "removed": removed, "score": score, "notes": notes}
        result |= asdict(file) if file else dict.fromkeys(StoredFile.__struct_fields__)
        async with self._database.transaction() as tx:
            if claimed.kind == "text":
                written = zip(claimed.row_ids, texts, strict=True)
                ended = [await self._record_text(tx, row_id, text) for row_id, text in written]
            else:
                row = await tx.one(f"finish_{claimed.kind}", result)
                ended = [row is not None]
                if row is not None and Note.NOT_SMALLER in notes:
                    await move_credits(tx, row["account_id"], "release", row["price"], claimed.job.id, row["paid_as"])
            if not any(ended):
                return None
            if claimed.kind == "remake":
                await tx.run("set_remade_options", result)
                await tx.run("delete_remake", result)
            if claimed.stage is StageName.CONVERT:
                made = {"job_id": claimed.job.id, "variants": variants}
                await tx.run("delete_variants", made)
                await tx.run("insert_variants", made)
            if claimed.kind == "stage":
                job = await read_job(tx, claimed.job.id)  # meanwhile, it may have been moved to another project
                for position, text in enumerate(texts):
                    await insert_translation(tx, job, position, text)
            if suggestion is not None:
                await tx.run("set_suggestion", {"job_id": claimed.job.id, "suggestion": suggestion})
            if claimed.stage is StageName.ANALYZE:
                await tx.run("delete_context", {"job_id": claimed.job.id})
            await tx.run("delete_record_of_settled", {"job_id": claimed.job.id})
            return await read_job(tx, claimed.job.id)

    async def _record_text(self, tx: Transaction, row_id: int, text: Translation) -> bool:
        """Store a text that was written anew, or why the one in force is kept; False where the job was deleted."""
        if kept := await store_regenerated(tx, row_id, text):
            return await self._fail(tx, "text", row_id, kept) is not None
        return await tx.one("finish_text", {"id": row_id}) is not None

    async def record_failed(self, claimed: ClaimedStage, message: str) -> Job | None:
        """Store the failure of a stage and release its credits; None where the job has been deleted."""
        async with self._database.transaction() as tx:
            failed = [await self._fail(tx, claimed.kind, row_id, message) for row_id in claimed.row_ids]
            return failed[-1]

    async def _fail(self, tx: Transaction, kind: str, row_id: int, message: str) -> Job | None:
        row = await tx.one(f"fail_{kind}", {"id": row_id, "error": message})
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
            for row_id in claimed.row_ids:
                await tx.run(f"requeue_{claimed.kind}", {"id": row_id, "not_counted": 1})

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


async def _plan_of(tx: Transaction, job_id: str, remake_id: int | None = None) -> tuple[Plan, bytes | None]:
    """What the stages of a job are to make, or what the request `remake_id` asks for; and the record of the upload."""
    row = await tx.row("plan_of_job", {"job_id": job_id, "remake_id": remake_id})
    return msgspec.json.decode(row["plan"], type=Plan), row["record"]


def _remake_problem(row: Row | None) -> ServiceError | None:
    """Why results of an image can't be made anew; `row` is that of the statement `remakable`."""
    if row is None:
        return NotFound("There is no image with this identifier in this account.")
    if row["is_unfinished"]:
        return NothingToRemake("This image is still being processed. Its results can be made anew afterwards.")
    if not row["has_results"]:
        return NothingToRemake("This image has no finished result that the request would change.")
    if row["is_original_removed"]:
        return OriginalRemoved("The uploaded picture was removed because of its age. Send the picture again.")
    return None
