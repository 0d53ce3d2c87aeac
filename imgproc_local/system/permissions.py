"""File modes that give access to the owner only. On Windows, which has no such modes, the user's profile is private."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

log = logging.getLogger(__name__)

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600


def make_private(folder: Path) -> None:
    """Take access to a folder from other users, and log that they had it, or still have it."""
    if os.name != "posix":
        return
    try:
        mode = stat.S_IMODE(folder.stat().st_mode)
        if mode & 0o077:
            folder.chmod(PRIVATE_FOLDER)
            log.warning("other users could read %s (mode %o); now only its owner can", folder, mode)
    except OSError as error:
        log.warning("other users may read %s: its mode can't be changed (%s)", folder, error.strerror)
