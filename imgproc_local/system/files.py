"""Files that are written completely or not at all, and stay after a loss of power."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

PART_PATTERN = ".*.part"
"""Names of the temporary files of `write_atomically`. A killed process can leave one."""


def write_atomically(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Replace the content of `path` in one step; it is on the disk when this returns.

    The file gets the permissions `mode`, less the process's umask. Raises: OSError; `path` is unchanged then.
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


def fsync_folder(folder: Path) -> None:
    """Make a rename in `folder` durable. Windows can't open folders; there NTFS journals renames."""
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
