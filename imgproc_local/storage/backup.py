"""Backups: one tar archive with the database and every file that its rows reference, written whole or not at all.

Other programs can unpack the archive: `files/…`, `imgproc.db`, and as its last member `manifest.json`, which has the
hashes of all other members. A member that is missing, cut off or changed is noticed before anything is restored. A
backup is made beside a running server. A job that is deleted meanwhile is left out, unless its files were copied
already.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sqlite3
import tarfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import StorageFailed
from imgproc_local.storage import inspection
from imgproc_local.storage.accounts import END_ALL
from imgproc_local.storage.database import QUERIES, SCHEMA, statements_from
from imgproc_local.storage.inspection import DATABASE_FILE, RESTORING
from imgproc_local.system.files import fsync_folder, hash_file
from imgproc_local.system.folder_lock import require_folder

_FORMAT = 1
_MANIFEST, _DIGEST = "manifest.json", "sha256"
"""Members. The backups of version 0.1.0 have a digest of the archive, too; it is not needed."""
_SCRATCH = ".imgproc-local-backup-"
"""The prefix of the folder in which a backup is made, beside its target."""

_STORED_FILE = re.compile(r"files/([0-9a-f]{2})/(\1[0-9a-f]{62})")
_NAME_ANOTHER = "Name another one with --data-dir."


class Manifest(Struct, frozen=True):
    """`files` are sizes in bytes by SHA-256. `left_out` says what is wrong with files that are damaged or missing."""

    format: int
    program: str
    schema: int
    created_at: str
    database_sha256: str
    files: dict[str, int]
    left_out: dict[str, str]


@contextmanager
def _backup_errors(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageFailed(f"{what} ({error.strerror or error}: {error.filename or 'disk'}).") from error
    except sqlite3.Error as error:
        raise StorageFailed(f"{what} ({error}).") from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


# ---- backup ----


def write_backup(folder: Path, target: Path, program: str, at: str) -> Manifest:
    """Back the data folder up into the new file `target`, which only its owner can read, and sync it to the disk.

    A folder without jobs, keys and granted credits is refused, because its name was probably mistyped.
    Raises: StorageFailed; there is no file `target` then.
    """
    with _backup_errors("The backup can't be written"):
        if os.path.lexists(target):
            raise StorageFailed(f"{target} exists already. Name a new file.")
        if not target.parent.is_dir():
            raise StorageFailed(f"The folder {target.parent} does not exist. Create it, or name a file elsewhere.")
        require_folder(folder)
        if not (folder / DATABASE_FILE).is_file():
            raise StorageFailed(f"The data folder {folder} has no database to back up. {_NAME_ANOTHER}")
        for leftover in target.parent.glob(f"{_SCRATCH}*"):
            with suppress(OSError):  # the files of a running backup may be renamed or deleted at any time
                # several machines may write to a share that has no locks: one that wrote nothing for a day was killed
                written_s = max(path.stat().st_mtime for path in (leftover, *leftover.iterdir()))
                if time.time() - written_s > 24 * 3600:
                    shutil.rmtree(leftover)
        with TemporaryDirectory(prefix=_SCRATCH, dir=target.parent) as scratch:
            part = Path(scratch, "archive.tar")
            with open(part, "xb", opener=_private) as file:
                with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
                    manifest = _fill(archive, folder, Path(scratch, DATABASE_FILE), program, at)
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
            fsync_folder(target.parent)
    return manifest


def _fill(archive: tarfile.TarFile, folder: Path, copy: Path, program: str, at: str) -> Manifest:
    files: dict[str, int] = {}
    left_out: dict[str, str] = {}
    for _ in range(10):  # at most: again only after jobs were deleted before their files were copied
        wanted = _copy_database(folder / DATABASE_FILE, copy)
        left_out = {}
        for sha256, size_bytes in sorted(wanted.items() - files.items()):
            problem = inspection.file_problem(folder, sha256, size_bytes, compare=True)
            if problem is None:
                name = f"files/{sha256[:2]}/{sha256}"
                with (folder / name).open("rb") as content:
                    _add(archive, name, content, size_bytes)
                files[sha256] = size_bytes
            else:
                left_out[sha256] = problem
        # files that are not referenced any more were deleted with their jobs: copy the database without these jobs
        if left_out.keys() <= inspection.read_database(folder / DATABASE_FILE, inspection.referenced_files).keys():
            break
    with copy.open("rb") as content:
        _add(archive, DATABASE_FILE, content, copy.stat().st_size)
    manifest = Manifest(_FORMAT, program, SCHEMA, at, hash_file(copy), files, left_out)
    encoded = msgspec.json.encode(manifest)
    _add(archive, _MANIFEST, io.BytesIO(encoded), len(encoded))
    return manifest


def _add(archive: tarfile.TarFile, name: str, content: IO[bytes], size_bytes: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size_bytes, 0o600
    archive.addfile(member, content)


def _copy_database(database: Path, copy: Path) -> dict[str, int]:
    """Copy the database as it is at one moment. Returns the files that its rows reference."""

    def vacuum(source: sqlite3.Connection) -> None:
        schema = int(source.execute("PRAGMA user_version").fetchone()[0])
        if schema != SCHEMA:
            raise StorageFailed(
                f"The database has schema {schema}, this program expects {SCHEMA}."
                " Start the server once, which updates an older one, or use the program that wrote it."
            )
        if not source.execute(QUERIES["holds_anything"]).fetchone()[0]:
            raise StorageFailed(
                f"The data folder {database.parent} holds no job and no key: there is nothing to back up."
                f" {_NAME_ANOTHER}"
            )
        copy.unlink(missing_ok=True)  # of an earlier call: `read_database` may call twice
        source.execute("VACUUM INTO ?", (str(copy),))

    inspection.read_database(database, vacuum)
    with closing(sqlite3.connect(copy, isolation_level=None)) as target:
        target.row_factory = sqlite3.Row
        target.execute("PRAGMA secure_delete = ON")
        # contexts and records are private, and are stored only while their jobs wait in this folder
        target.execute("DELETE FROM contexts")
        target.execute("DELETE FROM records")
        return inspection.referenced_files(target)


# ---- restore ----


def require_empty(folder: Path) -> None:
    """Raises: StorageFailed, where the folder holds a database or content that the next start may delete.

    The files that a killed `restore` moved into place do not count.
    """
    filled = set(inspection.filled_folders(folder)) - ({"files"} if (folder / RESTORING).is_dir() else set())
    if (folder / DATABASE_FILE).exists() or filled:
        raise StorageFailed(f"The data folder {folder} is not empty. Move it away, or name another with --data-dir.")


def restore_backup(source: Path, folder: Path) -> tuple[Manifest, int]:
    """Restore a backup into `folder`, which this process owns and which holds no database and no files.

    Everything is unpacked into `RESTORING` and compared with its hash before it is moved into place. The page's
    sessions and links are ended: they may have been ended since the backup.
    Returns the manifest with the files that were restored, and the number of keys that are valid again.
    Raises: StorageFailed.
    """
    require_empty(folder)
    restoring = folder / RESTORING
    with _backup_errors("The backup can't be restored"):
        for leftover in (restoring, folder / "files"):
            if leftover.is_dir():
                shutil.rmtree(leftover)
        (folder / f"{DATABASE_FILE}-wal").unlink(missing_ok=True)
        restoring.mkdir(mode=0o700)
        try:
            manifest = _unpack(source, restoring)
            referenced, keys = _prepare_database(restoring / DATABASE_FILE)
            if not referenced <= manifest.files.keys() | manifest.left_out.keys():
                raise _unusable("files of jobs are missing in it")
            # files whose jobs were deleted while the backup was written
            for sha256 in manifest.files.keys() - referenced:
                (restoring / "files" / sha256[:2] / sha256).unlink()
        except BaseException:
            shutil.rmtree(restoring, ignore_errors=True)
            raise
        # the database comes last: a folder with a database is whole
        (restoring / "files").replace(folder / "files")
        fsync_folder(folder)
        (restoring / DATABASE_FILE).replace(folder / DATABASE_FILE)
        fsync_folder(folder)
        shutil.rmtree(restoring)
    restored = {sha256: size for sha256, size in manifest.files.items() if sha256 in referenced}
    return msgspec.structs.replace(manifest, files=restored), keys


def _unpack(source: Path, folder: Path) -> Manifest:
    """Unpack the archive into `folder` and return its manifest. Raises: StorageFailed, for a damaged archive.

    Only the members of a backup are accepted, each once and as a regular file. They are read one after the other, so
    that a header makes nothing larger than the archive.
    """
    damaged = _unusable("it is damaged, or not a backup of imgproc-local")
    (folder / "files").mkdir(mode=0o700)
    hashes: dict[str, str] = {}
    try:
        with tarfile.open(source, "r|") as archive:
            for member in archive:
                is_known = member.name in (DATABASE_FILE, _MANIFEST, _DIGEST) or _STORED_FILE.fullmatch(member.name)
                if not is_known or member.type != tarfile.REGTYPE or member.issparse() or member.name in hashes:
                    raise damaged
                path = folder / member.name
                path.parent.mkdir(exist_ok=True, mode=0o700)
                content = archive.extractfile(member)
                assert content is not None
                with open(path, "xb", opener=_private) as target:
                    shutil.copyfileobj(content, target, 1024 * 1024)
                    target.flush()
                    os.fsync(target.fileno())
                fsync_folder(path.parent)
                hashes[member.name] = hash_file(path)
    except tarfile.TarError as error:
        raise damaged from error
    return _checked_manifest(folder / _MANIFEST, hashes)


def _checked_manifest(path: Path, hashes: dict[str, str]) -> Manifest:
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (FileNotFoundError, msgspec.MsgspecError) as error:
        raise _unusable("its manifest is missing or damaged") from error
    if manifest.format != _FORMAT or manifest.schema > SCHEMA:
        raise StorageFailed(f"The backup is of a newer version ({manifest.program}); restore it with that one.")
    expected = {f"files/{sha256[:2]}/{sha256}": sha256 for sha256 in manifest.files}
    found = {name: sha256 for name, sha256 in hashes.items() if name not in (_MANIFEST, _DIGEST)}
    if found != expected | {DATABASE_FILE: manifest.database_sha256}:
        raise _unusable("its files are not those of its manifest")
    return manifest


def _prepare_database(path: Path) -> tuple[set[str], int]:
    """Update a restored database to the schema of this program, and end the page's sessions and links.

    Returns the addresses of the files that it references, and the number of keys that are valid after that.
    Raises: StorageFailed, where it is damaged.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as rows:
        rows.row_factory = sqlite3.Row
        if rows.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
            raise _unusable("its database is damaged")
        rows.execute("BEGIN")
        for statement in statements_from(rows.execute("PRAGMA user_version").fetchone()[0]):
            rows.execute(statement)
        for name in END_ALL:
            rows.execute(QUERIES[name])
        rows.execute("COMMIT")
        return set(inspection.referenced_files(rows)), int(rows.execute(QUERIES["count_keys_in_force"]).fetchone()[0])


def _unusable(reason: str) -> StorageFailed:
    return StorageFailed(f"The backup can't be used: {reason}. Nothing was restored; use another backup.")
