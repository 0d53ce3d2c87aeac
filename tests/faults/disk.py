"""What must hold between a data folder's database and its files, read from outside once the server is gone."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def database(folder: Path) -> Iterator[sqlite3.Connection]:
    """The folder's database, only to be read."""
    connection = sqlite3.connect(f"file:{folder / 'imgproc.db'}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    try:
        yield connection
    finally:
        connection.close()


def check_folder(folder: Path) -> None:
    """Assert every invariant between rows, files and credits of a folder whose work is done."""
    with database(folder) as rows:
        _check_database(rows)
        _check_credits(rows)
        _check_requests(rows)
        _check_results(rows)
        _check_files(folder, rows)


def _none(rows: sqlite3.Connection, statement: str) -> None:
    found = [tuple(row) for row in rows.execute(statement)]
    assert not found, f"{statement.strip()} finds {found[:5]}"


def _check_database(rows: sqlite3.Connection) -> None:
    assert [row[0] for row in rows.execute("PRAGMA integrity_check")] == ["ok"]
    _none(rows, "PRAGMA foreign_key_check")


def _check_credits(rows: sqlite3.Connection) -> None:
    """The ledger adds up to the balances, and a job has paid for exactly its stages that are done."""
    _none(
        rows,
        """SELECT accounts.name, balance, sum(amount) FROM accounts JOIN ledger ON account_id = accounts.id
        GROUP BY accounts.id HAVING balance <> sum(amount)""",
    )
    _none(
        rows,
        """SELECT job_id, -sum(amount) AS paid,
            (SELECT coalesce(sum(price), 0) FROM stages WHERE stages.job_id = ledger.job_id AND state = 'done'
                AND coalesce(notes, '') NOT LIKE '%"not_smaller"%') AS due
        FROM ledger WHERE job_id IN (SELECT id FROM jobs) AND stage NOT LIKE 're%-%'
        GROUP BY job_id HAVING paid <> due""",
    )
    _none(rows, "SELECT job_id, stage, kind FROM ledger WHERE job_id IS NOT NULL GROUP BY 1, 2, 3 HAVING count(*) > 1")
    _none(rows, "SELECT id FROM jobs WHERE id NOT IN (SELECT job_id FROM ledger WHERE kind = 'hold')")


def _check_requests(rows: sqlite3.Connection) -> None:
    """No request to make a text or a result anew is left, and each has paid its price once, or nothing if it failed."""
    for table, name in (("regenerations", "regenerate"), ("remakes", "remake")):
        _none(rows, f"SELECT id, state FROM {table} WHERE state <> 'failed'")
        _none(
            rows,
            f"""SELECT stage, group_concat(kind), sum(amount) AS paid,
                EXISTS (SELECT 1 FROM {table} WHERE '{name}-' || id = stage) AS failed
            FROM ledger WHERE stage LIKE '{name}-%' GROUP BY stage
            HAVING sum(kind = 'hold') <> 1 OR (failed AND paid <> 0) OR (count(*) = 1 AND paid >= 0)""",
        )


def _check_results(rows: sqlite3.Connection) -> None:
    """Every stage has ended, a done one with its result and a failed one with a reason and without."""
    _none(rows, "SELECT job_id, name, state FROM stages WHERE state NOT IN ('done', 'failed')")
    _none(rows, "SELECT id FROM jobs WHERE id NOT IN (SELECT job_id FROM stages)")
    _none(rows, "SELECT job_id, name FROM stages WHERE state = 'failed' AND (error IS NULL OR output_sha256 NOT NULL)")
    _none(
        rows,
        """SELECT job_id, name FROM stages
        WHERE state = 'done'
            AND (name = 'analyze' OR coalesce(notes, '') LIKE '%"not_smaller"%') <> (output_sha256 IS NULL)""",
    )
    _none(  # a converted picture is there at all widths below its own, or at none
        rows,
        """SELECT jobs.id, widths, (SELECT group_concat(width) FROM variants WHERE job_id = jobs.id)
        FROM jobs LEFT JOIN stages ON job_id = jobs.id AND name = 'convert' AND output_sha256 NOT NULL
        WHERE (SELECT count(*) FROM variants WHERE job_id = jobs.id) <> (
            SELECT count(*) FROM json_each(widths) WHERE job_id NOT NULL AND value < min(
                coalesce(max_width_px, 65535),
                json_extract(info, iif(json_extract(info, '$.orientation') >= 5, '$.height_px', '$.width_px'))))""",
    )
    translated = rows.execute(
        """SELECT jobs.id, languages, state, (SELECT json_group_array(language_code) FROM
            (SELECT language_code FROM translations WHERE job_id = jobs.id ORDER BY position)) AS written
        FROM jobs JOIN stages ON job_id = jobs.id AND name = 'analyze'"""
    )
    for row in translated:
        expected = json.loads(row["languages"]) if row["state"] == "done" else []
        assert json.loads(row["written"]) == expected, row["id"]
    _none(
        rows,
        """SELECT project_id, language_code, seo_filename FROM translations
        GROUP BY 1, 2, 3 HAVING count(*) > 1""",
    )


def _check_files(folder: Path, rows: sqlite3.Connection) -> None:
    """No file without a row, no row without a file, every file whole."""
    named = {
        row[0]: row[1]
        for row in rows.execute(
            """SELECT original_sha256, original_size FROM jobs
            UNION SELECT thumbnail_sha256, thumbnail_size FROM jobs WHERE thumbnail_sha256 IS NOT NULL
            UNION SELECT output_sha256, output_size FROM stages WHERE output_sha256 IS NOT NULL
            UNION SELECT sha256, size FROM variants"""
        )
    }
    files = stored_files(folder)
    assert set(files) == set(named), "files and rows name different contents"
    for sha256, file in files.items():
        content = file.read_bytes()
        assert len(content) == named[sha256], sha256
        assert hashlib.sha256(content).hexdigest() == sha256, f"{sha256} is not whole"
    assert not incoming_files(folder)


def stored_files(folder: Path) -> dict[str, Path]:
    return {file.name: file for file in (folder / "files").glob("*/*")}


def incoming_files(folder: Path) -> list[Path]:
    return list((folder / "incoming").iterdir())


def jobs_with_regenerations(folder: Path) -> set[str]:
    """The jobs of which a text was requested to be written anew."""
    with database(folder) as rows:
        return {row[0] for row in rows.execute("SELECT job_id FROM ledger WHERE stage LIKE 'regenerate-%'")}


def count_jobs(folder: Path) -> int:
    with database(folder) as rows:
        return int(rows.execute("SELECT count(*) FROM jobs").fetchone()[0])


def balance(folder: Path) -> int:
    with database(folder) as rows:
        return int(rows.execute("SELECT balance FROM accounts").fetchone()[0])
