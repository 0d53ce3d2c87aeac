"""Brings a database to the schema of this program: on a copy first, then for good in one transaction.

The copy is how the database was, in one file beside it. It shows whether every step works on this very data, and is
kept for the way back until the next time. Invariant: whatever fails, the database is as it was.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from contextlib import closing
from importlib import resources
from pathlib import Path
from urllib.parse import quote

import aiosqlite

from imgproc_local.domain.errors import StorageFailed

log = logging.getLogger(__name__)

Step = tuple[int, str]
"""The `user_version` that a script leads to, and the script."""


def migrations() -> list[Step]:
    """Every step there ever was, from the empty file on."""
    folder = resources.files(__package__).joinpath("migrations")
    found = [(int(entry.name[:4]), entry) for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return [(number, entry.read_text(encoding="utf-8")) for number, entry in sorted(found, key=lambda item: item[0])]


def newest_schema() -> int:
    """The `user_version` that this program migrates a database to."""
    return migrations()[-1][0]


def is_older(path: Path) -> bool:
    """Whether a database is there that a start of this program would change. Raises: sqlite3.Error."""
    if not path.exists():
        return False
    with closing(_open_to_read(path)) as connection:
        return 0 < int(connection.execute("PRAGMA user_version").fetchone()[0]) < newest_schema()


async def migrate(connection: aiosqlite.Connection, path: Path) -> None:
    """Bring the schema of the database at `path` up to date, on its writing `connection`.

    Raises:
        StorageFailed: a newer program wrote it, there is no room for the copy, or a step fails on this data.
        sqlite3.Error: what SQLite refuses otherwise.
    """
    await connection.execute_fetchall("BEGIN IMMEDIATE")
    try:
        rows = list(await connection.execute_fetchall("PRAGMA user_version"))
        version, newest = int(rows[0][0]), newest_schema()
        if version > newest:
            raise StorageFailed(
                f"The data folder was written by a newer version of the program (schema {version}, this one knows"
                f" {newest}). Use that version, or another folder with --data-dir."
            )
        steps = [step for step in migrations() if step[0] > version]
        if version and steps:
            # nobody else can write meanwhile: the transaction is open
            copy = await asyncio.to_thread(_rehearse, path, version, steps)
            log.warning("the database is brought from schema %d to %d; how it was is kept as %s", version, newest, copy)
        # executescript() would commit: user_version must come and go with what it stands for
        for statement in _statements(steps):
            await connection.execute_fetchall(statement)
        await connection.execute_fetchall("COMMIT")
    except BaseException:
        await connection.execute_fetchall("ROLLBACK")
        raise


def _rehearse(path: Path, version: int, steps: list[Step]) -> str:
    """Take the steps on a copy, and back. Returns the name under which the copy is kept. Raises: StorageFailed."""
    copy = path.with_name(f"{path.name}.schema-{version}")
    part = copy.with_name(f"{copy.name}.part")
    try:
        _copy(path, part)
        with closing(sqlite3.connect(part, isolation_level=None)) as connection:
            _take(connection, steps)
        part.replace(copy)
        for older in path.parent.glob(f"{path.name}.schema-*"):
            if older != copy:
                older.unlink()
    except OSError as error:
        raise StorageFailed(_no_copy(path, error.strerror or str(error))) from error
    finally:
        for left in (part, part.with_name(f"{part.name}-journal")):
            left.unlink(missing_ok=True)
    return copy.name


def _copy(path: Path, part: Path) -> None:
    """A whole copy in one file, readable by its owner alone, on the disk when this returns."""
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with closing(_open_to_read(path)) as source, closing(sqlite3.connect(part)) as target:
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")
        os.fsync(descriptor)
    except sqlite3.Error as error:
        raise StorageFailed(_no_copy(path, str(error))) from error
    finally:
        os.close(descriptor)


def _take(connection: sqlite3.Connection, steps: list[Step]) -> None:
    """Raises `StorageFailed` where the steps can't be taken, or lead to a damaged database."""
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("BEGIN")
        for statement in _statements(steps):
            connection.execute(statement)
        problems = [str(row[0]) for row in connection.execute("PRAGMA quick_check(1)") if row[0] != "ok"]
        problems += [f"rows of {row[0]} lost what they name" for row in connection.execute("PRAGMA foreign_key_check")]
        connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        problems = [str(error)]
    if problems:
        raise StorageFailed(
            f"The database can't be brought to schema {steps[-1][0]} ({problems[0]}). That was tried on a copy: the"
            " data folder is as it was. Go on with the version of the program that wrote it, and report this."
        )


def _no_copy(path: Path, reason: str) -> str:
    needed_mb = path.stat().st_size // 1_000_000 + 1
    return (
        "The database was written by an older version of the program and is copied before it is changed; that failed"
        f" ({reason}). The copy needs {needed_mb} MB in the data folder. Nothing was changed."
    )


def _open_to_read(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(os.fsencode(path))}?mode=ro", uri=True)


def _statements(steps: list[Step]) -> list[str]:
    statements: list[str] = []
    for number, script in steps:
        pending = ""
        for line in script.splitlines(keepends=True):
            pending += line
            if sqlite3.complete_statement(pending):
                statements.append(pending.strip())
                pending = ""
        statements.append(f"PRAGMA user_version = {number}")
    return statements
