"""The command `process`: processes files and folders like the API, and writes the results to a folder."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imgproc_local.cli.exit_codes import EXIT_INTERRUPTED, EXIT_PROBLEM, exit_command
from imgproc_local.cli.options import air_gapped_option, data_dir_option, load_config
from imgproc_local.cli.picture_options import PictureFlags, picture_options, request_for

if TYPE_CHECKING:
    from imgproc_local.cli.process.run import Run


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
    pictures themselves are not changed. Pictures of which nothing but kind and date is known are listed first, in every
    run: their alt texts need your words.

    The --out folder has a manifest, a hidden file: the same command again continues an interrupted run, processes what
    is new or changed, and skips the rest. A picture whose content or options have changed gets new results in place of
    the old ones; with --only, the results of the other stages remain. Results that are found in FOLDER are not taken as
    input. Ctrl+C finishes the pictures in progress, and ends the command at once if it is pressed again.

    The work costs credits of the account "default". After the command, also after Ctrl+C, the data folder
    contains neither the pictures nor their jobs. If a server owns the data folder, that server does the work.

    Exit code: 0 every picture is done, 1 some files failed, 2 no file can be processed, 130 interrupted.
    """
    from imgproc_local.cli.process.run import Run, RunOptions

    config = load_config(ctx, data_dir, effort=flags.effort, quality_target=flags.quality, codec_threads=jobs)
    if csv_file is not None:
        _require_writable_table(csv_file)
    if archive_names and flat:
        raise click.UsageError("--archive-names needs the subfolders of FOLDER: leave out --flat.")
    request = request_for(flags, config, archive_names=archive_names)
    settings = (("--quality", flags.quality), ("--effort", flags.effort))
    changed_settings = tuple(flag for flag, value in settings if value is not None)
    run = Run(config, RunOptions(paths, out, flat, watch, changed_settings), request)
    run.find()
    if dry_run:
        _print_plan(run, as_json)
        ctx.exit(EXIT_PROBLEM if run.discovery.failed else 0)
    try:
        asyncio.run(run.process())
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        exit_command(ctx, EXIT_INTERRUPTED, has_unstopped_threads=False)
    _report(run, flags.convert_to, as_json, watch)
    # a table of an earlier run is not emptied by a run that found no picture
    is_written = csv_file is None or not run.outcomes or _write_csv(run, csv_file)
    exit_command(ctx, run.exit_code if is_written else run.exit_code or EXIT_PROBLEM, run.has_unstopped_threads)


def _require_writable_table(csv_file: Path) -> None:
    """Raises: click.BadParameter, unless the file can be created or is the table of an earlier run."""
    problem = None
    if not csv_file.absolute().parent.is_dir():
        problem = f"there is no folder {str(csv_file.parent)!r}: create it first."
    elif csv_file.exists():
        try:
            problem = None if _is_table(csv_file) else "exists and is not a table of an earlier run"
        except OSError as error:
            problem = f"exists and can't be read ({error.strerror})"
        problem = f"{str(csv_file)!r} {problem}. Name a new file." if problem else None
    if problem:
        raise click.BadParameter(problem, param_hint="'--csv'")


def _is_table(file: Path) -> bool:
    """Whether a file begins like the tables of alt texts, or is empty. Raises: OSError."""
    from imgproc_local.cli.process.report import csv_bytes

    head = csv_bytes([])
    if not file.is_file():  # a pipe would be read until something is written into it
        return False
    with file.open("rb") as opened:
        return opened.read(len(head)) in (head, b"")


def _print_plan(run: Run, as_json: bool) -> None:
    from imgproc_local.cli.output import echo_json, path_text, printable
    from imgproc_local.cli.process.report import entries, planned_entry, problems

    pending, unchanged = run.plan()
    discovery = run.discovery
    if as_json:
        rest = entries(unchanged, discovery.failed, discovery.skipped, run.config.status_set, run.out)
        echo_json([*(planned_entry(picture.path) for picture in pending), *rest])
        return
    for picture in pending:
        click.echo(f"Would process: {printable(path_text(picture.path))}")
    for line in problems([], discovery.failed, discovery.skipped):
        click.echo(line, err=True)
    click.echo(
        f"{len(pending):,} to process, {len(unchanged):,} unchanged since an earlier run,"
        f" {len(discovery.failed):,} failed, {len(discovery.skipped):,} skipped. Nothing was written."
    )


def _report(run: Run, convert_to: str, as_json: bool, is_already_printed: bool) -> None:
    """Print the results. With `is_already_printed`, the table of the pictures is left out."""
    from imgproc_local.cli.output import echo_json
    from imgproc_local.cli.process.report import closing_line, entries, problems, summary

    discovery = run.discovery
    if as_json:
        echo_json(entries(run.outcomes, discovery.failed, discovery.skipped, run.config.status_set, run.out))
    else:
        for line in [] if is_already_printed else summary(run.outcomes, convert_to, run.out):
            click.echo(line)
    for line in problems(run.outcomes, discovery.failed, discovery.skipped):
        click.echo(line, err=True)
    closing = closing_line(run.outcomes, len(discovery.failed), len(discovery.skipped))
    click.echo(closing, err=as_json or not run.outcomes)
    if run.stop_reason is not None and run.is_unfinished:
        done = sum(outcome.done for outcome in run.outcomes)
        click.echo(
            f"{run.stop_reason} {done:,} of {len(discovery.pictures):,} pictures are done. To continue, run the same"
            " command again: finished pictures are skipped.",
            err=True,
        )


def _write_csv(run: Run, csv_file: Path) -> bool:
    """Write the table of alt texts. If that fails, print why and return False."""
    from imgproc_local.cli.output import path_text, printable
    from imgproc_local.cli.process.report import csv_bytes
    from imgproc_local.system.files import write_atomically

    try:
        write_atomically(csv_file, csv_bytes(run.outcomes))
    except OSError as error:
        click.echo(
            f"The table {printable(path_text(csv_file))} can't be written: {error.strerror}. Run the same command again"
            " with another --csv: finished pictures are skipped.",
            err=True,
        )
        return False
    return True
