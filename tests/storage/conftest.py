"""The database with two accounts that most tests of the storage begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

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
QUEUE_LIMIT = 10
LANGUAGES = ("de", "en", "fr", "it", "es")


class Store:
    """Jobs, credits and two accounts on a database of the test's own; `now` is set by the test."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 1, tzinfo=UTC)

    async def open(self, path: Path) -> None:
        self.database = await open_database(path, lambda: self.now)
        self.jobs = Jobs(self.database, QUEUE_LIMIT)
        self.stages = Stages(self.database, 100)
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

    async def analyzed(self, account_id: str | None = None, **text: Any) -> Job:
        """A finished job of the account, by default the first, with texts in `LANGUAGES` with the fields `text`."""
        plan = Plan(Operation.ANALYZE, languages=LANGUAGES)
        job = await self.submit(Operation.ANALYZE, plan=plan, account_id=account_id or self.account_id)
        claimed = await self.stages.claim("vision")
        assert claimed is not None
        assert claimed.job.id == job.id
        fields = {"source": TextSource.FACTS} | text
        texts = tuple(Translation(code, "a-name", f"Text in {code}.", **fields) for code in LANGUAGES)
        done = await self.stages.record_done(claimed, None, texts)
        assert done is not None
        return done


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = Store()
    await store.open(tmp_path / "imgproc.db")
    yield store
    await store.database.close()
