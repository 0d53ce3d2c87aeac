"""The manifest of an archive: a row per picture, in parts in the hidden folder of the target.

A part is a compressed file with a row in each line, as JSON. The client writes a part every `_FLUSH_S` seconds, and
never changes one. Their numbers grow, so the last row of a picture is the current one. At the end of a run,
`archive.parquet` and `alt.csv` are made from the current rows, and one part replaces all others.
"""

from __future__ import annotations

import gzip
import re
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from imgproc_local.archive.picture import Row
from imgproc_local.archive.stores import Store
from imgproc_local.batch import ALT_COLUMNS, STATE_FOLDER, Results, alt_rows
from imgproc_local.domain.result import Translation
from imgproc_local.engine.exports import csv_bytes
from imgproc_local.system.files import encodable_text

PARTS_FOLDER = f"{STATE_FOLDER}/parts"
_PART_NAME = re.compile(r"/(\d{8})-[0-9a-f]{8}\.jsonl\.gz$")
TABLE_NAME, TEXTS_NAME = "archive.parquet", "alt.csv"
_PART_ROWS = 5000
"""The rows after which a part is stored, and those that are in memory while the tables are made."""
_FLUSH_S = 30.0
"""How long the client collects rows before it stores a part. If it is killed, their pictures are processed again."""


class Manifest:
    """The manifest in `target`, opened for one run. `folder` is for temporary files on this machine.

    Memory does not grow with the archive: an SQLite file holds the current rows.
    """

    def __init__(self, target: Store, folder: Path) -> None:
        """Read all parts. Raises: OSError."""
        # Arrow's own allocator returns memory late
        pa.set_memory_pool(pa.system_memory_pool())
        self._target = target
        self._folder = folder
        self._index = sqlite3.connect("", isolation_level=None)  # a temporary file that only this connection has
        self._index.execute("CREATE TABLE rows (source TEXT PRIMARY KEY, row TEXT)")
        self.parts = [key for key in target.keys(PARTS_FOLDER) if _PART_NAME.search(key)]
        self._unsaved: list[str] = []
        self._next_flush_s = 0.0
        for part in self.parts:
            target.fetch(part, folder / "part")
            with gzip.open(folder / "part", "rt", encoding="utf-8") as lines:
                self._insert(lines)

    def close(self) -> None:
        """Store the rows that no part has. Raises: OSError."""
        try:
            self.flush()
        finally:
            self._index.close()

    def row(self, source: str) -> Row | None:
        """The current row of the picture with this key; None if no run has processed it."""
        found = self._index.execute("SELECT row FROM rows WHERE source = ?", (encodable_text(source),)).fetchone()
        return msgspec.json.decode(found[0], type=Row) if found is not None else None

    def add(self, row: Row) -> None:
        """Add the row of a picture, and store a part if it is time. Raises: OSError."""
        if not self._unsaved:
            self._next_flush_s = time.monotonic() + _FLUSH_S
        self._unsaved.append(msgspec.json.encode(row).decode())
        self._insert(self._unsaved[-1:])
        if len(self._unsaved) >= _PART_ROWS or time.monotonic() >= self._next_flush_s:
            self.flush()

    def flush(self) -> None:
        """Store the rows that no part has. Raises: OSError."""
        if self._unsaved:
            self._store_part(self._unsaved)
            self._unsaved = []

    def finish(self) -> None:
        """Write the tables, and one part in place of all others.

        Nothing is written if an earlier run has done this and no part was added since, or if there is no part: a target
        that has tables also has parts, by which `_require_no_tables` in `run.py` knows them. If it is interrupted, the
        next run does it again, because there are several parts or no table. Raises: OSError.
        """
        self.flush()
        names = (TABLE_NAME, TEXTS_NAME)
        if not self.parts or (len(self.parts) == 1 and all(self._target.exists(name) for name in names)):
            return
        with (
            pq.ParquetWriter(self._folder / TABLE_NAME, _row_schema(), compression="zstd") as table,
            (self._folder / TEXTS_NAME).open("wb") as texts,
        ):
            texts.write(csv_bytes((), ALT_COLUMNS))
            for rows in self._batches():
                table.write_table(pa.Table.from_pylist([msgspec.to_builtins(row) for row in rows], _row_schema()))
                texts.write(csv_bytes(cells for row in rows for cells in alt_rows(row.source, row)))
        replaced = tuple(self.parts)
        self._store_part(line for (line,) in self._index.execute("SELECT row FROM rows ORDER BY source"))
        for name in names:
            self._target.put(name, self._folder / name)
        for part in replaced:
            self._target.remove(part)

    def _batches(self) -> Iterator[list[Row]]:
        sorted_rows = self._index.execute("SELECT row FROM rows ORDER BY source")
        while some := sorted_rows.fetchmany(_PART_ROWS):
            # rows of another version may lack fields, or have more
            yield [msgspec.json.decode(line, type=Row) for (line,) in some]

    def _insert(self, lines: Iterable[str]) -> None:
        self._index.execute("BEGIN")
        statement = "INSERT OR REPLACE INTO rows SELECT json_extract(?1, '$.source'), ?1"
        self._index.executemany(statement, ((line.rstrip("\n"),) for line in lines))
        self._index.execute("COMMIT")

    def _store_part(self, lines: Iterable[str]) -> None:
        last = _PART_NAME.search(self.parts[-1]) if self.parts else None
        number = 1 + (int(last.group(1)) if last is not None else 0)
        part = f"{PARTS_FOLDER}/{number:08d}-{secrets.token_hex(4)}.jsonl.gz"
        with gzip.open(self._folder / "part", "wt", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
        self._target.put(part, self._folder / "part")
        self.parts.append(part)


@contextmanager
def opened_manifest(target: Store) -> Iterator[Manifest]:
    """The manifest of a target. Rows that were added are stored also if the block raises."""
    with TemporaryDirectory(prefix="imgproc-archive-") as folder, closing(Manifest(target, Path(folder))) as opened:
        yield opened


@cache
def _row_schema() -> pa.Schema:
    """The columns of `archive.parquet`: the fields of `Row`, its own before those of `Results`."""
    text, number = pa.string(), pa.int64()
    fields = [("path", text), ("sha256", text), ("size_bytes", number), ("format", text)]
    file, variant = pa.struct(fields), pa.struct([*fields, ("width_px", number), ("height_px", number)])
    # a review takes place on the page only
    translation = pa.struct([(name, text) for name in Translation.__struct_fields__ if name != "review"])
    types: dict[str, Any] = {
        "size_bytes": number,
        "problems": pa.list_(pa.struct([("stage", text), ("message", text)])),
        **dict.fromkeys(("optimized", "converted", "sidecar"), file),
        "translations": pa.list_(translation),
        "removed": pa.list_(text),
        "suggestion": pa.struct([("role", text), ("reason", text)]),
        "variants": pa.list_(variant),
        "notes": pa.struct([(kind, pa.list_(text)) for kind in ("optimized", "converted")]),
    }
    results = Results.__struct_fields__
    own = [name for name in Row.__struct_fields__ if name not in results]
    return pa.schema([(name, types.get(name, text)) for name in (*own, *results)])
