"""The table of alt texts for spreadsheets, as CSV: RFC 4180 with a byte order mark, by which Excel recognises UTF-8."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from imgproc_local.batch.files import ResultFile
from imgproc_local.domain.result import Translation
from imgproc_local.engine.export.tables import BYTE_ORDER_MARK, escape_formula

COLUMNS = ("file", "original_file", "language", "seo_filename", "alt_text", "source", "needs_text")


def alt_rows(
    original: str, files: Iterable[ResultFile | None], translations: Sequence[Translation]
) -> Iterator[tuple[str, ...]]:
    """The rows of one picture, one per result file and language.

    `file` is relative to the output folder; it is empty where no file was written. A text that a person has to write is
    empty. A cell that a spreadsheet would calculate gets an apostrophe in front of it.
    """
    for file in [file.path for file in files if file is not None] or [""]:
        for one in translations:
            alt_text = "" if one.needs_text else one.seo_alt_text
            cells = (file, original, one.language_code, one.seo_filename, alt_text)
            needs_text = "true" if one.needs_text else "false"
            yield (*(escape_formula(cell) for cell in cells), one.source.value, needs_text)


def csv_bytes(rows: Iterable[Sequence[str]], *, with_head: bool = True) -> bytes:
    """The rows as CSV, after the byte order mark and the names of the columns, unless they are not wanted."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    if with_head:
        writer.writerow(COLUMNS)
    writer.writerows(rows)
    content = text.getvalue().encode("utf-8", "backslashreplace")
    return BYTE_ORDER_MARK + content if with_head else content
