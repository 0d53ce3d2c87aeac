"""A database of another version: a newer one is refused, an older one is migrated, on a copy first."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from imgproc_local.compose import DATABASE_FILE, open_store
from imgproc_local.config import Config
from imgproc_local.domain.errors import DataFolderBusy, StorageFailed
from imgproc_local.storage import migration
from imgproc_local.storage.database import open_database
from imgproc_local.system.folder_lock import FolderLock, Owner

SCHEMA = migration.newest_schema()
"""The version of the schema that this program writes."""
FIRST_ADDED = """
CREATE TABLE extra (account_id TEXT NOT NULL REFERENCES accounts (id), note TEXT NOT NULL) STRICT;
INSERT INTO extra SELECT id, 'migrated row' FROM accounts;
"""
SECOND_ADDED = "CREATE TABLE still_empty (x INTEGER) STRICT;"

AddMigrations = Callable[..., None]


@pytest.fixture
def add_migrations(monkeypatch: pytest.MonkeyPatch) -> AddMigrations:
    """Turns this program into a newer one with these additional migrations. Called without any, it undoes that."""
    known = migration.known_migrations()

    def with_migrations(*scripts: str) -> None:
        added = [(SCHEMA + number, script) for number, script in enumerate(scripts, 1)]
        monkeypatch.setattr(migration, "known_migrations", lambda: [*known, *added])

    return with_migrations


@pytest.fixture
async def old(tmp_path: Path) -> Path:
    """A database of this program with a key in it, as a killed server leaves it: partly in the write-ahead log."""
    async with open_store(Config(data_dir=tmp_path)) as store:
        await store.keys.create("an old key")
    return tmp_path / DATABASE_FILE


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [f"user_version {connection.execute('PRAGMA user_version').fetchone()[0]}", *connection.iterdump()]


def copies(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.parent.iterdir() if ".schema-" in entry.name)


async def test_a_newer_schema_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "d.db") as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    with pytest.raises(StorageFailed, match=r"newer version .*--data-dir"):
        await open_database(tmp_path / "d.db")


async def test_an_older_database_is_migrated_and_its_backup_is_unchanged(
    old: Path, add_migrations: AddMigrations
) -> None:
    before = dump(old)
    add_migrations(FIRST_ADDED, SECOND_ADDED)
    await (await open_database(old)).close()
    after = dump(old)
    assert after[0] == f"user_version {SCHEMA + 2}"
    assert any("migrated row" in line for line in after)
    assert set(before[1:]) <= set(after)
    assert copies(old) == [f"{DATABASE_FILE}.schema-{SCHEMA}"]
    copy = old.with_name(copies(old)[0])
    assert dump(copy) == before
    if sys.platform != "win32":
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600


async def test_the_backup_works_with_the_older_program(
    old: Path, add_migrations: AddMigrations, tmp_path: Path
) -> None:
    add_migrations(FIRST_ADDED)
    await (await open_database(old)).close()
    add_migrations()
    with pytest.raises(StorageFailed, match="newer version"):
        await open_database(old)
    old.with_name(copies(old)[0]).replace(old)
    async with open_store(Config(data_dir=tmp_path)) as store:
        assert [key.name for key in await store.keys.all()] == ["an old key"]


async def test_only_the_last_backup_stays_and_a_start_without_migrations_makes_none(
    old: Path, add_migrations: AddMigrations
) -> None:
    await (await open_database(old)).close()
    assert copies(old) == []
    add_migrations(FIRST_ADDED)
    await (await open_database(old)).close()
    add_migrations(FIRST_ADDED, SECOND_ADDED)
    await (await open_database(old)).close()
    await (await open_database(old)).close()
    assert copies(old) == [f"{DATABASE_FILE}.schema-{SCHEMA + 1}"]


@pytest.mark.parametrize(
    ("scripts", "reason"),
    [
        (
            (FIRST_ADDED, "CREATE TABLE more (x INTEGER) STRICT;\nINSERT INTO nowhere VALUES (1);"),
            "no such table: nowhere",
        ),
        (("DELETE FROM accounts;",), "FOREIGN KEY"),
        (("PRAGMA defer_foreign_keys = ON;\nDELETE FROM accounts;",), "refer to missing rows"),
    ],
)
async def test_a_failing_migration_is_reported_and_changes_nothing(
    old: Path, add_migrations: AddMigrations, scripts: tuple[str, ...], reason: str
) -> None:
    before = dump(old)
    add_migrations(*scripts)
    for _ in range(2):
        with pytest.raises(StorageFailed, match="the database is unchanged") as refused:
            await open_database(old)
        assert reason in refused.value.message
    assert dump(old) == before
    assert copies(old) == []
    add_migrations()
    await (await open_database(old)).close()


async def test_a_backup_without_disk_space_is_reported_and_changes_nothing(
    old: Path, add_migrations: AddMigrations, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dump(old)
    add_migrations(FIRST_ADDED)

    def full(_path: Path, part: Path) -> None:
        part.write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(migration, "_back_up", full)
    with pytest.raises(StorageFailed, match=r"No space left.*needs 1 MB.*Nothing was changed"):
        await open_database(old)
    assert dump(old) == before
    assert copies(old) == []


async def test_a_migration_that_works_on_the_copy_and_then_fails_changes_nothing(
    old: Path, add_migrations: AddMigrations, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dump(old)
    older_backup = old.with_name(f"{DATABASE_FILE}.schema-0")
    older_backup.write_bytes(b"an older backup")
    add_migrations(FIRST_ADDED, "INSERT INTO nowhere VALUES (1);")
    monkeypatch.setattr(migration, "_dry_run", lambda connection, pending: None)
    with pytest.raises(StorageFailed):
        await open_database(old)
    assert dump(old) == before
    assert older_backup.exists(), "the older backup was deleted before the migration was committed"


async def test_processes_that_start_at_once_migrate_once(old: Path, add_migrations: AddMigrations) -> None:
    add_migrations(FIRST_ADDED)
    for database in await asyncio.gather(*(open_database(old) for _ in range(3))):
        await database.close()
    assert sum("'migrated row'" in line for line in dump(old)) == 1
    assert copies(old) == [f"{DATABASE_FILE}.schema-{SCHEMA}"]


async def test_a_command_beside_a_server_of_the_older_program_is_refused(
    old: Path, add_migrations: AddMigrations, tmp_path: Path
) -> None:
    before = dump(old)
    lock = FolderLock(tmp_path, Owner(4711, "serve", address="http://127.0.0.1:8484"))
    add_migrations(FIRST_ADDED)
    with pytest.raises(DataFolderBusy, match="4711"):
        async with open_store(Config(data_dir=tmp_path)):
            pass
    assert dump(old) == before
    lock.release()
    async with open_store(Config(data_dir=tmp_path)) as store:
        assert len(await store.keys.all()) == 1
    assert not (tmp_path / "owner.json").exists()
