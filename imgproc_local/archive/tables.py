"""Writes the tables of all pictures, `archive.parquet` and `alt.csv`, and the report, and merges the manifest's parts.

Tables and merged parts are sorted by source. The rows are sorted in two passes with temporary files on this machine, so
that the memory does not grow with the archive: the first pass distributes them to files by ranges of sources, the
second sorts each file.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from imgproc_local.archive.manifest import (
    MERGED,
    PART_ROWS,
    PARTS_FOLDER,
    REPORT_NAME,
    TABLE_NAME,
    TEXTS_NAME,
    is_merged,
    part_key,
    run_name,
)
from imgproc_local.archive.manifest_index import ManifestIndex
from imgproc_local.archive.manifest_process import ManifestProcess
from imgproc_local.archive.manifest_steps import add_keys, distribute_rows, write_sorted, write_tables
from imgproc_local.archive.store import Store, exists
from imgproc_local.archive.summary import Summary

log = logging.getLogger(__name__)

REPORT_MARK = b'content="imgproc-local archive"'
"""What the first 512 bytes of a report contain. A file of its name without this belongs to the user."""


class Report(Struct, frozen=True):
    """A report to be written: `summary` collects the rows, and `page` makes the content of the file from it."""

    summary: Summary
    page: Callable[[Summary], bytes]


def read_new_parts(target: Store, index: ManifestIndex) -> None:
    """Add the parts that `index` has not read before. Raises: OSError; ServiceError, if the manifest process fails."""
    known = set(index.parts())
    with ManifestProcess() as process:
        for part in target.keys(PARTS_FOLDER):
            if part not in known:
                process.call(add_keys, index.file, part, target.read(part))


def finish(target: Store, index: ManifestIndex, run: int, report: Report) -> None:
    """Write both tables from the parts that `index` has read, and the report; then replace the parts by merged ones.

    Does nothing if an earlier run has done this and no part was added since, or if there is no part: a target that has
    tables also has parts, by which `require_no_tables` knows them. If it is interrupted, the next run does it
    again, because the parts that were merged are deleted last. Raises: OSError; ServiceError, if the manifest process
    fails.
    """
    parts = index.parts()
    names = (TABLE_NAME, TEXTS_NAME, REPORT_NAME)
    if not parts or (all(is_merged(part) for part in parts) and all(exists(target, name) for name in names)):
        return
    with ManifestProcess() as process, tempfile.TemporaryDirectory(prefix="imgproc-archive-") as name:
        folder = Path(name)
        files = _distribute(process, target, index, parts, folder)
        table, texts = folder / TABLE_NAME, folder / TEXTS_NAME
        summary = process.call(write_tables, files, table, texts, report.summary, parts=1 + len(files))
        target.replace_by_file(TABLE_NAME, table)
        target.replace_by_file(TEXTS_NAME, texts)
        _write_report(target, report.page, summary, folder / REPORT_NAME)
        merged = {part_key(f"{run_name(run, MERGED)}-{number:06d}"): file for number, file in enumerate(files)}
        for key, file in merged.items():
            process.call(write_sorted, file, folder / "part")
            target.replace_by_file(key, folder / "part")
    for part in parts:
        if part not in merged:
            target.remove(part)


def _distribute(
    process: ManifestProcess, target: Store, index: ManifestIndex, parts: list[str], folder: Path
) -> list[Path]:
    """Write each current row to a file by its source. Returns them in order; each has at most `PART_ROWS` rows."""
    first_sources = index.every_nth_source(PART_ROWS)
    files = [folder / f"{number}.arrows" for number in range(len(first_sources) + 1)]
    for part in parts:
        process.call(distribute_rows, index.file, part, target.read(part), files, first_sources)
    return [file for file in files if file.exists()]


def _write_report(target: Store, page: Callable[[Summary], bytes], summary: Summary, file: Path) -> None:
    if exists(target, REPORT_NAME) and REPORT_MARK not in target.head(REPORT_NAME):
        log.warning(
            "The target has a file %s that is not a report of this program, so none is written. Rename that file, and"
            " run the command again.",
            REPORT_NAME,
        )
        return
    file.write_bytes(page(summary))
    target.replace_by_file(REPORT_NAME, file)
