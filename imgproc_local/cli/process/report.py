"""The report of `process`: a table for people; JSON for programs, with the API's fields of an image and file paths; and
CSV for spreadsheets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from imgproc_local.api.wire import StatusSet, TranslationBody, as_body, status_word
from imgproc_local.batch.files import ResultFile, alt_rows
from imgproc_local.batch.files import csv_bytes as csv_of_rows
from imgproc_local.batch.records import Record
from imgproc_local.cli.output import path_text, printable, size_text, table
from imgproc_local.cli.process.batch import Outcome
from imgproc_local.cli.process.discovery import OWN_RESULT, RejectedFile
from imgproc_local.domain.image import compression_percentage
from imgproc_local.domain.job import Status
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import Translation

MAX_SKIPPED_LISTED = 20
"""The most skipped files that are listed for people. The JSON lists all of them."""


class ErrorEntry(Struct, frozen=True):
    """An error of one picture. `stage` is None for an error outside a stage."""

    stage: str | None
    message: str


class ImageEntry(Struct, frozen=True):
    """The API's fields of an image, with the paths of the original and of the written files.

    If there are no results, the fields of the API are null, except `status` and `original_filename`, and `translations`
    is empty. `status` is `unchanged` for a picture whose results an earlier run made, `skipped` for results of earlier
    runs and other files in a folder, and `pending`, with `--dry-run`, for a picture that would be processed. `removed`
    are the kinds of private data that the original holds and a result does not; never the data.
    """

    file: str
    id: str | None
    status: str
    original_filename: str
    original_size: int | None
    optimized_size: int | None
    converted_format: Literal["webp", "avif"] | None
    converted_size: int | None
    compression_percentage: int | None
    translations: list[TranslationBody]
    removed: list[Removed] | None
    optimized_file: str | None
    converted_file: str | None
    errors: list[ErrorEntry]


def entries(
    outcomes: Sequence[Outcome],
    failed: Sequence[RejectedFile],
    skipped: Sequence[RejectedFile],
    status_set: StatusSet,
    out: Path,
) -> list[ImageEntry]:
    """One entry per file: first the outcomes, then the files that failed in the search, then the skipped ones.

    Of the outcomes, pictures that need a text come first.
    """
    failed_word = status_word(Status.FAILED, status_set)
    return [
        *(_entry(outcome, status_set, out) for outcome in _needing_text_first(outcomes)),
        *(_without_results(one.path, failed_word, [ErrorEntry(None, one.reason)]) for one in failed),
        *(_without_results(one.path, "skipped", [ErrorEntry(None, one.reason)]) for one in skipped),
    ]


def planned_entry(picture: Path) -> ImageEntry:
    """The entry of a picture that would be processed without `--dry-run`."""
    return _without_results(picture, "pending", [])


def _entry(outcome: Outcome, status_set: StatusSet, out: Path) -> ImageEntry:
    failed_word = status_word(Status.FAILED, status_set)
    errors = [ErrorEntry(stage, message) for stage, message in outcome.errors]
    record = outcome.record
    if record is None:
        return _without_results(outcome.picture, failed_word, errors)
    converted_format: Literal["webp", "avif"] | None = None
    if record.converted is not None:
        converted_format = "avif" if record.converted.format == "avif" else "webp"
    word = "unchanged" if outcome.unchanged else status_word(Status.COMPLETED, status_set)
    return ImageEntry(
        file=path_text(outcome.picture),
        id=outcome.image_id,
        status=word if outcome.done else failed_word,
        original_filename=path_text(Path(outcome.picture.name)),
        original_size=record.size_bytes,
        optimized_size=_size(record.optimized),
        converted_format=converted_format,
        converted_size=_size(record.converted),
        compression_percentage=(
            compression_percentage(record.size_bytes, record.optimized.size_bytes) if record.optimized else None
        ),
        translations=[as_body(translation, TranslationBody) for translation in record.translations],
        removed=list(record.removed),
        optimized_file=_path(record.optimized, out),
        converted_file=_path(record.converted, out),
        errors=errors,
    )


def _without_results(picture: Path, status: str, errors: list[ErrorEntry]) -> ImageEntry:
    return ImageEntry(
        file=path_text(picture),
        id=None,
        status=status,
        original_filename=path_text(Path(picture.name)),
        original_size=None,
        optimized_size=None,
        converted_format=None,
        converted_size=None,
        compression_percentage=None,
        translations=[],
        removed=None,
        optimized_file=None,
        converted_file=None,
        errors=errors,
    )


def _size(file: ResultFile | None) -> int | None:
    return None if file is None else file.size_bytes


def _path(file: ResultFile | None, out: Path) -> str | None:
    return None if file is None else path_text(out / file.path)


# ---- for spreadsheets ----


def csv_bytes(outcomes: Sequence[Outcome]) -> bytes:
    """The table of alt texts of these pictures."""
    return csv_of_rows(
        row
        for outcome in outcomes
        if (record := outcome.record) is not None
        for row in alt_rows(path_text(outcome.picture), (record.optimized, record.converted), record.translations)
    )


# ---- for people ----

_FORMAT_NAMES = {"webp": "WebP", "avif": "AVIF"}


def summary(outcomes: Sequence[Outcome], converted_to: str, out: Path) -> Iterator[str]:
    """The lines of the table: one row per picture with its alt texts below, and the totals of this run.

    Pictures that need a text come first, also unchanged ones. Other unchanged pictures are left out.
    """
    listed = [
        (outcome.picture, shown)
        for outcome in _needing_text_first(outcomes)
        if (shown := outcome.new or (outcome.record if outcome.needs_text else None)) is not None
    ]
    if not listed:
        return
    records = [record for _, record in listed]
    new = [outcome.new for outcome in outcomes if outcome.new is not None]
    rows = [("FILE", "NEW NAME", "BEFORE", "AFTER", "SAVED", converted_to.upper())]
    rows += [_row(picture, record) for picture, record in listed]
    head, *lines = table(rows, right_aligned=(2, 3, 4, 5))
    yield head
    width = max((len(_label(text)) for record in records for text in record.translations), default=0)
    for line, record in zip(lines, records, strict=True):
        yield line
        for text in record.translations:
            yield f"    {_label(text):{width}}  {printable(text.seo_alt_text)}".rstrip()
    yield ""
    if new:
        yield _totals(new, out)
    needing = sum(record.needs_text for record in records)
    if needing:
        need, their, are = ("needs", "its", "It is") if needing == 1 else ("need", "their", "They are")
        yield (
            f"{_picture_count(needing)} {need} an alt text from you: nothing but {their} kind and date is known."
            f" {are} listed first."
        )
    larger = sum(
        record.converted.size_bytes > record.optimized.size_bytes
        for record in new
        if record.converted is not None and record.optimized is not None
    )
    if larger:
        are, them = ("is", "it") if larger == 1 else ("are", "them")
        yield (
            f"{_picture_count(larger)} {are} larger as {_FORMAT_NAMES[converted_to]} than optimized:"
            f" use the optimized file for {them}."
        )


def _totals(records: Sequence[Record], out: Path) -> str:
    if not any(record.files for record in records):
        return f"{_picture_count(len(records))} described."
    written = f"{_picture_count(sum(bool(record.files) for record in records))} written to {printable(path_text(out))}"
    optimized = [(record.size_bytes, record.optimized.size_bytes) for record in records if record.optimized is not None]
    if not optimized:
        return f"{written}."
    before, after = (sum(sizes) for sizes in zip(*optimized, strict=True))
    return (
        f"{written}: {size_text(before)} before, {size_text(after)} after,"
        f" {compression_percentage(before, after)} % saved."
    )


def closing_line(outcomes: Sequence[Outcome], failed: int, skipped: int) -> str:
    """How many pictures are done, unchanged and failed, how many files were skipped, how many pictures need a text."""
    unchanged = sum(outcome.unchanged for outcome in outcomes)
    done = sum(outcome.done for outcome in outcomes) - unchanged
    failures = failed + sum(bool(outcome.errors) and not outcome.interrupted for outcome in outcomes)
    needing = sum(outcome.needs_text for outcome in outcomes)
    counts = [f"{done:,} done", f"{failures:,} failed", f"{skipped:,} skipped"]
    if unchanged:
        counts.insert(1, f"{unchanged:,} unchanged since an earlier run")
    if needing:
        counts.append(f"{needing:,} in need of a text")
    return ", ".join(counts) + "."


def _needing_text_first(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return sorted(outcomes, key=lambda outcome: not outcome.needs_text)


def _label(text: Translation) -> str:
    return f"{text.language_code} ({'needs text' if text.needs_text else text.source.value})"


def _row(picture: Path, record: Record) -> tuple[str, str, str, str, str, str]:
    before, optimized, converted = record.size_bytes, record.optimized, record.converted
    return (
        printable(path_text(picture)),
        printable(_new_name(record)),
        size_text(before),
        size_text(optimized.size_bytes) if optimized else "-",
        f"{compression_percentage(before, optimized.size_bytes)} %" if optimized else "-",
        size_text(converted.size_bytes) if converted else "-",
    )


def _new_name(record: Record) -> str:
    """The path of the first file, or the name for it if none was written; "-" without both."""
    if record.files:
        return record.files[0].path
    return record.translations[0].seo_filename if record.translations else "-"


def problems(
    outcomes: Sequence[Outcome], failed: Sequence[RejectedFile], skipped: Sequence[RejectedFile]
) -> Iterator[str]:
    """The lines for failed and for skipped files, with the reason of each.

    Several results of earlier runs are only counted.
    """
    for outcome in outcomes:
        if outcome.interrupted:
            continue
        for stage, message in outcome.errors:
            where = f"{stage}: " if stage else ""
            yield f"Failed: {printable(path_text(outcome.picture))}: {where}{printable(message)}"
    for one in failed:
        yield f"Failed: {printable(path_text(one.path))}: {printable(one.reason)}"
    results = sum(one.reason == OWN_RESULT for one in skipped)
    listed = [one for one in skipped if one.reason != OWN_RESULT or results == 1]
    for one in listed[:MAX_SKIPPED_LISTED]:
        yield f"Skipped: {printable(path_text(one.path))}: {printable(one.reason)}"
    if len(listed) > MAX_SKIPPED_LISTED:
        yield f"Skipped: {len(listed) - MAX_SKIPPED_LISTED} more; --json lists them all."
    if results > 1:
        yield f"Skipped: {results:,} results of earlier runs; --json lists them."


def _picture_count(pictures: int) -> str:
    return "1 picture" if pictures == 1 else f"{pictures:,} pictures"
