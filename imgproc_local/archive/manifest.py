"""The manifest of an archive: a row per picture, as Parquet parts in the hidden folder of the target.

The client writes a part every `FLUSH_S` seconds, and never changes one. The names of parts begin with the number of the
run, so that those of a later run sort after those of an earlier one. At the end, `archive.parquet` and `alt.csv` are
made from all parts, and the parts are merged into larger ones. A run that is killed leaves parts that have several rows
of a picture: its last row counts, unless that failed and an earlier one of the same content and options did not.
"""

from __future__ import annotations

import io
import logging
import secrets
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct, structs

from imgproc_local.archive.stores import SourceObject, Store
from imgproc_local.batch.files import ResultFile, alt_rows, csv_bytes
from imgproc_local.batch.records import STATE_FOLDER
from imgproc_local.domain.image import Format
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import Translation
from imgproc_local.engine.direct import StageResult
from imgproc_local.system.files import encodable_text

log = logging.getLogger(__name__)

PARTS_FOLDER = f"{STATE_FOLDER}/parts"
TABLE_NAME, TEXTS_NAME, REPORT_NAME = "archive.parquet", "alt.csv", "report.html"
REPORT_MARK, REPORT_HEAD_BYTES = b'content="imgproc-local archive"', 512
"""What the first bytes of a report contain. A file of its name without this belongs to the user."""
KEY_COLUMNS = ("source", "version", "options", "outcome")
"""The columns by which a later run finds out whether a picture is new or changed."""
MERGED = "sorted"
"""What follows the number of the run in the names of merged parts. In other names a hexadecimal digit follows, which
sorts before an `s`, so that a merged part is read after those that it replaces.
"""
PART_ROWS = 5000
"""The most rows of a part."""
FLUSH_S = 30.0
"""How long the client collects rows before it stores a part. If it is killed, their pictures are processed again."""
CACHE_KB = 4 * 1024
"""The size of SQLite's cache; the index of a million sources has about 100 MB."""


Outcome = Literal["done", "failed", "skipped"]
"""An object is `skipped` if it is not a picture."""
FailureKind = Literal["", "picture", "source", "target", "worker"]
"""What failed: a stage or the picture itself (`picture`), reading it (`source`), writing its results (`target`), or
every worker that processed it (`worker`); "" if nothing did.
"""


class Problem(Struct, frozen=True):
    """An error of one picture. `stage` is None for an error outside a stage."""

    stage: str | None
    message: str


class Row(Struct, frozen=True, kw_only=True):
    """What the last run that processed a picture did.

    `source` is its key: the path below SOURCE. `version` is the ETag of the object, or the size and modification time
    of the file. `options` is the `options_hash` of the `BatchRequest`. `removed` are the kinds of private data that the
    results leave out. A text that a person has to write is empty. The row of a picture that failed has the results of
    an earlier run, if these were not replaced. The duration of a stage is None if it was not run.

    `format` is that of the picture itself, None if it was not read.
    """

    source: str
    version: str
    size_bytes: int
    options: str
    outcome: Outcome
    failure: FailureKind = ""
    problems: tuple[Problem, ...] = ()
    sha256: str = ""
    format: Format | None = None
    optimized: ResultFile | None = None
    converted: ResultFile | None = None
    sidecar: ResultFile | None = None
    translations: tuple[Translation, ...] = ()
    removed: tuple[Removed, ...] = ()
    analyze_s: float | None = None
    optimize_s: float | None = None
    convert_s: float | None = None
    total_s: float = 0.0

    @property
    def files(self) -> tuple[ResultFile, ...]:
        return tuple(file for file in (self.optimized, self.converted, self.sidecar) if file is not None)

    @property
    def needs_text(self) -> bool:
        """Whether a person has to write one of the alt texts."""
        return any(text.needs_text for text in self.translations)


def with_earlier_results(row: Row, earlier: Row | None) -> Row:
    """The row of a picture without new results, with those of an earlier run, which are still in the target."""
    if earlier is None or not earlier.files:
        return row
    return structs.replace(
        row,
        optimized=earlier.optimized,
        converted=earlier.converted,
        sidecar=earlier.sidecar,
        translations=earlier.translations,
        removed=earlier.removed,
        format=row.format or earlier.format,
    )


class PendingPicture(Struct, frozen=True):
    """A picture that has to be processed. `earlier_part` is the key of the part of the manifest that has its row of an
    earlier run; "" without one.

    `described` is the result of its analyze stage on a worker that has the vision model; None if the worker that
    processes the picture also runs that stage. `is_repeated` says that the workers of an earlier task of the picture
    ended.
    """

    picture: SourceObject
    earlier_part: str = ""
    described: StageResult | None = None
    is_repeated: bool = False


class Manifest:
    """The manifest in `target`, opened for one run. `folder` is for temporary files on this machine.

    Memory does not grow with the archive: an SQLite file says in which part the current row of each source is.
    """

    def __init__(self, target: Store, folder: Path) -> None:
        """Read the `KEY_COLUMNS` of all parts. Raises: OSError."""
        # Arrow's own allocator returns memory late
        pa.set_memory_pool(pa.system_memory_pool())
        self._target = target
        self._folder = folder
        self._index = sqlite3.connect(folder / "index.sqlite", isolation_level=None)
        for setting in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{CACHE_KB}"):
            self._index.execute(f"PRAGMA {setting}")
        self._index.execute(
            "CREATE TABLE rows (source TEXT PRIMARY KEY, version TEXT, options TEXT, outcome TEXT, part TEXT, row BLOB)"
            " WITHOUT ROWID"
        )
        self.parts = target.keys(PARTS_FOLDER)
        self._run = next_run(self.parts)
        self._prefix = f"{PARTS_FOLDER}/{self._run:06d}-{secrets.token_hex(4)}"
        self._rows: list[Row] = []
        self._next_flush_s = 0.0
        for part in self.parts:
            table = read_part(target, part, KEY_COLUMNS)
            self._add_keys(part, zip(*(table[name].to_pylist() for name in KEY_COLUMNS), strict=True))

    def close(self) -> None:
        self._index.close()

    def state_of(self, picture: SourceObject, options: str) -> PendingPicture | Literal["unchanged", "processed"]:
        """What has to be done with a picture: nothing if it is unchanged, or if this run has processed it already.

        It has to be processed if it has no row of this version and these options, or a failed one.
        """
        query = "SELECT version, options, outcome, part FROM rows WHERE source = ?"
        row = self._index.execute(query, (encodable_text(picture.key),)).fetchone()
        if row is None:
            return PendingPicture(picture)
        version, its_options, outcome, part = row
        if part.startswith(self._prefix):
            return "processed"
        if (version, its_options) == (picture.version, options) and outcome != "failed":
            return "unchanged"
        return PendingPicture(picture, part)

    def add(self, row: Row) -> None:
        """Add the row of a picture, and store a part if it is time. Raises: OSError."""
        if not self._rows:
            self._next_flush_s = time.monotonic() + FLUSH_S
        self._rows.append(row)
        self._add_keys(self._next_part(), [(row.source, row.version, row.options, row.outcome)])
        if len(self._rows) >= PART_ROWS or time.monotonic() >= self._next_flush_s:
            self.flush()

    def flush(self) -> None:
        """Store the rows that no part has. Raises: OSError."""
        if self._rows:
            self._store(self._next_part(), as_table(self._rows))
            self.parts.append(self._next_part())
            self._rows = []

    @property
    def is_finished(self) -> bool:
        """Whether an earlier run has written the tables and the report, and no part was added since.

        Also if there is no part: a target that has tables also has parts, by which `require_no_tables` knows them.
        """
        tables = (TABLE_NAME, TEXTS_NAME, REPORT_NAME)
        merged = f"-{MERGED}-"
        return all(merged in part for part in self.parts) and (
            not self.parts or all(self._target.exists(name) for name in tables)
        )

    def write_tables(self) -> Iterator[list[Row]]:
        """Write both tables and merged parts from the current rows, which are yielded in lists, sorted by source.

        If it is interrupted, the next run does it again: `remove_merged` deletes the parts last. Raises: OSError.
        """
        table_file, texts_file = self._folder / TABLE_NAME, self._folder / TEXTS_NAME
        with pq.ParquetWriter(table_file, row_schema(), compression="zstd") as writer, texts_file.open("wb") as texts:
            texts.write(csv_bytes(()))
            for number, rows in enumerate(self._current_rows()):
                table = as_table(rows)
                writer.write_table(table)
                texts.write(csv_bytes(_alt_rows(rows), with_head=False))
                self._store(f"{PARTS_FOLDER}/{self._run:06d}-{MERGED}-{number:06d}.parquet", table)
                yield rows
        self._target.put(TABLE_NAME, table_file)
        self._target.put(TEXTS_NAME, texts_file)

    @property
    def may_write_report(self) -> bool:
        """Whether there is no file of its name that this program did not write. Raises: OSError."""
        if not self._target.exists(REPORT_NAME) or REPORT_MARK in self._target.read(REPORT_NAME, REPORT_HEAD_BYTES):
            return True
        log.warning(
            "The target has a file %s that is not a report of this program, so none is written. Rename that file, and"
            " run the command again.",
            REPORT_NAME,
        )
        return False

    def write_report(self, page: bytes) -> None:
        """Raises: OSError."""
        file = self._folder / REPORT_NAME
        file.write_bytes(page)
        self._target.put(REPORT_NAME, file)

    def remove_merged(self) -> None:
        """Delete the parts that the merged ones of `write_tables` replace. Raises: OSError."""
        for part in self.parts:
            self._target.remove(part)

    def _current_rows(self) -> Iterator[list[Row]]:
        self._index.execute("BEGIN")
        for part in self.parts:
            # the rows of one part at a time are in memory, and SQLite sorts them
            rows = table_rows(read_part(self._target, part))
            encoded = ((msgspec.json.encode(row), row.source, part) for row in rows)
            self._index.executemany("UPDATE rows SET row = ? WHERE source = ? AND part = ?", encoded)
        self._index.execute("COMMIT")
        sorted_rows = self._index.execute("SELECT row FROM rows ORDER BY source")
        while some := sorted_rows.fetchmany(PART_ROWS):
            yield [msgspec.json.decode(content, type=Row) for (content,) in some]

    def _add_keys(self, part: str, rows: Iterable[tuple[str, ...]]) -> None:
        self._index.execute("BEGIN")
        self._index.executemany(
            "INSERT INTO rows VALUES (?, ?, ?, ?, ?, NULL) ON CONFLICT (source) DO UPDATE SET"
            " version = excluded.version, options = excluded.options, outcome = excluded.outcome, part = excluded.part"
            " WHERE excluded.outcome <> 'failed' OR rows.outcome = 'failed' OR rows.version <> excluded.version"
            " OR rows.options <> excluded.options",
            ((*row, part) for row in rows),
        )
        self._index.execute("COMMIT")

    def _next_part(self) -> str:
        return f"{self._prefix}-{len(self.parts):07d}.parquet"

    def _store(self, part: str, table: pa.Table) -> None:
        file = self._folder / "part"
        pq.write_table(table, file, compression="zstd")
        self._target.put(part, file)


@contextmanager
def opened_manifest(target: Store) -> Iterator[Manifest]:
    """The manifest of a target. Rows that were added are stored also if the block raises."""
    with tempfile.TemporaryDirectory(prefix="imgproc-archive-") as folder:
        manifest = Manifest(target, Path(folder))
        try:
            yield manifest
            manifest.flush()
        except BaseException:
            with suppress(OSError):  # the first error says more
                manifest.flush()
            raise
        finally:
            manifest.close()


def next_run(parts: Iterable[str]) -> int:
    """The number of a new run, higher than those of the runs that wrote the parts."""
    numbers = (part.rpartition("/")[2].partition("-")[0] for part in parts)
    return max((int(number) for number in numbers if number.isdecimal()), default=0) + 1


def read_part(target: Store, part: str, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a part, with all columns unless some are named. Raises: OSError."""
    with pq.ParquetFile(io.BytesIO(target.read(part))) as file:
        return file.read(columns=None if columns is None else list(columns), use_threads=False)


def earlier_row(target: Store, pending: PendingPicture) -> Row | None:
    """The row of an earlier run. Raises: OSError."""
    if not pending.earlier_part:
        return None
    table = read_part(target, pending.earlier_part)
    rows = table_rows(table.filter(pc.equal(table["source"], encodable_text(pending.picture.key))))
    return rows[-1] if rows else None


def as_table(rows: Iterable[Row]) -> pa.Table:
    return pa.Table.from_pylist([msgspec.to_builtins(row) for row in rows], row_schema())


def table_rows(table: pa.Table) -> list[Row]:
    """The rows of a table. The parts of another version may lack columns, or have more."""
    return msgspec.convert(table.to_pylist(), list[Row])


@cache
def row_schema() -> pa.Schema:
    """The columns of a part: the fields of `Row`."""
    text, number = pa.string(), pa.int64()
    file = pa.struct([("path", text), ("sha256", text), ("size_bytes", number), ("format", text)])
    translation = pa.struct([(name, text) for name in ("language_code", "seo_filename", "seo_alt_text", "source")])
    types = {
        "size_bytes": number,
        "problems": pa.list_(pa.struct([("stage", text), ("message", text)])),
        **dict.fromkeys(("optimized", "converted", "sidecar"), file),
        "translations": pa.list_(translation),
        "removed": pa.list_(text),
        **dict.fromkeys(("analyze_s", "optimize_s", "convert_s", "total_s"), pa.float64()),
    }
    return pa.schema([(name, types.get(name, text)) for name in Row.__struct_fields__])


def _alt_rows(rows: Iterable[Row]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        yield from alt_rows(row.source, (row.optimized, row.converted), row.translations)
