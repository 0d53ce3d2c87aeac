"""The table of alt texts for spreadsheets, as CSV: RFC 4180 with a byte order mark, by which Excel recognises UTF-8."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from imgproc_local.batch.files import ResultFile
from imgproc_local.domain.result import Translation
from imgproc_local.engine.export_archive import BYTE_ORDER_MARK, escape_formula

COLUMNS = ("file", "original_file", "language", "seo_filename", "alt_text", "source", "needs_text")


def alt_rows(
    original: str, files: Iterable[ResultFile | None], translations: Sequence[Translation]
) -> Iterator[tuple[str, ...]]:
    """The rows of one picture, one per result file and language, or one per language if no file was written.

    `file` is the path in the output folder, empty without a file. An alt text that a person has to write is empty. What
    a spreadsheet would calculate is preceded by an apostrophe.
    """
    for path in [file.path for file in files if file is not None] or [""]:
        for text in translations:
            alt_text = "" if text.needs_text else text.seo_alt_text
            cells = (path, original, text.language_code, text.seo_filename, alt_text)
            needs_text = "true" if text.needs_text else "false"
            yield (*(escape_formula(cell) for cell in cells), text.source.value, needs_text)


def csv_bytes(rows: Iterable[Sequence[str]], *, with_head: bool = True) -> bytes:
    """The rows as CSV. `with_head` puts the byte order mark and the column names before them."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    if with_head:
        writer.writerow(COLUMNS)
    writer.writerows(rows)
    content = text.getvalue().encode("utf-8", "backslashreplace")
    return BYTE_ORDER_MARK + content if with_head else content
