"""The command `process`: processes files and folders like the API, and writes the results to a folder.

It prints a table for people, or JSON for programs with the API's fields of an image, and writes a CSV file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from imgproc_local.cli.options import (
    PictureFlags,
    air_gapped_option,
    data_dir_option,
    load_config,
    picture_options,
    request_for,
)
from imgproc_local.cli.output import (
    EXIT_INTERRUPTED,
    EXIT_PROBLEM,
    Refused,
    echo_json,
    exit_command,
    path_text,
    printable,
    size_text,
    table,
)
from imgproc_local.domain.image import compression_percentage
from imgproc_local.domain.result import SuggestedRole, Translation
from imgproc_local.system.files import write_atomically

if TYPE_CHECKING:
    from imgproc_local.batch import ManifestLine
    from imgproc_local.cli.discovery import Discovery, SourceFile
    from imgproc_local.cli.process.results_folder import Outcome

_MAX_SKIPPED_LISTED = 20
"""The most skipped files that are listed for people. The JSON lists all of them."""


@click.command("process")
@click.argument(
    "paths", metavar="FILE|FOLDER...", nargs=-1, required=True, type=click.Path(readable=False, path_type=Path)
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    default="imgproc-out",
    show_default=True,
    help="Write the results to this folder, and create it if needed.",
)
@click.option("--flat", is_flag=True, help="Write all results into one folder, without the subfolders of FOLDER.")
@click.option(
    "--archive-names",
    is_flag=True,
    help="End each name with a hash of the picture's path below FOLDER instead of a number, as `archive` does.",
)
@picture_options
@click.option(
    "--jobs",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Optimize and convert N pictures at once.  [default: the setting codec_threads]",
)
@click.option(
    "--watch", is_flag=True, help="Wait for pictures that are added or changed, and process them too, until Ctrl+C."
)
@click.option("--dry-run", is_flag=True, help="Only list what would be processed and what is unchanged.")
@click.option("--json", "as_json", is_flag=True, help="Print only a JSON array with one object per file.")
@click.option(
    "--csv",
    "csv_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the alt texts to this file, with a row per result file and language. It may be the table of an"
    " earlier run, but no other file that exists.",
)
@air_gapped_option
@data_dir_option
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[Path, ...],
    out: Path,
    flat: bool,
    archive_names: bool,
    flags: PictureFlags,
    jobs: int | None,
    watch: bool,
    dry_run: bool,
    as_json: bool,
    csv_file: Path | None,
    data_dir: str | None,
) -> None:
    """Optimize, convert, rename and describe pictures.

    Takes JPEG, PNG, GIF, WebP and TIFF files, HEIC if its decoder is installed, and folders, which are searched
    recursively; hidden files and links to folders in them are skipped. Writes two files per picture to the --out
    folder, in the same subfolders: the optimized picture in its own format, and the converted one. Both get the SEO
    file name; the alt texts are printed. Your files are never overwritten: if a name is taken, -2, -3 … is added. The
    pictures themselves are not changed. Pictures whose alt texts need your words are listed first, in every run, with
    the reason.

    The --out folder has a manifest, a hidden file: the same command again continues an interrupted run, processes what
    is new or changed, and skips the rest. A picture whose content or options have changed gets new results in place of
    the old ones; with --only, the results of the other stages remain. Results that are found in FOLDER are not taken as
    input. Ctrl+C finishes the pictures in progress, and ends the command at once if it is pressed again.

    The work costs no credits, and nothing is stored in the data folder. The command also works beside a server.

    Exit code: 0 every picture is done, 1 some files failed, 2 no file can be processed, 130 interrupted.
    """
    from imgproc_local.cli.process.run import Run
    from imgproc_local.codecs.picture.formats import FORMATS

    config = load_config(ctx, data_dir, effort=flags.effort, quality_target=flags.quality, codec_threads=jobs)
    if csv_file is not None:
        _require_own_table(csv_file)
    if archive_names and flat:
        raise click.UsageError("--archive-names needs the subfolders of FOLDER: leave out --flat.")
    request = request_for(flags, config, archive_names=archive_names)
    run = Run(config, request, paths, out, flat=flat, watch=watch)
    if not (run.discovery.pictures or run.discovery.failed or watch):
        _print_problems([], run.discovery)
        formats = ", ".join(FORMATS[each].name for each in request.accepted)
        where = ", ".join(printable(path_text(path)) for path in paths)
        raise Refused(f"Expected pictures ({formats}), but there are none in {where}.")
    if dry_run:
        pending, unchanged = run.plan()
        if as_json:
            _print_json(unchanged, run.discovery, out, pending)
        else:
            _print_plan(pending, unchanged, run.discovery)
        ctx.exit(EXIT_PROBLEM if run.discovery.failed else 0)
    try:
        run.process()
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        exit_command(ctx, EXIT_INTERRUPTED, run.has_unstopped_threads)
    if as_json:
        _print_json(run.outcomes, run.discovery, out)
    elif not watch:  # it has printed each picture
        _print_table(run.outcomes, flags.convert_to, out)
    _print_problems(run.outcomes, run.discovery)
    click.echo(_closing_line(run.outcomes, run.discovery), err=as_json or not run.outcomes)
    if run.stop_reason is not None:
        done = sum(outcome.done for outcome in run.outcomes)
        click.echo(
            f"{run.stop_reason} {done:,} of {len(run.discovery.pictures):,} pictures are done. To continue, run the"
            " same command again: finished pictures are skipped.",
            err=True,
        )
    is_written = csv_file is None or _write_table(csv_file, run.outcomes)
    exit_command(ctx, run.exit_code if is_written else run.exit_code or EXIT_PROBLEM, run.has_unstopped_threads)


# ---- what is printed


def _print_plan(pending: Sequence[SourceFile], unchanged: Sequence[Outcome], discovery: Discovery) -> None:
    """Print for people what would be processed."""
    for picture in pending:
        click.echo(f"Would process: {printable(path_text(picture.path))}")
    _print_problems([], discovery)
    click.echo(
        f"{len(pending):,} to process, {len(unchanged):,} unchanged since an earlier run,"
        f" {len(discovery.failed):,} failed, {len(discovery.skipped):,} skipped. Nothing was written."
    )


# ---- for programs ----


def _print_json(
    outcomes: Sequence[Outcome], discovery: Discovery, out: Path, pending: Sequence[SourceFile] = ()
) -> None:
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


def _entry(
    picture: Path, status: str, errors: Sequence[tuple[str | None, str]], out: Path, record: ManifestLine | None = None
) -> dict[str, Any]:
    """The API's fields of an image, with the paths of the original and of the written files.

    Without a record they are null. `removed` are the kinds of private data that the original holds and a result does
    not; never the data.
    """
    from imgproc_local.api.wire import TranslationBody, as_body

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
        "suggested_role": record and record.suggestion and record.suggestion.role,
        "suggested_role_reason": record and record.suggestion and record.suggestion.reason,
        "removed": record and record.removed,
        "optimized_file": optimized and path_text(out / optimized.path),
        "converted_file": converted and path_text(out / converted.path),
        "errors": [{"stage": stage, "message": message} for stage, message in errors],
    }


# ---- for spreadsheets ----


def _require_own_table(csv_file: Path) -> None:
    """Raises: click.BadParameter, unless the file can be created or is the table of an earlier run."""
    from imgproc_local.batch import FIRST_ALT_COLUMNS
    from imgproc_local.engine.exports import csv_bytes

    head = csv_bytes((), FIRST_ALT_COLUMNS).rstrip()
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


def _write_table(csv_file: Path, outcomes: Sequence[Outcome]) -> bool:
    """Write the table of alt texts, unless there is no picture. If that fails, print why and return False."""
    from imgproc_local.batch import ALT_COLUMNS, alt_rows
    from imgproc_local.engine.exports import csv_bytes

    rows = (
        row
        for outcome in outcomes
        if (record := outcome.record) is not None
        for row in alt_rows(path_text(outcome.picture), record)
    )
    try:
        if outcomes:
            write_atomically(csv_file, csv_bytes(rows, ALT_COLUMNS))
    except OSError as error:
        click.echo(f"The table {printable(path_text(csv_file))} can't be written: {error.strerror}.", err=True)
        return False
    return True


# ---- for people ----


def _print_table(outcomes: Sequence[Outcome], converted_to: str, out: Path) -> None:
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
        if record.suggestion is not None and record.suggestion.role is not SuggestedRole.INFORMATIVE:
            click.echo(f"    suggested role: {record.suggestion.role.value}. {printable(record.suggestion.reason)}")
    click.echo()
    for line in _totals([outcome.new for outcome in outcomes if outcome.new is not None], converted_to, out):
        click.echo(line)
    if needing := sum(record.needs_text for _, record in listed):
        click.echo(f"{_picture_count(needing)} listed first, in need of an alt text from you.")


def _totals(new: Sequence[ManifestLine], converted_to: str, out: Path) -> Iterator[str]:
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


def _print_problems(outcomes: Sequence[Outcome], discovery: Discovery) -> None:
    """Print failed and skipped files with their reasons. Several results of earlier runs are only counted."""
    from imgproc_local.cli.discovery import OWN_RESULT

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


def _closing_line(outcomes: Sequence[Outcome], discovery: Discovery) -> str:
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
    if text.needs_text_reason is None:
        return f"{text.language_code} ({text.source.value})"
    return f"{text.language_code} (needs text: {text.needs_text_reason.value.replace('_', ' ')})"


def _row(picture: Path, record: ManifestLine) -> tuple[str, str, str, str, str, str]:
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


def _sizes(records: Sequence[ManifestLine]) -> tuple[int, int]:
    """The bytes of the originals, and of their optimized files."""
    optimized = (record.optimized.size_bytes for record in records if record.optimized is not None)
    return sum(record.size_bytes for record in records), sum(optimized)


def _percentage(optimized: Sequence[ManifestLine]) -> int:
    return compression_percentage(*_sizes(optimized))


def _picture_count(pictures: int) -> str:
    return "1 picture" if pictures == 1 else f"{pictures:,} pictures"
