"""Finds the pictures in the files and folders given to `process`, by their first bytes, not their extension."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from imgproc_local.codecs.picture.probe import detect
from imgproc_local.domain.errors import UnsupportedImage
from imgproc_local.domain.plan import ACCEPTED_FORMATS, Operation

HEAD_BYTES = 512


class RejectedFile(Struct, frozen=True):
    """A file that is not processed, and why."""

    path: Path
    reason: str


class Discovery(Struct, frozen=True):
    """The files to process, and those that are not processed.

    `failed` lists arguments that are missing or not pictures, and everything that can't be read. `skipped` lists files
    in folders that are not pictures.
    """

    pictures: list[Path]
    skipped: list[RejectedFile]
    failed: list[RejectedFile]


def find_pictures(arguments: Sequence[Path], exclude: Collection[Path]) -> Discovery:
    """Search `arguments`, folders recursively, for pictures. Each is found once; the order is deterministic.

    Inside a folder, hidden files and folders, symbolic links to folders, and the folders in `exclude` are ignored.
    """
    discovery = Discovery([], [], [])
    excluded = {folder.resolve() for folder in exclude}
    seen: set[Path] = set()
    # files first: a file that is both an argument and inside a folder counts as an argument
    for argument in sorted(arguments, key=_is_folder):
        is_folder = _is_folder(argument)
        for file in _walk(argument, excluded, discovery.failed) if is_folder else (argument,):
            real = file.resolve()
            if real in seen:
                continue
            seen.add(real)
            try:
                problem = _find_problem(file)
            except FileNotFoundError:
                discovery.failed.append(RejectedFile(file, "No such file or folder."))
            except OSError as error:
                discovery.failed.append(RejectedFile(file, f"It can't be read: {error.strerror}."))
            else:
                if problem is None:
                    discovery.pictures.append(file)
                else:
                    (discovery.skipped if is_folder else discovery.failed).append(RejectedFile(file, problem))
    return discovery


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a parent folder can't be read: `find_pictures` reports it when it reads the file
        return False


def _walk(folder: Path, excluded: Collection[Path], failed: list[RejectedFile]) -> Iterator[Path]:
    def report(error: OSError) -> None:
        failed.append(RejectedFile(Path(error.filename), f"The folder can't be opened: {error.strerror}."))

    for parent, folders, files in os.walk(folder, onerror=report):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and Path(parent, name).resolve() not in excluded
        )
        yield from (Path(parent, name) for name in sorted(files) if not name.startswith("."))


def _find_problem(file: Path) -> str | None:
    """Why `file` can't be processed; None if its first bytes are those of a supported picture. Raises: OSError."""
    if not file.is_file():
        # reading a pipe or a device could block forever; stat raises an error for a broken link
        file.stat()
        return "It is neither a file nor a folder."
    with file.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    if not head:
        return "The file is empty."
    try:
        detect(head, ACCEPTED_FORMATS[Operation.PROCESS])
    except UnsupportedImage as error:
        return error.message
    return None
