"""Downloads a model of the catalogue from a hub, to install it here or to move it to another machine.

The hub is Hugging Face, or the server at HF_ENDPOINT; HF_TOKEN is sent to it, if set. With HF_HUB_OFFLINE nothing is
downloaded. A hub answers a request for a file with its commit, size and SHA-256, and redirects to another server that
sends the bytes, or sends them itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path
from urllib.parse import quote, urljoin

import httpx

from imgproc_local.domain.errors import DataFolderBusy, ModelUnusable
from imgproc_local.system.files import fsync_folder, open_own_file, try_lock
from imgproc_local.vision.models.catalogue import CatalogueFile, Entry
from imgproc_local.vision.models.fetch import RemoteFile, fetch_all, host, new_client, translate_http_errors
from imgproc_local.vision.models.files import Progress, translate_disk_errors, write_json
from imgproc_local.vision.models.install import (
    SelfTest,
    StagedFile,
    identify_pair,
    manifest_of,
    test_and_publish,
)
from imgproc_local.vision.models.model import MANIFEST_FILE, MMPROJ_FILE, TEXT_MODEL_FILE, Manifest, ModelFile
from imgproc_local.vision.models.store import LOCK_FILE, ModelStore

SHA256 = re.compile(r'"?([0-9a-f]{64})"?')
DEFAULT_ENDPOINT = "https://huggingface.co"
MAX_RENAMES = 3
"""How often a hub may redirect to another name of the repository."""


def pull_model(models: ModelStore, name: str, entry: Entry, self_test: SelfTest, progress: Progress) -> Manifest:
    """Download a model and install it.

    Raises:
        ModelUnusable: the hub can't be reached or rejects the request, a file has another SHA-256 than expected, or the
            model does not work here.
        StorageFailed, DataFolderBusy: the models folder can't be written, or another command holds its lock.
    """
    models.require_not_installed(name)
    with models.locked():
        paths, manifest = _download(name, entry, models.partial_folder, progress)
        with models.staging_folder() as staged:
            try:
                test_and_publish(models, staged, manifest, paths, self_test)
            except BaseException:
                # moved back, so that the next attempt need not download the files again
                for path, file in zip(paths, (TEXT_MODEL_FILE, MMPROJ_FILE), strict=True):
                    with contextlib.suppress(OSError):
                        (staged / file).rename(path)
                raise
    return manifest


def pull_to(folder: Path, name: str, entry: Entry, progress: Progress) -> Manifest:
    """Download a model into `folder`, so that `import_model` can install it from there on another machine.

    `folder` may be missing, empty, or hold an unfinished download; hidden files in it are ignored. Raises: as
    `pull_model`.
    """
    partial_folder = folder / ".partial"
    with translate_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        foreign = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    if foreign:
        raise ModelUnusable(f"{folder} is not empty: it contains {foreign[0]}. Name a new or empty folder.")
    with translate_disk_errors(folder):
        lock = open_own_file(folder / LOCK_FILE, "ab")
    with lock:
        if not try_lock(lock):
            raise DataFolderBusy(f"Another command is downloading to {folder}. Wait until it has ended.")
        paths, manifest = _download(name, entry, partial_folder, progress)
        with translate_disk_errors(folder):
            for path, file in zip(paths, (TEXT_MODEL_FILE, MMPROJ_FILE), strict=True):
                path.rename(folder / file)
            # rmtree instead of rmdir, because the folder may also contain an earlier, unfinished download
            shutil.rmtree(partial_folder)
            write_json(folder / MANIFEST_FILE, manifest)
            fsync_folder(folder)
    with translate_disk_errors(folder):
        (folder / LOCK_FILE).unlink(missing_ok=True)
    return manifest


def _download(name: str, entry: Entry, folder: Path, progress: Progress) -> tuple[tuple[Path, Path], Manifest]:
    """Download and check both files of a model into `folder`.

    Returns the paths of the text model and the vision encoder, and their manifest.
    """
    endpoint = (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")
    if not endpoint.startswith(("https://", "http://")):
        raise ModelUnusable(f"HF_ENDPOINT: expected a URL that begins with https:// or http://, received {endpoint!r}.")
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise ModelUnusable(
            "HF_HUB_OFFLINE is set: nothing is downloaded. Unset it, or run `models import` with files that are here."
        )
    denied = (
        f"It denied access to {entry.repository}. Set HF_TOKEN to a token with access; that of `hf auth login` is not"
        " read. For a gated model, request access on its page."
    )
    advice = {
        401: denied,
        403: denied,
        404: f"It has no {entry.text.file} or no {entry.mmproj.file} of {entry.repository} at {entry.revision!r}.",
        429: "It received too many requests. Wait or set HF_TOKEN, then try again to resume.",
    }
    with translate_http_errors(host(endpoint), advice), new_client() as client:
        text, commit = _find(client, endpoint, entry, entry.text, entry.revision)
        mmproj, _ = _find(client, endpoint, entry, entry.mmproj, commit)
        paths = fetch_all(client, [text, mmproj], folder, progress)
    files = [
        StagedFile(path, ModelFile(remote.name, remote.size_bytes, remote.sha256))
        for path, remote in zip(paths, (text, mmproj), strict=True)
    ]
    text_file, mmproj_file = identify_pair(files)
    manifest = manifest_of(name, entry, text_file.original, mmproj_file.original, commit)
    return (text_file.path, mmproj_file.path), manifest


def _find(
    client: httpx.Client, endpoint: str, entry: Entry, file: CatalogueFile, revision: str
) -> tuple[RemoteFile, str]:
    """The file at a revision (branch or commit), and its commit. Raises: ModelUnusable, httpx.HTTPError."""
    token = os.environ.get("HF_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    def url_at(revision: str) -> str:
        return f"{endpoint}/{entry.repository}/resolve/{quote(revision, safe='')}/{quote(file.file)}"

    url = url_at(revision)
    for _ in range(MAX_RENAMES):
        response = client.head(url, headers={**headers, "Accept-Encoding": "identity"}, follow_redirects=False)
        location = response.headers.get("Location", "")
        target = urljoin(url, location)
        # the headers have the token; "//host/…" is another host
        if not (response.is_redirect and location.startswith("/") and host(target) == host(url)):
            break
        url = target
    if not response.is_redirect:
        response.raise_for_status()
    # a mirror that sends the file itself describes it in the usual headers; those of a redirect are not the file's
    usual = {} if response.is_redirect else response.headers
    sha256 = SHA256.fullmatch(response.headers.get("X-Linked-Etag") or usual.get("ETag", ""))
    size = response.headers.get("X-Linked-Size") or usual.get("Content-Length", "")
    commit = response.headers.get("X-Repo-Commit", "")
    if sha256 is None or not size.isdecimal() or not commit:
        raise ModelUnusable(
            f"{host(endpoint)} is no model hub: it does not report the commit, size and SHA-256 of {file.file}."
            " Check HF_ENDPOINT."
        )
    if file.sha256 and file.sha256 != sha256[1]:
        raise ModelUnusable(
            f"{file.file} of {entry.repository} is not the file that the catalogue names: expected the SHA-256"
            f" {file.sha256}, received {sha256[1]}. Nothing was downloaded."
        )
    return RemoteFile(file.file, url_at(commit), int(size), sha256[1], headers), commit
