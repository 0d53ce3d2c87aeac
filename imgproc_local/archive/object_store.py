"""An object store as a `Store`, by the fsspec plug-in of its URL: `s3://`, `gs://`, `az://` and others.

Credentials come from the environment of each process, as its plug-in documents. They are in no argument, because
arguments of tasks are stored in the memory of the scheduler. S3 is listed page by page with its own API, because fsspec
would hold the whole listing in memory.
"""

from __future__ import annotations

import errno
import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from imgproc_local.archive.store import HEAD_BYTES, PAGE_KEYS, SourceObject, ignore, in_pages, is_hidden
from imgproc_local.batch.records import STATE_FOLDER
from imgproc_local.codecs.picture.formats import FORMATS

log = logging.getLogger(__name__)

BOTOCORE_ATTEMPTS = 2
"""The attempts of botocore for a call. s3fs makes 5 calls, so a store that always throttles gets 10 requests."""
S3_OPTIONS: dict[str, Any] = {
    "use_listings_cache": False,
    "config_kwargs": {"retries": {"mode": "standard", "total_max_attempts": BOTOCORE_ATTEMPTS}},
}
UPLOAD_PART_BYTES = 16 * 1024 * 1024
"""The size of the parts of a multipart upload to S3, which is used for files of at least two parts."""
READ_BYTES = 8 * 1024 * 1024
"""The bytes of one request for a part of an object."""
MAX_FETCHES = 3
"""Attempts to fetch a picture that is replaced while it is read."""
ETAG_FIELDS = ("ETag", "etag", "md5Hash", "content_md5")
"""The fields in which plug-ins give an ETag or a hash, which changes with the content of an object."""
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    **{f".{extension}": each.mime for each in FORMATS.values() for extension in each.extensions},
}


class ObjectStore:
    """The objects below `url`."""

    def __init__(self, url: str) -> None:
        """Raises: ImportError, without the plug-in of this kind of store."""
        import fsspec

        protocol = url.partition("://")[0]
        self._is_s3 = protocol in ("s3", "s3a")
        with _os_errors():
            self._fs, root = fsspec.url_to_fs(url, **S3_OPTIONS if self._is_s3 else {})
        self._root = root.rstrip("/")

    def pages(
        self, exclude: str | None = None, on_results: Callable[[str], None] = ignore
    ) -> Iterator[list[SourceObject]]:
        return in_pages(self._originals(exclude, on_results))

    def fetch(self, key: str, file: Path) -> str:
        for _ in range(MAX_FETCHES - 1):
            try:
                return self._fetch_once(key, file)
            except OSError as error:
                if not _is_replaced(error):
                    raise
        return self._fetch_once(key, file)

    def head(self, key: str) -> bytes:
        with _os_errors():
            try:
                data: bytes = self._fs.cat_file(self._path(key), start=0, end=HEAD_BYTES)
            except FileNotFoundError:
                raise
            except OSError:
                # S3 refuses every range of an empty object
                if self._fs.size(self._path(key)) != 0:
                    raise
                return b""
            return data

    def create(self, key: str, file: Path) -> bool:
        try:
            with _os_errors():
                self._fs.put_file(str(file), self._path(key), mode="create", **self._upload_options(key))
        except FileExistsError:
            return False
        return True

    def replace(self, key: str, data: bytes) -> None:
        with _os_errors():
            self._fs.pipe_file(self._path(key), data)

    def replace_by_file(self, key: str, file: Path) -> None:
        with _os_errors():
            self._fs.put_file(str(file), self._path(key), **self._upload_options(key))

    def read(self, key: str) -> bytes:
        with _os_errors():
            data: bytes = self._fs.cat_file(self._path(key))
            return data

    def sha256(self, key: str) -> str:
        digest = hashlib.sha256()
        for chunk in self._chunks(key):
            digest.update(chunk)
        return digest.hexdigest()

    def keys(self, folder: str) -> list[str]:
        try:
            with _os_errors():
                self._fs.invalidate_cache()
                entries = self._fs.ls(self._path(folder), detail=True)
        except FileNotFoundError:
            return []
        return sorted(entry["name"][len(self._root) + 1 :] for entry in entries if entry["type"] == "file")

    def remove(self, key: str) -> None:
        try:
            with _os_errors():
                self._fs.rm_file(self._path(key))
        except FileNotFoundError:
            return

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"

    def _upload_options(self, key: str) -> dict[str, Any]:
        if not self._is_s3:
            return {}
        content_type = CONTENT_TYPES.get(PurePosixPath(key).suffix.lower(), "application/octet-stream")
        return {"chunksize": UPLOAD_PART_BYTES, "ContentType": content_type}

    def _fetch_once(self, key: str, file: Path) -> str:
        digest = hashlib.sha256()
        with file.open("wb") as target:
            for chunk in self._chunks(key):
                digest.update(chunk)
                target.write(chunk)
        return digest.hexdigest()

    def _chunks(self, key: str) -> Iterator[bytes]:
        """The content of an object. s3fs sends its ETag with each request, so that no two versions are mixed."""
        with _os_errors():
            opened = self._fs.open(self._path(key), "rb", block_size=READ_BYTES, cache_type="none")
        with opened as source:
            while True:
                with _os_errors():
                    chunk = source.read(READ_BYTES)
                if not chunk:
                    return
                yield chunk

    def _originals(self, exclude: str | None, on_results: Callable[[str], None]) -> Iterator[SourceObject]:
        results: str | None = None
        objects = self._listed_s3() if self._is_s3 else self._listed()
        while True:
            with _os_errors():
                found = next(objects, None)
            if found is None:
                return
            key = found.key
            if exclude is not None and key.startswith(f"{exclude}/"):
                continue
            if results is not None and key.startswith(results):
                continue
            # S3 lists the state folder before what lies beside it, unless a name begins with one of  !"#$%&'()*+,-
            if (target := _target_of(key)) is not None:
                results = target
                on_results(target.rstrip("/"))
                continue
            if is_hidden(key) or key.endswith("/"):
                continue
            if key.startswith("/") or "//" in key:
                log.warning("The object %s is not in the archive: its key has an empty part.", key)
                continue
            yield found

    def _listed_s3(self) -> Iterator[SourceObject]:
        """Every object, page by page."""
        bucket, _, folder = self._root.partition("/")
        prefix = f"{folder}/" if folder else ""
        request = {"Bucket": bucket, "Prefix": prefix, "MaxKeys": PAGE_KEYS}
        while True:
            answer = self._fs.call_s3("list_objects_v2", **request)
            for each in answer.get("Contents", ()):
                yield SourceObject(each["Key"].removeprefix(prefix), int(each["Size"]), _version(each))
            if not answer.get("IsTruncated"):
                return
            request["ContinuationToken"] = answer["NextContinuationToken"]

    def _listed(self) -> Iterator[SourceObject]:
        """Every object, folder by folder. Of the target of an earlier run, only its state folder."""
        for folder, folders, files in self._fs.walk(self._root, detail=True, on_error="raise"):
            if STATE_FOLDER in folders:
                details = folders[STATE_FOLDER]
                folders.clear()
                key = f"{folder}/{STATE_FOLDER}/"[len(self._root) + 1 :]
                yield SourceObject(key, 0, _version(details))
                continue
            for name in sorted(files):
                details = files[name]
                key = f"{folder}/{name}"[len(self._root) + 1 :]
                yield SourceObject(key, int(details.get("size") or 0), _version(details))


def _target_of(key: str) -> str | None:
    """The prefix of the target of an earlier run in whose state folder an object lies; None for other objects."""
    before, found, _ = f"/{key}".partition(f"/{STATE_FOLDER}/")
    return f"{before}/".removeprefix("/") if found else None


@contextmanager
def _os_errors() -> Iterator[None]:
    """Inside the block, turn errors of the plug-in, such as those of network and credentials, into OSError."""
    try:
        yield
    except (OSError, ImportError, MemoryError):
        raise
    except Exception as error:
        raise OSError(errno.EIO, f"{type(error).__name__}: {error}") from error


def _is_replaced(error: OSError) -> bool:
    """Whether the error says that the object was replaced since it was opened."""
    return type(error).__name__ == "FileExpired"


def _version(details: dict[str, Any]) -> str:
    for field in ETAG_FIELDS:
        if details.get(field):
            return str(details[field]).strip('"')
    modified = details.get("LastModified") or details.get("last_modified") or details.get("mtime") or ""
    return f"{details.get('size')}-{modified}"
