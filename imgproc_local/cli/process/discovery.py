"""Which files `process` works on: the type is decided by the first bytes, never by the name."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from imgproc_local.codecs.probe import detect
from imgproc_local.domain.errors import UnsupportedImage
from imgproc_local.domain.plan import ACCEPTED, Operation

HEAD_BYTES = 512


class Passed(Struct, frozen=True):
    """A file that is not worked on, and why."""

    path: Path
    reason: str


class Found(Struct, frozen=True):
    """`skipped` lay in a folder beside pictures; `failed` was named, or could not be looked at."""

    pictures: list[Path]
    skipped: list[Passed]
    failed: list[Passed]


def find_pictures(named: Sequence[Path], avoid: Collection[Path]) -> Found:
    """The pictures among `named` files and, recursively, in `named` folders, each once, in a stable order.

    Hidden files and folders inside a named folder are passed over without a word, as are the folders in `avoid`.
    Links to folders are not followed.
    """
    found = Found([], [], [])
    seen: set[Path] = set()
    for path in sorted(named, key=Path.is_dir):  # files first: what is named must not count as found in a folder
        inside = path.is_dir()
        for file in _files(path, {folder.resolve() for folder in avoid}, found.failed) if inside else (path,):
            real = file.resolve()
            if real in seen:
                continue
            seen.add(real)
            try:
                problem = _problem(file)
            except OSError as error:
                found.failed.append(Passed(file, f"It can't be read: {error.strerror}."))
                continue
            if problem is None:
                found.pictures.append(file)
            else:
                (found.skipped if inside else found.failed).append(Passed(file, problem))
    return found


def _files(folder: Path, avoid: Collection[Path], failed: list[Passed]) -> Iterator[Path]:
    def refused(error: OSError) -> None:
        failed.append(Passed(Path(error.filename), f"The folder can't be opened: {error.strerror}."))

    for parent, folders, files in os.walk(folder, onerror=refused):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and Path(parent, name).resolve() not in avoid
        )
        yield from (Path(parent, name) for name in sorted(files) if not name.startswith("."))


def _problem(file: Path) -> str | None:
    """Why the file is no picture that `process` takes; None where it looks like one. Raises `OSError`."""
    if not file.is_file():
        # a pipe or a device would block or never end; a broken link has nothing to read
        file.stat()
        return "It is neither a file nor a folder."
    with file.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    if not head:
        return "The file is empty."
    try:
        detect(head, ACCEPTED[Operation.PROCESS])
    except UnsupportedImage as error:
        return error.message
    return None
