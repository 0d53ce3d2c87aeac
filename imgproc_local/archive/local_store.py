"""A folder of this machine, which may be a mounted share, as a `Store`."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from imgproc_local.archive.process_results import ProcessResults
from imgproc_local.archive.store import HEAD_BYTES, SourceObject, ignore, in_pages
from imgproc_local.batch.records import MANIFEST_FILE, MAX_MANIFEST_BYTES, STATE_FOLDER
from imgproc_local.storage.blobs import hash_file
from imgproc_local.system.files import fsync_folder, open_own_file, path_inside, rename_to_new, write_atomically

log = logging.getLogger(__name__)

COPY_BYTES = 1024 * 1024
"""The bytes of one read."""
UNFINISHED_FOLDER = f"{STATE_FOLDER}/parts-of-files"
"""The folder of files that are being written. A worker that is killed leaves such files behind."""


class LocalStore:
    """The files below `root`. Links to folders are not followed."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def pages(
        self, exclude: str | None = None, on_results: Callable[[str], None] = ignore
    ) -> Iterator[list[SourceObject]]:
        with closing(ProcessResults()) as results:
            for parent in self._root.resolve().parents:
                _add_results(results, parent)
            yield from in_pages(self._files(exclude, results, on_results))

    def _files(
        self, exclude: str | None, results: ProcessResults, on_results: Callable[[str], None]
    ) -> Iterator[SourceObject]:
        for folder, folders, names in os.walk(self._root, onerror=_log_unreadable):
            prefix = Path(folder).relative_to(self._root)
            if STATE_FOLDER in folders:
                folders.clear()
                on_results(prefix.as_posix())
                continue
            if MANIFEST_FILE in names:
                _add_results(results, Path(folder))
                on_results(prefix.as_posix())
            folders[:] = sorted(
                name for name in folders if not name.startswith(".") and (prefix / name).as_posix() != exclude
            )
            for name in sorted(names):
                if name.startswith(".") or results.contains(Path(folder, name)):
                    continue
                try:
                    status = Path(folder, name).stat()
                except FileNotFoundError:  # deleted since it was listed, or a link to nothing
                    continue
                except OSError as error:
                    _log_unreadable(error)
                    continue
                if not stat.S_ISREG(status.st_mode):
                    continue
                version = f"{status.st_size}-{status.st_mtime_ns}"
                yield SourceObject((prefix / name).as_posix(), status.st_size, version)

    def fetch(self, key: str, file: Path) -> str:
        digest = hashlib.sha256()
        with open_own_file(self._root / key) as source, file.open("wb") as target:
            while chunk := source.read(COPY_BYTES):
                digest.update(chunk)
                target.write(chunk)
        return digest.hexdigest()

    def head(self, key: str) -> bytes:
        with open_own_file(self._root / key) as file:
            return bytes(file.read(HEAD_BYTES))

    def create(self, key: str, file: Path) -> bool:
        target = path_inside(self._root, key)
        try:
            with self._copied(file) as copy:
                target.parent.mkdir(parents=True, exist_ok=True)
                rename_to_new(copy, target)
        except FileExistsError:
            return False
        return True

    def replace(self, key: str, data: bytes) -> None:
        target = path_inside(self._root, key)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, data)

    def replace_by_file(self, key: str, file: Path) -> None:
        target = path_inside(self._root, key)
        with self._copied(file) as copy:
            target.parent.mkdir(parents=True, exist_ok=True)
            copy.replace(target)
        fsync_folder(target.parent)

    def read(self, key: str) -> bytes:
        with open_own_file(path_inside(self._root, key), max_bytes=MAX_MANIFEST_BYTES) as file:
            return bytes(file.read())

    def sha256(self, key: str) -> str:
        path = path_inside(self._root, key)
        with open_own_file(path):  # a pipe would block
            return hash_file(path)

    def keys(self, folder: str) -> list[str]:
        try:
            names = sorted(entry.name for entry in os.scandir(self._root / folder) if entry.is_file())
        except FileNotFoundError:
            return []
        return [f"{folder}/{name}" for name in names if not name.startswith(".")]

    def remove(self, key: str) -> None:
        path_inside(self._root, key).unlink(missing_ok=True)

    @contextmanager
    def _copied(self, file: Path) -> Iterator[Path]:
        """Copy `file` to the disk of the root. The copy is deleted at the end of the block, unless it was renamed."""
        copy = path_inside(self._root, f"{UNFINISHED_FOLDER}/{secrets.token_hex(8)}.part")
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            with file.open("rb") as source, copy.open("xb") as target:
                while chunk := source.read(COPY_BYTES):
                    target.write(chunk)
                target.flush()
                os.fsync(target.fileno())
            yield copy
        finally:
            copy.unlink(missing_ok=True)


def _add_results(results: ProcessResults, folder: Path) -> None:
    try:
        results.add_folder(folder)
    except OSError as error:
        log.warning("%s can't be read (%s). Results that it names may be processed.", error.filename, error.strerror)


def _log_unreadable(error: OSError) -> None:
    log.warning("%s can't be read (%s). Pictures there are not in the archive.", error.filename, error.strerror)
