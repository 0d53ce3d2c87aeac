"""Atomic and durable writes: a file is written completely or not at all, and survives a loss of power. Also file names
as text, and whether a path is on another machine.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import sys
from pathlib import Path, PurePath

PART_PATTERN = ".*.part"
"""A glob pattern for the temporary files of `write_atomically`. A killed process can leave one behind."""

_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Errors where no hard link can be made, as on exFAT."""
_EXTENDED_DRIVE = re.compile(r"\\\\\?\\[A-Za-z]:")
"""A drive of Windows in the notation for long paths, such as `\\\\?\\C:`."""


def write_atomically(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Replace the content of `path` in one step, and return when it is on the disk.

    `mode` is the file's mode before the process's umask is applied. Raises: OSError; `path` is unchanged then, unless
    only the fsync of its folder failed.
    """
    part = path.with_name(f".{path.name}-{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)


def rename_to_new(part: Path, target: Path) -> None:
    """Rename `part` to `target` without replacing a file. On most systems `part` remains, as a second link.

    Raises: FileExistsError if `target` exists; OSError.
    """
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


def fsync_folder(folder: Path) -> None:
    """Make renames in `folder` durable. Does nothing on Windows, where folders can't be opened; NTFS logs renames."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_disk_full(error: OSError) -> bool:
    """Whether a write failed because the disk, or the user's quota on it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def encodable_text(text: str) -> str:
    """`text` made encodable as UTF-8: surrogates, which stand for other bytes in file names, become `\\xNN`."""
    return text.encode("utf-8", sys.getfilesystemencodeerrors()).decode("utf-8", "backslashreplace")


def is_on_network(path: PurePath) -> bool:
    """Whether Windows would open `path` on another machine (UNC) or as a device. This does not open it.

    Opening a UNC path connects to the machine that it names and sends the user's sign-in there.
    """
    return path.drive.startswith("\\\\") and not _EXTENDED_DRIVE.fullmatch(path.drive)
