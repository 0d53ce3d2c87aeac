"""The report of `process`: a table for people; JSON for programs, with the API's fields of an image and file paths; and
CSV for spreadsheets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from imgproc_local.api.wire import TranslationBody, as_body
from imgproc_local.batch.files import alt_rows
from imgproc_local.batch.files import csv_bytes as csv_of_rows
from imgproc_local.batch.records import Record
from imgproc_local.cli.output import path_text, printable, size_text, table
from imgproc_local.cli.process.discovery import OWN_RESULT, Discovery
from imgproc_local.cli.process.publishing import Outcome
from imgproc_local.domain.image import compression_percentage
from imgproc_local.domain.result import Translation

MAX_SKIPPED_LISTED = 20
"""The most skipped files that are listed for people. The JSON lists all of them."""


def entries(outcomes: Sequence[Outcome], discovery: Discovery, out: Path) -> list[dict[str, Any]]:
    """One entry per file: first the outcomes, then the files that failed in the search, then the skipped ones.

    Of the outcomes, pictures that need a text come first.
    """
    return [
        *(_entry(outcome, out) for outcome in _needing_text_first(outcomes)),
        *(entry_without_results(one.path, "failed", [(None, one.reason)]) for one in discovery.failed),
        *(entry_without_results(one.path, "skipped", [(None, one.reason)]) for one in discovery.skipped),
    ]


def entry_without_results(picture: Path, status: str, errors: Sequence[tuple[str | None, str]] = ()) -> dict[str, Any]:
    """The API's fields of an image, with the paths of the original and of the written files.

    `status` is a status of the API; `unchanged` for a picture whose results an earlier run made; `skipped` for results
    of earlier runs and other files in a folder; `pending`, with `--dry-run`, for a picture that would be processed.
    `removed` are the kinds of private data that the original holds and a result does not; never the data.
    """
    return {
        "file": path_text(picture),
        "status": status,
        "original_filename": path_text(Path(picture.name)),
        "original_size": None,
        "optimized_size": None,
        "converted_format": None,
        "converted_size": None,
        "compression_percentage": None,
        "translations": [],
        "removed": None,
        "optimized_file": None,
        "converted_file": None,
        "errors": [{"stage": stage, "message": message} for stage, message in errors],
    }


def _entry(outcome: Outcome, out: Path) -> dict[str, Any]:
    status = "unchanged" if outcome.unchanged else "completed" if outcome.done else "failed"
    entry = entry_without_results(outcome.picture, status, outcome.errors)
    record = outcome.record
    if record is None:
        return entry
    for kind, file in (("optimized", record.optimized), ("converted", record.converted)):
        if file is not None:
            entry |= {f"{kind}_size": file.size_bytes, f"{kind}_file": path_text(out / file.path)}
    return entry | {
        "original_size": record.size_bytes,
        "converted_format": record.converted.format if record.converted else None,
        "compression_percentage": compression_percentage(*_sizes([record])) if record.optimized else None,
        "translations": [as_body(translation, TranslationBody) for translation in record.translations],
        "removed": record.removed,
    }


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
        yield (
            f"{_picture_count(needing)} listed first, in need of an alt text from you: nothing but kind and date is"
            " known."
        )
    both = [(record.converted, record.optimized) for record in new if record.converted and record.optimized]
    larger = sum(converted.size_bytes > optimized.size_bytes for converted, optimized in both)
    if larger:
        yield f"{_picture_count(larger)} larger as {converted_to.upper()} than optimized: use the optimized file there."


def _totals(records: Sequence[Record], out: Path) -> str:
    if not any(record.files for record in records):
        return f"{_picture_count(len(records))} described."
    written = f"{_picture_count(sum(bool(record.files) for record in records))} written to {printable(path_text(out))}"
    before, after = _sizes(records)
    if not before:
        return f"{written}."
    percentage = compression_percentage(before, after)
    return f"{written}: {size_text(before)} before, {size_text(after)} after, {percentage} % saved."


def _sizes(records: Sequence[Record]) -> tuple[int, int]:
    """The bytes of the originals that were optimized, and of their optimized files."""
    optimized = [(record.size_bytes, record.optimized.size_bytes) for record in records if record.optimized is not None]
    return sum(before for before, _ in optimized), sum(after for _, after in optimized)


def closing_line(outcomes: Sequence[Outcome], discovery: Discovery) -> str:
    """How many pictures are done, unchanged and failed, how many files were skipped, how many pictures need a text."""
    unchanged = sum(outcome.unchanged for outcome in outcomes)
    done = sum(outcome.done for outcome in outcomes) - unchanged
    failures = len(discovery.failed) + sum(bool(outcome.errors) and not outcome.interrupted for outcome in outcomes)
    needing = sum(outcome.needs_text for outcome in outcomes)
    counts = [f"{done:,} done", f"{failures:,} failed", f"{len(discovery.skipped):,} skipped"]
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
    # the path of the first file, or the name for it if none was written
    names = [*(file.path for file in record.files), *(text.seo_filename for text in record.translations), "-"]
    return (
        printable(path_text(picture)),
        printable(names[0]),
        size_text(record.size_bytes),
        size_text(record.optimized.size_bytes) if record.optimized else "-",
        f"{compression_percentage(*_sizes([record]))} %" if record.optimized else "-",
        size_text(record.converted.size_bytes) if record.converted else "-",
    )


def problems(outcomes: Sequence[Outcome], discovery: Discovery) -> Iterator[str]:
    """The lines for failed and for skipped files, with the reason of each.

    Several results of earlier runs are only counted.
    """
    for outcome in outcomes:
        if outcome.interrupted:
            continue
        for stage, message in outcome.errors:
            where = f"{stage}: " if stage else ""
            yield f"Failed: {printable(path_text(outcome.picture))}: {where}{printable(message)}"
    for one in discovery.failed:
        yield f"Failed: {printable(path_text(one.path))}: {printable(one.reason)}"
    results = sum(one.reason == OWN_RESULT for one in discovery.skipped)
    listed = [one for one in discovery.skipped if one.reason != OWN_RESULT or results == 1]
    for one in listed[:MAX_SKIPPED_LISTED]:
        yield f"Skipped: {printable(path_text(one.path))}: {printable(one.reason)}"
    if len(listed) > MAX_SKIPPED_LISTED:
        yield f"Skipped: {len(listed) - MAX_SKIPPED_LISTED} more; --json lists them all."
    if results > 1:
        yield f"Skipped: {results:,} results of earlier runs; --json lists them."


def _picture_count(pictures: int) -> str:
    return "1 picture" if pictures == 1 else f"{pictures:,} pictures"
