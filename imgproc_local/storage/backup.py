"""Backups: one archive with the database and every file that its rows reference, written whole or not at all.

The archive is a tar file (GNU format) that other programs can unpack: `files/…`, `imgproc.db`, `manifest.json`, and as
its last member `sha256`, the hash of all bytes before that member. A byte that is missing, added or changed is noticed
before anything is restored. A backup is made beside a running server. A job that is deleted meanwhile is left out,
unless its files were copied already.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Protocol

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import StorageFailed
from imgproc_local.storage.database import QUERIES
from imgproc_local.storage.inspection import DATABASE_FILE, RESTORING, filled_folders, read_database, referenced_files
from imgproc_local.storage.schema import SCHEMA
from imgproc_local.storage.sessions import END_ALL
from imgproc_local.system.files import fsync_folder, try_lock
from imgproc_local.system.folder_lock import require_folder

FORMAT = 1
MANIFEST, DIGEST = "manifest.json", "sha256"
STORED_FILE = re.compile(r"files/([0-9a-f]{2})/(\1[0-9a-f]{62})")
MAX_PASSES = 10
"""How often the database is copied at most: once, and again after jobs were deleted before their files were copied."""
MAX_MANIFEST_BYTES = 1024**3
COPY_BYTES = 1024 * 1024
BLOCK_BYTES = tarfile.BLOCKSIZE
UNFINISHED, ARCHIVE = ".imgproc-local-backup-", "archive.tar"
"""The prefix of the folder beside a backup in which it is written, and its name there."""
NAME_ANOTHER = "Name another one with --data-dir."


class Manifest(Struct, frozen=True):
    """`files` are sizes in bytes by SHA-256. `left_out` says what is wrong with files that are damaged or missing."""

    format: int
    program: str
    schema: int
    created_at: str
    database_sha256: str
    files: dict[str, int]
    left_out: dict[str, str]

    @property
    def size_bytes(self) -> int:
        return sum(self.files.values())


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def copy(self) -> _Hash: ...
    def hexdigest(self) -> str: ...


class _Archive:
    """Writes members one after the other."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash: _Hash = hashlib.sha256()

    def add(self, name: str, source: IO[bytes], size_bytes: int, sha256: str | None = None) -> bool:
        """Add a member. Returns False and adds nothing if `source` has another size or hash than expected."""
        before, hash_before = self._file.tell(), self._hash.copy()
        self._write(_header(name, size_bytes))
        copied, content = 0, hashlib.sha256()
        while data := source.read(min(COPY_BYTES, size_bytes - copied + 1)):
            copied += len(data)
            content.update(data)
            self._write(data)
            if copied > size_bytes:
                break
        self._write(_padding(size_bytes))
        if copied == size_bytes and sha256 in (None, content.hexdigest()):
            return True
        self._file.seek(before)
        self._file.truncate()
        self._hash = hash_before
        return False

    def finish(self) -> None:
        self._file.write(_last_member(self._hash.hexdigest()))

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)


def _header(name: str, size_bytes: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size_bytes, 0o600
    return info.tobuf(tarfile.GNU_FORMAT)


def _padding(size_bytes: int) -> bytes:
    return bytes(-size_bytes % BLOCK_BYTES)


def _last_member(digest: str) -> bytes:
    """The member with the hash of everything before it, and the end of the archive."""
    content = digest.encode() + b"\n"
    return _header(DIGEST, len(content)) + content + _padding(len(content)) + bytes(2 * BLOCK_BYTES)


# ---- backup ----


def write_backup(folder: Path, database: Path, target: Path, program: str, at: str) -> Manifest:
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
        if not database.is_file():
            raise StorageFailed(f"The data folder {folder} has no database to back up. {NAME_ANOTHER}")
        _delete_leftovers(target.parent)
        with TemporaryDirectory(prefix=UNFINISHED, dir=target.parent) as scratch:
            part, copy = Path(scratch, ARCHIVE), Path(scratch, DATABASE_FILE)
            with open(part, "xb", opener=_private) as file:
                try_lock(file)
                manifest = _fill(_Archive(file), folder, database, copy, program, at)
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
            fsync_folder(target.parent)
    return manifest


def _delete_leftovers(folder: Path) -> None:
    """Delete what killed backups left in `folder`. The archive of a running one is locked."""
    for part in filter(Path.is_file, folder.glob(f"{UNFINISHED}*/{ARCHIVE}")):
        with part.open("rb") as file:
            is_running = not try_lock(file)
        if not is_running:
            shutil.rmtree(part.parent)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _fill(archive: _Archive, folder: Path, database: Path, copy: Path, program: str, at: str) -> Manifest:
    files: dict[str, int] = {}
    left_out: dict[str, str] = {}
    for _ in range(MAX_PASSES):
        schema, wanted = _copy_database(database, copy)
        left_out = {}
        for sha256, size_bytes in sorted(wanted.items()):
            if sha256 not in files:
                problem = _add_file(archive, folder, sha256, size_bytes)
                if problem is None:
                    files[sha256] = size_bytes
                else:
                    left_out[sha256] = problem
        # files that are not referenced any more were deleted with their jobs: copy the database without these jobs
        if not left_out or left_out.keys() <= read_database(database, referenced_files).keys():
            break
    with copy.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        archive.add(DATABASE_FILE, file, copy.stat().st_size)
    manifest = Manifest(FORMAT, program, schema, at, digest, files, left_out)
    encoded = msgspec.json.encode(manifest)
    archive.add(MANIFEST, io.BytesIO(encoded), len(encoded))
    archive.finish()
    return manifest


def _add_file(archive: _Archive, folder: Path, sha256: str, size_bytes: int) -> str | None:
    """Add a stored file. Returns what is wrong with the file; None if it was added."""
    name = f"files/{sha256[:2]}/{sha256}"
    try:
        source = (folder / name).open("rb")
    except OSError as error:
        return "missing" if isinstance(error, FileNotFoundError) else f"can't be read ({error.strerror})"
    with source:
        return None if archive.add(name, source, size_bytes, sha256) else "damaged"


def _copy_database(database: Path, copy: Path) -> tuple[int, dict[str, int]]:
    """Copy the database as it is at one moment. Returns its schema and the files that its rows reference."""
    copy.unlink(missing_ok=True)

    def back_up(source: sqlite3.Connection) -> tuple[int, dict[str, int]]:
        with closing(sqlite3.connect(copy, isolation_level=None)) as target:
            source.backup(target)
            target.row_factory = sqlite3.Row
            target.execute("PRAGMA journal_mode = DELETE")
            target.execute("PRAGMA secure_delete = ON")
            schema = int(target.execute("PRAGMA user_version").fetchone()[0])
            if schema != SCHEMA:
                raise StorageFailed(
                    f"The database has schema {schema}, this program knows {SCHEMA}."
                    " Start the server once, which migrates an older one, or use the program that wrote it."
                )
            if not target.execute(QUERIES["holds_anything"]).fetchone()[0]:
                raise StorageFailed(
                    f"The data folder {database.parent} holds no job and no key: there is nothing to back up."
                    f" {NAME_ANOTHER}"
                )
            # a context is private, and is stored only while its job waits in this folder
            target.execute("DELETE FROM contexts")
            return schema, referenced_files(target)

    return read_database(database, back_up)


@contextmanager
def _backup_errors(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageFailed(f"{what} ({error.strerror}: {error.filename or 'disk'}).") from error
    except sqlite3.Error as error:
        raise StorageFailed(f"{what} ({error}).") from error


# ---- restore ----


def require_empty(folder: Path) -> None:
    """Raises: StorageFailed, where the folder holds a database or content that the next start may delete.

    The files that a killed `restore` moved into place do not count.
    """
    filled = set(filled_folders(folder)) - ({"files"} if (folder / RESTORING).is_dir() else set())
    if (folder / DATABASE_FILE).exists() or filled:
        raise StorageFailed(
            f"The data folder {folder} is not empty. Move it away first, or name another one with --data-dir."
        )


def restore_backup(source: Path, folder: Path, at: str) -> tuple[Manifest, int]:
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
            with source.open("rb") as file:
                manifest = _unpack(file, source.stat().st_size, restoring)
            referenced = _check_database(restoring / DATABASE_FILE, manifest)
            # files whose jobs were deleted while the backup was written
            for sha256 in manifest.files.keys() - referenced:
                (restoring / "files" / sha256[:2] / sha256).unlink()
            restored = {sha256: size for sha256, size in manifest.files.items() if sha256 in referenced}
            keys = _end_sessions(restoring / DATABASE_FILE, at)
        except BaseException:
            shutil.rmtree(restoring, ignore_errors=True)
            raise
        # the database comes last: a folder with a database is whole
        (restoring / "files").replace(folder / "files")
        fsync_folder(folder)
        (restoring / DATABASE_FILE).replace(folder / DATABASE_FILE)
        fsync_folder(folder)
        shutil.rmtree(restoring)
    return msgspec.structs.replace(manifest, files=restored), keys


def _end_sessions(database: Path, at: str) -> int:
    """End the page's sessions and links in a restored database. Returns how many keys are valid after that."""
    with closing(sqlite3.connect(database)) as connection, connection:
        for statement in END_ALL:
            connection.execute(QUERIES[statement], {"at": at})
        return int(connection.execute(QUERIES["count_keys_in_force"]).fetchone()[0])


class _Reader:
    """Reads the archive and hashes what it reads."""

    def __init__(self, file: IO[bytes], size_bytes: int) -> None:
        self._file = file
        self.left_bytes = size_bytes
        self.hash: _Hash = hashlib.sha256()

    def read(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) != count:
            raise _unusable("it is cut off")
        self.left_bytes -= count
        self.hash.update(data)
        return data


def _unpack(file: IO[bytes], size_bytes: int, folder: Path) -> Manifest:
    """Unpack the archive into `folder` and return its manifest. Raises: StorageFailed, for a damaged archive."""
    reader = _Reader(file, size_bytes)
    (folder / "files").mkdir(mode=0o700)
    hashes: dict[str, str] = {}
    sizes: dict[str, int] = {}
    manifest = b""
    while True:
        digest = reader.hash.hexdigest()
        header = reader.read(BLOCK_BYTES)
        try:
            member = tarfile.TarInfo.frombuf(header, "ascii", "strict")
        except (tarfile.HeaderError, ValueError) as error:
            raise _unusable("it is damaged, or not a backup of imgproc-local") from error
        if member.name in hashes or not 0 <= member.size <= reader.left_bytes:
            raise _unusable("it is cut off or damaged")
        if member.name == DIGEST:
            break
        if member.name == MANIFEST and member.size <= MAX_MANIFEST_BYTES:
            manifest = reader.read(member.size)
        elif member.name == DATABASE_FILE or STORED_FILE.fullmatch(member.name):
            sizes[member.name] = member.size
            hashes[member.name] = _unpack_file(reader, folder / member.name, member.size)
        else:
            raise _unusable("it is damaged, or not a backup of imgproc-local")
        reader.read(-member.size % BLOCK_BYTES)
    if header + file.read() != _last_member(digest):
        raise _unusable("it is cut off or was changed")
    return _checked_manifest(manifest, hashes, sizes)


def _unpack_file(reader: _Reader, path: Path, size_bytes: int) -> str:
    path.parent.mkdir(exist_ok=True, mode=0o700)
    content = hashlib.sha256()
    with open(path, "xb", opener=_private) as file:
        while size_bytes:
            data = reader.read(min(COPY_BYTES, size_bytes))
            size_bytes -= len(data)
            content.update(data)
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fsync_folder(path.parent)
    return content.hexdigest()


def _checked_manifest(encoded: bytes, hashes: dict[str, str], sizes: dict[str, int]) -> Manifest:
    try:
        manifest = msgspec.json.decode(encoded, type=Manifest)
    except msgspec.MsgspecError as error:
        raise _unusable("its manifest is missing or has another format") from error
    if manifest.format != FORMAT or manifest.schema > SCHEMA:
        raise StorageFailed(
            f"The backup was written by a newer version ({manifest.program}); restore it with that one."
        )
    expected = {f"files/{sha256[:2]}/{sha256}": sha256 for sha256 in manifest.files}
    if hashes != expected | {DATABASE_FILE: manifest.database_sha256}:
        raise _unusable("its files are not those of its manifest")
    if any(sizes[f"files/{sha256[:2]}/{sha256}"] != size for sha256, size in manifest.files.items()):
        raise _unusable("its files are not those of its manifest")
    return manifest


def _check_database(path: Path, manifest: Manifest) -> set[str]:
    """The addresses that the database references. Raises: StorageFailed, where it is damaged or a file is missing."""

    def read(connection: sqlite3.Connection) -> dict[str, int]:
        if connection.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
            raise _unusable("its database is damaged")
        return referenced_files(connection)

    referenced = read_database(path, read).keys()
    if not referenced <= manifest.files.keys() | manifest.left_out.keys():
        raise _unusable("files of jobs are missing in it")
    return set(referenced)


def _unusable(reason: str) -> StorageFailed:
    return StorageFailed(f"The backup can't be used: {reason}. Nothing was restored; use another backup.")
