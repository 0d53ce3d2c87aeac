"""Files in the models folder: JSON documents replaced atomically, SHA-256 sums, disk errors and free space."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from imgproc_local.domain.errors import ModelUnusable, StorageFailed
from imgproc_local.system.files import is_disk_full, write_atomically
from imgproc_local.vision.models.catalogue import ModelFile

CHUNK_BYTES = 1024 * 1024

Progress = Callable[[str, int, int], None]
"""A function that is called with the current step, the bytes processed so far, and their total.

A step is a verb and the name of a file, such as "downloading model.gguf"."""

_ADVICE = "Free space on it, or use a folder on another disk (the setting models_dir, or --to of `models pull`)."


def write_json(path: Path, document: Any) -> None:
    """Write `document` as JSON, replacing the file atomically. Raises: OSError."""
    write_atomically(path, msgspec.json.format(msgspec.json.encode(document), indent=2))


def hash_file(path: Path, step: str, progress: Progress) -> str:
    """The SHA-256 of the file in hexadecimal. `step` is passed to `progress`. Raises: ModelUnusable."""
    digest = hashlib.sha256()
    try:
        size, done = path.stat().st_size, 0
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
                done += len(chunk)
                progress(step, done, size)
    except OSError as error:
        raise ModelUnusable(f"{path.name} can't be read ({error.strerror}).") from error
    return digest.hexdigest()


def verify_files(folder: Path, files: Mapping[str, ModelFile], progress: Progress) -> None:
    """Check that the files of an installation have their SHA-256 sums. Raises: ModelUnusable."""
    for name, expected in files.items():
        actual = hash_file(folder / name, f"verifying {name}", progress)
        if actual != expected.sha256:
            raise ModelUnusable(
                f"{name} of {folder.name!r} has changed: expected the SHA-256 {expected.sha256}, found {actual}."
                f" Run `models remove {folder.name}`, and install it again."
            )


@contextmanager
def translate_disk_errors(folder: Path) -> Iterator[None]:
    """Raises: StorageFailed, for any OSError inside the block."""
    try:
        yield
    except OSError as error:
        if is_disk_full(error):
            raise StorageFailed(f"The disk that holds {folder} is full. {_ADVICE}") from error
        raise StorageFailed(f"The folder {folder} can't be used ({error.strerror}).") from error


def require_free_space(folder: Path, needed_bytes: int) -> None:
    """Raises: StorageFailed, if the disk of `folder` has less free space than `needed_bytes`; OSError."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise StorageFailed(
            f"The disk that holds {folder} has {free / 1e6:,.0f} MB free, and {needed_bytes / 1e6:,.0f} MB are needed."
            f" {_ADVICE}"
        )
