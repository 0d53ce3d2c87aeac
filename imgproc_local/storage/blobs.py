"""Files named by the SHA-256 of their content (their address). Each is written completely or not at all.

A file is written under a temporary name, fsynced, renamed, and only then referenced by a row. Invariant: a file that a
row references exists; a file that no row references is leased by a task that is about to reference it, or is deleted at
the next start. One lock orders leases and removals, so that the deletion of an older job never removes the file of a
new upload with the same content.

A new file replaces a stored one of the same address, so that a damaged file is repaired when its content is stored
again. Before a file is used, the SHA-256 of its content is computed and compared with its address, unless the file has
not changed since the last comparison.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import os
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Literal

from msgspec import Struct

from imgproc_local.domain.errors import NotFound, StorageFailed
from imgproc_local.domain.job import StoredFile
from imgproc_local.system.files import PRIVATE_FOLDER, fsync_folder, hash_file, is_disk_full

log = logging.getLogger(__name__)

Damage = Literal["missing", "damaged"]

STORE_FOLDERS = ("files", "incoming", "thumbnails")
"""The folders in a data folder whose content belongs to the database: what no row names is deleted. The last one
has the thumbnails of version 0.1.0, which are made again when they are asked for.
"""


class Blob(Struct, frozen=True):
    sha256: str
    size_bytes: int


class Incoming:
    """A file being written. `write` and `close` block: call them from a thread.

    The end of the `with` block deletes the file, unless `Blobs.stored` has stored it.
    """

    def __init__(self, folder: Path) -> None:
        with _storage_errors():
            descriptor, name = tempfile.mkstemp(dir=folder, suffix=".part")
        self.path = Path(name)
        self._file: IO[bytes] = os.fdopen(descriptor, "wb", buffering=0)
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    def write(self, chunk: bytes | bytearray | memoryview) -> None:
        with _storage_errors():
            view = memoryview(chunk)
            while view:
                view = view[self._file.write(view) :]
        self._hash.update(chunk)
        self.size_bytes += len(chunk)

    def close(self) -> Blob:
        """Flush the content to the disk and return its address and size."""
        with _storage_errors():
            os.fsync(self._file.fileno())
            self._file.close()
        return Blob(self._hash.hexdigest(), self.size_bytes)

    def __enter__(self) -> Incoming:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)


class WorkerFile(Struct, frozen=True):
    """A result of a worker process, on the file system of the data folder. The caller deletes it if it isn't stored."""

    path: Path

    def close(self) -> Blob:
        """Flush the content to the disk and return its address and size. Raises: StorageFailed, also for a link."""
        with _storage_errors():
            # the process that wrote it is not trusted: a link could name any file of this user
            descriptor = os.open(self.path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
            with os.fdopen(descriptor, "r+b") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                os.fsync(file.fileno())
                return Blob(digest, os.fstat(file.fileno()).st_size)


class Blobs:
    """The files below `folder`. `is_referenced` says whether a row of the database references an address."""

    def __init__(self, folder: Path, is_referenced: Callable[[str], Awaitable[bool]]) -> None:
        self._files, self.incoming_folder, self._older_thumbnails = (folder / name for name in STORE_FOLDERS)
        self._is_referenced = is_referenced
        self._leases: Counter[str] = Counter()
        self._to_remove: set[str] = set()
        """Leased files that have to be removed when their last lease ends."""
        self._lock = asyncio.Lock()
        with _storage_errors():
            self._files.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            self.incoming_folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            fsync_folder(folder)

    def path(self, sha256: str) -> Path:
        return self._files / sha256[:2] / sha256

    def incoming(self) -> Incoming:
        return Incoming(self.incoming_folder)

    @asynccontextmanager
    async def stored(self, incoming: Incoming | WorkerFile) -> AsyncIterator[Blob]:
        """Store the file, leased inside the block. It is removed again if the block raises and no row references it."""
        blob = await asyncio.to_thread(incoming.close)
        async with self.leased([blob.sha256]):
            try:
                await asyncio.to_thread(self._adopt, incoming.path, blob)
                yield blob
            except BaseException:
                self._to_remove.add(blob.sha256)
                raise

    @asynccontextmanager
    async def leased(self, addresses: Iterable[str]) -> AsyncIterator[None]:
        """Inside the block, the files are not removed. Those that were to be removed meanwhile are removed after it."""
        addresses = set(addresses)
        async with self._lock:
            self._leases.update(addresses)
        try:
            yield
        finally:
            self._leases -= Counter(addresses)  # without those that are 0 now
            await asyncio.shield(self.remove(addresses & self._to_remove))

    def _adopt(self, source: Path, blob: Blob) -> None:
        """Rename `source`, whose content has been synced to the disk, to its address.

        The folders are always synced: an earlier upload of the same content may have renamed its file and not yet
        synced them.
        """
        target = self.path(blob.sha256)
        with _storage_errors():
            target.parent.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
            try:
                source.replace(target)
            except PermissionError:  # on Windows, a file that is being read can't be replaced
                if hash_file(target) != blob.sha256:
                    raise
            fsync_folder(target.parent)
            fsync_folder(self._files)

    async def intact(self, file: StoredFile) -> Path:
        """The path of a file of a job. Raises: NotFound, if it was removed, is missing or damaged; StorageFailed."""
        if file.expired:
            raise NotFound("This file was removed because of its age. Send the picture again to process it anew.")
        damage = await asyncio.to_thread(self.find_damage, file)
        if damage is not None:
            log.error("The file %s of a job is %s in the data folder", file.sha256, damage)
            raise NotFound(f"This file is {damage} in the data folder; `imgproc-local doctor` says what to do.")
        return self.path(file.sha256)

    def find_damage(self, file: StoredFile) -> Damage | None:
        """What is wrong with a file of a job; None if its content is right. Blocks.

        The file is read only if it has changed since it was last compared. Raises: StorageFailed.
        """
        path = self.path(file.sha256)
        with _storage_errors():
            try:
                status = path.stat()
                state = status.st_mtime_ns, status.st_ctime_ns, status.st_ino
                is_intact = status.st_size == file.size_bytes and _hash_of_state(path, state) == file.sha256
                return None if is_intact else "damaged"
            except (FileNotFoundError, IsADirectoryError):
                return "missing"
            except OSError as error:
                if error.errno == errno.EIO:
                    return "damaged"
                raise

    async def remove(self, addresses: Iterable[str]) -> None:
        """Delete those files that are neither referenced nor leased."""
        for sha256 in addresses:
            async with self._lock:
                # check leases before rows: a task writes its row before it ends its lease
                if sha256 in self._leases:
                    self._to_remove.add(sha256)
                    continue
                self._to_remove.discard(sha256)
                if await self._is_referenced(sha256):
                    continue
                try:
                    self.path(sha256).unlink(missing_ok=True)
                except OSError as error:  # on Windows, a file that is being downloaded
                    log.warning("A file can't be deleted now; the next start deletes it: %s", error.strerror)

    def sweep(self, referenced: set[str]) -> int:
        """Delete what a killed process left, and return the number of files. Call it before uploads are accepted.

        Folders, which this program did not make, are left: they must not prevent a start.
        """
        with suppress(OSError):  # what is not a thumbnail of 0.1.0 stays, and so does its folder
            for file in self._older_thumbnails.glob("?" * 64 + ".webp"):
                file.unlink()
            self._older_thumbnails.rmdir()
        with _storage_errors():
            incoming = [file for file in self.incoming_folder.glob("*.part") if not file.is_dir()]
            leftovers = [file for file in self.on_disk() if file.name not in referenced]
            for file in [*incoming, *leftovers]:
                file.unlink(missing_ok=True)
        return len(incoming) + len(leftovers)

    def on_disk(self) -> list[Path]:
        """The stored files."""
        folders = [folder for folder in self._files.iterdir() if folder.is_dir()]
        return [file for folder in folders for file in folder.iterdir() if not file.is_dir()]

    def check_writable(self) -> None:
        """Write a small file and delete it, to check that the disk has space. Blocks. Raises: StorageFailed."""
        with self.incoming() as incoming:
            incoming.write(bytes(4096))
            incoming.close()


@lru_cache(maxsize=20_000)  # each takes about 500 bytes of memory
def _hash_of_state(path: Path, _: tuple[int, ...]) -> str:
    """`hash_file` of a file in a state that the file system reports, which differs after every change."""
    return hash_file(path)


@contextmanager
def _storage_errors() -> Iterator[None]:
    """Raises the errors of the operating system as `StorageFailed`."""
    try:
        yield
    except OSError as error:
        if is_disk_full(error):
            raise StorageFailed("The disk that holds the data folder is full; nothing was stored.") from error
        raise StorageFailed(f"The data folder can't be used ({os.strerror(error.errno or 0)}).") from error
