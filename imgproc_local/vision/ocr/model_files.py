"""The two neural networks that read text, PP-OCRv6 small, installed from the wheel of rapidocr, which contains them.

The package itself is not used, because it depends on OpenCV (150 MB). The files lie in the folder `ocr` of the models
folder. The wheel and every file must have the SHA-256 written here. The folder is renamed into place when it is
complete; one with other sizes, left by an interrupted removal or an older version, counts as not installed.

Source: rapidocr 3.10.0, Apache-2.0; PaddleOCR, PP-OCRv6, Apache-2.0.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.system.files import fsync_folder
from imgproc_local.vision.models.files import Progress, hash_file, translate_disk_errors
from imgproc_local.vision.models.store import ModelStore

NAME = "ocr"
"""The name of these files in the commands, and their folder in the models folder."""
DETECTOR_FILE, RECOGNISER_FILE = "detector.onnx", "recogniser.onnx"
LICENCE, SCRIPTS = "Apache-2.0", "Latin, Chinese, Japanese"
MEMORY_MB = 400
"""The memory that the process needs, as `models list` shows it. `reader.MAX_MEMORY_BYTES` is its limit."""


class Network(Struct, frozen=True):
    """One ONNX file: its path in the wheel, its size in bytes, and its SHA-256."""

    path_in_wheel: str
    size_bytes: int
    sha256: str


class PackageFile(Struct, frozen=True):
    """A file of a package on the package index."""

    package: str
    file: str
    size_bytes: int
    sha256: str


NETWORKS = {
    DETECTOR_FILE: Network(
        "rapidocr/models/PP-OCRv6_det_small.onnx",
        9_929_594,
        "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
    ),
    RECOGNISER_FILE: Network(
        "rapidocr/models/PP-OCRv6_rec_small.onnx",
        21_234_383,
        "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
    ),
}
SIZE_BYTES = sum(network.size_bytes for network in NETWORKS.values())
WHEEL = PackageFile(
    package="rapidocr",
    file="rapidocr-3.10.0-py3-none-any.whl",
    size_bytes=27_288_134,
    sha256="2fc34e26cd0f48514804a94f8832283039c7334076bff60768b1fed9ad068050",
)


def runtime_is_installed() -> bool:
    """Whether the libraries of the extra `ocr` are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("onnxruntime", "numpy"))


def installed_folder(models_folder: Path) -> Path | None:
    """The folder of the networks; None if they are not installed or have other sizes."""
    folder = models_folder / NAME
    try:
        sizes = {name: (folder / name).stat().st_size for name in NETWORKS}
    except OSError:
        return None
    return folder if sizes == {name: network.size_bytes for name, network in NETWORKS.items()} else None


def is_source(sources: Sequence[Path]) -> bool:
    """Whether an import of `sources` is one of these networks, not of a vision model."""
    return len(sources) == 1 and _wheel_in(sources[0]) is not None


def import_networks(models: ModelStore, source: Path, progress: Progress) -> None:
    """Install the networks from the wheel, or from a folder with it.

    Raises: ModelUnusable, StorageFailed, DataFolderBusy.
    """
    require_not_installed(models)
    with models.locked():
        install(models, _wheel_in(source) or source, progress)


def verify(models: ModelStore, progress: Progress) -> None:
    """Check that the installed files have the expected SHA-256. Raises: ModelUnusable."""
    for name, network in NETWORKS.items():
        actual = hash_file(models.folder / NAME / name, f"verifying {name}", progress)
        if actual != network.sha256:
            raise ModelUnusable(
                f"{name} has changed: expected the SHA-256 {network.sha256}, found {actual}. Run `models remove {NAME}`"
                f" and `models pull {NAME}`."
            )


def remove(models: ModelStore) -> None:
    """Delete the networks. Raises: ModelUnusable, if they are not installed; StorageFailed, DataFolderBusy."""
    if not (models.folder / NAME).exists():
        raise ModelUnusable(f"{NAME} is not installed.")
    _require_own(models.folder / NAME)
    with models.locked(), translate_disk_errors(models.folder):
        shutil.rmtree(models.folder / NAME)


def require_not_installed(models: ModelStore) -> None:
    """Raises: ModelUnusable, if the networks are installed, or a folder of the user's own has their name."""
    if installed_folder(models.folder):
        raise ModelUnusable(f"{NAME} is installed already.")
    _require_own(models.folder / NAME)


def _require_own(folder: Path) -> None:
    """Raises: ModelUnusable, if there are other files than networks in the folder."""
    others = [file.name for file in folder.iterdir() if file.name not in NETWORKS] if folder.is_dir() else []
    if others:
        raise ModelUnusable(f"{folder} has files that are not of {NAME}, such as {others[0]}. Move them elsewhere.")


def install(models: ModelStore, wheel: Path, progress: Progress) -> None:
    """Unpack the networks from the wheel into place. The lock must be held. Raises: ModelUnusable, StorageFailed."""
    actual = hash_file(wheel, f"verifying {wheel.name}", progress)
    if actual != WHEEL.sha256:
        raise ModelUnusable(
            f"{wheel.name} is not the expected file: expected {WHEEL.file} with the SHA-256 {WHEEL.sha256}, received"
            f" {actual}."
        )
    with models.staging_folder() as staged, translate_disk_errors(models.folder):
        with zipfile.ZipFile(wheel) as archive:
            for name, network in NETWORKS.items():
                with (staged / name).open("xb") as out:
                    out.write(archive.read(network.path_in_wheel))
                    out.flush()
                    os.fsync(out.fileno())
        fsync_folder(staged)
        if (models.folder / NAME).exists():  # incomplete, or of an older version
            shutil.rmtree(models.folder / NAME)
        staged.rename(models.folder / NAME)
        fsync_folder(models.folder)


def _wheel_in(path: Path) -> Path | None:
    """The newest wheel in a folder, or `path` itself if it is one."""
    paths = sorted(path.glob("rapidocr-*.whl")) if path.is_dir() else [path]
    wheels = [each for each in paths if each.is_file() and each.name.startswith("rapidocr-") and each.suffix == ".whl"]
    return wheels[-1] if wheels else None
