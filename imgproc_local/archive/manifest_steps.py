"""The steps of work on the manifest that load PyArrow, for the process that `manifest_process` starts.

They read the content of parts, which the client has read from the target, and write local files.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from imgproc_local.archive.manifest import KEY_COLUMNS, decode_table, row_schema, table_rows
from imgproc_local.archive.manifest_index import ManifestIndex
from imgproc_local.archive.row import Row
from imgproc_local.archive.summary import Summary
from imgproc_local.batch.alt_table import alt_rows, csv_bytes

if TYPE_CHECKING:
    import pyarrow

BATCH_ROWS = 500
"""The rows that are converted to Python objects at a time."""


def add_keys(index: Path, part: str, content: bytes) -> None:
    """Add the rows of a part to the index in a file."""
    keys = decode_table(content, KEY_COLUMNS)
    _opened(index).add_part(part, zip(*(keys[name].to_pylist() for name in KEY_COLUMNS), strict=True))


def append_rows(file: Path, content: bytes) -> None:
    """Append the rows of a part to a file for `write_sorted`."""
    _append(file, decode_table(content))


def distribute_rows(
    index: Path, part: str, content: bytes, files: Sequence[Path], first_sources: Sequence[str]
) -> None:
    """Append each current row of a part to the file for its source. `first_sources` bound the files after the first."""
    table = decode_table(content)
    rows = table.filter(_opened(index).are_current(part, table["source"].to_pylist())).sort_by("source")
    sources = rows["source"].to_pylist()
    positions = [0, *(bisect.bisect_left(sources, first) for first in first_sources), len(sources)]
    for file, (start, end) in zip(files, pairwise(positions), strict=True):
        if start < end:
            _append(file, rows.slice(start, end - start))


def write_sorted(file: Path, part: Path) -> None:
    """Write the rows of a file of `append_rows` or `distribute_rows` as a part."""
    import pyarrow.parquet as pq

    pq.write_table(_sorted_rows(file), part, compression="zstd")


def write_tables(files: Sequence[Path], table: Path, texts: Path, summary: Summary) -> Summary:
    """Write the rows of the files of `distribute_rows` as `archive.parquet` and `alt.csv`, and return their summary."""
    import pyarrow.parquet as pq

    with ExitStack() as opened:
        writer = opened.enter_context(pq.ParquetWriter(table, row_schema(), compression="zstd"))
        lines = opened.enter_context(texts.open("wb"))
        lines.write(csv_bytes(()))
        for file in files:
            rows = _sorted_rows(file)
            writer.write_table(rows)
            for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
                decoded = table_rows(batch)
                lines.write(csv_bytes(_alt_rows(decoded), with_head=False))
                for row in decoded:
                    summary.add(row)
    return summary


@cache
def _opened(index: Path) -> ManifestIndex:
    """The index, opened once in this process."""
    return ManifestIndex(index)


def _append(file: Path, rows: pyarrow.Table) -> None:
    import pyarrow as pa

    # a file has several streams, one after the other
    with file.open("ab") as output, pa.ipc.new_stream(output, rows.schema) as stream:
        stream.write_table(rows)


def _sorted_rows(file: Path) -> pyarrow.Table:
    import pyarrow as pa

    with pa.OSFile(str(file)) as stored:
        size, tables = stored.size(), []
        while stored.tell() < size:
            tables.append(pa.ipc.open_stream(stored).read_all())
    # the parts of an earlier version may lack columns
    return pa.concat_tables([row_schema().empty_table(), *tables], promote_options="default").sort_by("source")


def _alt_rows(rows: list[Row]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        yield from alt_rows(row.source, (row.optimized, row.converted), row.translations)
