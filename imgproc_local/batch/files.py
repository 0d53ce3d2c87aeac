"""The result files of one picture: made from what the stages return, how they are named and recorded; their alt texts.

A name is made from the texts or from the picture's own name. Each file adds its ending, such as `.webp`,
`-converted.webp` or `.xmp`. The table of alt texts is CSV for spreadsheets: RFC 4180 with a byte order mark, by which
Excel recognises UTF-8.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Literal

from msgspec import Struct, structs

from imgproc_local.batch.request import BatchRequest
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.domain.errors import ServiceError, StorageFailed
from imgproc_local.domain.image import Format
from imgproc_local.domain.job import StageName
from imgproc_local.domain.result import Translation
from imgproc_local.domain.slug import make_slug
from imgproc_local.engine.direct import DirectStages, StageResult
from imgproc_local.engine.exports import BYTE_ORDER_MARK, escape_formula
from imgproc_local.engine.results import TextsWork, write_texts

SIDECAR_ENDING = ".xmp"
COLUMNS = ("file", "original_file", "language", "seo_filename", "alt_text", "source", "needs_text")


class ResultFile(Struct, frozen=True):
    """A result file. `path` is relative to the output folder, with `/` between the parts. A sidecar has no `format`."""

    path: str
    sha256: str
    size_bytes: int
    format: Format | None = None


class LocalFile(Struct, frozen=True):
    """A result. Its name will end with `ending`, such as `.webp` or `-converted.webp`. A sidecar has no `format`."""

    kind: Literal["optimized", "converted", "sidecar"]
    path: Path
    ending: str
    format: Format | None = None


def optimized_ending(picture: PurePath, result_format: Format) -> str:
    """The picture's extension in lower case if `result_format` uses it, else the usual extension of that format."""
    ending = picture.suffix.lower()
    extensions = FORMATS[result_format].extensions
    return ending if ending.removeprefix(".") in extensions else f".{extensions[0]}"


def converted_ending(result_format: Format, optimized: str) -> str:
    """The ending of the converted file; `optimized` is that of the optimized file, also if another run makes that file.

    A WebP that is converted to WebP has two results, which need different names.
    """
    ending = f".{FORMATS[result_format].extensions[0]}"
    return f"-converted{ending}" if ending == optimized else ending


def fallback_name(picture: PurePath, language: str) -> str:
    """The name for the results of a picture without texts, made from its file name."""
    return make_slug(picture.stem, language) or "image"


def sidecar_content(texts: Sequence[Translation]) -> bytes | None:
    """The content of the XMP file with the texts; None if no person or model wrote one of them."""
    from imgproc_local.codecs.alt_texts import sidecar, texts_to_write

    file_texts = texts_to_write(texts)
    return sidecar(file_texts) if file_texts.alt_texts else None


# ---- what the stages made ----


def texts_of(results: Collection[StageResult]) -> tuple[Translation, ...]:
    """The texts that the stages wrote; none if the picture was not analyzed, or that failed."""
    return next((result.output.texts for result in results if result.output is not None and result.output.texts), ())


def result_files(
    direct: DirectStages,
    request: BatchRequest,
    name: PurePath,
    original: Path,
    original_format: Format,
    results: Collection[StageResult],
    folder: Path,
) -> tuple[list[LocalFile], list[str]]:
    """The results of a picture that was called `name`, and why some have no texts.

    They lie in `folder`, except that `original` itself stands for an output that keeps it. Raises: StorageFailed,
    OSError.
    """
    texts = texts_of(results)
    problems = []
    files = _stage_files(name, original, original_format, results, folder)
    if request.write_metadata and texts:
        for number, file in enumerate(files):
            try:
                files[number] = structs.replace(file, path=_with_texts(direct, request, file, texts, folder))
            except StorageFailed:
                raise
            except ServiceError as error:
                problems.append(f"The texts are not in the {file.kind} file: {error.message}")
    if request.sidecar and (content := sidecar_content(texts)) is not None:
        files.append(LocalFile("sidecar", folder / "sidecar", SIDECAR_ENDING))
        files[-1].path.write_bytes(content)
    return files, problems


def _stage_files(
    name: PurePath, original: Path, original_format: Format, results: Collection[StageResult], folder: Path
) -> list[LocalFile]:
    files: list[LocalFile] = []
    ending = optimized_ending(name, original_format)
    for result in results:
        output = result.output
        if output is None or result.stage is StageName.ANALYZE:
            continue
        path = original if output.path is None else Path(output.path).rename(folder / result.stage.value)
        result_format = output.format or original_format
        if result.stage is StageName.OPTIMIZE:
            ending = optimized_ending(name, result_format)
            files.append(LocalFile("optimized", path, ending, result_format))
        else:
            files.append(LocalFile("converted", path, converted_ending(result_format, ending), result_format))
    return files


def _with_texts(
    direct: DirectStages, request: BatchRequest, file: LocalFile, texts: Sequence[Translation], folder: Path
) -> Path:
    assert file.format is not None
    work = TextsWork(bytes(file.path.absolute()), file.format, tuple(texts), request.overwrite)
    written = write_texts(direct.workers, direct.timeout_s, work, direct.cancelled)
    return written.rename(folder / f"{file.kind}-with-texts")


# ---- the table of alt texts ----


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
