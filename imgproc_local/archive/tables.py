"""Writes the tables of all pictures, `archive.parquet` and `alt.csv`, and the report, and merges the manifest's parts.

Tables and merged parts are sorted by source. The rows are sorted in two passes with temporary files on this machine, so
that the memory does not grow with the archive: the first pass distributes them to files by ranges of sources, the
second sorts each file.
"""

from __future__ import annotations

import bisect
import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from imgproc_local.archive.manifest import (
    MERGED,
    PART_ROWS,
    REPORT_NAME,
    TABLE_NAME,
    TEXTS_NAME,
    encode_table,
    is_merged,
    part_key,
    row_schema,
    run_name,
    table_rows,
)
from imgproc_local.archive.manifest_index import ManifestIndex
from imgproc_local.archive.row import Row
from imgproc_local.archive.store import Store
from imgproc_local.archive.summary import Summary
from imgproc_local.batch.alt_table import alt_rows, csv_bytes

if TYPE_CHECKING:
    import pyarrow

log = logging.getLogger(__name__)

TEXT_ROWS = 500
"""The rows that are converted to Python objects at a time."""
REPORT_MARK = b'content="imgproc-local archive"'
"""What the first 512 bytes of a report contain. Another file of its name belongs to the user."""


class Report(Struct, frozen=True):
    """A report to be written: `summary` collects the rows, and `page` makes the content of the file from it."""

    summary: Summary
    page: Callable[[Summary], bytes]


def write_tables(target: Store, index: ManifestIndex, run: int, report: Report | None = None) -> None:
    """Write both tables from the parts that `index` has read, and the report; then replace the parts by merged ones.

    Does nothing if an earlier run has done this and no part was added since. If it is interrupted, the next run does it
    again, because the parts that were merged are deleted last. Raises: OSError.
    """
    parts = index.parts()
    names = [TABLE_NAME, TEXTS_NAME, *([REPORT_NAME] if report is not None else ())]
    if all(is_merged(part) for part in parts) and all(_exists(target, name) for name in names):
        return
    with tempfile.TemporaryDirectory(prefix="imgproc-archive-") as folder:
        files = _distribute(index, parts, Path(folder))
        table, texts = Path(folder, TABLE_NAME), Path(folder, TEXTS_NAME)
        _write_tables(files, table, texts, report.summary if report is not None else None)
        target.replace_by_file(TABLE_NAME, table)
        target.replace_by_file(TEXTS_NAME, texts)
        if report is not None:
            _write_report(target, report, Path(folder, REPORT_NAME))
        merged = {part_key(f"{run_name(run, MERGED)}-{number:06d}"): file for number, file in enumerate(files)}
        for key, file in merged.items():
            target.replace(key, encode_table(_sorted_rows(file)))
    for part in parts:
        if part not in merged:
            target.remove(part)


def _distribute(index: ManifestIndex, parts: list[str], folder: Path) -> list[Path]:
    """Write each current row to a file by its source. Returns the files in order; each has `PART_ROWS` sources."""
    import pyarrow as pa

    first_sources = index.every_nth_source(PART_ROWS)
    files = [folder / f"{number}.arrows" for number in range(len(first_sources) + 1)]
    for part in parts:
        rows = index.current_rows(part).sort_by("source")
        sources = rows["source"].to_pylist()
        positions = [0, *(bisect.bisect_left(sources, first) for first in first_sources), len(sources)]
        for file, (start, end) in zip(files, pairwise(positions), strict=True):
            if start < end:
                # a file has several streams, one after the other
                with file.open("ab") as output, pa.ipc.new_stream(output, rows.schema) as stream:
                    stream.write_table(rows.slice(start, end - start))
    return [file for file in files if file.exists()]


def _sorted_rows(file: Path) -> pyarrow.Table:
    import pyarrow as pa

    with pa.OSFile(str(file)) as stored:
        size, tables = stored.size(), []
        while stored.tell() < size:
            tables.append(pa.ipc.open_stream(stored).read_all())
    # the parts of an earlier version may lack columns
    return pa.concat_tables([row_schema().empty_table(), *tables], promote_options="default").sort_by("source")


def _write_tables(files: list[Path], table: Path, texts: Path, summary: Summary | None) -> None:
    import pyarrow.parquet as pq

    with ExitStack() as opened:
        writer = opened.enter_context(pq.ParquetWriter(table, row_schema(), compression="zstd"))
        lines = opened.enter_context(texts.open("wb"))
        lines.write(csv_bytes(()))
        for file in files:
            rows = _sorted_rows(file)
            writer.write_table(rows)
            for batch in rows.to_batches(max_chunksize=TEXT_ROWS):
                decoded = table_rows(batch)
                lines.write(csv_bytes(_alt_rows(decoded), with_head=False))
                if summary is not None:
                    for row in decoded:
                        summary.add(row)


def _write_report(target: Store, report: Report, file: Path) -> None:
    if _exists(target, REPORT_NAME) and REPORT_MARK not in target.head(REPORT_NAME):
        log.warning(
            "The target has a file %s that is not a report of this program, so none is written. Rename that file, and"
            " run the command again.",
            REPORT_NAME,
        )
        return
    file.write_bytes(report.page(report.summary))
    target.replace_by_file(REPORT_NAME, file)


def _alt_rows(rows: list[Row]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        yield from alt_rows(row.source, (row.optimized, row.converted), row.translations)


def _exists(target: Store, key: str) -> bool:
    try:
        target.head(key)
    except FileNotFoundError:
        return False
    return True
