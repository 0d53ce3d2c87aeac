"""Merges the parts of finished tasks during a run, so that a run that is killed leaves few small parts behind.

A merged part is stored before the parts that it replaces are deleted. Its name is after theirs, so that its rows are
the current ones if the client is killed in between.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path

from imgproc_local.archive.manifest import PART_ROWS, merged_key
from imgproc_local.archive.manifest_process import ManifestProcess
from imgproc_local.archive.manifest_steps import append_rows, write_sorted
from imgproc_local.archive.store import Store
from imgproc_local.domain.errors import ServiceError

log = logging.getLogger(__name__)


class PartMerger:
    """Merges parts as soon as they have `PART_ROWS` rows together. No two parts may have a row of the same picture."""

    def __init__(self, target: Store) -> None:
        self._target = target
        self._parts: list[str] = []
        self._rows = 0

    def add(self, part: str, rows: int) -> None:
        """Add a part that was stored, with the number of its rows, and merge the parts if they have enough."""
        self._parts.append(part)
        self._rows += rows
        if self._rows < PART_ROWS:
            return
        parts = self._parts
        self.forget()
        try:
            self._merge(parts)
        except (OSError, ServiceError) as error:  # the tables can be made from small parts too
            reason = error.message if isinstance(error, ServiceError) else error.strerror or error
            log.warning("Small parts of the manifest could not be merged (%s).", reason)

    def forget(self) -> None:
        """Never merge the parts added so far. Called before the index reads them: it must not name deleted ones."""
        self._parts, self._rows = [], 0

    def _merge(self, parts: Sequence[str]) -> None:
        with ManifestProcess() as process, tempfile.TemporaryDirectory(prefix="imgproc-archive-") as folder:
            rows, merged = Path(folder, "rows"), Path(folder, "merged")
            for part in parts:
                process.call(append_rows, rows, self._target.read(part))
            process.call(write_sorted, rows, merged)
            self._target.replace_by_file(merged_key(max(parts)), merged)
        for part in parts:
            self._target.remove(part)
