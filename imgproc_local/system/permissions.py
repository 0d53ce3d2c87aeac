"""File modes that give access to the owner only. On Windows, which has no such modes, the user's profile is private."""

from __future__ import annotations

import os
import stat
from pathlib import Path

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600


def make_private(path: Path) -> int | None:
    """Set the mode of a file or folder to `PRIVATE_FILE` or `PRIVATE_FOLDER` if other users have access to it.

    Returns the previous mode, or None if nothing was changed. Raises: OSError.
    """
    if os.name != "posix":
        return None
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & 0o077:
        return None
    path.chmod(PRIVATE_FOLDER if path.is_dir() else PRIVATE_FILE)
    return mode
