"""The command `process`: processes files and folders like the API, and writes the results to a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from imgproc_local.cli.exit_codes import EXIT_INTERRUPTED, EXIT_PROBLEM, Refused, exit_command
from imgproc_local.cli.options import air_gapped_option, data_dir_option, load_config
from imgproc_local.cli.output import echo_json, path_text, printable
from imgproc_local.cli.picture_options import PictureFlags, picture_options, request_for

if TYPE_CHECKING:
    from imgproc_local.batch.request import BatchRequest
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

    The work costs no credits, and nothing is stored in the data folder. The command also works beside a server.

    Exit code: 0 every picture is done, 1 some files failed, 2 no file can be processed, 130 interrupted.
    """
    from imgproc_local.cli.process.report import csv_bytes
    from imgproc_local.cli.process.run import Run
    from imgproc_local.system.files import write_atomically

    config = load_config(ctx, data_dir, effort=flags.effort, quality_target=flags.quality, codec_threads=jobs)
    if csv_file is not None:
        _require_own_table(csv_file)
    if archive_names and flat:
        raise click.UsageError("--archive-names needs the subfolders of FOLDER: leave out --flat.")
    request = request_for(flags, config, archive_names=archive_names)
    run = Run(config, request, paths, out, flat=flat, watch=watch)
    if not (run.discovery.pictures or run.discovery.failed or watch):
        _refuse_empty(run, request, paths)
    if dry_run:
        _print_plan(run, out, as_json)
        ctx.exit(EXIT_PROBLEM if run.discovery.failed else 0)
    try:
        run.process()
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        exit_command(ctx, EXIT_INTERRUPTED, has_unstopped_threads=True)
    _report(run, out, flags.convert_to, as_json, is_already_printed=watch)
    exit_code = run.exit_code
    if csv_file is not None and run.outcomes:  # a table of an earlier run is not emptied by one that found no picture
        try:
            write_atomically(csv_file, csv_bytes(run.outcomes))
        except OSError as error:
            click.echo(f"The table {printable(path_text(csv_file))} can't be written: {error.strerror}.", err=True)
            exit_code = exit_code or EXIT_PROBLEM
    exit_command(ctx, exit_code, run.has_unstopped_threads)


def _require_own_table(csv_file: Path) -> None:
    """Raises: click.BadParameter, unless the file can be created or is the table of an earlier run."""
    from imgproc_local.cli.process.report import csv_bytes

    head = csv_bytes([])
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


def _refuse_empty(run: Run, request: BatchRequest, paths: tuple[Path, ...]) -> NoReturn:
    from imgproc_local.cli.process.report import problems
    from imgproc_local.codecs.picture.formats import FORMATS

    for line in problems([], run.discovery):
        click.echo(line, err=True)
    formats = ", ".join(FORMATS[each].name for each in request.accepted)
    where = ", ".join(printable(path_text(path)) for path in paths)
    raise Refused(f"Expected pictures ({formats}), but there are none in {where}.")


def _print_plan(run: Run, out: Path, as_json: bool) -> None:
    from imgproc_local.cli.process.report import entries, entry_without_results, problems

    pending, unchanged = run.plan()
    discovery = run.discovery
    if as_json:
        planned = [entry_without_results(picture.path, "pending") for picture in pending]
        echo_json([*planned, *entries(unchanged, discovery, out)])
        return
    for picture in pending:
        click.echo(f"Would process: {printable(path_text(picture.path))}")
    for line in problems([], discovery):
        click.echo(line, err=True)
    click.echo(
        f"{len(pending):,} to process, {len(unchanged):,} unchanged since an earlier run,"
        f" {len(discovery.failed):,} failed, {len(discovery.skipped):,} skipped. Nothing was written."
    )


def _report(run: Run, out: Path, convert_to: str, as_json: bool, is_already_printed: bool) -> None:
    """Print the results. With `is_already_printed`, the table of the pictures is left out."""
    from imgproc_local.cli.process.report import closing_line, entries, problems, summary

    discovery = run.discovery
    if as_json:
        echo_json(entries(run.outcomes, discovery, out))
    else:
        for line in [] if is_already_printed else summary(run.outcomes, convert_to, out):
            click.echo(line)
    for line in problems(run.outcomes, discovery):
        click.echo(line, err=True)
    click.echo(closing_line(run.outcomes, discovery), err=as_json or not run.outcomes)
    if run.stop_reason is not None and run.is_unfinished:
        done = sum(outcome.done for outcome in run.outcomes)
        click.echo(
            f"{run.stop_reason} {done:,} of {len(discovery.pictures):,} pictures are done. To continue, run the same"
            " command again: finished pictures are skipped.",
            err=True,
        )
