"""Downloads a model of the catalogue through huggingface_hub, and makes sure that it is what the hub says it is.

A download has the name of the SHA-256 that it must come to, so a cut-off one is known again and goes on where it
stopped, in this call or a later one. Only the library's plain HTTP is used: its cache would lie in the home folder and
its other transport can't resume. It sends no telemetry, and it is imported only here, when something is pulled.

Environment: HF_ENDPOINT (another hub), HF_TOKEN, HTTPS_PROXY and its kin.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import IO, Any, cast
from urllib.parse import urlsplit

from msgspec import Struct

from imgproc_local.domain.errors import ModelUnusable, StorageFailed
from imgproc_local.vision.models.catalogue import CatalogueFile, Entry
from imgproc_local.vision.models.install import Prove, StagedFile, finish, identify_pair, manifest_of
from imgproc_local.vision.models.store import (
    CHUNK_BYTES,
    MANIFEST_FILE,
    MMPROJ_FILE,
    TEXT_FILE,
    Manifest,
    ModelFile,
    ModelStore,
    Report,
    check_room,
    disk_errors,
    fsync_folder,
    hash_file,
    write_json,
)

SHA256 = re.compile(r"[0-9a-f]{64}")
DEFAULT_ENDPOINT = "https://huggingface.co"
RETRY_PAUSE_S = 1.0
WITHOUT_NETWORK = (
    "Without a network: `models pull NAME --to DIR` on a connected machine, then `models import DIR` here."
)


class _Remote(Struct, frozen=True):
    """A file on the hub: what it must come to, and the commit it is of."""

    listed: CatalogueFile
    sha256: str
    size_bytes: int
    commit: str


def pull_model(models: ModelStore, name: str, entry: Entry, prove: Prove, report: Report) -> Manifest:
    """Download a model and install it.

    Raises:
        ModelUnusable: the hub can't be reached or refuses, what came is not what it should be, or does not work here.
        StorageFailed, DataFolderBusy: the folder of models can't be written, or another command holds it.
    """
    models.require_not_installed(name)
    with models.changing():
        files, manifest = _download(name, entry, models.partial_folder, report)
        with models.building() as built:
            try:
                finish(models, built, manifest, files, prove)
            except BaseException:
                # what came is kept for the next try
                for kept, file in zip(files, (TEXT_FILE, MMPROJ_FILE), strict=True):
                    with contextlib.suppress(OSError):
                        (built / file).rename(kept)
                raise
    return manifest


def pull_to(folder: Path, name: str, entry: Entry, report: Report) -> Manifest:
    """Download a model into `folder`, which another machine's `import_model` takes. Raises as `pull_model`."""
    carried = ModelStore(folder)
    with disk_errors(folder):
        foreign = [path.name for path in folder.glob("*") if not path.name.startswith(".")] if folder.exists() else []
    if foreign:
        raise ModelUnusable(f"{folder} is not empty ({foreign[0]}); name a new folder.")
    with carried.changing():
        files, manifest = _download(name, entry, carried.partial_folder, report)
        with disk_errors(folder):
            for path, file in zip(files, (TEXT_FILE, MMPROJ_FILE), strict=True):
                path.rename(folder / file)
            # an older download that was cut off may lie there, too
            shutil.rmtree(carried.partial_folder)
            write_json(folder / MANIFEST_FILE, manifest)
            fsync_folder(folder)
    carried.remove_lock_file()
    return manifest


def _download(name: str, entry: Entry, into: Path, report: Report) -> tuple[tuple[Path, Path], Manifest]:
    """The text model and its projector, whole and matched, and what they are."""
    hub = _hub()
    text = _ask(hub, entry, entry.text, entry.revision)
    mmproj = _ask(hub, entry, entry.mmproj, text.commit)
    wanted = (text, mmproj)
    with disk_errors(into.parent):
        into.mkdir(exist_ok=True)
        check_room(into, sum(remote.size_bytes - _size(into / remote.sha256) for remote in wanted))
    came = []
    for remote in wanted:
        path = into / remote.sha256
        _fetch(hub, entry, remote, path, report)
        found = hash_file(path, f"verifying {remote.listed.file}", report)
        if found != remote.sha256:
            path.unlink()
            raise ModelUnusable(
                f"{remote.listed.file} came damaged: its SHA-256 is {found}, and the hub tells {remote.sha256}."
                " Nothing was installed; pull it again."
            )
        came.append(StagedFile(path, ModelFile(remote.listed.file, remote.size_bytes, found)))
    first, second = identify_pair(came)
    manifest = manifest_of(name, entry, first.part, second.part, text.commit)
    return (first.path, second.path), manifest


def _ask(hub: ModuleType, entry: Entry, listed: CatalogueFile, revision: str) -> _Remote:
    """What the hub says of a file. Raises: ModelUnusable."""
    with _hub_errors(entry, listed.file):
        url = hub.hf_hub_url(entry.repository, listed.file, revision=revision, endpoint=_endpoint())
        told = hub.get_hf_file_metadata(url, endpoint=_endpoint())
    sha256 = told.etag or ""
    if told.commit_hash is None or told.size is None or SHA256.fullmatch(sha256) is None:
        raise ModelUnusable(
            f"{_host()} does not tell the commit, size and SHA-256 of {listed.file}, as a hub does. Check HF_ENDPOINT."
        )
    if listed.sha256 and listed.sha256 != sha256:
        raise ModelUnusable(
            f"{listed.file} of {entry.repository} is not the file that the catalogue names: its SHA-256 is {sha256},"
            f" expected was {listed.sha256}. Nothing was downloaded."
        )
    return _Remote(listed, sha256, told.size, told.commit_hash)


def _fetch(hub: ModuleType, entry: Entry, remote: _Remote, path: Path, report: Report) -> None:
    """Download the rest of the file. Raises: ModelUnusable, StorageFailed."""
    from huggingface_hub.file_download import http_get

    url = hub.hf_hub_url(entry.repository, remote.listed.file, revision=remote.commit, endpoint=_endpoint())
    with disk_errors(path.parent):
        file = path.open("ab")
    with file, _hub_errors(entry, remote.listed.file):
        sink = _Sink(file, remote, path.parent, report)
        if sink.size_bytes > remote.size_bytes:
            sink.truncate(0)
        while True:
            before = sink.size_bytes
            try:
                http_get(
                    url,
                    cast("Any", sink),
                    resume_size=before,
                    headers=hub.utils.build_hf_headers(),
                    expected_size=remote.size_bytes,
                )
                break
            except _transport_error():  # it retries the others itself
                if sink.size_bytes == before:
                    raise
                time.sleep(RETRY_PAUSE_S)
        sink.flush()


class _Sink:
    """The file that a download is appended to. A disk that refuses is told as `StorageFailed`."""

    def __init__(self, file: IO[bytes], remote: _Remote, folder: Path, report: Report) -> None:
        self._file = file
        self._remote = remote
        self._folder = folder
        self._report = report
        self.size_bytes = _size(Path(file.name))

    def write(self, chunk: bytes) -> int:
        if self.size_bytes + len(chunk) > self._remote.size_bytes:
            raise ModelUnusable(f"{_host()} sends more of {self._remote.listed.file} than it said there is.")
        with disk_errors(self._folder):
            self._file.write(chunk)
        self.size_bytes += len(chunk)
        self._report(f"downloading {self._remote.listed.file}", self.size_bytes, self._remote.size_bytes)
        return len(chunk)

    def tell(self) -> int:
        return self.size_bytes

    def seek(self, position: int, _whence: int = 0) -> int:
        """Only back to where it begins anew: a server that knows no ranges sends everything again."""
        self.truncate(position)
        return position

    def truncate(self, size: int | None = None) -> int:
        with disk_errors(self._folder):
            self._file.flush()
            self.size_bytes = self._file.truncate(self.size_bytes if size is None else size)
        return self.size_bytes

    def flush(self) -> None:
        with disk_errors(self._folder):
            self._file.flush()
            os.fsync(self._file.fileno())


def _hub() -> ModuleType:
    """huggingface_hub, which reads its settings from the environment when it is imported. Raises: ModelUnusable."""
    if not _endpoint().startswith(("https://", "http://")):
        raise ModelUnusable(f"HF_ENDPOINT is {_endpoint()!r}; expected was an address that begins with https://.")
    for variable in ("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_XET", "HF_HUB_DISABLE_PROGRESS_BARS"):
        os.environ[variable] = "1"
    try:
        import huggingface_hub
        from huggingface_hub import constants, utils
    except ImportError as error:
        raise ModelUnusable("huggingface_hub is not installed: install imgproc-local[vision].") from error
    utils.logging.set_verbosity(logging.ERROR)
    constants.DOWNLOAD_CHUNK_SIZE = CHUNK_BYTES  # what a broken connection loses
    return huggingface_hub


def _transport_error() -> type[Exception]:
    """What the HTTP library raises that huggingface_hub uses: httpx before version 2, httpx2 since."""
    from huggingface_hub import errors

    return cast("type[Exception]", errors.HfHubHTTPError.__bases__[0])


@contextmanager
def _hub_errors(entry: Entry, file: str) -> Iterator[None]:
    """Maps what the library and the network raise."""
    from huggingface_hub import errors

    try:
        yield
    except (ModelUnusable, StorageFailed):
        raise
    except errors.GatedRepoError as error:
        raise ModelUnusable(
            f"{entry.repository} is gated: ask for access on its page, and set HF_TOKEN to a token of yours."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ModelUnusable(f"{entry.repository} has no revision {entry.revision!r} on {_host()}.") from error
    except errors.EntryNotFoundError as error:
        raise ModelUnusable(
            f"{entry.repository} has no file {file!r} at the revision {entry.revision!r} on {_host()}."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ModelUnusable(
            f"{_host()} has no repository {entry.repository}, or shows it only to those it knows: set HF_TOKEN."
        ) from error
    except errors.HfHubHTTPError as error:
        raise ModelUnusable(_told_status(error.response.status_code, entry)) from error
    except errors.OfflineModeIsEnabled as error:
        raise ModelUnusable(f"HF_HUB_OFFLINE is set: nothing is downloaded. {WITHOUT_NETWORK}") from error
    except _transport_error() as error:
        why = str(error) or type(error).__name__
        raise ModelUnusable(
            f"{_host()} can't be reached, or the connection broke ({why}). The same command goes on where it stopped."
            f" {WITHOUT_NETWORK}"
        ) from error
    except OSError as error:
        raise ModelUnusable(f"{_host()} did not send {file} as it said: {str(error).splitlines()[0]}") from error


def _told_status(status: int, entry: Entry) -> str:
    if status in (401, 403):
        return f"{_host()} refuses {entry.repository} ({status}): check HF_TOKEN and the access to the repository."
    if status == 429:
        return f"{_host()} has had too many requests (429): wait, or set HF_TOKEN. The same command goes on."
    return f"{_host()} answered with {status}. The same command goes on where it stopped."


def _endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")


def _host() -> str:
    return urlsplit(_endpoint()).netloc or _endpoint()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
