"""The manifest of an archive: parts in Parquet, in the hidden folder of the target. A task stores one part.

A part is written in one step and never changed. Its name begins with the number of the run, so that the parts of a
later run sort after those of an earlier one. The columns `KEY_COLUMNS` of all parts say what is done
(`manifest_index`); `tables` makes `archive.parquet` and `alt.csv` from the parts at the end, and merges them into
larger ones. The functions that load PyArrow are called by workers, and by the client in a process of its own
(`manifest_process`).

The parts of several runs, and of tasks that were repeated after a worker was lost, may have several rows of a picture.
The tables have one, which `ManifestIndex` chooses. The row of a picture that failed names the results of an earlier run
that are still in the target, also if its workers were killed.
"""

from __future__ import annotations

import io
from collections.abc import Container, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from imgproc_local.archive.row import Row
from imgproc_local.batch.records import STATE_FOLDER

if TYPE_CHECKING:
    import pyarrow

PARTS_FOLDER, MARKS_FOLDER = f"{STATE_FOLDER}/parts", f"{STATE_FOLDER}/marks"
TABLE_NAME, TEXTS_NAME, REPORT_NAME = "archive.parquet", "alt.csv", "report.html"
KEY_COLUMNS = ("source", "version", "options", "outcome")
"""The columns by which a later run finds out whether a picture is new or changed."""
MERGED = "sorted"
"""What follows the number of the run in the names of the parts that `tables` merges. In other names a hexadecimal digit
follows, which sorts before an `s`, so that a merged part is read after those that it replaces.
"""

PART_ROWS = 5000
"""The most rows of a part that `tables` merges, and the number from which `merging` merges parts during a run."""


def part_key(name: str) -> str:
    return f"{PARTS_FOLDER}/{name}.parquet"


def merged_key(last: str) -> str:
    """The key of a part that replaces `last` and parts before it during a run. It sorts after all of them."""
    return f"{last.removesuffix('.parquet')}m.parquet"


def next_run(parts: Iterable[str]) -> int:
    """The number of a new run, higher than those of the runs that wrote the parts."""
    numbers = (_after_folder(part).partition("-")[0] for part in parts)
    return max((int(number) for number in numbers if number.isdecimal()), default=0) + 1


def run_name(number: int, token: str) -> str:
    """What the names of the parts of a run begin with."""
    return f"{number:06d}-{token}"


def is_merged(part: str) -> bool:
    """Whether the key is that of a part that `tables` has merged, not of one that `merging` has."""
    return f"-{MERGED}-" in _after_folder(part)


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
    types = {
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
        "cpu_s": pa.float64(),
    }
    return pa.schema([(name, types.get(name, pa.string())) for name in Row.__struct_fields__])


def encode_rows(rows: Sequence[Row]) -> bytes:
    """The rows as the content of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = io.BytesIO()
    table = pa.Table.from_pylist([msgspec.to_builtins(row) for row in rows], row_schema())
    pq.write_table(table, content, compression="zstd")
    return content.getvalue()


def decode_rows(content: bytes) -> list[Row]:
    """The rows of a Parquet file that `encode_rows` made."""
    return table_rows(decode_table(content))


def decode_table(content: bytes, columns: Sequence[str] | None = None) -> pyarrow.Table:
    """The rows of a Parquet file as a table, with all columns unless some are named."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(io.BytesIO(content)) as file:
        return file.read(columns=None if columns is None else list(columns), use_threads=False)


def rows_of(content: bytes, sources: Container[str]) -> list[Row]:
    """The rows of these sources in a Parquet file."""
    table = decode_table(content)
    return table_rows(table.filter([source in sources for source in table["source"].to_pylist()]))


def table_rows(table: pyarrow.Table) -> list[Row]:
    return msgspec.convert(table.to_pylist(), list[Row])


def _after_folder(key: str) -> str:
    return key.rpartition("/")[2]
