"""Downloads one file over HTTP: resumed where it broke off, limited to its size, and checked against its SHA-256.

The proxy variables of the environment are used. A header of a request is not sent on to another host that the server
redirects to, as hubs do, except those that are harmless (httpx removes `Authorization`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
from msgspec import Struct

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.system.files import open_own_file
from imgproc_local.vision.models.files import (
    Progress,
    file_size,
    hash_file,
    partial_path,
    require_free_space,
    translate_disk_errors,
)

TIMEOUT_S = 30.0
"""For a connection, and for each chunk."""
RETRY_PAUSE_S = 1.0
"""The pause before a download goes on whose connection broke."""
ADVICE = (
    "Try again to resume the download. Without a network, run `models pull NAME --to DIR` on a connected machine and"
    " `models import DIR` here."
)


class RemoteFile(Struct, frozen=True):
    """The file `name` at `url`, with the size and the SHA-256 that it must have. `headers` are those of the request."""

    name: str
    url: str
    size_bytes: int
    sha256: str
    headers: Mapping[str, str] = {}


def new_client() -> httpx.Client:
    return httpx.Client(timeout=TIMEOUT_S, follow_redirects=True)


def fetch_all(client: httpx.Client, files: list[RemoteFile], folder: Path, progress: Progress) -> list[Path]:
    """Download and check the files, in `folder`, which is created. Returns their paths.

    Raises: ModelUnusable, if one can't be downloaded or is another file than expected; StorageFailed.
    """
    with translate_disk_errors(folder):
        folder.mkdir(exist_ok=True)
        missing = sum(file.size_bytes - file_size(partial_path(folder, file.sha256)) for file in files)
        require_free_space(folder, missing)
    return [_fetch(client, file, partial_path(folder, file.sha256), progress) for file in files]


def _fetch(client: httpx.Client, file: RemoteFile, path: Path, progress: Progress) -> Path:
    if file_size(path) > file.size_bytes:
        path.unlink()
    while (done := file_size(path)) < file.size_bytes:
        try:
            _append(client, file, path, done, progress)
        except httpx.TransportError:
            if file_size(path) <= done:  # not tried again if it got no further: without ranges it begins at 0
                raise
        if file_size(path) <= done:
            raise ModelUnusable(f"{host(file.url)} sent fewer bytes of {file.name} than that file has. {ADVICE}")
        if file_size(path) < file.size_bytes:
            time.sleep(RETRY_PAUSE_S)
    actual = hash_file(path, f"verifying {file.name}", progress)
    if actual != file.sha256:
        path.unlink()
        raise ModelUnusable(
            f"{file.name} is not the expected file, or was corrupted during the download: expected the SHA-256"
            f" {file.sha256}, received {actual}. Nothing was installed; pull it again."
        )
    return path


def _append(client: httpx.Client, file: RemoteFile, path: Path, done: int, progress: Progress) -> None:
    """Append the missing bytes, or write all of them if the server can't send a part."""
    headers = {**file.headers, "Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
    with translate_disk_errors(path.parent), client.stream("GET", file.url, headers=headers) as response:
        response.raise_for_status()
        is_part = response.status_code == httpx.codes.PARTIAL_CONTENT
        done = done if is_part else 0
        with open_own_file(path, "ab" if is_part else "wb", buffering=0) as out:
            for chunk in response.iter_raw():  # as it arrives, so that little is lost if the connection breaks
                done += len(chunk)
                if done > file.size_bytes:
                    raise ModelUnusable(f"{host(file.url)} sent more bytes of {file.name} than that file has.")
                out.write(chunk)
                progress(f"downloading {file.name}", done, file.size_bytes)
            os.fsync(out.fileno())


@contextmanager
def translate_http_errors(server: str, advice: Mapping[int, str] | None = None) -> Iterator[None]:
    """Raises: ModelUnusable, for any error of httpx inside the block. `advice` says what to do about a status."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        raise ModelUnusable(f"{server} answered with {status}. {(advice or {}).get(status, ADVICE)}") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = str(error) or type(error).__name__
        raise ModelUnusable(f"{server} can't be reached, or the connection broke ({reason}). {ADVICE}") from error


def host(url: str) -> str:
    """The server of a URL, for messages: the URL may contain a user name and a password."""
    try:
        return httpx.URL(url).netloc.decode("ascii", "replace") or "The server"
    except httpx.InvalidURL:
        return "The server"
