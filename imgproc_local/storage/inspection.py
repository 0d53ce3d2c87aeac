"""The contents of a data folder, read without changing anything, also while a server is running."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from msgspec import Struct

from imgproc_local.domain.errors import StorageFailed
from imgproc_local.storage.blobs import STORE_FOLDERS
from imgproc_local.storage.database import BUSY_TIMEOUT_MS, QUERIES
from imgproc_local.storage.retention import MaxAge, Removable
from imgproc_local.storage.schema import SCHEMA

T = TypeVar("T")

WORK_FOLDER = "work"
"""In the data folder, for temporary files of worker processes."""
MAX_PICTURE_NAMES = 20_000
"""`picture_names` reads the file names of at most this many uploads, the newest ones."""
MAX_PROBLEMS = 5
"""The most problems of SQLite's own check that are reported."""


class LedgerDifference(Struct, frozen=True):
    """An account whose balance is not `ledger_sum`, the sum of its movements in the ledger."""

    account: str
    balance: int
    ledger_sum: int


class DatabaseReport(Struct, frozen=True):
    """`problems` are those of SQLite's own check. If there are any, or if `schema` is not that of this program, the
    fields after `problems` are empty.

    `jobs` is the number of jobs by status; `keys` is the number of keys that are not revoked; `files` is the size in
    bytes of each file that a row references, by content address.
    """

    schema: int
    problems: tuple[str, ...] = ()
    ledger_differences: tuple[LedgerDifference, ...] = ()
    jobs: dict[str, int] = {}
    keys: int = 0
    files: dict[str, int] = {}


class FilesReport(Struct, frozen=True):
    """`sizes` is the size in bytes of each stored file, by content address. `incoming` is the number of uploads in
    progress, or left by a killed process.
    """

    sizes: dict[str, int]
    incoming: int


def inspect_database(path: Path) -> DatabaseReport:
    """What is in the database. Raises: StorageFailed where it can't be read at all."""
    return read_database(path, _read)


def read_database(path: Path, read: Callable[[sqlite3.Connection], T]) -> T:
    """The result of `read` on a connection that changes nothing. `read` may be called twice. Raises: StorageFailed."""
    wal = path.with_name(f"{path.name}-wal")
    try:
        if not wal.exists():
            # no process has the database open; `immutable` prevents SQLite from creating its -wal and -shm files
            with closing(_connect(path, "?mode=ro&immutable=1")) as connection:
                result = read(connection)
            if not wal.exists():  # otherwise a process has opened it meanwhile, and may have changed what was read
                return result
        with closing(_connect(path, "?mode=ro")) as connection:
            return read(connection)
    except sqlite3.Error as error:
        raise StorageFailed(f"The database can't be read ({error}).") from error


def _connect(path: Path, options: str) -> sqlite3.Connection:
    address = f"file:{quote(os.fsencode(path))}{options}"
    connection = sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT_MS / 1000)
    connection.row_factory = sqlite3.Row
    return connection


def _read(connection: sqlite3.Connection) -> DatabaseReport:
    schema = int(connection.execute("PRAGMA user_version").fetchone()[0])
    checked = [str(row[0]) for row in connection.execute(f"PRAGMA quick_check({MAX_PROBLEMS})")]
    problems = () if checked == ["ok"] else tuple(checked)
    if problems or schema != SCHEMA:
        return DatabaseReport(schema, problems)
    # one transaction: all that follows is of one moment
    connection.execute("BEGIN")
    return DatabaseReport(
        schema,
        ledger_differences=tuple(
            LedgerDifference(row["name"], row["balance"], row["ledger_sum"])
            for row in connection.execute(QUERIES["ledger_differences"])
        ),
        jobs={row["status"]: row["jobs"] for row in connection.execute(QUERIES["jobs_by_status"])},
        keys=int(connection.execute(QUERIES["count_keys_in_force"]).fetchone()[0]),
        files=referenced_files(connection),
    )


def referenced_files(connection: sqlite3.Connection) -> dict[str, int]:
    """The size in bytes of each file that a row references, by content address."""
    return {row["sha256"]: row["size"] for row in connection.execute(QUERIES["referenced_files"])}


def removable(path: Path, age: MaxAge, now: datetime) -> Removable:
    """What the age limits would remove now. Raises: StorageFailed."""
    limits = age.limits(now)
    return read_database(
        path, lambda connection: Removable(*connection.execute(QUERIES["removable"], limits).fetchone())
    )


def picture_names(path: Path) -> frozenset[str]:
    """The file names of the newest uploads. Raises: StorageFailed, where the database can't be read."""
    limit = {"limit": MAX_PICTURE_NAMES}
    return read_database(
        path, lambda connection: frozenset(row[0] for row in connection.execute(QUERIES["newest_names"], limit))
    )


def inspect_files(folder: Path) -> FilesReport:
    """The stored files of the data folder. Raises: StorageFailed where it can't be read."""
    sizes = {}
    try:
        for entry in stored_entries(folder / "files"):
            with suppress(FileNotFoundError):  # a server may delete it meanwhile
                sizes[entry.name] = entry.stat().st_size
        return FilesReport(sizes, len(entries(folder / "incoming")))
    except OSError as error:
        raise StorageFailed(f"The stored files can't be read ({error.strerror}).") from error


def stored_entries(files: Path) -> Iterator[os.DirEntry[str]]:
    """What lies in the folders of stored files."""
    for folder in entries(files):
        if folder.is_dir():
            yield from entries(Path(folder.path))


def filled_folders(folder: Path) -> list[str]:
    """The names of those folders in a data folder that have content and whose content a start may delete.

    Raises: StorageFailed.
    """
    paths = [folder / name for name in (*STORE_FOLDERS, WORK_FOLDER)]
    try:
        return [path.name for path in paths if path.is_symlink() or entries(path)]
    except OSError as error:
        raise StorageFailed(f"The data folder {folder} can't be read ({error.strerror}).") from error


def entries(folder: Path) -> list[os.DirEntry[str]]:
    """What lies in a folder; nothing where it does not exist."""
    if not folder.is_dir():
        return []
    with os.scandir(folder) as found:
        return list(found)
