"""Writes results to the user's folder. Invariant: no existing file is overwritten, and no file is partly written.

A result is copied under a hidden temporary name and fsynced. Then it gets its name in one step, which fails if the name
is taken; in that case the next number is tried: `-2`, `-3` …
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import secrets
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from imgproc_local.domain.slug import numbered

_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Errors of file systems without hard links, such as exFAT."""


class Results:
    """Writes files to `folder`.

    Within one run, names are unique per language. The names of files are also new to the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def create_folder(self) -> None:
        """Create the folder if needed, and check that it can be written. Raises: OSError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self._folder):
            pass

    def name(self, preferred: str, language_code: str) -> str:
        """`preferred`, with a number added if another picture of this run has that name in this language."""
        with self._lock:
            return next(self._free_names(preferred, language_code))

    def write(self, preferred: str, language_code: str, sources: Sequence[tuple[Path, str]]) -> tuple[str, list[Path]]:
        """Copy all sources to the folder under one name, and return that name and the new files. Blocks.

        `sources` are pairs of a file and the ending that is added to the name, such as `.webp` or `-converted.webp`.
        Raises: OSError if a source can't be read or the folder can't be written; then no file is left behind.
        """
        staged: list[tuple[Path, str]] = []
        try:
            for source, ending in sources:
                staged.append((self._folder / f".{secrets.token_hex(8)}.part", ending))
                _copy(source, staged[-1][0])
            with self._lock:
                for name in self._free_names(preferred, language_code):
                    targets = [(part, self._folder / f"{name}{ending}") for part, ending in staged]
                    if _publish_all(targets):
                        return name, [target for _, target in targets]
            raise AssertionError("there is always another number")
        finally:
            for part, _ in staged:
                part.unlink(missing_ok=True)

    def _free_names(self, preferred: str, language_code: str) -> Iterator[str]:
        """Names that this run has not used yet; a yielded name is recorded as used."""
        used = self._names.setdefault(language_code, set())
        base = preferred
        if (match := re.fullmatch(r"(.+)-\d+", preferred)) and match[1] in used:
            # the engine added the number because of another picture of this run: -3 follows -2, not -2-2
            base = match[1]
        for name in itertools.chain((preferred,), (numbered(base, number) for number in itertools.count(2))):
            if name not in used:
                used.add(name)
                yield name


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as reader, target.open("xb") as writer:
        shutil.copyfileobj(reader, writer, 1024 * 1024)
        writer.flush()
        os.fsync(writer.fileno())


def _publish_all(targets: Sequence[tuple[Path, Path]]) -> bool:
    """Rename every part to its target. Returns False, with no part renamed, if one of the targets exists."""
    done: list[tuple[Path, Path]] = []
    try:
        if any(os.path.lexists(target) for _, target in targets):
            return False
        for part, target in targets:
            _publish(part, target)
            done.append((part, target))
    except BaseException as error:
        for part, target in done:
            # renaming between two hard links of one file does nothing, so the second link is removed instead
            target.unlink() if part.exists() else target.replace(part)
        if isinstance(error, FileExistsError):
            return False
        raise
    return True


def _publish(part: Path, target: Path) -> None:
    """Rename `part` to `target` without replacing a file. Raises: FileExistsError if `target` exists."""
    if sys.platform == "win32":
        part.rename(target)  # Windows does not overwrite
        return
    try:
        target.hardlink_to(part)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        target.open("xb").close()
        try:
            part.replace(target)
        except BaseException:
            target.unlink()
            raise
