"""Migrates a database to the schema of this program, in one transaction, after a backup and a dry run.

The backup is a copy of the database, in one file beside it. In the dry run, the migrations run on the backup and are
rolled back. The backup is kept until the next migration, so that a user can return to the older program. Invariant:
after a failure, the database is unchanged.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from importlib import resources
from pathlib import Path
from urllib.parse import quote

import aiosqlite

from imgproc_local.domain.errors import StorageFailed

log = logging.getLogger(__name__)

Migration = tuple[int, str]
"""A schema version (`user_version`), and the SQL script that migrates a database to it."""


def known_migrations() -> list[Migration]:
    """All migrations in order. The first creates the schema in an empty database."""
    folder = resources.files(__package__).joinpath("migrations")
    scripts = [(int(entry.name[:4]), entry) for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return [(number, entry.read_text(encoding="utf-8")) for number, entry in sorted(scripts, key=lambda item: item[0])]


def newest_schema() -> int:
    """The `user_version` that this program migrates a database to."""
    return known_migrations()[-1][0]


def needs_migration(path: Path) -> bool:
    """Whether the database at `path` exists and has an older schema. Raises: sqlite3.Error."""
    if not path.exists():
        return False
    with closing(_open_read_only(path)) as connection:
        return 0 < int(connection.execute("PRAGMA user_version").fetchone()[0]) < newest_schema()


async def migrate(connection: aiosqlite.Connection, path: Path) -> None:
    """Migrate the database at `path`, on `connection`, to the newest schema.

    Raises:
        StorageFailed: a newer program wrote it, the disk has no space for the backup, or a migration fails.
        sqlite3.Error: any other error of SQLite.
    """
    known = known_migrations()
    backup = None
    await connection.execute_fetchall("BEGIN IMMEDIATE")
    try:
        rows = list(await connection.execute_fetchall("PRAGMA user_version"))
        version, newest = int(rows[0][0]), known[-1][0]
        if version > newest:
            raise StorageFailed(
                f"The data folder was written by a newer version of the program (schema {version}, this one knows"
                f" {newest}). Use that version, or another folder with --data-dir."
            )
        pending = [migration for migration in known if migration[0] > version]
        if version and pending:
            # the open transaction keeps every other process from writing meanwhile
            backup = await asyncio.to_thread(_back_up_and_dry_run, path, version, pending)
            log.warning("Migrating the database from schema %d to %d; backup: %s", version, newest, backup.name)
        # not by executescript(), which would commit: user_version must change with the schema
        for statement in _statements(pending):
            await connection.execute_fetchall(statement)
        await connection.execute_fetchall("COMMIT")
    except BaseException:
        await connection.execute_fetchall("ROLLBACK")
        raise
    if backup is not None:
        await asyncio.to_thread(_delete_older_backups, path, backup)


def _back_up_and_dry_run(path: Path, version: int, pending: Sequence[Migration]) -> Path:
    """Back up the database, dry-run the migrations on the backup, and return its path. Raises: StorageFailed."""
    backup = path.with_name(f"{path.name}.schema-{version}")
    part = backup.with_name(f"{backup.name}.part")
    try:
        _back_up(path, part)
        with closing(sqlite3.connect(part, isolation_level=None)) as connection:
            _dry_run(connection, pending)
        part.replace(backup)
    except OSError as error:
        raise StorageFailed(_backup_failed_message(path, error.strerror or str(error))) from error
    finally:
        for leftover in (part, part.with_name(f"{part.name}-journal")):
            leftover.unlink(missing_ok=True)
    return backup


def _delete_older_backups(path: Path, newest: Path) -> None:
    for backup in path.parent.glob(f"{path.name}.schema-*"):
        if backup != newest:
            try:
                backup.unlink()
            except OSError as error:
                log.warning("The older backup %s can't be deleted (%s).", backup.name, error.strerror)


def _back_up(path: Path, part: Path) -> None:
    """Copy the database into one file, which only its owner can read. It is on the disk when this returns."""
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with closing(_open_read_only(path)) as source, closing(sqlite3.connect(part)) as target:
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")
        os.fsync(descriptor)
    except sqlite3.Error as error:
        raise StorageFailed(_backup_failed_message(path, str(error))) from error
    finally:
        os.close(descriptor)


def _dry_run(connection: sqlite3.Connection, pending: Sequence[Migration]) -> None:
    """Run the migrations and roll them back. Raises: StorageFailed, where one fails or damages the database."""
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("BEGIN")
        for statement in _statements(pending):
            connection.execute(statement)
        problems = [str(row[0]) for row in connection.execute("PRAGMA quick_check(1)") if row[0] != "ok"]
        problems += [
            f"FOREIGN KEY: rows of {row[0]} refer to missing rows"
            for row in connection.execute("PRAGMA foreign_key_check")
        ]
        connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        problems = [str(error)]
    if problems:
        raise StorageFailed(
            f"The database can't be migrated to schema {pending[-1][0]} ({problems[0]}). The migration was tried on a"
            " copy; the database is unchanged. Use the version of the program that wrote it, and report this error."
        )


def _backup_failed_message(path: Path, reason: str) -> str:
    needed_mb = path.stat().st_size // 1_000_000 + 1
    return (
        "The database was written by an older version of the program and is copied before it is migrated; the copy"
        f" failed ({reason}). It needs {needed_mb} MB in the data folder. Nothing was changed."
    )


def _open_read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(os.fsencode(path))}?mode=ro", uri=True)


def _statements(migrations: Sequence[Migration]) -> list[str]:
    statements: list[str] = []
    for number, script in migrations:
        statement = ""
        for line in script.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                statements.append(statement.strip())
                statement = ""
        statements.append(f"PRAGMA user_version = {number}")
    return statements
