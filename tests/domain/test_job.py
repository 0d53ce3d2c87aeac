"""The status of a job is derived from its stages, in Python and in SQL."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from imgproc_local.domain.job import StageName, StageRecord, StageState, Status, derive_status
from imgproc_local.storage.database import open_database
from imgproc_local.storage.jobs import JobFilters, Jobs

ANALYZE, OPTIMIZE, CONVERT = StageName.ANALYZE, StageName.OPTIMIZE, StageName.CONVERT
PENDING, RUNNING, DONE, FAILED = StageState


@pytest.mark.parametrize(
    ("stages", "status"),
    [
        ([(ANALYZE, PENDING, None), (OPTIMIZE, PENDING, None)], Status.PENDING),
        ([(ANALYZE, RUNNING, 1), (OPTIMIZE, RUNNING, 2)], Status.OPTIMIZING),
        ([(ANALYZE, RUNNING, 1), (CONVERT, DONE, 2)], Status.CONVERTING),
        ([(ANALYZE, FAILED, 1), (OPTIMIZE, PENDING, None)], Status.ANALYZING),
        ([(ANALYZE, DONE, 1), (OPTIMIZE, DONE, 2)], Status.COMPLETED),
        ([(ANALYZE, FAILED, 1), (OPTIMIZE, DONE, 2)], Status.FAILED),
    ],
)
def test_status_is_that_of_the_stage_that_started_last_until_all_have_ended(
    stages: list[tuple[StageName, StageState, int | None]], status: Status
) -> None:
    assert derive_status([StageRecord(*stage) for stage in stages]) is status


async def test_the_query_list_jobs_derives_the_same_status(tmp_path: Path) -> None:
    """For every combination of the states of three stages, with four orders of their starts."""
    database = await open_database(tmp_path / "jobs.db")
    try:
        async with database.transaction() as tx:
            at = "2026-11-01T00:00:00.000Z"
            await tx.run("insert_account", {"id": "a", "name": "a", "at": at})
            await tx.run("insert_project", {"id": "p", "account_id": "a", "name": "p", "at": at})
            expected: dict[str, Status] = {}
            states = itertools.product(StageState, repeat=3)
            for number, (combination, order) in enumerate(
                itertools.product(states, [(1, 2, 3), (3, 1, 2), (None, 1, None), (None, None, None)])
            ):
                job_id = f"{number:026d}"
                await tx._connection.execute_fetchall(
                    "INSERT INTO jobs (id, image_id, account_id, project_id, operation, languages, convert_to,"
                    " original_filename, original_sha256, original_size, info, created_at, fingerprint)"
                    " VALUES (?, ?, 'a', 'p', 'process', '[]', 'webp', 'n', 'x', 1, ?, ?, '')",
                    (job_id, f"i{job_id}", '{"format": "jpeg", "width_px": 8, "height_px": 8}', at),
                )
                stages = []
                for name, state, started in zip(StageName, combination, order, strict=True):
                    seq = None if started is None else number * 10 + started
                    stages.append(StageRecord(name, state, seq))
                    await tx._connection.execute_fetchall(
                        "INSERT INTO stages (job_id, account_id, name, lane, state, price, started_seq)"
                        " VALUES (?, 'a', ?, '', ?, 1, ?)",
                        (job_id, name.value, state.value, seq),
                    )
                expected[job_id] = derive_status(stages)
                await tx._connection.execute_fetchall(
                    "INSERT INTO translations (job_id, account_id, project_id, language_code, position, seo_filename,"
                    " slug_base, slug_number, seo_alt_text, source, needs_text_reason)"
                    " VALUES (?, 'a', 'p', 'en', 0, ?, 'n', 1, 'Text.', 'pixels', 'nothing_known')",
                    (job_id, f"n-{number}"),
                )
        jobs = Jobs(database, 1)
        for status in Status:
            for project_id, needs_text in itertools.product((None, "p"), (False, True)):
                filters = JobFilters((status,), project_id, needs_text=needs_text)
                page = await jobs.page("a", 1000, filters)
                found = {job.id for job in page}
                assert found == {job_id for job_id, derived in expected.items() if derived is status}
        assert len(await jobs.page("a", 1000, JobFilters(tuple(Status)))) == len(expected)
        assert await jobs.page("a", 1000, JobFilters(tuple(Status), "another project")) == []
    finally:
        await database.close()
