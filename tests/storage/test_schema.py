"""A database of another version: that of 0.1.0 is updated with all its rows, every other is refused and unchanged."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from imgproc_local.compose import open_store
from imgproc_local.config import Config
from imgproc_local.domain.errors import StorageFailed
from imgproc_local.domain.job import Status
from imgproc_local.domain.result import StoredText, TextEdit, TextName
from imgproc_local.storage.database import SCHEMA, STEPS, open_database
from imgproc_local.storage.inspection import DATABASE_FILE
from imgproc_local.storage.jobs import JobFilters, Jobs
from imgproc_local.storage.stages import Stages
from imgproc_local.storage.translations import Outcome, Translations

AT = "2026-11-01T00:00:00.000Z"
INFO = '{"format": "jpeg", "width_px": 8, "height_px": 8}'
TEXTS = [("ja", "vision"), ("en", "facts"), ("de", "pixels"), ("fr", "person")]
"""The languages of the job j1, in the order requested, and the sources of their texts."""
JOBS = {"j1": ("done", Status.COMPLETED), "j2": ("failed", Status.FAILED), "j3": ("pending", Status.PENDING)}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The database of a data folder of version 0.1.0."""
    path = tmp_path / DATABASE_FILE
    with closing(sqlite3.connect(path)) as rows:
        rows.execute("PRAGMA journal_mode = WAL")  # as 0.1.0 left it; to change it needs the file for one process alone
        rows.executescript(Path(__file__).with_name("schema_7.sql").read_text(encoding="utf-8"))
        rows.execute("INSERT INTO accounts VALUES ('a', 'default', 0, ?)", (AT,))
        rows.execute("INSERT INTO ledger (account_id, kind, amount, at) VALUES ('a', 'grant', 10, ?)", (AT,))
        rows.execute("INSERT INTO projects VALUES ('p', 'a', 'p', ?)", (AT,))
        for job_id, (state, _) in JOBS.items():
            rows.execute(
                "INSERT INTO jobs VALUES (?, ?, 'a', 'p', 'optimize', ?, 'webp', 'n.jpg', ?, 1, ?, ?, NULL, '',"
                " NULL, NULL, NULL)",
                (job_id, f"i{job_id}", json.dumps([code for code, _ in TEXTS]), "0" * 64, INFO, AT),
            )
            output = ("1" * 64, 1, "jpeg") if state == "done" else (None, None, None)
            rows.execute(
                "INSERT INTO stages (job_id, account_id, client_id, batch, name, lane, state, price, error,"
                " output_sha256, output_size, output_format)"
                " VALUES (?, 'a', 'k', 1, 'optimize', 'codecs', ?, 1, ?, ?, ?, ?)",
                (job_id, state, "Broken." if state == "failed" else None, *output),
            )
        rows.executemany(
            "INSERT INTO translations VALUES ('j1', 'a', 'p', ?, ?, 'a-name', 'a-name', 1, 'A text.', ?, 2)",
            [(code, position, source) for position, (code, source) in enumerate(TEXTS)],
        )
        rows.execute("INSERT INTO translation_versions VALUES ('j1', 'en', 1, 'n', 'n', 1, 'Older.', 'vision')")
        rows.commit()
    return path


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [f"user_version {connection.execute('PRAGMA user_version').fetchone()[0]}", *connection.iterdump()]


async def test_jobs_of_0_1_0_are_listed_claimed_and_correct(old: Path) -> None:
    rows = [line for line in dump(old) if line.startswith("INSERT INTO")]
    database = await open_database(old)
    try:
        after = set(dump(old))
        assert f"user_version {SCHEMA}" in after
        # rows of jobs and of texts have got columns
        grown = tuple(f'INSERT INTO "{table}"' for table in ("jobs", "stages", "translations", "translation_versions"))
        assert [row for row in rows if not row.startswith(grown) and row not in after] == []
        jobs = Jobs(database, 10)
        for job_id, (_, status) in JOBS.items():
            assert [job.id for job in await jobs.page("a", 10, JobFilters((status,)))] == [job_id]
        job = await jobs.get("j1", "a")
        assert [(text.language_code, text.source.value) for text in job.translations] == TEXTS
        assert [text.needs_text for text in job.translations] == [False, False, True, False]
        assert await jobs.referenced_files() == {"0" * 64, "1" * 64}
        claimed = await Stages(database, 100).claim("codecs")
        assert claimed is not None
        assert claimed.job.id == "j3"
    finally:
        await database.close()


@pytest.mark.parametrize("found", [7, 9])
async def test_texts_of_an_older_schema_are_edited_and_restored_with_their_reasons(old: Path, found: int) -> None:
    with closing(sqlite3.connect(old)) as rows:
        rows.executescript("".join(STEPS[version] for version in range(7, found)))
        rows.execute(f"PRAGMA user_version = {found}")
        rows.execute("INSERT INTO translation_versions VALUES ('j1', 'de', 1, 'b', 'b', 1, 'A photo.', 'pixels')")
        rows.commit()
    database = await open_database(old)
    try:
        translations = Translations(database, 1)
        where = TextName("ij1", "de")
        steps: list[Callable[[], Awaitable[list[Outcome]]]] = [
            lambda: translations.edit("a", [TextEdit("ij1", "de", None, {"long_description": "Long."})]),
            lambda: translations.edit("a", [TextEdit("ij1", "de", None, {"seo_alt_text": "New words."}, "new-words")]),
            *[lambda: translations.restore("a", [where], -1)] * 3,
            *[lambda: translations.restore("a", [where], 1)] * 3,
        ]
        seen = []
        for step in steps:
            (text,) = await step()
            assert isinstance(text, StoredText)
            seen.append((text.seo_alt_text, text.seo_filename, text.needs_text_reason, text.long_description))
        first, second = ("A photo.", "b", "nothing_known", ""), ("A text.", "a-name", "nothing_known", "")
        described, written = (*second[:3], "Long."), ("New words.", "new-words", None, "Long.")
        assert seen == [described, written, described, second, first, second, described, written]
    finally:
        await database.close()


async def test_a_running_server_of_0_1_0_writes_texts_that_need_words(old: Path) -> None:
    await (await open_database(old)).close()
    columns = "job_id, account_id, project_id, language_code, position, seo_filename, slug_base, slug_number"
    with closing(sqlite3.connect(old)) as rows, rows:
        for code, source in (("it", "pixels"), ("es", "facts")):
            rows.execute(
                f"INSERT INTO translations ({columns}, seo_alt_text, source)"
                " VALUES ('j1', 'a', 'p', ?, 9, 'n', 'n', 1, 'A text.', ?)",
                (code, source),
            )
        for code, source in (("de", "person"), ("fr", "pixels"), ("en", "vision")):
            rows.execute("UPDATE translations SET source = ? WHERE language_code = ?", (source, code))
        found = rows.execute("SELECT language_code FROM translations WHERE needs_text_reason = 'nothing_known'")
        assert {code for (code,) in found} == {"it", "fr"}


async def test_an_updated_database_has_what_a_new_one_has(old: Path, tmp_path: Path) -> None:
    """Apart from the order of the columns, and two columns and a table that nothing reads."""

    def parts(path: Path) -> set[str]:
        with closing(sqlite3.connect(path)) as connection:
            return {
                f"{table}.{column}"
                for table, column in connection.execute(
                    "SELECT tables.name, columns.name FROM sqlite_master AS tables, pragma_table_xinfo(tables.name)"
                    " AS columns WHERE tables.name NOT LIKE 'sqlite_%'"
                )
            } | {
                " ".join(part.split())  # indexes with their columns
                for (part,) in connection.execute(
                    "SELECT iif(type = 'index' AND sql IS NOT NULL, sql, name) FROM sqlite_master"
                )
            }

    await (await open_database(old)).close()
    await (await open_database(tmp_path / "new.db")).close()
    assert parts(old) - parts(tmp_path / "new.db") == {
        *("stages.batch", "page_sessions.key_id"),
        *("commits", "commits.id", "commits.number"),
    }
    assert parts(tmp_path / "new.db") - parts(old) == set()


async def test_files_of_variants_are_known_after_an_update_of_a_database_that_had_none(tmp_path: Path) -> None:
    path = tmp_path / DATABASE_FILE
    await (await open_database(path)).close()
    with closing(sqlite3.connect(path)) as rows:
        rows.executescript(
            "DROP VIEW files; DROP TABLE variants; CREATE VIEW files (job_id, kind, sha256, size) AS"
            " SELECT id, 'original', original_sha256, original_size FROM jobs;"
            " ALTER TABLE jobs DROP COLUMN widths; ALTER TABLE jobs DROP COLUMN only_smaller;"
            " ALTER TABLE stages DROP COLUMN notes; PRAGMA user_version = 11"
        )
    await (await open_database(path)).close()
    with closing(sqlite3.connect(path)) as rows:
        rows.execute(
            "INSERT INTO stages (job_id, account_id, name, lane, state, price)"
            " VALUES ('j', 'a', 'convert', 'codecs', 'done', 1)"
        )
        rows.execute("INSERT INTO variants VALUES ('j', 480, 320, 'sum', 9)")
        assert rows.execute("SELECT * FROM files").fetchall() == [("j", "result", "sum", 9)]
        rows.execute("UPDATE stages SET output_removed_at = ?", (AT,))
        assert rows.execute("SELECT * FROM files").fetchall() == []


async def test_sessions_of_0_1_0_end_with_their_keys_and_a_running_server_of_it_goes_on(old: Path) -> None:
    with closing(sqlite3.connect(old)) as rows, rows:
        rows.execute("INSERT INTO keys VALUES ('k', 'a', 'Local page', x'00', NULL, ?, NULL)", (AT,))
        rows.execute("INSERT INTO page_sessions VALUES ('s', x'00', 'a browser', ?, ?, 'k')", (AT, AT))
    await (await open_database(old)).close()
    with closing(sqlite3.connect(old)) as rows:
        assert rows.execute("SELECT revoked_at > created_at FROM keys").fetchone() == (1,)
        # 0.1.0 asks for this column with each request
        assert rows.execute("SELECT key_id FROM page_sessions").fetchall() == []


@pytest.mark.parametrize("found", [1, min(STEPS) - 1, SCHEMA + 1, 999])
async def test_another_schema_is_refused_with_what_to_do(old: Path, found: int) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.execute(f"PRAGMA user_version = {found}")
    before = dump(old)
    with pytest.raises(StorageFailed, match=rf"expected schema {SCHEMA}.* received {found}\. Use .*--data-dir"):
        await open_database(old)
    assert dump(old) == before


async def test_a_step_that_fails_changes_nothing(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = dump(old)
    monkeypatch.setitem(STEPS, 7, f"{STEPS[7]}INSERT INTO nowhere VALUES (1);\n")
    with pytest.raises(StorageFailed):
        await open_database(old)
    assert dump(old) == before


async def test_processes_that_start_at_once_update_once(old: Path) -> None:
    for database in await asyncio.gather(*(open_database(old) for _ in range(4))):
        await database.close()
    async with open_store(Config(data_dir=old.parent)) as store:
        assert await store.keys.account_id() == "a"
