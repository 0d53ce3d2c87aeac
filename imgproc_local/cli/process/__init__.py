"""The command `process`: processes files and folders like the API, and writes the results to a folder."""

from __future__ import annotations

import codecs
import os
from collections.abc import Container
from pathlib import Path
from typing import IO, Any

import click
from click.core import ParameterSource
from msgspec import structs

from imgproc_local.batch import BatchRequest
from imgproc_local.cli.discovery import has_picture_ending
from imgproc_local.cli.help import PictureCommand
from imgproc_local.cli.options import PictureFlags, general_options, load_settings, picture_options, request_for
from imgproc_local.cli.output import EXIT_INTERRUPTED, EXIT_PROBLEM, Refused, exit_command, path_text, printable
from imgproc_local.cli.process import pipe, report
from imgproc_local.cli.process.results_folder import RunOptions
from imgproc_local.cli.process.run import Run
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.config import Config
from imgproc_local.domain.image import Format
from imgproc_local.domain.plan import TIFF_SIZE_FACTOR

_MAX_LIST_BYTES = 64 * 1024 * 1024
"""The largest list of paths: enough for half a million pictures."""

_NOT_IN_PLACE = (
    *("out", "flat", "archive_names", "languages", "convert_to", "only", "max_width", "max_height", "write_metadata"),
    *("widths", "only_smaller", "overwrite", "sidecar", "project", "role", "context", "watch", "csv_file", "html_file"),
)
"""The options that have no meaning with --in-place."""
_NOT_PIPED = (
    *("files_from", "exclude", "out", "flat", "archive_names", "in_place", "backup_suffix", "preserve", "sidecar"),
    *("widths", "only_smaller", "watch", "dry_run", "as_json", "csv_file", "html_file"),
)
"""The options that have no meaning for one picture through a pipe."""


def _checked_suffix(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """A click callback. Raises: click.BadParameter, unless a name with the suffix is that of a backup.

    On Windows, a colon would name a part of the picture itself, and a dot or space at the end the picture.
    """
    if value is not None and (not value.rstrip(". ") or has_picture_ending(value) or set(value) & set("/\\:\0")):
        expected = "expected the end of a file name, such as .orig, not of a picture"
        raise click.BadParameter(f"{expected}; received {value!r}.")
    return value


@click.command("process", cls=PictureCommand)
@click.argument("paths", metavar="FILE|FOLDER...|-", nargs=-1, type=click.Path(readable=False))
@click.option(
    "--files-from",
    metavar="FILE",
    type=click.File("rb"),
    help="Also take the paths in this file, or - for standard input: one per line, or with a NUL character after each.",
)
@click.option(
    "--exclude",
    metavar="PATTERN",
    multiple=True,
    help="Leave out the files and folders below FOLDER whose name or path below it matches, such as '*.gif' or"
    " 'drafts/*'. Can be repeated.",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    default="imgproc-out",
    help="Write the results to this folder, and create it if needed.",
)
@click.option("--flat", is_flag=True, help="Write all results into one folder, without the subfolders of FOLDER.")
@click.option(
    "--archive-names",
    is_flag=True,
    help="End each name with a hash of the picture's path below FOLDER instead of a number, as `archive` does.",
)
@click.option(
    "--in-place",
    is_flag=True,
    help="Only optimize, and replace each picture that gets smaller or loses private data by its result, in one step.",
)
@click.option(
    "--backup-suffix",
    metavar="SUFFIX",
    callback=_checked_suffix,
    help="With --in-place, keep each original beside its result, with this suffix after its name, such as .orig.",
)
@click.option(
    "--preserve", is_flag=True, help="Give the files that are written the mode and the time of their pictures."
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
@click.option("-q", "--quiet", is_flag=True, help="Print only problems, and with --json the JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array with one object per file, and no table.")
@click.option(
    "--csv",
    "csv_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the alt texts to this file, with a row per result file and language. It may be the table of an"
    " earlier run, but no other file that exists.",
)
@click.option(
    "--html",
    "html_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write a <picture> element for each picture to this file, ready to be copied into a page: the converted"
    " file in its widths, the optimized one for other browsers, and the alt text in the first language.",
)
@general_options
@click.pass_context
def command(ctx: click.Context, /, paths: tuple[str, ...], flags: PictureFlags, **values: Any) -> None:
    """Optimize, convert, rename and describe pictures.

    Takes JPEG, PNG, GIF, WebP, AVIF, TIFF and JPEG XL files, HEIC if its decoder is installed, and folders, which are
    searched recursively; hidden files and links to folders in them are skipped. Writes two files per picture to the
    --out folder, in the same subfolders: the optimized picture in its own format, and the converted one. Both get the
    SEO file name; the alt texts are printed. Your files are never overwritten: if a name is taken, -2, -3 … is added.
    The pictures themselves are changed only with --in-place.

    Prints a row per picture of this run with its alt texts on standard output, those that need your words first, with
    the reason; problems and a summary on standard error.

    With - instead of FILE, reads one picture from standard input, and writes the optimized one, or with --only convert
    the converted one, to standard output: imgproc-local process - < a.jpg > b.jpg. The texts are on standard error.

    The --out folder has a manifest, a hidden file: the same command again continues an interrupted run, processes what
    is new or changed, and skips the rest. A picture whose content or options have changed gets new results in place of
    the old ones; with --only, the results of the other stages remain. Results that are found in FOLDER are not taken as
    input. Ctrl+C finishes the pictures in progress, and ends the command at once if it is pressed again.

    The work costs no credits, and nothing is stored in the data folder. The command also works beside a server.

    Exit code: 0 every picture is done, 1 some files failed, 2 no file can be processed, 130 interrupted.

    Examples:
      imgproc-local process --languages en,de --format avif photos
      imgproc-local process --out shop --max-width 1600 --csv alt.csv photos
    """

    every_path = _all_paths(paths, values.pop("files_from"), in_place=values["in_place"])
    options = RunOptions(paths=every_path, is_piped="-" in paths, **values)
    flags = structs.replace(flags, only=_stages(ctx, options, flags.only))
    config = load_settings(ctx, effort=flags.effort, quality_target=flags.quality, codec_threads=options.jobs).config
    _require_usable(options, flags, config)
    request = request_for(flags, config, archive_names=options.archive_names)
    if options.is_piped:
        options = ctx.with_resource(pipe.received(options, config.max_upload_bytes * TIFF_SIZE_FACTOR))
    run = Run(config, request, options)
    _require_pictures(run, options, request)
    if options.dry_run:
        pending, run.outcomes = run.plan()
        report.print_results(options, run, flags.convert_to, pending)
        ctx.exit(EXIT_PROBLEM if run.discovery.failed else 0)
    try:
        run.process()
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        exit_command(ctx, EXIT_INTERRUPTED, run.has_unstopped_threads)
    report.print_results(options, run, flags.convert_to)
    if options.is_piped:
        pipe.send(options, run.outcomes)
    is_written = report.write_files(options, run.outcomes)
    exit_command(ctx, run.exit_code if is_written else run.exit_code or EXIT_PROBLEM, run.has_unstopped_threads)


def _all_paths(named: tuple[str, ...], file: IO[bytes] | None, *, in_place: bool) -> tuple[Path, ...]:
    """The arguments and the paths that a file lists; empty lines are ignored.

    Raises: click.UsageError, also if the file has too many bytes, or with `in_place` lists a folder.
    """
    if not named and file is None:
        raise click.UsageError("Expected a FILE, a FOLDER, or --files-from.")
    content = b"" if file is None else file.read(_MAX_LIST_BYTES + 1)
    if len(content) > _MAX_LIST_BYTES:
        raise click.BadParameter(f"expected at most {_MAX_LIST_BYTES:,} bytes.", param_hint="'--files-from'")
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # as PowerShell 5 writes it
        raise click.BadParameter("expected a list in UTF-8, received UTF-16.", param_hint="'--files-from'")
    content = content.removeprefix(codecs.BOM_UTF8)
    # no path has a NUL character, so that one shows how the list is separated
    lines = content.split(b"\0") if b"\0" in content else content.splitlines()
    listed = [Path(os.fsdecode(line)) for line in lines if line]
    if in_place and (folder := next(filter(Path.is_dir, listed), None)):  # `find` prints its folder first
        where = printable(path_text(folder))
        raise click.UsageError(f"With --in-place, a list may name only files; {where} is a folder.")
    return (*map(Path, named), *listed)


def _stages(ctx: click.Context, options: RunOptions, only: tuple[str, ...]) -> tuple[str, ...]:
    """The stages to run: those of --only, unless the run is in place or through a pipe.

    Raises: click.UsageError, if options don't go together.
    """
    if options.is_piped:
        _refuse_others(ctx, "-, which reads one picture from standard input,", _NOT_PIPED)
        return pipe.stages_for_one_file(options, only)
    if options.in_place:
        _refuse_others(ctx, "--in-place", _NOT_IN_PLACE)
        return ("optimize",)
    if options.backup_suffix is not None:
        raise click.UsageError("--backup-suffix needs --in-place.")
    if options.archive_names and options.flat:
        raise click.UsageError("--archive-names needs the subfolders of FOLDER: leave out --flat.")
    return only


def _refuse_others(ctx: click.Context, what: str, names: Container[str]) -> None:
    """Raises: click.UsageError, if an option of these names is given with `what`."""
    for option in ctx.command.params:
        if option.name in names and ctx.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{what} can't be combined with {option.opts[0]}.")


def _require_usable(options: RunOptions, flags: PictureFlags, config: Config) -> None:
    """Raises: click.ClickException, if the settings, or files to write, can't be used with these options."""
    report.require_own_files(options)
    is_alone = "convert" in flags.only and "optimize" not in flags.only
    if options.html_file is not None and is_alone and flags.convert_to == Format.JXL:
        reason = "for browsers that don't show JPEG XL."
        raise click.UsageError(f"--html with --format jxl needs --only optimize, too, {reason}")
    if options.in_place and config.compression_service != "local":
        raise Refused("--in-place optimizes with the local codecs: set compression_service to 'local'.")


def _require_pictures(run: Run, options: RunOptions, request: BatchRequest) -> None:
    """Raises: Refused, if there is nothing to process, and nothing to report but what was skipped."""
    if not (run.discovery.pictures or run.discovery.failed or options.watch):
        report.print_skipped(options, run.discovery)
        formats = ", ".join(FORMATS[each].name for each in request.accepted)
        where = ", ".join(map(options.shown, options.paths)) or "the list of --files-from"
        raise Refused(f"Expected pictures ({formats}), but there are none in {where}.")
