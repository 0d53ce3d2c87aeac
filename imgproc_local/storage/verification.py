"""Checks everything in a data folder: the database, its rows, the ledger, and the content of all files.

It changes nothing and works beside a running server.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from imgproc_local.domain.errors import StorageFailed
from imgproc_local.storage.backup import content_problem
from imgproc_local.storage.blobs import hash_file
from imgproc_local.storage.database import QUERIES
from imgproc_local.storage.inspection import entries, read_database, referenced_files
from imgproc_local.storage.schema import SCHEMA
from imgproc_local.storage.translations import MAX_VERSIONS

MAX_PROBLEMS = 1000
"""The most problems that each check of the rows lists. All damaged files are listed."""

Area = Literal["database", "jobs", "credits", "files", "foreign"]


class Problem(Struct, frozen=True):
    """`advice` is what to do about it where this is not the same for all problems of the area."""

    area: Area
    detail: str
    advice: str | None = None


class Verification(Struct, frozen=True):
    """`schema` is 0 for a folder without a database; `files` and `size_bytes` count the intact files.

    `is_used` says that a process uses the folder: it may be storing files that no row names yet, so files that belong
    to no job are not looked for.
    """

    schema: int
    files: int
    size_bytes: int
    problems: tuple[Problem, ...]
    is_used: bool = False


class _Rows(Struct, frozen=True):
    schema: int
    files: dict[str, int]
    problems: tuple[Problem, ...]


def verify(folder: Path, database: Path, is_owned: Callable[[], bool]) -> Verification:
    """Check the folder with its `database`; `is_owned` says whether a process uses it now.

    Raises: StorageFailed, where the folder can't be read.
    """
    problems: list[Problem] = []
    rows = _Rows(0, {}, ())
    if database.is_file():
        try:
            rows = read_database(database, _read)
        except StorageFailed as error:
            problems.append(Problem("database", error.message))
            return Verification(0, 0, 0, tuple(problems))
        problems += rows.problems
        if rows.schema not in (0, SCHEMA):  # its rows were not read, so nothing can be compared with them
            return Verification(rows.schema, 0, 0, tuple(problems))
    if rows.schema == 0 and (problem := content_problem(folder)):
        return Verification(0, 0, 0, (*problems, Problem("database", *problem)))
    intact, damaged = _compare_files(folder / "files", rows.files)
    if damaged and is_owned():
        # jobs may have been deleted meanwhile, and their files with them
        still_referenced = read_database(database, referenced_files)
        damaged = {sha256: what for sha256, what in damaged.items() if sha256 in still_referenced}
    jobs = _jobs_of_files(database, list(damaged)) if damaged else {}
    problems += [Problem("files", f"{sha256} of job {jobs[sha256]}: {what}") for sha256, what in damaged.items()]
    is_used = is_owned()
    if not is_used:
        problems += [Problem("foreign", f"{name} belongs to no job") for name in _foreign(folder, rows.files)]
    size_bytes = sum(rows.files[sha256] for sha256 in intact)
    return Verification(rows.schema, len(intact), size_bytes, tuple(problems), is_used)


# ---- rows ----


def _read(connection: sqlite3.Connection) -> _Rows:
    schema = int(connection.execute("PRAGMA user_version").fetchone()[0])
    problems = [
        Problem("database", str(row[0]))
        for row in connection.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})")
        if row[0] != "ok"
    ]
    problems += [
        Problem("database", f"row {row[1]} of {row[0]} refers to a missing row of {row[2]}")
        for row in connection.execute("PRAGMA foreign_key_check").fetchmany(MAX_PROBLEMS)
    ]
    if schema != SCHEMA:
        if schema > SCHEMA:
            newer = f"schema {schema} is newer than this program, which knows {SCHEMA}"
            problems.append(Problem("database", newer))
        return _Rows(schema, {}, tuple(problems))
    try:
        # one transaction: all that follows is of one moment
        connection.execute("BEGIN")
        limit = {"limit": MAX_PROBLEMS, "max_versions": MAX_VERSIONS}
        problems += [Problem("jobs", row[0]) for row in connection.execute(QUERIES["wrong_jobs"], limit)]
        problems += [Problem("credits", row[0]) for row in connection.execute(QUERIES["wrong_credits"], limit)]
        files = referenced_files(connection)
    except sqlite3.Error as error:
        if not problems:
            raise
        problems.append(Problem("database", f"its rows can't be read ({error})"))
        return _Rows(schema, {}, tuple(problems))
    return _Rows(schema, files, tuple(problems))


def _jobs_of_files(database: Path, addresses: list[str]) -> dict[str, str]:
    def read(connection: sqlite3.Connection) -> dict[str, str]:
        found = {}
        for sha256 in addresses:
            row = connection.execute(QUERIES["job_of_file"], {"sha256": sha256}).fetchone()
            found[sha256] = str(row[0]) if row else "(deleted)"
        return found

    return read_database(database, read)


# ---- files ----


def _compare_files(files: Path, expected: dict[str, int]) -> tuple[list[str], dict[str, str]]:
    """The addresses of the intact files, and what is wrong with the others."""
    intact, damaged = [], {}
    for sha256, size_bytes in sorted(expected.items()):
        problem = _file_problem(files / sha256[:2] / sha256, sha256, size_bytes)
        if problem is None:
            intact.append(sha256)
        else:
            damaged[sha256] = problem
    return intact, damaged


def _file_problem(path: Path, sha256: str, size_bytes: int) -> str | None:
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            return "not a regular file"
        if status.st_size != size_bytes:
            return f"{status.st_size:,} bytes instead of {size_bytes:,}"
        return None if hash_file(path) == sha256 else "its content was changed"
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"can't be read ({error.strerror})"


def _foreign(folder: Path, expected: dict[str, int]) -> Iterator[str]:
    """Everything in the folders of files that is neither an expected file in its place nor the thumbnail of one."""
    for entry in [*entries(folder / "incoming"), *entries(folder / "files")]:
        is_folder = entry.is_dir(follow_symlinks=False)
        if not is_folder or not re.fullmatch(r"files[/\\][0-9a-f]{2}", os.path.relpath(entry.path, folder)):
            yield os.path.relpath(entry.path, folder)
            continue
        for file in entries(Path(entry.path)):
            if file.name not in expected or file.name[:2] != entry.name:
                yield os.path.relpath(file.path, folder)
    for entry in entries(folder / "thumbnails"):
        if entry.name.removesuffix(".webp") not in expected:
            yield os.path.relpath(entry.path, folder)
