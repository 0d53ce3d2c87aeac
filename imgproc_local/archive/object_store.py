"""An object store as a `Store`, by the fsspec plug-in of its URL: `s3://`, `gs://`, `az://` and others.

Credentials come from the environment of each process, in the way of the plug-in. They are in no argument, because
arguments of tasks are stored in the memory of the scheduler.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from imgproc_local.archive.store import HEAD_BYTES, PAGE_KEYS, SourceObject, is_hidden

MAX_ATTEMPTS = 2
"""Of botocore. s3fs repeats each of its series 5 times, so that a store that always throttles gets 10 requests."""
OPTIONS: dict[str, dict[str, Any]] = {
    "s3": {
        "use_listings_cache": False,
        "config_kwargs": {"retries": {"mode": "standard", "total_max_attempts": MAX_ATTEMPTS}},
    }
}
"""The options of plug-ins, by protocol."""
HASH_BYTES = 1024 * 1024
ETAG_FIELDS = ("ETag", "etag", "md5Hash", "content_md5")


class ObjectStore:
    """The objects below `url`."""

    def __init__(self, url: str) -> None:
        """Raises: ImportError, without the plug-in of this kind of store."""
        import fsspec

        protocol = url.partition("://")[0]
        self._fs, root = fsspec.url_to_fs(url, **OPTIONS.get(protocol, {}))
        self._root = root.rstrip("/")

    def pages(self, exclude: str | None = None) -> Iterator[list[SourceObject]]:
        page: list[SourceObject] = []
        for path, details in self._listed():
            key = path[len(self._root) + 1 :]
            if is_hidden(key) or (exclude is not None and key.startswith(f"{exclude}/")):
                continue
            page.append(SourceObject(key, int(details.get("size") or 0), _version(details)))
            if len(page) == PAGE_KEYS:
                yield page
                page = []
        if page:
            yield page

    def fetch(self, key: str, file: Path) -> str:
        self._fs.get_file(self._path(key), str(file))
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    def head(self, key: str) -> bytes:
        data: bytes = self._fs.cat_file(self._path(key), start=0, end=HEAD_BYTES)
        return data

    def create(self, key: str, file: Path) -> bool:
        try:
            self._fs.pipe_file(self._path(key), file.read_bytes(), mode="create")
        except FileExistsError:
            return False
        return True

    def replace(self, key: str, data: bytes) -> None:
        self._fs.pipe_file(self._path(key), data)

    def read(self, key: str) -> bytes:
        data: bytes = self._fs.cat_file(self._path(key))
        return data

    def sha256(self, key: str) -> str:
        return hashlib.sha256(self.read(key)).hexdigest()

    def keys(self, folder: str) -> list[str]:
        self._fs.invalidate_cache()
        try:
            entries = self._fs.ls(self._path(folder), detail=True)
        except FileNotFoundError:
            return []
        return sorted(entry["name"][len(self._root) + 1 :] for entry in entries if entry["type"] == "file")

    def remove(self, key: str) -> None:
        try:
            self._fs.rm_file(self._path(key))
        except FileNotFoundError:
            return

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"

    def _listed(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every object with its details, folder by folder."""
        for folder, _, files in self._fs.walk(self._root, detail=True):
            for name in sorted(files):
                yield f"{folder}/{name}", files[name]


def _version(details: dict[str, Any]) -> str:
    for field in ETAG_FIELDS:
        if details.get(field):
            return str(details[field]).strip('"')
    modified = details.get("LastModified") or details.get("last_modified") or details.get("mtime") or ""
    return f"{details.get('size')}-{modified}"
