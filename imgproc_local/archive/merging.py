"""Merges the parts of finished tasks during a run, so that a run that is killed leaves few small parts behind.

A merged part is stored before the parts that it replaces are deleted. Its name is after theirs, so that its rows are
the current ones if the client is killed in between.
"""

from __future__ import annotations

import logging

from imgproc_local.archive.manifest import PART_ROWS, decode_table, encode_table, merged_key
from imgproc_local.archive.store import Store

log = logging.getLogger(__name__)


class PartMerger:
    """Merges parts as soon as they have `PART_ROWS` rows together. No picture may be in two of them."""

    def __init__(self, target: Store) -> None:
        self._target = target
        self._parts: list[str] = []
        self._rows = 0

    def add(self, part: str, rows: int) -> None:
        """Take a part that was stored, with the number of its rows."""
        self._parts.append(part)
        self._rows += rows
        if self._rows >= PART_ROWS:
            self._merge()

    def forget(self) -> None:
        """Do not merge the parts that were added and not merged yet, because the index has read them meanwhile."""
        self._parts, self._rows = [], 0

    def _merge(self) -> None:
        import pyarrow as pa

        parts = self._parts
        self.forget()
        try:
            rows = pa.concat_tables([decode_table(self._target.read(part)) for part in parts])
            self._target.replace(merged_key(max(parts)), encode_table(rows))
            for part in parts:
                self._target.remove(part)
        except OSError as error:  # the tables are made from small parts too
            log.warning("Small parts of the manifest could not be merged (%s).", error.strerror or error)
