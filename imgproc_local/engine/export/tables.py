"""The files of an archive that list its images with their texts: `alt.csv` for spreadsheets, `alt.json` for programs.

Both are made in pieces, and twice: first to compute their size and CRC-32, then to send them. In both, the alt text is
empty if its source is `pixels`: such a text says nothing about the content, so a person has to write one.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from imgproc_local.domain.export import MissingFile
from imgproc_local.domain.result import Translation
from imgproc_local.engine.export.plan import PlannedFile, PlannedImage

COLUMNS = (
    "file",
    "original_filename",
    "language",
    "seo_filename",
    "alt_text",
    "source",
    "needs_text",
    "variant",
)
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Without it, Excel reads a table as text in the system's own encoding."""
_FORMULA = re.compile(r"""(^|[;\t\r\n]"*)(?=[=+\-@＝＋－＠])|^(?=[\t\r\n])""")
"""Where a spreadsheet would find a formula: at the start of a cell, and inside it after a character that separates
cells or rows. If the list separator is `;`, as in German and French, Excel splits the line there, quoted or not.
Source: OWASP, "CSV Injection".
"""


class WrittenFile(Struct, frozen=True):
    """A file as it is in the archive. `has_texts` says that alt texts were written into it."""

    size_bytes: int
    sha256: str
    has_texts: bool = False


class TextsFailure(Struct, frozen=True):
    """A file that was exported without its texts, and why they could not be written."""

    file: str
    message: str


def csv_table(images: Sequence[PlannedImage]) -> Iterator[bytes]:
    """One row per file and language, in the format of RFC 4180. Formulas are escaped.

    If no texts were requested for an image, each of its files has one row whose cells for texts are empty.
    """
    yield BYTE_ORDER_MARK + _csv_rows([COLUMNS])
    for planned in images:
        job = planned.image.job
        rows = [
            (file.name, job.original_filename, *cells, file.variant)
            for file in planned.files
            for cells in _text_cells(planned)
        ]
        if rows:
            yield _csv_rows(rows)


def json_data(
    images: Sequence[PlannedImage],
    written: Mapping[str, WrittenFile],
    failures: Sequence[TextsFailure],
    missing: Sequence[MissingFile],
) -> Iterator[bytes]:
    """The images with their files and texts; `written` has the files by their names in the archive."""
    yield b'{"images": ['
    for number, planned in enumerate(images):
        yield (b",\n" if number else b"\n") + msgspec.json.encode(_image_object(planned, written))
    yield b'\n],\n"problems": ' + msgspec.json.encode(failures)
    yield b',\n"missing": ' + msgspec.json.encode(missing) + b"}\n"


def _csv_rows(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([escape_formula(cell) for cell in row] for row in rows)
    return text.getvalue().encode()


def escape_formula(cell: str) -> str:
    """The cell, with an apostrophe before each part that a spreadsheet would evaluate as a formula."""
    return _FORMULA.sub(r"\1'", cell)


def _text_cells(planned: PlannedImage) -> list[tuple[str, str, str, str, str]]:
    """The cells from `language` to `needs_text`, for each language of an image."""
    texts = {text.language_code: text for text in planned.image.job.translations}
    cells = [
        (code, text.seo_filename, _alt_text(text), text.source.value, "true" if text.needs_text else "false")
        if (text := texts.get(code)) is not None
        else (code, "", "", "", "true")
        for code in _languages(planned)
    ]
    return cells or [("", "", "", "", "")]


def _languages(planned: PlannedImage) -> tuple[str, ...]:
    """The languages of an image, none if no texts were requested for it."""
    return planned.image.languages if planned.image.has_analysis else ()


def _alt_text(text: Translation) -> str:
    return "" if text.needs_text else text.seo_alt_text


def _image_object(planned: PlannedImage, written: Mapping[str, WrittenFile]) -> dict[str, object]:
    job = planned.image.job
    texts = {text.language_code: text for text in job.translations}
    return {
        "image_id": job.image_id,
        "job_id": job.id,
        "original_filename": job.original_filename,
        "project": planned.image.project,
        "created_at": job.created_at,
        "files": [_file_object(file, written[file.name]) for file in planned.files],
        "translations": [_text_object(code, texts.get(code)) for code in _languages(planned)],
    }


def _file_object(file: PlannedFile, written: WrittenFile) -> dict[str, object]:
    return {
        "file": file.name,
        "variant": file.variant,
        "format": file.stored.format.value,
        "size": written.size_bytes,
        "sha256": written.sha256,
        "texts_written": written.has_texts,
    }


def _text_object(language_code: str, text: Translation | None) -> dict[str, object]:
    return {
        "language_code": language_code,
        "seo_filename": text.seo_filename if text else "",
        "seo_alt_text": _alt_text(text) if text else "",
        "source": text.source.value if text else None,
        "needs_text": text is None or text.needs_text,
    }
