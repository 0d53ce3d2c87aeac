"""`process --in-place`: an optimized picture takes the place of its original in one step.

The new content is written to a hidden file beside the picture and fsynced, gets the picture's mode, owner and extended
attributes as far as the system and the rights of the user allow, and is renamed to the picture's name: whenever the run
is killed, that name leads to the whole original or to the whole result. Nothing is recorded. A later run leaves a
result as it is, because optimizing it again does. Another name of the original (a hard link) still leads to the
original.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from imgproc_local import batch
from imgproc_local.cli.discovery import SourceFile
from imgproc_local.cli.output import path_text
from imgproc_local.cli.process.results_folder import Outcome, RunOptions, temporary_folder
from imgproc_local.domain.errors import ServiceError, StageFailed
from imgproc_local.system.files import copy_durably, fsync_folder, hash_file, is_disk_full, rename_to_new

_PART_PREFIX = ".imgproc-in-place-"
"""The beginning of the names of temporary files. `ResultsFolder` deletes its own, which begin otherwise."""
_CHANGED = "it was changed while it was processed."
_LEFTOVER_AGE_S = 600.0
"""A temporary file that is older was left by a run that was killed. Others exist for a moment."""


class InPlace:
    """Puts optimized pictures in place of their originals; a run uses it like a `ResultsFolder`.

    `path`, which is also `temporary`, is a folder for temporary files, which `close` deletes. With `backup_suffix`,
    each original is kept under its name with that suffix. With `preserve`, a result also has the times of its original.
    """

    place = "folder of pictures or temporary files"
    max_unnamed = 16
    """Results that wait for an earlier picture lie in the system's folder for temporary files, which may be memory."""
    has_waited = False

    def __init__(self, request: batch.BatchRequest, options: RunOptions) -> None:
        self._temporary = temporary_folder()
        self.path = self.temporary = Path(self._temporary.name)
        self.request = request
        self.records: dict[str, batch.ManifestLine] = {}
        self.preserve = options.preserve
        self._backup_suffix = options.backup_suffix
        self._cleaned: set[Path] = set()

    def close(self) -> None:
        self._temporary.cleanup()

    def publish(self, picture: SourceFile, sha256: str, made: batch.Made) -> Outcome:
        """Replace a picture with this SHA-256, unless its optimized file has the same content. Blocks.

        Raises: OSError, if the disk is full. Other problems are errors of the outcome.
        """
        if not made.files:
            return Outcome(picture.path, errors=made.errors)
        (file,) = made.files
        result = batch.ResultFile(path_text(picture.path), hash_file(file.path), file.path.stat().st_size, file.format)
        record = batch.ManifestLine(
            source=result.path,
            size_bytes=picture.size_bytes,
            modified_ns=picture.modified_ns,
            sha256=sha256,
            options=self.request.options_hash,
            removed=made.removed,
            optimized=result,
            notes=made.notes,
        )
        if result.sha256 == sha256:
            return Outcome(picture.path, record)
        try:
            self._replace(picture.path, sha256, file.path)
        except (OSError, ServiceError) as error:
            if isinstance(error, OSError) and is_disk_full(error):
                raise
            reason = error.message if isinstance(error, ServiceError) else error.strerror
            return Outcome(picture.path, errors=((None, f"It was not replaced: {reason}"),))
        return Outcome(picture.path, record, record)

    def _replace(self, picture: Path, sha256: str, result: Path) -> None:
        """Raises: OSError, StageFailed; then the picture is unchanged, unless only the fsync of its folder failed."""
        if picture.parent not in self._cleaned:
            self._cleaned.add(picture.parent)
            _delete_leftovers(picture.parent)
        with _copy_beside(picture, result) as part:
            if not self.preserve:
                os.utime(part)
            if self._backup_suffix is not None:
                _back_up(picture, picture.with_name(picture.name + self._backup_suffix), sha256)
            # last, because what somebody writes between this and the next line is lost
            if picture.is_symlink() or hash_file(picture) != sha256:
                raise StageFailed(_CHANGED)
            part.replace(picture)
        fsync_folder(picture.parent)


def _back_up(picture: Path, backup: Path, sha256: str) -> None:
    """Copy a picture with this SHA-256 durably to `backup`, unless it is there from an earlier run.

    Raises: OSError; StageFailed, if the picture has changed, or another file has that name.
    """
    with _copy_beside(picture, picture) as part:
        if hash_file(part) != sha256:
            raise StageFailed(_CHANGED)
        with suppress(FileExistsError):
            rename_to_new(part, backup)
    # a link could lead to the picture, whose content is about to be replaced
    if backup.is_symlink() or not backup.is_file() or hash_file(backup) != sha256:
        raise StageFailed(f"{backup.name} exists already, as a link or with another content. Move it away.")
    fsync_folder(backup.parent)


@contextmanager
def _copy_beside(picture: Path, content: Path) -> Iterator[Path]:
    """A hidden copy of `content` in the folder of `picture`, with the attributes of `picture`. It ends with the block,
    unless it is renamed inside it.
    """
    part = picture.with_name(f"{_PART_PREFIX}{secrets.token_hex(8)}.part")
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL, 0o600))  # nobody else reads a private picture meanwhile
        copy_durably(content, part)
        status = picture.stat()
        # only root may give a file to somebody else, but members may give it to their group; Windows has neither
        for owner in ((-1, status.st_gid), (status.st_uid, -1)):
            with suppress(OSError, AttributeError):
                os.chown(part, *owner)
        shutil.copystat(picture, part)
        yield part
    finally:
        part.unlink(missing_ok=True)


def _delete_leftovers(folder: Path) -> None:
    """Delete the temporary files that a killed run left in a folder, as far as possible."""
    for part in folder.glob(f"{_PART_PREFIX}*.part"):
        with suppress(OSError):
            if time.time() - part.lstat().st_ctime >= _LEFTOVER_AGE_S:
                part.unlink()
