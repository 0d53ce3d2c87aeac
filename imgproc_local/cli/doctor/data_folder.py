"""The checks of the data folder: its permissions, its disk, the server on it, the database and the files."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from imgproc_local.cli.doctor.check import Check
from imgproc_local.cli.output import size_text
from imgproc_local.system.folder_lock import current_owner, foreign_owner_text

if TYPE_CHECKING:
    from imgproc_local.config import Config
    from imgproc_local.storage.inspection import DatabaseReport, FilesReport
    from imgproc_local.system.folder_lock import Owner

LOW_DISK_BYTES = 1024**3
FULL_DISK_BYTES = 1024**2
"""With less free space SQLite can't read even an undamaged database."""
EXAMPLE_AGE = timedelta(days=90)
"""While retention is off, the check says how much space this age limit would free."""


def data_folder(config: Config) -> Iterator[Check]:
    """Check the data folder without changing it, also beside a running server."""
    folder = config.data_dir
    yield _permissions(folder)
    yield _disk(folder)
    if not folder.is_dir() or not _is_readable(folder):
        return
    owner = current_owner(folder)
    yield _server(owner)
    yield from _database(config, owner)


def _permissions(folder: Path) -> Check:
    advice = "Change its permissions, or choose another folder with --data-dir."
    if not os.path.lexists(folder):
        parent = _existing_parent(folder)
        if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
            return Check("data folder", "ok", f"{folder} does not exist yet; the first `serve` or `process` creates it")
        return Check("data folder", "problem", f"{folder} does not exist and can't be created in {parent}", advice)
    if not folder.is_dir():
        return Check("data folder", "problem", f"{folder} is not a folder", "Choose a folder with --data-dir.")
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        return Check(
            "data folder", "problem", f"{folder} can't be written: {error.strerror}{foreign_owner_text(folder)}", advice
        )
    if not _is_readable(folder):
        return Check("data folder", "problem", f"{folder} can't be read{foreign_owner_text(folder)}", advice)
    return Check("data folder", "ok", f"{folder}, writable")


def _is_readable(folder: Path) -> bool:
    return os.access(folder, os.R_OK | os.X_OK)


def _existing_parent(folder: Path) -> Path:
    return next(parent for parent in folder.parents if os.path.lexists(parent))


def _disk(folder: Path) -> Check:
    free = shutil.disk_usage(folder if folder.exists() else _existing_parent(folder)).free
    if free < LOW_DISK_BYTES:
        return Check(
            "disk", "warning", f"only {size_text(free)} free", "Free some disk space before you process many pictures."
        )
    return Check("disk", "ok", f"{size_text(free)} free")


def _server(owner: Owner | None) -> Check:
    if owner is None:
        return Check("server", "ok", "none runs on this data folder")
    where = f"{' air-gapped' if owner.air_gapped else ''} at {owner.address}" if owner.address else ""
    return Check(
        "server", "ok", f"`imgproc-local {owner.doing}`{where} has run as process {owner.pid} since {owner.since}"
    )


def _database(config: Config, owner: Owner | None) -> Iterator[Check]:
    from imgproc_local.compose import DATABASE_FILE
    from imgproc_local.domain.errors import StorageFailed
    from imgproc_local.storage.backup import content_problem
    from imgproc_local.storage.inspection import inspect_database, inspect_files
    from imgproc_local.storage.schema import SCHEMA

    folder = config.data_dir
    path = folder / DATABASE_FILE
    if not path.is_file():
        if problem := content_problem(folder):
            yield Check("database", "problem", *problem)
            return
        yield Check("database", "ok", f"{DATABASE_FILE} does not exist yet; the first command that needs it creates it")
        return
    size = size_text(path.stat().st_size)
    try:
        report = inspect_database(path)
        # files after rows: a file is written before its row, and a row is deleted before its file
        stored = inspect_files(folder)
    except StorageFailed as error:
        full = shutil.disk_usage(folder).free < FULL_DISK_BYTES
        advice = "Free some disk space and run doctor again." if full else REPAIR
        yield Check("database", "problem", f"{DATABASE_FILE}, {size}: {error.message}", advice)
        return
    if report.schema == 0 and (problem := content_problem(folder)):
        yield Check("database", "problem", *problem)
        return
    yield _integrity(report, size)
    if report.problems or report.schema != SCHEMA:
        return
    yield _ledger(report)
    yield _files(report, stored, owner, reread=lambda: inspect_database(path).files)
    yield Check(
        "jobs", "ok", ", ".join(f"{count:,} {status}" for status, count in sorted(report.jobs.items())) or "none"
    )
    yield Check("keys", "ok", f"{report.keys:,} active")
    yield _retention(config, path)


def _retention(config: Config, path: Path) -> Check:
    from imgproc_local.compose import max_age
    from imgproc_local.storage.database import utc_now
    from imgproc_local.storage.inspection import removable
    from imgproc_local.storage.retention import MaxAge

    age = max_age(config)
    if not age.is_limited:
        found = removable(path, MaxAge(jobs=EXAMPLE_AGE), utc_now())
        detail = f"off; removing jobs older than {EXAMPLE_AGE.days} days would free {size_text(found.size_bytes)}"
        return Check("retention", "ok", detail)
    limits = {
        "jobs": config.retention_jobs_days,
        "originals": config.retention_originals_days,
        "results": config.retention_results_days,
    }
    found = removable(path, age, utc_now())
    shown = ", ".join(f"{name} after {days} days" for name, days in limits.items() if days)
    detail = f"removes {shown}; would remove {found.jobs:,} jobs and free {size_text(found.size_bytes)} now"
    return Check("retention", "ok", detail)


REPAIR = (
    "Stop the server, move the data folder away, and restore a backup (`imgproc-local restore FILE`)."
    " Without a backup, keep the moved folder and begin with a new one."
)
REPAIR_ROWS = (
    "The database was damaged, or changed by another program: restore a backup (`imgproc-local restore FILE`)."
)
REPAIR_FILES = (
    "Send the same pictures again, which repairs the files; or restore a backup (`imgproc-local restore FILE`);"
    " or delete the jobs (DELETE /jobs/{id})."
)


def _integrity(report: DatabaseReport, size: str) -> Check:
    from imgproc_local.storage.schema import SCHEMA

    if report.problems:
        return Check("database", "problem", f"{size}, damaged: {'; '.join(report.problems)}", REPAIR)
    if report.schema > SCHEMA:
        detail = f"{size}, schema {report.schema}; this program supports schemas up to {SCHEMA}"
        return Check("database", "problem", detail, "Use the newer version of imgproc-local that wrote it.")
    if report.schema < SCHEMA:
        detail = f"{size}, schema {report.schema}; the next start updates it to {SCHEMA}"
        return Check("database", "ok", detail)
    return Check("database", "ok", f"{size}, schema {report.schema}, intact")


def _ledger(report: DatabaseReport) -> Check:
    if not report.ledger_differences:
        return Check("credits", "ok", "every balance equals the sum of its ledger")
    differences = "; ".join(
        f"the balance of {one.account!r} is {one.balance:,}, its ledger adds up to {one.ledger_sum:,}"
        for one in report.ledger_differences
    )
    return Check("credits", "problem", differences, REPAIR_ROWS)


def _files(
    report: DatabaseReport, stored: FilesReport, owner: Owner | None, reread: Callable[[], dict[str, int]]
) -> Check:
    """Compare the stored files with those that rows reference. `reread` returns the referenced files once more."""
    detail = f"{len(stored.sizes):,} stored, {size_text(sum(stored.sizes.values()))}"
    damaged = {sha256 for sha256, size_bytes in report.files.items() if stored.sizes.get(sha256) != size_bytes}
    if damaged and owner is not None:
        damaged &= reread().keys()  # without the files of jobs that were deleted during this check
    if damaged:
        missing = len(damaged - stored.sizes.keys())
        wrong = len(damaged) - missing
        detail = f"{detail}; of the files that jobs need, {missing:,} are missing and {wrong:,} have a wrong size"
        return Check("files", "problem", detail, REPAIR_FILES)
    leftover = len(stored.sizes.keys() - report.files.keys()) + stored.incoming
    if leftover and owner is None:
        return Check(
            "files", "warning", f"{detail}; {leftover:,} belong to no job", "The next start of the server deletes them."
        )
    return Check("files", "ok", f"{detail}; `imgproc-local verify` also checks their content")
