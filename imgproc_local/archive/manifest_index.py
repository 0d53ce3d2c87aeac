"""An index of the manifest by source, with which the client finds out which pictures are new or changed.

It is a temporary SQLite file, so that the memory of the client does not grow with the archive.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING

from imgproc_local.archive.manifest import KEY_COLUMNS, PARTS_FOLDER, decode_table, table_rows
from imgproc_local.archive.picture import PendingPicture
from imgproc_local.archive.row import Row
from imgproc_local.archive.store import SourceObject, Store
from imgproc_local.system.files import encodable_text

if TYPE_CHECKING:
    import pyarrow

CACHE_KB = 4 * 1024
"""The size of SQLite's cache; the index of a million sources has about 100 MB."""


class ManifestIndex:
    """Where the current row of each source is, and what it says of version, options and outcome."""

    def __init__(self, database: sqlite3.Connection, target: Store) -> None:
        self._database = database
        self._target = target
        self._has_processed = False
        database.execute(
            "CREATE TABLE rows (source TEXT PRIMARY KEY, version TEXT, options TEXT, outcome TEXT, part TEXT)"
            " WITHOUT ROWID"
        )
        database.execute("CREATE TABLE parts (key TEXT PRIMARY KEY) WITHOUT ROWID")
        database.execute("CREATE TABLE processed (source TEXT PRIMARY KEY) WITHOUT ROWID")

    def read_parts(self) -> None:
        """Add the rows of the parts that were not read before."""
        for part in self._target.keys(PARTS_FOLDER):
            if self._database.execute("INSERT OR IGNORE INTO parts VALUES (?)", (part,)).rowcount:
                self._add_rows(decode_table(self._target.read(part), KEY_COLUMNS), part)

    def parts(self) -> list[str]:
        """The keys of the parts that were read, in the order of their names."""
        return [key for (key,) in self._database.execute("SELECT key FROM parts ORDER BY key")]

    def every_nth_source(self, number: int) -> list[str]:
        """In sorted order, the sources that have `number`, 2 × `number` and so on others before them."""
        sources = self._database.execute("SELECT source FROM rows ORDER BY source")
        return [source for (source,) in islice(sources, number, None, number)]

    def current_rows(self, part: str) -> pyarrow.Table:
        """The rows of a part without those that another part replaces."""
        table = decode_table(self._target.read(part))
        query = "SELECT part FROM rows WHERE source = ?"
        found = (self._database.execute(query, (source,)).fetchone() for source in table["source"].to_pylist())
        return table.filter([current == (part,) for current in found])

    def _add_rows(self, keys: pyarrow.Table, part: str) -> None:
        """Add the rows of a part. The last row of a source is its current one, unless it failed and an earlier row of
        the same version and options did not.
        """
        self._database.execute("BEGIN")
        self._database.executemany(
            "INSERT INTO rows VALUES (?, ?, ?, ?, ?) ON CONFLICT (source) DO UPDATE SET version = excluded.version,"
            " options = excluded.options, outcome = excluded.outcome, part = excluded.part"
            " WHERE excluded.outcome <> 'failed' OR rows.version <> excluded.version"
            " OR rows.options <> excluded.options",
            zip(*(keys[name].to_pylist() for name in KEY_COLUMNS), repeat(part), strict=False),
        )
        self._database.execute("COMMIT")

    def add_processed(self, sources: Iterable[str]) -> None:
        """Record that this run has processed pictures, so that it does not process them again."""
        self._has_processed = True
        self._database.executemany("INSERT OR IGNORE INTO processed VALUES (?)", ((source,) for source in sources))

    def compared(
        self, pictures: Sequence[SourceObject], options_hash: str
    ) -> Iterator[tuple[PendingPicture | None, bool]]:
        """Each picture if it has to be processed, else None, and whether it is unchanged since an earlier run.

        It has to be processed if it has no row of this version and these options, or a failed one, unless this run has
        processed it already.
        """
        query = "SELECT version, options, outcome, part FROM rows WHERE source = ?"
        sources = [encodable_text(picture.key) for picture in pictures]
        found = [self._database.execute(query, (source,)).fetchone() for source in sources]
        unchanged = [
            row is not None and row[:2] == (picture.version, options_hash) and row[2] != "failed"
            for picture, row in zip(pictures, found, strict=True)
        ]
        earlier = self._rows(
            (source, row[3])
            for source, row, is_unchanged in zip(sources, found, unchanged, strict=True)
            if row is not None and not is_unchanged and not self._is_processed(source)
        )
        for picture, source, is_unchanged in zip(pictures, sources, unchanged, strict=True):
            if self._is_processed(source):
                yield None, False
            elif is_unchanged:
                yield None, True
            else:
                yield PendingPicture(picture, earlier.get(source)), False

    def _is_processed(self, source: str) -> bool:
        if not self._has_processed:  # saves a look-up per object in a run that has nothing to do
            return False
        return self._database.execute("SELECT 1 FROM processed WHERE source = ?", (source,)).fetchone() is not None

    def _rows(self, wanted: Iterable[tuple[str, str]]) -> dict[str, Row]:
        """The rows of sources, by source. `wanted` has each source with its part; each part is read once."""
        sources: dict[str, set[str]] = {}
        for source, part in wanted:
            sources.setdefault(part, set()).add(source)
        rows: dict[str, Row] = {}
        for part, names in sources.items():
            table = decode_table(self._target.read(part))
            chosen = table.filter([source in names for source in table["source"].to_pylist()])
            rows.update((row.source, row) for row in table_rows(chosen))
        return rows


@contextmanager
def open_index(target: Store) -> Iterator[ManifestIndex]:
    """The index of the parts that `target` has when this is called; deleted at the end of the block."""
    import pyarrow

    # Arrow's own allocator returns memory late: 149 MB at the peak of tests.bench.archive_manifest instead of 111
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    with tempfile.TemporaryDirectory(prefix="imgproc-archive-") as folder:
        database = sqlite3.connect(Path(folder, "index.sqlite"), isolation_level=None)
        try:
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            database.execute(f"PRAGMA cache_size = -{CACHE_KB}")
            index = ManifestIndex(database, target)
            index.read_parts()
            yield index
        finally:
            database.close()
