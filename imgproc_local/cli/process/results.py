"""Results in the user's own folder. Invariant: no file that was there is ever overwritten, and none is half written.

A result is copied under a hidden temporary name, brought to the disk, and only then given its name, by a step that
fails where the name is taken. Then the next number is tried: `-2`, `-3` …
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
"""What file systems without hard links answer, exFAT for one."""


class Results:
    """Writes into `folder`. Names are unique per language within one run and, for the files, within the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def open_folder(self) -> None:
        """Make the folder where it is new and see that it can be written. Raises `OSError`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self._folder):
            pass

    def name(self, wanted: str, language_code: str) -> str:
        """`wanted` as a name that no other picture of this run has in this language."""
        with self._lock:
            return next(self._free_names(wanted, language_code))

    def write(self, wanted: str, language_code: str, sources: Sequence[tuple[Path, str]]) -> tuple[str, list[Path]]:
        """Copy each (source, ending) under one name plus its ending; return that name and the files. Blocks.

        Raises:
            OSError: a source can't be read or the folder not written; no file is left then.
        """
        staged: list[tuple[Path, str]] = []
        try:
            for source, ending in sources:
                staged.append((self._folder / f".{secrets.token_hex(8)}.part", ending))
                _copy(source, staged[-1][0])
            with self._lock:
                for name in self._free_names(wanted, language_code):
                    targets = [(part, self._folder / f"{name}{ending}") for part, ending in staged]
                    if _publish_all(targets):
                        return name, [target for _, target in targets]
            raise AssertionError("numbers don't end")
        finally:
            for part, _ in staged:
                part.unlink(missing_ok=True)

    def _free_names(self, wanted: str, language_code: str) -> Iterator[str]:
        """Names that this run has not given yet; each one counts as given."""
        given = self._names.setdefault(language_code, set())
        base = wanted
        if (match := re.fullmatch(r"(.+)-\d+", wanted)) and match[1] in given:
            base = match[1]  # it was numbered against a picture of this same run: -3 follows -2, not -2-2
        for name in itertools.chain((wanted,), (numbered(base, number) for number in itertools.count(2))):
            if name not in given:
                given.add(name)
                yield name


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as reader, target.open("xb") as writer:
        shutil.copyfileobj(reader, writer, 1024 * 1024)
        writer.flush()
        os.fsync(writer.fileno())


def _publish_all(targets: Sequence[tuple[Path, Path]]) -> bool:
    """Give every part its name; False, and none is given, where one of the names is taken."""
    done: list[tuple[Path, Path]] = []
    try:
        if any(os.path.lexists(target) for _, target in targets):
            return False
        for part, target in targets:
            _publish(part, target)
            done.append((part, target))
    except BaseException as error:
        for part, target in done:
            # a rename between two names of one file does nothing, so the second name is removed
            target.unlink() if part.exists() else target.replace(part)
        if isinstance(error, FileExistsError):
            return False
        raise
    return True


def _publish(part: Path, target: Path) -> None:
    """Give `part` the name `target`. Raises `FileExistsError` where there is one of that name."""
    if sys.platform == "win32":
        part.rename(target)  # refuses to overwrite here
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
