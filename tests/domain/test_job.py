"""The status of a job is derived from its stages."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from imgproc_local.domain.job import StageName, StageState, Status
from imgproc_local.storage.database import open_database
from imgproc_local.storage.jobs import JobFilters, Jobs

ANALYZE, OPTIMIZE, CONVERT = StageName.ANALYZE, StageName.OPTIMIZE, StageName.CONVERT
PENDING, RUNNING, DONE, FAILED = StageState


Stage = tuple[StageName, StageState, int | None]
"""A stage with its place among the starts of all stages; None before its start."""


def status_of(stages: Sequence[Stage]) -> Status:
    """The status of a job with these stages, as the interface describes it."""
    states = [state for _, state, _ in stages]
    if PENDING not in states and RUNNING not in states:
        return Status.FAILED if FAILED in states else Status.COMPLETED
    words = {ANALYZE: Status.ANALYZING, OPTIMIZE: Status.OPTIMIZING, CONVERT: Status.CONVERTING}
    started = [(number, words[name]) for name, _, number in stages if number is not None]
    return max(started)[1] if started else Status.PENDING


async def test_stored_jobs_have_this_status_and_are_listed_by_it(tmp_path: Path) -> None:
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
                stages: list[Stage] = []
                for name, state, started in zip(StageName, combination, order, strict=True):
                    seq = None if started is None else number * 10 + started
                    stages.append((name, state, seq))
                    await tx._connection.execute_fetchall(
                        "INSERT INTO stages (job_id, account_id, name, lane, state, price, started_seq)"
                        " VALUES (?, 'a', ?, '', ?, 1, ?)",
                        (job_id, name.value, state.value, seq),
                    )
                expected[job_id] = status_of(stages)
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
                found = {job.id: job.status for job in page}
                assert found == {job_id: derived for job_id, derived in expected.items() if derived is status}
        assert len(await jobs.page("a", 1000, JobFilters(tuple(Status)))) == len(expected)
        assert await jobs.page("a", 1000, JobFilters(tuple(Status), "another project")) == []
    finally:
        await database.close()
