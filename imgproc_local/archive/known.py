"""What the manifest has of each picture, for the client that lists the source.

It is a temporary SQLite file, so that the memory of the client does not grow with the archive.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from imgproc_local.archive.manifest import PARTS_FOLDER, decode_rows
from imgproc_local.archive.picture import Task
from imgproc_local.archive.row import Row
from imgproc_local.archive.store import SourceObject, Store
from imgproc_local.system.files import encodable_text


class Known:
    """The last row of each source, by key, and the part that holds it."""

    def __init__(self, database: sqlite3.Connection, target: Store) -> None:
        self._database = database
        self._target = target
        database.execute(
            "CREATE TABLE known (source TEXT PRIMARY KEY, version TEXT, options TEXT, outcome TEXT, part TEXT)"
            " WITHOUT ROWID"
        )
        database.execute("CREATE TABLE processed (source TEXT PRIMARY KEY) WITHOUT ROWID")

    def read_parts(self) -> int:
        """Add the rows of all parts; how many sources they have."""
        for part in self._target.keys(PARTS_FOLDER):
            self.add(decode_rows(self._target.read(part)), part)
        return int(self._database.execute("SELECT count(*) FROM known").fetchone()[0])

    def add(self, rows: Iterable[Row], part: str) -> None:
        """Add the rows of a part. Of several rows of one source, one that is done is preferred to one that failed."""
        self._database.executemany(
            "INSERT INTO known VALUES (?, ?, ?, ?, ?) ON CONFLICT (source) DO UPDATE SET version = excluded.version,"
            " options = excluded.options, outcome = excluded.outcome, part = excluded.part"
            " WHERE excluded.outcome <> 'failed' OR known.version <> excluded.version"
            " OR known.options <> excluded.options",
            ((row.source, row.version, row.options, row.outcome, part) for row in rows),
        )

    def add_processed(self, sources: Iterable[str]) -> None:
        """Record that this run has processed pictures, so that it does not process them again."""
        self._database.executemany("INSERT OR IGNORE INTO processed VALUES (?)", ((source,) for source in sources))

    def compared(self, pictures: Sequence[SourceObject], options: str) -> Iterator[tuple[Task | None, bool]]:
        """What to do with each picture: its task, None without one, and whether it is unchanged since an earlier run.

        A picture has a task if there is no row of this content and these options, or if its row failed, unless this run
        has processed it.
        """
        for picture in pictures:
            source = encodable_text(picture.key)
            if self._database.execute("SELECT 1 FROM processed WHERE source = ?", (source,)).fetchone():
                yield None, False
                continue
            found = self._database.execute(
                "SELECT version, options, outcome, part FROM known WHERE source = ?", (source,)
            ).fetchone()
            if found is None:
                yield Task(picture), False
            elif found[:2] != (picture.version, options) or found[2] == "failed":
                yield Task(picture, self._row(source, found[3])), False
            else:
                yield None, True

    def rows(self) -> Iterator[Row]:
        """One row per source, from the parts."""
        for part in self._target.keys(PARTS_FOLDER):
            for row in decode_rows(self._target.read(part)):
                query = "SELECT part FROM known WHERE source = ?"
                if self._database.execute(query, (row.source,)).fetchone() == (part,):
                    yield row

    def _row(self, source: str, part: str) -> Row:
        return next(row for row in decode_rows(self._target.read(part)) if row.source == source)


@contextmanager
def open_known(target: Store) -> Iterator[Known]:
    """What the parts of `target` have when this is called; deleted at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="imgproc-archive-") as folder:
        database = sqlite3.connect(Path(folder, "known.sqlite"), isolation_level=None)
        try:
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            known = Known(database, target)
            known.read_parts()
            yield known
        finally:
            database.close()
