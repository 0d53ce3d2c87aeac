"""An index of the manifest by source, with which the client finds out which pictures are new or changed.

It is a temporary SQLite file, so that the memory of the client does not grow with the archive. The client and
the manifest process use it in turns.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

from imgproc_local.archive.picture import PendingPicture
from imgproc_local.archive.store import SourceObject
from imgproc_local.system.files import encodable_text

CACHE_KB = 4 * 1024
"""The size of SQLite's cache; the index of a million sources has about 100 MB."""


class ManifestIndex:
    """Where the current row of each source is, with its version, options and outcome. Stored in `file`."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._has_processed = False
        self._database = sqlite3.connect(file, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute(f"PRAGMA cache_size = -{CACHE_KB}")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS rows"
            " (source TEXT PRIMARY KEY, version TEXT, options TEXT, outcome TEXT, part TEXT) WITHOUT ROWID"
        )
        for table, column in (("parts", "key"), ("processed", "source")):
            self._database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({column} TEXT PRIMARY KEY) WITHOUT ROWID")

    def close(self) -> None:
        self._database.close()

    def parts(self) -> list[str]:
        """The keys of the parts that were read, in the order of their names."""
        return [key for (key,) in self._database.execute("SELECT key FROM parts ORDER BY key")]

    def every_nth_source(self, number: int) -> list[str]:
        """The sources at the positions `number`, 2 × `number` and so on, counted from 0, in sorted order."""
        sources = self._database.execute("SELECT source FROM rows ORDER BY source")
        return [source for (source,) in islice(sources, number, None, number)]

    def are_current(self, part: str, sources: Sequence[str]) -> list[bool]:
        """For each source, whether its row in `part` is the current one."""
        query = "SELECT part FROM rows WHERE source = ?"
        return [self._database.execute(query, (source,)).fetchone() == (part,) for source in sources]

    def add_part(self, part: str, rows: Iterable[tuple[str, ...]]) -> None:
        """Add the `KEY_COLUMNS` of the rows of a part.

        The last row of a source is its current one, unless it failed and an earlier row of the same version and options
        did not.
        """
        self._database.execute("BEGIN")
        self._database.execute("INSERT INTO parts VALUES (?)", (part,))
        self._database.executemany(
            "INSERT INTO rows VALUES (?, ?, ?, ?, ?) ON CONFLICT (source) DO UPDATE SET version = excluded.version,"
            " options = excluded.options, outcome = excluded.outcome, part = excluded.part"
            " WHERE excluded.outcome <> 'failed' OR rows.outcome = 'failed' OR rows.version <> excluded.version"
            " OR rows.options <> excluded.options",
            ((*row, part) for row in rows),
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
        for picture, source, row, is_unchanged in zip(pictures, sources, found, unchanged, strict=True):
            if self._is_processed(source):
                yield None, False
            elif is_unchanged:
                yield None, True
            else:
                yield PendingPicture(picture, "" if row is None else row[3]), False

    def _is_processed(self, source: str) -> bool:
        if not self._has_processed:  # saves a look-up per object in a run that has nothing to do
            return False
        return self._database.execute("SELECT 1 FROM processed WHERE source = ?", (source,)).fetchone() is not None


@contextmanager
def new_index() -> Iterator[ManifestIndex]:
    """An empty index, which is deleted at the end of the block."""
    with (
        tempfile.TemporaryDirectory(prefix="imgproc-archive-") as folder,
        closing(ManifestIndex(Path(folder, "index.sqlite"))) as index,
    ):
        yield index
