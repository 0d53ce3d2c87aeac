"""What the outside compression service last said of its quota, kept beside the database for `doctor` to tell.

The file is written anew in one rename. It is only told, never counted on, so one that can't be read counts as absent.
"""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path

import msgspec
from msgspec import Struct

log = logging.getLogger(__name__)

USAGE_FILE = "compression-service.json"


class Usage(Struct, frozen=True):
    """`compressions` were made with the key in its month when the service was asked at `seen_at` (RFC 3339, UTC)."""

    compressions: int
    seen_at: str


def read_usage(folder: Path) -> Usage | None:
    """What was last seen, None where nothing was or it can't be read."""
    try:
        return msgspec.json.decode((folder / USAGE_FILE).read_bytes(), type=Usage)
    except (OSError, msgspec.DecodeError):
        return None


def write_usage(folder: Path, usage: Usage) -> None:
    """Put what was seen on the disk. Where that fails it is logged: no picture suffers for it."""
    name = None
    try:
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=USAGE_FILE, suffix=".part")
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(usage))
        Path(name).replace(folder / USAGE_FILE)
    except OSError as error:
        log.warning("the compression service's count can't be kept (%s)", error.strerror)
        if name is not None:
            Path(name).unlink(missing_ok=True)
