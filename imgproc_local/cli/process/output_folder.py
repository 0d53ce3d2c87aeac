"""Writes results to the user's folder. Invariant: no file of the user is overwritten, and no file is partly written.

A result is first written under a hidden temporary name and fsynced (`stage`). Later it gets its name in one step, which
fails if the name is taken (`publish`).
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from imgproc_local.batch.files import LocalFile, ResultFile
from imgproc_local.storage.blobs import hash_file
from imgproc_local.system.files import path_inside, rename_to_new

PART_PREFIX, PART_SUFFIX = ".imgproc-local-", ".part"


class OutputFolder:
    """The output folder at `path`. The paths of results are relative to it, with `/` between the parts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def delete_leftovers(self) -> None:
        """Delete the temporary files and folders that a killed run left, as far as possible."""
        for part in self.path.glob(f"{PART_PREFIX}*{PART_SUFFIX}"):
            if part.is_dir() and not part.is_symlink():
                shutil.rmtree(part, ignore_errors=True)
            else:
                with suppress(OSError):
                    part.unlink()

    def stage(self, file: LocalFile) -> LocalFile:
        """The result copied to the folder, under a temporary name. Raises: OSError; then no file is left behind."""
        part = self.path / f"{PART_PREFIX}{secrets.token_hex(8)}{PART_SUFFIX}"
        try:
            with file.path.open("rb") as source, part.open("xb") as copy:
                shutil.copyfileobj(source, copy)
                copy.flush()
                os.fsync(copy.fileno())
            return replace(file, path=part)
        except BaseException:
            part.unlink(missing_ok=True)
            raise

    def existing(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Those of the paths at which there is a file, a folder, or a link."""
        return tuple(path for path in paths if os.path.lexists(self.path / path))

    def has_all(self, files: Iterable[ResultFile]) -> bool:
        """Whether the files exist and are not empty. Their content may have been changed by the user."""
        try:
            return all((self.path / file.path).stat().st_size > 0 for file in files)
        except OSError:
            return False

    def remove_own(self, files: Iterable[ResultFile]) -> None:
        """Delete those of the files that still have the content that this program wrote. Blocks. Raises: OSError.

        An empty file is deleted too: where there are no hard links, a killed run can leave one.
        """
        for file in files:
            path = path_inside(self.path, file.path)
            try:
                size_bytes = path.stat().st_size
                if size_bytes == 0 or (size_bytes == file.size_bytes and hash_file(path) == file.sha256):
                    path.unlink()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                continue

    def publish(self, parts: Mapping[str, Path]) -> bool:
        """Rename every part to the path that is its key. Blocks.

        Returns False if one of the paths is taken. Then, and if it raises OSError, no file has been changed.
        """
        done: dict[Path, Path] = {}
        try:
            for path, part in parts.items():
                target = path_inside(self.path, path)
                target.parent.mkdir(parents=True, exist_ok=True)
                rename_to_new(part, target)
                done[target] = part
        except BaseException as error:
            for target, part in done.items():
                # renaming between two hard links of one file does nothing, so the second link is removed instead
                target.unlink() if part.exists() else target.replace(part)
            if isinstance(error, FileExistsError):
                return False
            raise
        for part in done.values():
            part.unlink(missing_ok=True)
        return True
