"""Where pictures are read from and results are written to: a folder of this machine, or an object store.

An object store is used by the fsspec plug-in of its URL: `s3://`, `gs://`, `az://` and others. Credentials come from
the environment of each process, as its plug-in documents. They are in no argument, because arguments of tasks are
stored in the memory of the scheduler.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import secrets
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from msgspec import Struct

from imgproc_local.batch import MANIFEST_FILE, STATE_FOLDER, stored_records
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.system.files import copy_durably, fsync_folder, open_own_file, path_inside, rename_to_new

log = logging.getLogger(__name__)

_READ_BYTES = 8 * 1024 * 1024
"""The bytes of one read, and of one request for a part of an object."""
_UNFINISHED_FOLDER = f"{STATE_FOLDER}/parts-of-files"
"""The folder of results that are being written. A worker that is killed leaves such files behind."""
_S3_OPTIONS: dict[str, Any] = {
    "use_listings_cache": False,
    # s3fs makes 5 calls, so a store that always throttles gets 10 requests
    "config_kwargs": {"retries": {"mode": "standard", "total_max_attempts": 2}},
}
_UPLOAD_PART_BYTES = 16 * 1024 * 1024
"""The size of the parts of a multipart upload to S3, which is used for files of at least two parts."""
_ETAG_FIELDS = ("ETag", "etag", "md5Hash", "content_md5")
"""The fields in which plug-ins give an ETag or a hash, which changes with the content of an object."""
_MODIFIED_FIELDS = ("LastModified", "last_modified", "mtime")
_CONTENT_TYPES = {f".{extension}": each.mime for each in FORMATS.values() for extension in each.extensions}


class SourceObject(Struct, frozen=True):
    """A file or an object that may be a picture.

    `key` is its path below the root, with `/` between the parts. `version` changes when the content does: the ETag of
    an object, or the size and modification time of a file.
    """

    key: str
    size_bytes: int
    version: str


class _Store(ABC):
    """The objects below one root, by key. Every call blocks.

    Every method may raise OSError: FileNotFoundError if an object to be read does not exist.
    """

    @abstractmethod
    def open(self, key: str) -> AbstractContextManager[IO[bytes]]:
        """Open an object for reading."""

    def exists(self, key: str) -> bool:
        """Whether there is an object of this key."""
        try:
            with self.open(key):
                return True
        except FileNotFoundError:
            return False

    def sha256(self, key: str) -> str:
        """The SHA-256 of the content of an object."""
        with self.open(key) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type] # it needs `readinto` only

    def fetch(self, key: str, file: Path) -> str:
        """Copy an object to a local file, and return the SHA-256 of its content.

        s3fs sends the ETag with each request, so that two versions are never mixed.
        """
        digest = hashlib.sha256()
        with self.open(key) as source, file.open("wb") as target:
            while chunk := source.read(_READ_BYTES):
                digest.update(chunk)
                target.write(chunk)
        return digest.hexdigest()


class LocalStore(_Store):
    """The files below `root`, which may be on a mounted share. Links to folders are not followed."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def objects(self, exclude: str | None = None) -> Iterator[SourceObject]:
        """The objects without hidden ones, those below the key `exclude`, and results of earlier runs.

        A warning names each folder in which results are left out. One folder is listed at a time.
        """
        results: set[str] = set()
        for parent in self._root.resolve().parents:
            results |= _process_results(parent)
        for folder, folders, names in os.walk(self._root, onerror=_log_unreadable):
            prefix = Path(folder).relative_to(self._root)
            if STATE_FOLDER in folders:
                folders.clear()
                _log_results(prefix.as_posix())
                continue
            if MANIFEST_FILE in names:
                results |= _process_results(Path(folder))
                _log_results(prefix.as_posix())
            shown = (name for name in folders if not name.startswith("."))
            folders[:] = sorted(name for name in shown if (prefix / name).as_posix() != exclude)
            for name in sorted(names):
                path = Path(folder, name)
                if name.startswith(".") or (results and os.path.realpath(path) in results):
                    continue
                try:
                    status = path.stat()
                except OSError as error:
                    _log_unreadable(error)
                    continue
                if stat.S_ISREG(status.st_mode):
                    version = f"{status.st_size}-{status.st_mtime_ns}"
                    yield SourceObject((prefix / name).as_posix(), status.st_size, version)

    def open(self, key: str) -> IO[bytes]:
        return open_own_file(path_inside(self._root, key))

    def create(self, key: str, file: Path) -> bool:
        """Store a copy of a local file in one step. False, with nothing changed, if the key is taken."""
        target = path_inside(self._root, key)
        try:
            with self._copied(file, target.parent) as copy:
                rename_to_new(copy, target)
        except FileExistsError:
            return False
        return True

    def put(self, key: str, file: Path) -> None:
        """Store a copy of a local file in one step, in place of another object."""
        target = path_inside(self._root, key)
        with self._copied(file, target.parent) as copy:
            copy.replace(target)
        fsync_folder(target.parent)

    def keys(self, folder: str) -> list[str]:
        """The keys of the objects directly in a folder, sorted; empty if it does not exist."""
        try:
            names = sorted(entry.name for entry in os.scandir(self._root / folder) if entry.is_file())
        except FileNotFoundError:
            return []
        return [f"{folder}/{name}" for name in names]

    def remove(self, key: str) -> None:
        """Delete a file. Raises: FileNotFoundError, if it does not exist."""
        path_inside(self._root, key).unlink()

    @contextmanager
    def _copied(self, file: Path, folder: Path) -> Iterator[Path]:
        """A copy of `file` in the hidden folder. It is deleted unless the block moves it to `folder`, which exists."""
        copy = path_inside(self._root, f"{_UNFINISHED_FOLDER}/{secrets.token_hex(8)}")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy_durably(file, copy)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            yield copy
        finally:
            copy.unlink(missing_ok=True)


def _process_results(folder: Path) -> set[str]:
    """The paths of the results that the manifest of `process` in a folder names."""
    try:
        records = [record for record in stored_records(folder) if record is not None]
    except OSError as error:
        log.warning("%s can't be read (%s). Results that it names may be processed.", error.filename, error.strerror)
        return set()
    return {str(folder.resolve() / path) for record in records for path in record.paths}


def _log_unreadable(error: OSError) -> None:
    log.warning("%s can't be read (%s). Pictures there are not in the archive.", error.filename, error.strerror)


def _log_results(folder: str) -> None:
    where = "SOURCE itself" if folder == "." else folder
    log.warning("Results of an earlier run in %s are not processed again.", where)


class ObjectStore(_Store):
    """The objects below `url`. The methods do the same as those of `LocalStore`."""

    def __init__(self, url: str) -> None:
        """Raises: ImportError, without the plug-in of this kind of store."""
        import fsspec

        self._is_s3 = url.partition("://")[0] in ("s3", "s3a")
        with _os_errors():
            self._fs, root = fsspec.url_to_fs(url, **_S3_OPTIONS if self._is_s3 else {})
        self._root = root.rstrip("/")

    def objects(self, exclude: str | None = None) -> Iterator[SourceObject]:
        walk = self._fs.walk(self._root, detail=True, on_error="raise")
        while True:
            with _os_errors():
                found = next(walk, None)
            if found is None:
                return
            prefix = f"{found[0]}/"[len(self._root) + 1 :]
            folders, files = found[1:]
            if STATE_FOLDER in folders:
                folders.clear()
                _log_results(prefix.rstrip("/") or ".")
                continue
            for name in [name for name in folders if name.startswith(".") or prefix + name == exclude]:
                del folders[name]
            for name, details in sorted(files.items()):
                if details["type"] == "directory":
                    log.warning("Objects below %s are not in the archive: their keys have an empty part.", prefix)
                elif name and not name.startswith("."):
                    yield SourceObject(prefix + name, int(details.get("size") or 0), _version(details))

    @contextmanager
    def open(self, key: str) -> Iterator[IO[bytes]]:
        with _os_errors(), self._fs.open(self._path(key), "rb", block_size=_READ_BYTES, cache_type="none") as file:
            yield file

    def create(self, key: str, file: Path) -> bool:
        try:
            with _os_errors():
                self._fs.put_file(str(file), self._path(key), mode="create", **self._upload_options(key))
        except FileExistsError:
            return False
        return True

    def put(self, key: str, file: Path) -> None:
        with _os_errors():
            self._fs.put_file(str(file), self._path(key), **self._upload_options(key))

    def keys(self, folder: str) -> list[str]:
        try:
            with _os_errors():
                self._fs.invalidate_cache()
                entries = self._fs.ls(self._path(folder), detail=True)
        except FileNotFoundError:
            return []
        return sorted(entry["name"][len(self._root) + 1 :] for entry in entries if entry["type"] == "file")

    def remove(self, key: str) -> None:
        with _os_errors():
            self._fs.rm_file(self._path(key))

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"

    def _upload_options(self, key: str) -> dict[str, Any]:
        if not self._is_s3:
            return {}
        content_type = _CONTENT_TYPES.get(PurePosixPath(key).suffix.lower(), "application/octet-stream")
        return {"chunksize": _UPLOAD_PART_BYTES, "ContentType": content_type}


@contextmanager
def _os_errors() -> Iterator[None]:
    """Inside the block, turn errors of the plug-in, such as those of network and credentials, into OSError."""
    try:
        yield
    except (OSError, ImportError, MemoryError):
        raise
    except Exception as error:
        raise OSError(errno.EIO, f"{type(error).__name__}: {error}") from error


def _version(details: dict[str, Any]) -> str:
    """The ETag of an object, or a hash of its content; without one, its size and modification time."""
    if tag := next(filter(None, map(details.get, _ETAG_FIELDS)), None):
        return str(tag).strip('"')
    modified = next(filter(None, map(details.get, _MODIFIED_FIELDS)), "")
    return f"{details.get('size')}-{modified}"


Store = LocalStore | ObjectStore


def is_url(location: str) -> bool:
    return "://" in location


def open_store(location: str) -> Store:
    """The store at an absolute location. Raises: ImportError, without the plug-in for a URL; OSError."""
    return ObjectStore(location) if is_url(location) else LocalStore(Path(location))
