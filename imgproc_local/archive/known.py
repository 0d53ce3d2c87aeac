"""What the manifest has of each picture, for the client that lists the source.

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
from imgproc_local.archive.picture import Task
from imgproc_local.archive.row import Row
from imgproc_local.archive.store import SourceObject, Store
from imgproc_local.system.files import encodable_text

if TYPE_CHECKING:
    import pyarrow


CACHE_KB = 4 * 1024
"""What SQLite holds in memory; a million sources have about 100 MB."""


class Known:
    """The last row of each source, by key, and the part that holds it."""

    def __init__(self, database: sqlite3.Connection, target: Store) -> None:
        self._database = database
        self._target = target
        self._has_processed = False
        database.execute(
            "CREATE TABLE known (source TEXT PRIMARY KEY, version TEXT, options TEXT, outcome TEXT, part TEXT)"
            " WITHOUT ROWID"
        )
        database.execute("CREATE TABLE parts (key TEXT PRIMARY KEY) WITHOUT ROWID")
        database.execute("CREATE TABLE processed (source TEXT PRIMARY KEY) WITHOUT ROWID")

    def read_parts(self) -> None:
        """Add the rows of the parts that were not read before."""
        for part in self._target.keys(PARTS_FOLDER):
            if self._database.execute("INSERT OR IGNORE INTO parts VALUES (?)", (part,)).rowcount:
                self._add(decode_table(self._target.read(part), KEY_COLUMNS), part)

    def parts(self) -> list[str]:
        """The keys of the parts that were read, in the order of their names."""
        return [key for (key,) in self._database.execute("SELECT key FROM parts ORDER BY key")]

    def every(self, number: int) -> list[str]:
        """Each source of which the number of sources before it is a multiple of `number`, sorted, without the first."""
        sources = self._database.execute("SELECT source FROM known ORDER BY source")
        return [source for (source,) in islice(sources, number, None, number)]

    def current(self, part: str) -> pyarrow.Table:
        """The rows of a part without those that another part replaces."""
        table = decode_table(self._target.read(part))
        query = "SELECT part FROM known WHERE source = ?"
        found = (self._database.execute(query, (source,)).fetchone() for source in table["source"].to_pylist())
        return table.filter([row == (part,) for row in found])

    def _add(self, keys: pyarrow.Table, part: str) -> None:
        """Add the rows of a part. Of several rows of one source the last is preferred, unless it failed where another
        with the same content and options is done.
        """
        self._database.execute("BEGIN")
        self._database.executemany(
            "INSERT INTO known VALUES (?, ?, ?, ?, ?) ON CONFLICT (source) DO UPDATE SET version = excluded.version,"
            " options = excluded.options, outcome = excluded.outcome, part = excluded.part"
            " WHERE excluded.outcome <> 'failed' OR known.version <> excluded.version"
            " OR known.options <> excluded.options",
            zip(*(keys[name].to_pylist() for name in KEY_COLUMNS), repeat(part), strict=False),
        )
        self._database.execute("COMMIT")

    def add_processed(self, sources: Iterable[str]) -> None:
        """Record that this run has processed pictures, so that it does not process them again."""
        self._has_processed = True
        self._database.executemany("INSERT OR IGNORE INTO processed VALUES (?)", ((source,) for source in sources))

    def compared(self, pictures: Sequence[SourceObject], options: str) -> Iterator[tuple[Task | None, bool]]:
        """What to do with each picture: its task, None without one, and whether it is unchanged since an earlier run.

        A picture has a task if there is no row of this content and these options, or if its row failed, unless this run
        has processed it.
        """
        query = "SELECT version, options, outcome, part FROM known WHERE source = ?"
        sources = [encodable_text(picture.key) for picture in pictures]
        found = [self._database.execute(query, (source,)).fetchone() for source in sources]
        unchanged = [
            known is not None and known[:2] == (picture.version, options) and known[2] != "failed"
            for picture, known in zip(pictures, found, strict=True)
        ]
        earlier = self._rows(
            (source, known[3])
            for source, known, is_unchanged in zip(sources, found, unchanged, strict=True)
            if known is not None and not is_unchanged and not self._is_processed(source)
        )
        for picture, source, is_unchanged in zip(pictures, sources, unchanged, strict=True):
            if self._is_processed(source):
                yield None, False
            elif is_unchanged:
                yield None, True
            else:
                yield Task(picture, earlier.get(source)), False

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
def open_known(target: Store) -> Iterator[Known]:
    """What the parts of `target` have when this is called; deleted at the end of the block."""
    import pyarrow

    # Arrow's own allocator returns memory late: 149 MB at the peak of tests.bench.archive_manifest instead of 111
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    with tempfile.TemporaryDirectory(prefix="imgproc-archive-") as folder:
        database = sqlite3.connect(Path(folder, "known.sqlite"), isolation_level=None)
        try:
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            database.execute(f"PRAGMA cache_size = -{CACHE_KB}")
            known = Known(database, target)
            known.read_parts()
            yield known
        finally:
            database.close()
