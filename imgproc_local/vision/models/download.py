"""Downloads files over HTTP: resumed where they broke off, limited to their size, and checked against their SHA-256.

Models of the catalogue are downloaded from Hugging Face, or the server at HF_ENDPOINT; HF_TOKEN is sent to it, if set,
and to no other host that it redirects to: httpx removes the header `Authorization` then. With HF_HUB_OFFLINE nothing is
downloaded. The proxy variables of the environment are used.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.system.files import open_own_file
from imgproc_local.vision.models.model import HUB_URL, MANIFEST_FILE, Manifest, ModelFile
from imgproc_local.vision.models.store import Progress, hash_file, require_free_space, translate_disk_errors, write_json

_ADVICE = (
    "Try again to resume the download. Or download the files elsewhere, from the addresses in `models list --json`, and"
    " run `imgproc-local models import` with them."
)


def download_model(entry: Manifest, folder: Path, progress: Progress) -> None:
    """Download the files of a model of the catalogue into `folder`, which is created, and write its manifest there.

    Raises: ModelUnusable, if one can't be downloaded or is another file than expected; StorageFailed.
    """
    endpoint = (os.environ.get("HF_ENDPOINT") or HUB_URL).rstrip("/")
    if not endpoint.startswith(("https://", "http://")):
        raise ModelUnusable(f"HF_ENDPOINT: expected a URL that begins with https:// or http://, received {endpoint!r}.")
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise ModelUnusable(
            "HF_HUB_OFFLINE is set: nothing is downloaded. Unset it, or run `imgproc-local models import` with files"
            " that are here."
        )
    token = os.environ.get("HF_TOKEN")
    repository = entry.origin.partition("@")[0]
    denied = (
        f"It denied access to {repository}. Set HF_TOKEN to a token with access; that of `hf auth login` is not read."
        " For a gated model, request access on its page."
    )
    advice = {
        401: denied,
        403: denied,
        404: f"It has no {entry.text.file} or no {entry.mmproj.file} of {repository}. Check HF_ENDPOINT.",
        429: "It received too many requests. Wait or set HF_TOKEN, then try again to resume.",
    }
    with opened_client(endpoint, advice) as client, translate_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        done = sum(_downloaded_bytes(folder / name) for name in entry.files())
        require_free_space(folder, entry.size_bytes - done)
        client.headers.update({"Authorization": f"Bearer {token}"} if token else {})
        for name, file in zip(entry.files(), entry.listed_files(endpoint), strict=True):
            fetch(client, file.url, file, folder / name, progress)
        write_json(folder / MANIFEST_FILE, entry)


def _downloaded_bytes(path: Path) -> int:
    """How much of a file is there."""
    return path.stat().st_size if path.is_file() else 0


def fetch(client: httpx.Client, url: str, file: ModelFile, path: Path, progress: Progress) -> None:
    """Download `file` to `path`, in a folder that exists. What is there already is resumed, and verified at the end.

    Raises: ModelUnusable, if it is another file than expected; OSError; httpx.HTTPError.
    """
    if _downloaded_bytes(path) > file.size_bytes:  # left from a catalogue that named a larger file
        path.unlink()
    while (done := _downloaded_bytes(path)) < file.size_bytes:
        try:
            _append(client, url, file, path, done, progress)
        except httpx.TransportError:
            if _downloaded_bytes(path) <= done:  # not tried again if it got no further: without ranges it begins at 0
                raise
        if _downloaded_bytes(path) <= done:
            raise ModelUnusable(f"{host(url)} sent fewer bytes of {file.file} than that file has. {_ADVICE}")
        if _downloaded_bytes(path) < file.size_bytes:
            time.sleep(1.0)  # before a download goes on whose connection broke
    actual = hash_file(path, f"verifying {file.file}", progress)
    if actual != file.sha256:
        path.unlink()
        raise ModelUnusable(
            f"{file.file} is not the expected file, or was corrupted during the download: expected the SHA-256"
            f" {file.sha256}, received {actual}. Nothing was installed; pull it again."
        )


def _append(client: httpx.Client, url: str, file: ModelFile, path: Path, done: int, progress: Progress) -> None:
    """Append the missing bytes, or write all of them if the server can't send a part."""
    headers = {"Range": f"bytes={done}-"} if done else {}
    with client.stream("GET", url, headers=headers) as response:
        response.raise_for_status()
        is_part = response.status_code == httpx.codes.PARTIAL_CONTENT
        done = done if is_part else 0
        with open_own_file(path, "ab" if is_part else "wb", buffering=0) as out:
            for chunk in response.iter_raw():  # as it arrives, so that little is lost if the connection breaks
                done += len(chunk)
                if done > file.size_bytes:
                    raise ModelUnusable(f"{host(url)} sent more bytes of {file.file} than that file has.")
                out.write(chunk)
                progress(f"downloading {file.file}", done, file.size_bytes)
            os.fsync(out.fileno())


@contextmanager
def opened_client(url: str, advice: Mapping[int, str]) -> Iterator[httpx.Client]:
    """A client for the server of `url`. `advice` says what to do about a status.

    Raises: ModelUnusable, for any error of httpx inside the block.
    """
    try:
        with httpx.Client(timeout=30.0, follow_redirects=True, headers={"Accept-Encoding": "identity"}) as client:
            yield client
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        raise ModelUnusable(f"{host(url)} answered with {status}. {advice.get(status, _ADVICE)}") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = str(error) or type(error).__name__
        raise ModelUnusable(f"{host(url)} can't be reached, or the connection broke ({reason}). {_ADVICE}") from error


def host(url: str) -> str:
    """The server of a URL, for messages: the URL may contain a user name and a password."""
    try:
        return httpx.URL(url).netloc.decode("ascii", "replace") or "The server"
    except httpx.InvalidURL:
        return "The server"
