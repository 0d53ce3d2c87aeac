"""The two neural networks that read text, PP-OCRv6 small, installed from the wheel of rapidocr, which contains them.

The package itself is not used, because it depends on OpenCV (150 MB). The files lie in the folder `ocr` of the models
folder. The wheel and every file must have the SHA-256 written here. A folder of other sizes, as of another version,
counts as not installed.

The wheel is downloaded from the package index that the environment variables of uv or pip name, or else PyPI; it must
offer the "simple" pages in HTML. Source: Python Packaging User Guide, "Simple repository API".

Source: rapidocr 3.10.0, Apache-2.0; PaddleOCR, PP-OCRv6, Apache-2.0.
"""

from __future__ import annotations

import html
import os
import re
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.system.files import write_atomically
from imgproc_local.vision.models.model import MANIFEST_FILE, ModelFile
from imgproc_local.vision.models.store import OCR, ModelStore, Progress, translate_disk_errors, verify_files, write_json

if TYPE_CHECKING:
    import httpx

DETECTOR_FILE, RECOGNISER_FILE = "detector.onnx", "recogniser.onnx"
SCRIPTS = "Latin, Chinese, Japanese"
_INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")

NETWORKS = {
    DETECTOR_FILE: ModelFile(
        "rapidocr/models/PP-OCRv6_det_small.onnx",
        9_929_594,
        "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
    ),
    RECOGNISER_FILE: ModelFile(
        "rapidocr/models/PP-OCRv6_rec_small.onnx",
        21_234_383,
        "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
    ),
}
"""The ONNX files by their names in the folder `ocr`, with their paths in the wheel."""
SIZE_BYTES = sum(network.size_bytes for network in NETWORKS.values())
WHEEL = ModelFile(
    "rapidocr-3.10.0-py3-none-any.whl", 27_288_134, "2fc34e26cd0f48514804a94f8832283039c7334076bff60768b1fed9ad068050"
)
"""Each package index has an address of its own for it, which `download` reads from the index."""


def is_frozen() -> bool:
    """Whether this is a program made by PyInstaller, which can't read text in pictures."""
    return bool(getattr(sys, "frozen", False))


def installed_folder(models_folder: Path) -> Path | None:
    """The folder of the networks; None if they are not installed or have other sizes."""
    folder = models_folder / OCR
    try:
        sizes = {name: (folder / name).stat().st_size for name in NETWORKS}
    except OSError:
        return None
    return folder if sizes == {name: network.size_bytes for name, network in NETWORKS.items()} else None


def wheel_in(sources: Sequence[Path]) -> Path | None:
    """The wheel that is the only source of an import, or lies in the only folder; None if it is a vision model."""
    paths = sorted(sources[0].glob("rapidocr-*.whl")) if sources[0].is_dir() else sources[:1]
    wheels = [path for path in paths if re.fullmatch(r"rapidocr-.*\.whl", path.name) and path.is_file()]
    return wheels[-1] if wheels and len(sources) == 1 else None


def download(folder: Path, progress: Progress) -> None:
    """Download the wheel into `folder`. Raises: ModelUnusable, StorageFailed."""
    from imgproc_local.vision.models.download import fetch, opened_client

    index = next(
        (os.environ[name] for name in _INDEX_VARIABLES if os.environ.get(name)), "https://pypi.org/simple"
    ).rstrip("/")
    with opened_client(index, {}) as client, translate_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        url = _find_url(client, f"{index}/rapidocr/")
        fetch(client, url, WHEEL, folder / WHEEL.file, progress)


def _find_url(client: httpx.Client, page_url: str) -> str:
    """The URL of the wheel, from the package's page on the index."""
    from imgproc_local.vision.models.download import host

    response = client.get(page_url, headers={"Accept": "text/html"}).raise_for_status()
    for link in re.findall(r'href\s*=\s*["\']([^"\'<>]{1,4096})["\']', response.text):
        url = urljoin(str(response.url), html.unescape(link).partition("#")[0])
        if urlsplit(url).path.rpartition("/")[2] == WHEEL.file and url.startswith(("https://", "http://")):
            return url
    raise ModelUnusable(f"{host(page_url)} does not offer {WHEEL.file}.")


def install(models: ModelStore, wheel: Path, progress: Progress) -> None:
    """Unpack the networks from the wheel into place. The lock must be held. Raises: ModelUnusable, OSError."""
    verify_files(wheel.parent, {wheel.name: WHEEL}, progress)
    with models.staging_folder() as staged, zipfile.ZipFile(wheel) as archive:
        for name, network in NETWORKS.items():
            write_atomically(staged / name, archive.read(network.file))
        write_json(staged / MANIFEST_FILE, WHEEL)
        models.publish(staged, OCR)
