"""A database with two accounts for the tests of the storage."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.job import Job, StageName, StoredFile
from imgproc_local.domain.plan import STAGES, Operation, Plan
from imgproc_local.domain.result import TextSource, Translation
from imgproc_local.storage.accounts import Credits, Keys
from imgproc_local.storage.database import open_database
from imgproc_local.storage.jobs import Jobs, Submission
from imgproc_local.storage.stages import Stages

PRICES = {StageName.ANALYZE: 3, StageName.OPTIMIZE: 2, StageName.CONVERT: 1}
LANES = {StageName.ANALYZE: "vision", StageName.OPTIMIZE: "codecs", StageName.CONVERT: "codecs"}
BALANCE = 100
QUEUE_LIMIT = 5


class Store:
    """Jobs, credits and two accounts on a database of the test's own; `now` is set by the test."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 1, tzinfo=UTC)

    async def open(self, path: Path) -> None:
        self.database = await open_database(path, lambda: self.now)
        self.jobs = Jobs(self.database, QUEUE_LIMIT)
        self.stages = Stages(self.database)
        self.credits = Credits(self.database)
        keys = Keys(self.database, BALANCE)
        self.account_id = await keys.account_id("own", create=True)
        self.other_account_id = await keys.account_id("other", create=True)

    async def submit(
        self,
        operation: Operation = Operation.OPTIMIZE,
        *,
        sha256: str = "a" * 64,
        plan: Plan | None = None,
        **fields: Any,
    ) -> Job:
        submission: dict[str, Any] = {
            "account_id": self.account_id,
            "plan": plan or Plan(operation),
            "original_filename": "a.jpg",
            "sha256": sha256,
            "size_bytes": 1000,
            "info": ImageInfo(Format.JPEG, 8, 8),
            "prices": {stage: PRICES[stage] for stage in STAGES[operation]},
            "lanes": LANES,
        }
        return (await self.jobs.submit(Submission(**submission | fields)))[0]

    async def balance(self) -> int:
        return await self.credits.balance(self.account_id)

    async def finish(self, lane: str = "codecs", file: StoredFile | None = None) -> Job:
        """Claim the next stage of the lane and record it as done."""
        claimed = await self.stages.claim(lane)
        assert claimed is not None
        done = await self.stages.record_done(claimed, file or claimed.job.original, ())
        assert done is not None
        return done


def texts(name: str, *languages: str) -> tuple[Translation, ...]:
    return tuple(Translation(code, name, f"Text in {code}.", TextSource.FACTS) for code in languages)
