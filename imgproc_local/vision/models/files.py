"""Files in the models folder: JSON documents replaced atomically, SHA-256 sums, disk errors and free space."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from imgproc_local.domain.errors import ModelUnusable, StorageFailed
from imgproc_local.system.files import is_disk_full, write_atomically

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


def partial_path(folder: Path, sha256: str) -> Path:
    """Where a download into `folder` lies: named after its SHA-256, so that the next attempt finds and resumes it."""
    return folder / sha256


def file_size(path: Path) -> int:
    """The size of the file in bytes; 0 if there is no such file."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


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
