"""The command `process`: processes files and folders like the API, and writes the results to a folder."""

from __future__ import annotations

from pathlib import Path

import click

from imgproc_local.cli.options import (
    PictureFlags,
    air_gapped_option,
    data_dir_option,
    load_config,
    picture_options,
    request_for,
)
from imgproc_local.cli.output import EXIT_INTERRUPTED, EXIT_PROBLEM, Refused, exit_command, path_text, printable


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
    from imgproc_local.cli.process import report
    from imgproc_local.cli.process.run import Run
    from imgproc_local.codecs.picture.formats import FORMATS

    config = load_config(ctx, data_dir, effort=flags.effort, quality_target=flags.quality, codec_threads=jobs)
    if csv_file is not None:
        report.require_own_table(csv_file)
    if archive_names and flat:
        raise click.UsageError("--archive-names needs the subfolders of FOLDER: leave out --flat.")
    request = request_for(flags, config, archive_names=archive_names)
    run = Run(config, request, paths, out, flat=flat, watch=watch)
    if not (run.discovery.pictures or run.discovery.failed or watch):
        report.print_problems([], run.discovery)
        formats = ", ".join(FORMATS[each].name for each in request.accepted)
        where = ", ".join(printable(path_text(path)) for path in paths)
        raise Refused(f"Expected pictures ({formats}), but there are none in {where}.")
    if dry_run:
        pending, unchanged = run.plan()
        if as_json:
            report.print_json(unchanged, run.discovery, out, pending)
        else:
            report.print_plan(pending, unchanged, run.discovery)
        ctx.exit(EXIT_PROBLEM if run.discovery.failed else 0)
    try:
        run.process()
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        exit_command(ctx, EXIT_INTERRUPTED, run.has_unstopped_threads)
    if as_json:
        report.print_json(run.outcomes, run.discovery, out)
    elif not watch:  # it has printed each picture
        report.print_table(run.outcomes, flags.convert_to, out)
    report.print_problems(run.outcomes, run.discovery)
    click.echo(report.closing_line(run.outcomes, run.discovery), err=as_json or not run.outcomes)
    if run.stop_reason is not None:
        done = sum(outcome.done for outcome in run.outcomes)
        click.echo(
            f"{run.stop_reason} {done:,} of {len(run.discovery.pictures):,} pictures are done. To continue, run the"
            " same command again: finished pictures are skipped.",
            err=True,
        )
    is_written = csv_file is None or report.write_table(csv_file, run.outcomes)
    exit_command(ctx, run.exit_code if is_written else run.exit_code or EXIT_PROBLEM, run.has_unstopped_threads)
