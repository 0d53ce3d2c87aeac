"""Stored thumbnails: a cache in the data folder, bounded in bytes, that may be deleted at any time.

A thumbnail is named by the SHA-256 of the upload that it shows, and is deleted with that file (`blobs.py`). Before its
content, it has a header with the version and the SHA-256 of the content: a damaged thumbnail counts as missing and is
made again. Nothing is synced to the disk, and backups do not contain thumbnails.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Collection

from imgproc_local.storage.blobs import Blobs, storage_errors

log = logging.getLogger(__name__)

MAX_BYTES = 256 * 1024 * 1024
"""About 10,000 thumbnails."""
MAX_THUMBNAIL_BYTES = 2 * 1024 * 1024
"""More than twice the pixels of a thumbnail in uncompressed RGBA."""
MIN_FILE_BYTES = 4096
"""What a file takes at least on the disk; bounds the number of files too."""
THUMBNAIL_VERSION = 1
"""Increase it when thumbnails are made in another way. Stored ones of other versions count as missing."""
HEADER = b"thumbnail %d\n" % THUMBNAIL_VERSION
DIGEST_BYTES = 32
NAME = re.compile(r"[0-9a-f]{64}\.webp")


class ThumbnailFiles:
    """The thumbnails of the uploads in `blobs`. Methods block and may be called from several threads.

    When there are more than `max_bytes`, those that were not used for the longest time are deleted. There is one
    instance per `blobs`, because it sets `blobs.on_removed` to learn which thumbnails were deleted.
    """

    def __init__(self, blobs: Blobs, max_bytes: int = MAX_BYTES) -> None:
        """Raises: StorageFailed."""
        self._blobs = blobs
        self._max_bytes = max_bytes
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._total = 0
        self._lock = threading.Lock()
        blobs.on_removed = self._forget
        with storage_errors():
            blobs.thumbnail_folder.mkdir(mode=0o700, exist_ok=True)

    def sweep(self, referenced: Collection[str]) -> int:
        """Register the thumbnails of `referenced` uploads, and delete all other files. Returns how many were deleted.

        Call it at the start.
        """
        removed = 0
        found: list[tuple[float, str, int]] = []
        with storage_errors(), os.scandir(self._blobs.thumbnail_folder) as entries:
            for entry in entries:
                sha256 = entry.name.partition(".")[0]
                if NAME.fullmatch(entry.name) and sha256 in referenced:
                    status = entry.stat(follow_symlinks=False)
                    found.append((status.st_mtime, sha256, status.st_size))
                elif not entry.is_dir(follow_symlinks=False):
                    self._blobs.thumbnail_folder.joinpath(entry.name).unlink()
                    removed += 1
        with self._lock:
            for _, sha256, size_bytes in sorted(found):
                self._add(sha256, size_bytes)
        self._evict()
        return removed

    def read(self, sha256: str) -> bytes | None:
        """The thumbnail of an upload; None if it is not stored, or damaged."""
        try:
            with self._blobs.thumbnail_path(sha256).open("rb") as file:
                data = file.read(MAX_THUMBNAIL_BYTES + 1)
        except OSError:
            data = b""
        start = len(HEADER) + DIGEST_BYTES
        if data[:start] != HEADER + hashlib.sha256(data[start:]).digest():
            if data:
                log.warning("A stored thumbnail is damaged or of an earlier version, and is made again")
            return None
        with self._lock:
            if sha256 in self._sizes:
                self._sizes.move_to_end(sha256)
        return data[start:]

    def write(self, sha256: str, webp: bytes) -> None:
        """Store a thumbnail. If that fails, it is logged; the thumbnail is made again at the next request."""
        path = self._blobs.thumbnail_path(sha256)
        data = HEADER + hashlib.sha256(webp).digest() + webp
        part = path.with_name(f".{sha256}-{secrets.token_hex(4)}.part")
        try:
            try:
                part.write_bytes(data)
                part.replace(path)
                with self._lock:  # if the upload is deleted after this check, `_forget` waits for `_add`
                    if self._blobs.path(sha256).exists():
                        self._add(sha256, len(data))
                    else:  # its job was deleted meanwhile
                        path.unlink(missing_ok=True)
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            log.warning("A thumbnail can't be stored: %s", error.strerror)
            return
        self._evict()

    def _forget(self, sha256: str) -> None:
        """The thumbnail was deleted with its upload."""
        with self._lock:
            self._total -= self._sizes.pop(sha256, 0)

    def _add(self, sha256: str, size_bytes: int) -> None:
        self._total -= self._sizes.pop(sha256, 0)
        self._sizes[sha256] = max(size_bytes, MIN_FILE_BYTES)
        self._total += self._sizes[sha256]

    def _evict(self) -> None:
        with self._lock:
            evicted = []
            while self._total > self._max_bytes and self._sizes:
                sha256, size_bytes = self._sizes.popitem(last=False)
                self._total -= size_bytes
                evicted.append(sha256)
        for sha256 in evicted:
            try:
                self._blobs.thumbnail_path(sha256).unlink(missing_ok=True)
            except OSError as error:  # on Windows, a file that is being read
                log.warning("A thumbnail can't be deleted now; the next start deletes it: %s", error.strerror)
