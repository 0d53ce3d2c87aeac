"""Reads a data folder without changing anything, also while a server is running: its rows, its damage, its files."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from imgproc_local.domain.errors import StorageFailed, storage_errors
from imgproc_local.storage.blobs import STORE_FOLDERS
from imgproc_local.storage.database import BUSY_TIMEOUT_MS, QUERIES, SCHEMA, STEPS
from imgproc_local.system.files import hash_file
from imgproc_local.system.folder_lock import current_owner

T = TypeVar("T")

DATABASE_FILE = "imgproc.db"
WORK_FOLDER = "work"
"""In the data folder, for temporary files of worker processes."""
RESTORING = "restore.part"
"""The folder in a data folder into which a backup is unpacked; left behind only by a killed `restore`."""
_MAX_PROBLEMS = 1000
"""The most problems of SQLite's own checks that are listed. All damaged files are listed."""


class Problem(Struct, frozen=True):
    """`advice` is what to do about it where this is not the same for all problems of the area. The area `foreign` is
    files that belong to no job.
    """

    area: Literal["database", "credits", "files", "foreign"]
    detail: str
    advice: str | None = None


class Inspection(Struct, frozen=True):
    """What is in a data folder. If there is a problem in the area `database`, or if `schema` is older than that of this
    program, nothing else was checked. `schema` is 0 for a folder without a database.

    `jobs` is their number by status, `keys` that of the keys in force; `files` and `size_bytes` count the intact files.
    """

    schema: int
    problems: tuple[Problem, ...] = ()
    jobs: dict[str, int] = {}
    keys: int = 0
    files: int = 0
    size_bytes: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether the rows and the files were checked."""
        return self.schema == SCHEMA and not any(problem.area == "database" for problem in self.problems)


def inspect_folder(folder: Path, *, thorough: bool) -> Inspection:
    """Check the database, the balances, and that the files of jobs are there. With `thorough`, check each index and
    reference of the database too, and compare each file with its SHA-256.

    While a process uses the folder it may store files that no row names yet: files of no job are not looked for then.
    Raises: StorageFailed, where the folder can't be read.
    """
    found, expected = Inspection(0), dict[str, int]()
    if (folder / DATABASE_FILE).is_file():
        try:
            found, expected = read_database(folder / DATABASE_FILE, lambda rows: _read(rows, thorough))
        except StorageFailed as error:
            return Inspection(0, (Problem("database", error.message),))
    if found.schema == 0 and (unusable := content_problem(folder)):
        return Inspection(0, (Problem("database", *unusable),))
    if not found.is_complete:
        return found
    damaged = {
        sha256: problem
        for sha256, size_bytes in sorted(expected.items())
        if (problem := file_problem(folder, sha256, size_bytes, compare=thorough))
    }
    if damaged and current_owner(folder):
        # jobs may have been deleted meanwhile, and their files with them
        still_referenced = read_database(folder / DATABASE_FILE, referenced_files)
        damaged = {sha256: problem for sha256, problem in damaged.items() if sha256 in still_referenced}
    problems = [Problem("files", f"{sha256}: {problem}") for sha256, problem in damaged.items()]
    if not current_owner(folder):
        problems += [Problem("foreign", f"{name} belongs to no job") for name in _foreign(folder, expected)]
    intact = [size for sha256, size in expected.items() if sha256 not in damaged]
    return replace(found, problems=(*found.problems, *problems), files=len(intact), size_bytes=sum(intact))


def _read(rows: sqlite3.Connection, thorough: bool) -> tuple[Inspection, dict[str, int]]:
    schema = int(rows.execute("PRAGMA user_version").fetchone()[0])
    check = "integrity_check" if thorough else "quick_check"
    damage = [str(row[0]) for row in rows.execute(f"PRAGMA {check}({_MAX_PROBLEMS})") if row[0] != "ok"]
    if thorough:
        references = rows.execute("PRAGMA foreign_key_check").fetchmany(_MAX_PROBLEMS)
        damage += [f"row {row[1]} of {row[0]} refers to a missing row of {row[2]}" for row in references]
    if schema not in (0, *STEPS, SCHEMA):
        damage.append(f"received schema {schema}, this program expects {SCHEMA}")
    problems = tuple(Problem("database", detail) for detail in damage)
    if problems or schema != SCHEMA:
        return Inspection(schema, problems), {}
    rows.execute("BEGIN")  # one transaction: all that follows is of one moment
    problems = tuple(
        Problem("credits", f"the balance of {name!r} is {balance:,}, its ledger adds up to {ledger_sum:,}")
        for name, balance, ledger_sum in rows.execute(QUERIES["ledger_differences"])
    )
    jobs = {row["status"]: row["jobs"] for row in rows.execute(QUERIES["jobs_by_status"])}
    keys = int(rows.execute(QUERIES["count_keys_in_force"]).fetchone()[0])
    return Inspection(schema, problems, jobs, keys), referenced_files(rows)


def read_database(path: Path, read: Callable[[sqlite3.Connection], T]) -> T:
    """The result of `read` on a connection that changes nothing. `read` may be called twice. Raises: StorageFailed."""
    wal, journal = (path.with_name(f"{path.name}-{kind}") for kind in ("wal", "journal"))
    try:
        if not wal.exists() and not journal.exists():
            # no process has the database open; `immutable` prevents SQLite from creating its -wal and -shm files
            with closing(_connect(path, "?mode=ro&immutable=1")) as connection:
                result = read(connection)
            if not wal.exists():  # otherwise a process has opened it meanwhile, and may have changed what was read
                return result
        # a journal is left by a loss of power while the database was created, which a start undoes, and so does this:
        # only a connection that may write can
        with closing(_connect(path, f"?mode={'rw' if journal.exists() else 'ro'}")) as connection:
            return read(connection)
    except sqlite3.Error as error:
        raise StorageFailed(f"The database can't be read ({error}).") from error


def _connect(path: Path, options: str) -> sqlite3.Connection:
    address = f"file:{quote(os.fsencode(path))}{options}"
    connection = sqlite3.connect(address, BUSY_TIMEOUT_MS / 1000, uri=True)
    connection.row_factory = sqlite3.Row
    return connection


def referenced_files(connection: sqlite3.Connection) -> dict[str, int]:
    """The size in bytes of each file that a row references, by content address."""
    return {row["sha256"]: row["size"] for row in connection.execute(QUERIES["referenced_files"])}


# ---- files ----


def file_problem(folder: Path, sha256: str, size_bytes: int, *, compare: bool) -> str | None:
    """What is wrong with a stored file of a data folder; with `compare`, its content is compared with its SHA-256."""
    path = folder / "files" / sha256[:2] / sha256
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return "not a regular file"
        if status.st_size != size_bytes:
            return f"{status.st_size:,} bytes instead of {size_bytes:,}"
        return None if not compare or hash_file(path) == sha256 else "its content was changed"
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"can't be read ({error.strerror})"


def _foreign(folder: Path, expected: dict[str, int]) -> Iterator[str]:
    """Everything in the folders of stored and incoming files that is not an expected file in its place."""
    with storage_errors("The stored files can't be read"):
        for entry in [*_entries(folder / "incoming"), *_entries(folder / "files")]:
            if entry.parent.name != "files" or entry.is_symlink() or not entry.is_dir():
                yield str(entry.relative_to(folder))
                continue
            for file in _entries(entry):
                if file.name not in expected or file.name[:2] != entry.name:
                    yield str(file.relative_to(folder))


def _entries(folder: Path) -> list[Path]:
    """What lies in a folder; nothing where it does not exist, or does not any more."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return list(folder.iterdir())
    return []


def filled_folders(folder: Path) -> list[str]:
    """The names of those folders in a data folder that have content and whose content a start may delete.

    Raises: StorageFailed.
    """
    paths = [folder / name for name in (*STORE_FOLDERS, WORK_FOLDER)]
    with storage_errors(f"The data folder {folder} can't be read"):
        return [path.name for path in paths if path.is_symlink() or _entries(path)]


def content_problem(folder: Path) -> tuple[str, str] | None:
    """Why a data folder whose database is missing or empty can't be used, and what to do: a start would delete its
    content. None if there is none.

    Raises: StorageFailed, where the folder can't be read.
    """
    if (folder / RESTORING).is_dir():
        if current_owner(folder) is not None:
            return f"A backup is being restored to the data folder {folder}.", "Wait until this has ended."
        return f"`restore` was interrupted in the data folder {folder}.", "Run it again."
    if not (taken := " and ".join(filled_folders(folder))):
        return None
    return (
        f"The data folder {folder} has no database {DATABASE_FILE}, or an empty one, but {taken} with content, which"
        " would be deleted.",
        "Choose an empty folder with --data-dir. If the database was lost, move the folder away and `restore` a"
        " backup.",
    )
