"""The results of `process` in the source of an archive, where they are left out.

They are found by the manifests of their output folders. Their paths are in a temporary SQLite file, because a manifest
may have half a million records.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from imgproc_local.batch.records import stored_records

CACHE_KB = 1024


class ProcessResults:
    """The paths of the results that the manifests of the added folders name."""

    def __init__(self) -> None:
        # the empty name is that of a temporary file; a generator may be closed by another thread than its own
        self._database = sqlite3.connect("", check_same_thread=False)
        self._database.execute(f"PRAGMA cache_size = -{CACHE_KB}")
        self._database.execute("CREATE TABLE results (path BLOB PRIMARY KEY) WITHOUT ROWID")
        self._is_empty = True

    def add_folder(self, folder: Path) -> None:
        """Add the results of an output folder, if it is one. Raises: OSError, if its manifest can't be read."""
        real = folder.resolve()
        with self._database:
            self._database.executemany(
                "INSERT OR IGNORE INTO results VALUES (?)",
                (
                    (os.fsencode(real / path),)
                    for record in stored_records(folder)
                    if record is not None
                    for path in record.paths
                ),
            )
        self._is_empty = self._database.total_changes == 0

    def contains(self, file: Path) -> bool:
        """Whether a file, or what a link leads to, is one of the results."""
        if self._is_empty:  # saves resolving every path of a source without results
            return False
        path = os.fsencode(os.path.realpath(file))
        return self._database.execute("SELECT 1 FROM results WHERE path = ?", (path,)).fetchone() is not None

    def close(self) -> None:
        """Delete the temporary file."""
        self._database.close()
