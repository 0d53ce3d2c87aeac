"""A client of a model hub (Hugging Face or a compatible server): file metadata, resumable downloads, error messages.

The package huggingface_hub is imported only here, when a model is downloaded. Its cache is not used, because that is in
the home folder. Its Xet transport, which can't resume a download, and its telemetry are disabled.

Environment: HF_ENDPOINT (another hub), HF_TOKEN, HTTPS_PROXY and the other proxy variables.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import IO, Any, cast
from urllib.parse import urlsplit

from msgspec import Struct

from imgproc_local.domain.errors import ModelUnusable, StorageFailed, how_to_install
from imgproc_local.system.files import open_own_file
from imgproc_local.vision.models.catalogue import CatalogueFile, Entry
from imgproc_local.vision.models.files import CHUNK_BYTES, Progress, translate_disk_errors

SHA256 = re.compile(r"[0-9a-f]{64}")
DEFAULT_ENDPOINT = "https://huggingface.co"
RETRY_PAUSE_S = 1.0
ADVICE_WITHOUT_NETWORK = (
    "Without a network, run `models pull NAME --to DIR` on a connected machine and `models import DIR` here."
)


class RemoteFile(Struct, frozen=True):
    """A file on the hub, with the SHA-256, size and commit that the hub reports."""

    catalogue_file: CatalogueFile
    sha256: str
    size_bytes: int
    commit: str


class Hub:
    """The hub at HF_ENDPOINT. Raises: ModelUnusable, if huggingface_hub is missing or HF_ENDPOINT is no http(s) URL."""

    def __init__(self) -> None:
        self._library = _load_library()

    def find(self, entry: Entry, catalogue_file: CatalogueFile, revision: str) -> RemoteFile:
        """The metadata of a file at a revision (branch or commit). Raises: ModelUnusable."""
        with _translate_hub_errors(entry, catalogue_file.file):
            metadata = self._library.get_hf_file_metadata(
                self._url(entry, catalogue_file, revision), endpoint=_endpoint()
            )
        sha256 = metadata.etag or ""  # a hub reports the SHA-256 of a large file as its ETag
        if metadata.commit_hash is None or metadata.size is None or SHA256.fullmatch(sha256) is None:
            raise ModelUnusable(
                f"{_host()} is no model hub: it does not report the commit, size and SHA-256 of {catalogue_file.file}."
                " Check HF_ENDPOINT."
            )
        if catalogue_file.sha256 and catalogue_file.sha256 != sha256:
            raise ModelUnusable(
                f"{catalogue_file.file} of {entry.repository} is not the file that the catalogue names:"
                f" expected the SHA-256 {catalogue_file.sha256}, received {sha256}. Nothing was downloaded."
            )
        return RemoteFile(catalogue_file, sha256, metadata.size, metadata.commit_hash)

    def download(self, entry: Entry, remote: RemoteFile, path: Path, progress: Progress) -> None:
        """Download the file to `path`; if a part of it is there, append the missing bytes.

        Raises: ModelUnusable, StorageFailed.
        """
        from huggingface_hub.file_download import http_get

        url = self._url(entry, remote.catalogue_file, remote.commit)
        with translate_disk_errors(path.parent):
            file = open_own_file(path, "ab")
        with file, _translate_hub_errors(entry, remote.catalogue_file.file):
            sink = _Sink(file, remote, path.parent, progress)
            if sink.size_bytes > remote.size_bytes:
                sink.truncate(0)
            while True:
                size_before = sink.size_bytes
                try:
                    http_get(
                        url,
                        cast("Any", sink),
                        resume_size=size_before,
                        headers=self._library.utils.build_hf_headers(),
                        expected_size=remote.size_bytes,
                    )
                    break
                except _transport_error():  # huggingface_hub itself does not retry all of these
                    # not retried here if the connection transferred nothing
                    if sink.size_bytes == size_before:
                        raise
                    time.sleep(RETRY_PAUSE_S)
            sink.flush()

    def _url(self, entry: Entry, catalogue_file: CatalogueFile, revision: str) -> str:
        url: str = self._library.hf_hub_url(
            entry.repository, catalogue_file.file, revision=revision, endpoint=_endpoint()
        )
        return url


class _Sink:
    """The file object to which huggingface_hub writes a download.

    Raises: StorageFailed, for errors of the disk; ModelUnusable, if more bytes are sent than the hub reported.
    """

    def __init__(self, file: IO[bytes], remote: RemoteFile, folder: Path, progress: Progress) -> None:
        self._file = file
        self._remote = remote
        self._folder = folder
        self._progress = progress
        self.size_bytes = file_size(Path(file.name))

    def write(self, chunk: bytes) -> int:
        if self.size_bytes + len(chunk) > self._remote.size_bytes:
            raise ModelUnusable(f"{_host()} sent more bytes of {self._remote.catalogue_file.file} than it reported.")
        with translate_disk_errors(self._folder):
            self._file.write(chunk)
        self.size_bytes += len(chunk)
        self._progress(f"downloading {self._remote.catalogue_file.file}", self.size_bytes, self._remote.size_bytes)
        return len(chunk)

    def tell(self) -> int:
        return self.size_bytes

    def seek(self, position: int, _whence: int = 0) -> int:
        """Truncate the file at `position`, because a server without range requests sends the whole file again."""
        self.truncate(position)
        return position

    def truncate(self, size: int | None = None) -> int:
        with translate_disk_errors(self._folder):
            self._file.flush()
            self.size_bytes = self._file.truncate(self.size_bytes if size is None else size)
        return self.size_bytes

    def flush(self) -> None:
        with translate_disk_errors(self._folder):
            self._file.flush()
            os.fsync(self._file.fileno())


def file_size(path: Path) -> int:
    """The size of the file in bytes; 0 if there is no such file."""
    return path.stat().st_size if path.exists() else 0


def _load_library() -> ModuleType:
    """Import huggingface_hub, which reads its settings from the environment then. Raises: ModelUnusable."""
    if not _endpoint().startswith(("https://", "http://")):
        raise ModelUnusable(
            f"HF_ENDPOINT: expected a URL that begins with https:// or http://, received {_endpoint()!r}."
        )
    for variable in ("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_XET", "HF_HUB_DISABLE_PROGRESS_BARS"):
        os.environ[variable] = "1"
    try:
        import huggingface_hub
        from huggingface_hub import constants, utils
    except ImportError as error:
        raise ModelUnusable(f"huggingface_hub is not installed. {how_to_install('vision')}") from error
    utils.logging.set_verbosity(logging.ERROR)
    constants.DOWNLOAD_CHUNK_SIZE = CHUNK_BYTES  # a broken connection loses up to this much
    return huggingface_hub


def _transport_error() -> type[Exception]:
    """The base class of errors in the HTTP library of huggingface_hub: httpx, or httpx2 in its newer versions."""
    from huggingface_hub import errors

    return cast("type[Exception]", errors.HfHubHTTPError.__bases__[0])


@contextmanager
def _translate_hub_errors(entry: Entry, file: str) -> Iterator[None]:
    """Raises: ModelUnusable, for any error of huggingface_hub or the network inside the block."""
    from huggingface_hub import errors

    try:
        yield
    except (ModelUnusable, StorageFailed):
        raise
    except errors.GatedRepoError as error:
        raise ModelUnusable(
            f"{entry.repository} is gated: request access on its page, and set HF_TOKEN to your token."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ModelUnusable(f"{entry.repository} has no revision {entry.revision!r} on {_host()}.") from error
    except errors.EntryNotFoundError as error:
        raise ModelUnusable(
            f"{entry.repository} has no file {file!r} at the revision {entry.revision!r} on {_host()}."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ModelUnusable(
            f"{_host()} has no repository {entry.repository}, or shows it only to users with a token. Set HF_TOKEN."
        ) from error
    except errors.HfHubHTTPError as error:
        raise ModelUnusable(_status_message(error.response.status_code, entry)) from error
    except errors.OfflineModeIsEnabled as error:
        raise ModelUnusable(f"HF_HUB_OFFLINE is set, so nothing is downloaded. {ADVICE_WITHOUT_NETWORK}") from error
    except _transport_error() as error:
        reason = str(error) or type(error).__name__
        raise ModelUnusable(
            f"{_host()} can't be reached, or the connection broke ({reason}). Try again to resume the download."
            f" {ADVICE_WITHOUT_NETWORK}"
        ) from error
    except OSError as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ModelUnusable(f"{file} can't be downloaded from {_host()}: {reason}") from error


def _status_message(status: int, entry: Entry) -> str:
    """The error message for an HTTP status."""
    if status in (401, 403):
        return f"{_host()} denied access to {entry.repository} ({status}): check HF_TOKEN and your access rights."
    if status == 429:
        return f"{_host()} received too many requests (429). Wait or set HF_TOKEN, then try again to resume."
    return f"{_host()} answered with {status}. Try again to resume the download."


def _endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")


def _host() -> str:
    """The hub in messages, without a user name and a password."""
    return urlsplit(_endpoint()).netloc.rpartition("@")[2] or _endpoint()
