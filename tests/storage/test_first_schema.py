"""A data folder of the first version: its jobs are listed, found and correct after the migration."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from imgproc_local.domain.job import Status
from imgproc_local.storage.database import open_database
from imgproc_local.storage.job_filters import JobFilters
from imgproc_local.storage.jobs import Jobs
from imgproc_local.storage.migration import known_migrations
from imgproc_local.storage.verification import verify

AT = "2026-11-01T00:00:00.000Z"
INFO = '{"format": "jpeg", "width_px": 8, "height_px": 8}'
TEXTS = [("ja", "vision"), ("en", "facts"), ("de", "embedded"), ("fr", "person")]
"""The languages of the job j1, in the order requested, and the sources of their texts."""
JOBS = {"j1": ("done", Status.COMPLETED), "j2": ("failed", Status.FAILED), "j3": ("pending", Status.PENDING)}


def first_database(path: Path) -> None:
    number, script = known_migrations()[0]
    with closing(sqlite3.connect(path)) as rows:
        rows.executescript(script)
        rows.execute(f"PRAGMA user_version = {number}")
        rows.execute("INSERT INTO accounts VALUES ('a', 'default', 0, ?)", (AT,))
        rows.execute("INSERT INTO ledger (account_id, kind, amount, at) VALUES ('a', 'grant', 10, ?)", (AT,))
        rows.execute("INSERT INTO projects VALUES ('p', 'a', 'p', ?)", (AT,))
        for job_id, (state, _) in JOBS.items():
            rows.execute(
                "INSERT INTO jobs VALUES (?, ?, 'a', 'p', 'optimize', '[]', 'webp', 'n.jpg', ?, 1, ?, ?, NULL, '')",
                (job_id, f"i{job_id}", "0" * 64, INFO, AT),
            )
            rows.execute(
                "INSERT INTO stages"
                " (job_id, name, lane, state, price, output_sha256, output_size, output_format, error)"
                " VALUES (?, 'optimize', 'codecs', ?, 1, ?, ?, ?, ?)",
                (
                    job_id,
                    state,
                    *(("0" * 64, 1, "jpeg") if state == "done" else (None, None, None)),
                    "Broken." if state == "failed" else None,
                ),
            )
            movements = [("hold", -1), ("release", 1)] if state == "failed" else [("hold", -1)]
            rows.executemany(
                "INSERT INTO ledger (account_id, kind, amount, job_id, stage, at) VALUES ('a', ?, ?, ?, 'optimize', ?)",
                [(kind, amount, job_id, AT) for kind, amount in movements],
            )
        rows.execute(
            "INSERT INTO stages (job_id, name, lane, state, price) VALUES ('j1', 'analyze', 'vision', 'done', 0)"
        )
        rows.execute(
            "INSERT INTO ledger (account_id, kind, amount, job_id, stage, at)"
            " VALUES ('a', 'hold', 0, 'j1', 'analyze', ?)",
            (AT,),
        )
        rows.execute("UPDATE jobs SET languages = ? WHERE id = 'j1'", (json.dumps([code for code, _ in TEXTS]),))
        rows.executemany(
            "INSERT INTO translations VALUES ('j1', 'p', ?, ?, 'a-name', 'a-name', 1, 'A text.', ?)",
            [(code, position, source) for position, (code, source) in enumerate(TEXTS)],
        )
        rows.commit()


async def test_jobs_of_the_first_version_are_listed_claimed_and_correct(tmp_path: Path) -> None:
    path = tmp_path / "imgproc.db"
    first_database(path)
    database = await open_database(path)
    try:
        jobs = Jobs(database, 10)
        for job_id, (_, status) in JOBS.items():
            assert [job.id for job in await jobs.page("a", 10, JobFilters((status,)))] == [job_id]
        texts = (await jobs.get("j1", "a")).translations
        assert [(text.language_code, text.source.value) for text in texts] == TEXTS
        assert not any(text.needs_text for text in texts)
        claimed = await jobs.claim("codecs")
        assert claimed is not None
        assert claimed.job.id == "j3"
    finally:
        await database.close()
    found = verify(tmp_path, path, lambda: True).problems
    assert {problem.area for problem in found} == {"files"}, found
