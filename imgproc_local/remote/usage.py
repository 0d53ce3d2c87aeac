"""The last compression count that the external service reported, stored beside the database for `doctor` to show.

No result depends on the file, so a file that can't be read counts as missing.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec
from msgspec import Struct

from imgproc_local.system.files import read_own_json, write_atomically

log = logging.getLogger(__name__)

USAGE_FILE = "compression-service.json"


class Usage(Struct, frozen=True):
    """`compressions` is the number of compressions with the key in the month of `seen_at` (RFC 3339, UTC)."""

    compressions: int
    seen_at: str


def read_usage(folder: Path) -> Usage | None:
    """The stored usage; None if there is none or it can't be read."""
    return read_own_json(folder / USAGE_FILE, Usage)


def write_usage(folder: Path, usage: Usage) -> None:
    """Store `usage`. A failure is logged and not raised, because no result depends on it."""
    try:
        write_atomically(folder / USAGE_FILE, msgspec.json.encode(usage), mode=0o600)
    except OSError as error:
        log.warning("The compression count can't be stored (%s).", error.strerror)
