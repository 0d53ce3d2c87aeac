"""The manifest of an archive: parts in Parquet, each with the rows of one task, in the hidden folder of the target.

A part is written in one step. The client reads their keys to know what is done; `archive.parquet` and `alt.csv` are
made from all of them at the end.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from imgproc_local.archive.row import Row
from imgproc_local.archive.store import STATE_FOLDER, Store
from imgproc_local.batch.alt_table import alt_rows, csv_bytes

if TYPE_CHECKING:
    import pyarrow

PARTS_FOLDER, MARKS_FOLDER = f"{STATE_FOLDER}/parts", f"{STATE_FOLDER}/marks"
TABLE_NAME, TEXTS_NAME = "archive.parquet", "alt.csv"


def part_key(name: str) -> str:
    return f"{PARTS_FOLDER}/{name}.parquet"


def mark_key(name: str) -> str:
    return f"{MARKS_FOLDER}/{name}"


@cache
def row_schema() -> pyarrow.Schema:
    """The columns of a part: the fields of `Row`."""
    import pyarrow as pa

    file = pa.struct(
        [("path", pa.string()), ("sha256", pa.string()), ("size_bytes", pa.int64()), ("format", pa.string())]
    )
    text = pa.struct([(name, pa.string()) for name in ("language_code", "seo_filename", "seo_alt_text", "source")])
    problem = pa.struct([("stage", pa.string()), ("message", pa.string())])
    kinds = {
        "size_bytes": pa.int64(),
        "problems": pa.list_(problem),
        "optimized": file,
        "converted": file,
        "sidecar": file,
        "translations": pa.list_(text),
        "removed": pa.list_(pa.string()),
        "analyze_s": pa.float64(),
        "optimize_s": pa.float64(),
        "convert_s": pa.float64(),
        "total_s": pa.float64(),
    }
    return pa.schema([(name, kinds.get(name, pa.string())) for name in Row.__struct_fields__])


def encode_rows(rows: Sequence[Row]) -> bytes:
    """The rows as the content of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist([msgspec.to_builtins(row) for row in rows], row_schema())
    content = io.BytesIO()
    pq.write_table(table, content, compression="zstd")
    return content.getvalue()


def decode_rows(content: bytes) -> list[Row]:
    """The rows of a Parquet file that `encode_rows` made."""
    import pyarrow.parquet as pq

    return msgspec.convert(pq.read_table(io.BytesIO(content)).to_pylist(), list[Row])


def stored_rows(target: Store) -> Iterator[Row]:
    """All rows of the parts, in the order of their names."""
    for key in target.keys(PARTS_FOLDER):
        yield from decode_rows(target.read(key))


def finish(target: Store, rows: Iterable[Row]) -> None:
    """Write the table of all pictures and that of the alt texts, sorted by source."""
    listed = sorted(rows, key=lambda row: row.source)
    target.replace(TABLE_NAME, encode_rows(listed))
    table = (line for row in listed for line in alt_rows(row.source, (row.optimized, row.converted), row.translations))
    target.replace(TEXTS_NAME, csv_bytes(table))
