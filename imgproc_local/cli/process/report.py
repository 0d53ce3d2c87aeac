"""What `process` prints: a table for people, JSON for programs with the API's fields of an image; and its CSV file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from imgproc_local.api.wire import TranslationBody, as_body
from imgproc_local.batch import Record, alt_rows, csv_bytes
from imgproc_local.cli.discovery import OWN_RESULT, Discovery, Picture
from imgproc_local.cli.output import echo_json, path_text, printable, size_text, table
from imgproc_local.cli.process.results_folder import Outcome
from imgproc_local.domain.image import compression_percentage
from imgproc_local.domain.result import Translation
from imgproc_local.system.files import write_atomically

_MAX_SKIPPED_LISTED = 20
"""The most skipped files that are listed for people. The JSON lists all of them."""

Errors = Sequence[tuple[str | None, str]]


def print_plan(pending: Sequence[Picture], unchanged: Sequence[Outcome], discovery: Discovery) -> None:
    """Print for people what would be processed."""
    for picture in pending:
        click.echo(f"Would process: {printable(path_text(picture.path))}")
    print_problems([], discovery)
    click.echo(
        f"{len(pending):,} to process, {len(unchanged):,} unchanged since an earlier run,"
        f" {len(discovery.failed):,} failed, {len(discovery.skipped):,} skipped. Nothing was written."
    )


# ---- for programs ----


def print_json(outcomes: Sequence[Outcome], discovery: Discovery, out: Path, pending: Sequence[Picture] = ()) -> None:
    """Print an entry per file: pictures that would be processed, outcomes, files that failed in the search, skipped
    files. Of the outcomes, pictures that need a text come first.
    """
    echo_json(
        [
            *(_entry(picture.path, "pending", (), out) for picture in pending),
            *(_entry(one.picture, _status(one), one.errors, out, one.record) for one in _needing_text_first(outcomes)),
            *(_entry(one.path, "failed", [(None, one.reason)], out) for one in discovery.failed),
            *(_entry(one.path, "skipped", [(None, one.reason)], out) for one in discovery.skipped),
        ]
    )


def _status(outcome: Outcome) -> str:
    """A status of the API, or `unchanged` for a picture whose results an earlier run made."""
    return "unchanged" if outcome.unchanged else "completed" if outcome.done else "failed"


def _entry(picture: Path, status: str, errors: Errors, out: Path, record: Record | None = None) -> dict[str, Any]:
    """The API's fields of an image, with the paths of the original and of the written files.

    Without a record they are null. `removed` are the kinds of private data that the original holds and a result does
    not; never the data.
    """
    optimized, converted = (record.optimized, record.converted) if record is not None else (None, None)
    return {
        "file": path_text(picture),
        "status": status,
        "original_filename": path_text(Path(picture.name)),
        "original_size": record and record.size_bytes,
        "optimized_size": optimized and optimized.size_bytes,
        "converted_format": converted and converted.format,
        "converted_size": converted and converted.size_bytes,
        "compression_percentage": record and optimized and _percentage([record]),
        "translations": [as_body(text, TranslationBody) for text in record.translations] if record is not None else [],
        "removed": record and record.removed,
        "optimized_file": optimized and path_text(out / optimized.path),
        "converted_file": converted and path_text(out / converted.path),
        "errors": [{"stage": stage, "message": message} for stage, message in errors],
    }


# ---- for spreadsheets ----


def require_own_table(csv_file: Path) -> None:
    """Raises: click.BadParameter, unless the file can be created or is the table of an earlier run."""
    head = csv_bytes(())
    try:
        is_own = csv_file.absolute().parent.is_dir() and not csv_file.exists()
        if csv_file.is_file():  # a pipe would be read until something is written into it
            with csv_file.open("rb") as opened:
                is_own = opened.read(len(head)) in (head, b"")
    except OSError:
        is_own = False
    if not is_own:
        raise click.BadParameter(
            f"expected a new file in a folder that exists, or the table of an earlier run; received {str(csv_file)!r}.",
            param_hint="'--csv'",
        )


def write_table(csv_file: Path, outcomes: Sequence[Outcome]) -> bool:
    """Write the table of alt texts, unless there is no picture. If that fails, print why and return False."""
    rows = (
        row
        for outcome in outcomes
        if (record := outcome.record) is not None
        for row in alt_rows(path_text(outcome.picture), record)
    )
    try:
        if outcomes:
            write_atomically(csv_file, csv_bytes(rows))
    except OSError as error:
        click.echo(f"The table {printable(path_text(csv_file))} can't be written: {error.strerror}.", err=True)
        return False
    return True


# ---- for people ----


def print_table(outcomes: Sequence[Outcome], converted_to: str, out: Path) -> None:
    """Print a row per picture with its alt texts below, and the totals of this run.

    Pictures that need a text come first, also unchanged ones. Other unchanged pictures are left out.
    """
    listed = [
        (outcome.picture, shown)
        for outcome in _needing_text_first(outcomes)
        if (shown := outcome.new or (outcome.record if outcome.needs_text else None)) is not None
    ]
    if not listed:
        return
    rows = [("FILE", "NEW NAME", "BEFORE", "AFTER", "SAVED", converted_to.upper())]
    rows += [_row(picture, record) for picture, record in listed]
    head, *lines = table(rows, right_aligned=(2, 3, 4, 5))
    click.echo(head)
    width = max((len(_label(text)) for _, record in listed for text in record.translations), default=0)
    for line, (_, record) in zip(lines, listed, strict=True):
        click.echo(line)
        for text in record.translations:
            click.echo(f"    {_label(text):{width}}  {printable(text.seo_alt_text)}".rstrip())
    click.echo()
    for line in _totals([outcome.new for outcome in outcomes if outcome.new is not None], converted_to, out):
        click.echo(line)
    if needing := sum(record.needs_text for _, record in listed):
        why = "nothing but kind and date is known."
        click.echo(f"{_picture_count(needing)} listed first, in need of an alt text from you: {why}")


def _totals(new: Sequence[Record], converted_to: str, out: Path) -> Iterator[str]:
    """How many pictures were described or written by this run, and what that saves."""
    written = [record for record in new if record.files]
    optimized = [record for record in new if record.optimized]
    if new and not written:
        yield f"{_picture_count(len(new))} described."
    elif written:
        saved = ""
        if optimized:
            before, after = _sizes(optimized)
            saved = f": {size_text(before)} before, {size_text(after)} after, {_percentage(optimized)} % saved"
        yield f"{_picture_count(len(written))} written to {printable(path_text(out))}{saved}."
    both = [(record.converted, record.optimized) for record in new if record.converted and record.optimized]
    if larger := sum(converted.size_bytes > optimized.size_bytes for converted, optimized in both):
        yield f"{_picture_count(larger)} larger as {converted_to.upper()} than optimized: use the optimized file there."


def print_problems(outcomes: Sequence[Outcome], discovery: Discovery) -> None:
    """Print failed and skipped files with their reasons. Several results of earlier runs are only counted."""
    for outcome in outcomes:
        for stage, message in outcome.errors:
            _print_problem("Failed", outcome.picture, f"{stage}: {message}" if stage else message)
    for one in discovery.failed:
        _print_problem("Failed", one.path, one.reason)
    results = sum(one.reason == OWN_RESULT for one in discovery.skipped)
    listed = [one for one in discovery.skipped if one.reason != OWN_RESULT or results == 1]
    for one in listed[:_MAX_SKIPPED_LISTED]:
        _print_problem("Skipped", one.path, one.reason)
    if len(listed) > _MAX_SKIPPED_LISTED:
        click.echo(f"Skipped: {len(listed) - _MAX_SKIPPED_LISTED} more; --json lists them all.", err=True)
    if results > 1:
        click.echo(f"Skipped: {results:,} results of earlier runs; --json lists them.", err=True)


def _print_problem(what: str, path: Path, reason: str) -> None:
    click.echo(f"{what}: {printable(path_text(path))}: {printable(reason)}", err=True)


def closing_line(outcomes: Sequence[Outcome], discovery: Discovery) -> str:
    """How many pictures are done, unchanged and failed, how many files were skipped, how many pictures need a text."""
    unchanged = sum(outcome.unchanged for outcome in outcomes)
    done = sum(outcome.done for outcome in outcomes) - unchanged
    failures = len(discovery.failed) + sum(bool(outcome.errors) for outcome in outcomes)
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
        f"{_percentage([record])} %" if record.optimized else "-",
        size_text(record.converted.size_bytes) if record.converted else "-",
    )


def _sizes(records: Sequence[Record]) -> tuple[int, int]:
    """The bytes of the originals, and of their optimized files."""
    optimized = (record.optimized.size_bytes for record in records if record.optimized is not None)
    return sum(record.size_bytes for record in records), sum(optimized)


def _percentage(optimized: Sequence[Record]) -> int:
    return compression_percentage(*_sizes(optimized))


def _picture_count(pictures: int) -> str:
    return "1 picture" if pictures == 1 else f"{pictures:,} pictures"
