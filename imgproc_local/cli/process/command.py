"""The command `process`: runs the engine of the API without a server, and writes the results to a folder."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from imgproc_local.cli.exit_codes import EXIT_INTERRUPTED, exit_command
from imgproc_local.cli.languages import language_codes
from imgproc_local.cli.names import checked_name
from imgproc_local.cli.options import air_gapped_option, data_dir_option, load_config
from imgproc_local.domain.plan import MAX_SIDE_PX
from imgproc_local.domain.quality import HIGHEST_TARGET, LOWEST_TARGET, TARGETS, Effort

if TYPE_CHECKING:
    from imgproc_local.cli.process.run import Run


def _language_codes(ctx: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """A click callback: `language_codes`, with the API's maximum number of languages per picture."""
    from imgproc_local.domain.plan import MAX_LANGUAGES

    codes = language_codes(ctx, parameter, value)
    if len(codes) > MAX_LANGUAGES:
        raise click.BadParameter(f"expected at most {MAX_LANGUAGES} languages, received {len(codes)}.")
    return codes


def _checked_context(_ctx: click.Context, _parameter: click.Parameter, value: str) -> str:
    """A click callback: the text without surrounding white space, with the API's maximum length."""
    from imgproc_local.domain.plan import MAX_CONTEXT_CHARS

    value = value.strip()
    if len(value) > MAX_CONTEXT_CHARS:
        raise click.BadParameter(f"expected at most {MAX_CONTEXT_CHARS} characters, received {len(value)}.")
    return value


def _checked_quality(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """A click callback: a name or a score that the setting quality_target accepts."""
    if value is None or (value := value.strip().lower()) in TARGETS:
        return value
    try:
        score = float(value)
    except ValueError:
        score = 0.0
    if not LOWEST_TARGET <= score <= HIGHEST_TARGET:
        raise click.BadParameter(
            f"expected {', '.join(TARGETS)}, or a score from {LOWEST_TARGET:g} to {HIGHEST_TARGET:g};"
            f" received {value!r}."
        )
    return value


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
    "--languages",
    metavar="CODES",
    callback=_language_codes,
    default="en",
    show_default=True,
    help="Write alt texts in these languages, such as en,de. The file names are in the first one.",
)
@click.option(
    "--format",
    "convert_to",
    type=click.Choice(("webp", "avif"), case_sensitive=False),
    default="webp",
    show_default=True,
    help="Convert to this format.",
)
@click.option(
    "--only",
    type=click.Choice(("analyze", "optimize", "convert"), case_sensitive=False),
    multiple=True,
    help="Do only this: analyze (names and texts), optimize or convert. Can be given twice.",
)
@click.option(
    "--quality",
    metavar="TARGET",
    callback=_checked_quality,
    help="How closely results match the original: visually-lossless, web, small, or a score from 50 to 95."
    "  [default: the setting quality_target]",
)
@click.option("--max-width", type=click.IntRange(1, MAX_SIDE_PX), metavar="PIXELS", help="Scale down to this width.")
@click.option("--max-height", type=click.IntRange(1, MAX_SIDE_PX), metavar="PIXELS", help="Scale down to this height.")
@click.option(
    "--effort",
    type=click.Choice(get_args(Effort), case_sensitive=False),
    help="Trade CPU time for file size at the same quality.  [default: the setting effort]",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Optimize and convert N pictures at once.  [default: the setting codec_threads]",
)
@click.option(
    "--write-metadata",
    is_flag=True,
    help="Write the alt texts into the results, as XMP, but none that needs your words.",
)
@click.option(
    "--overwrite", is_flag=True, help="With --write-metadata, replace alt texts that the pictures already have."
)
@click.option("--sidecar", is_flag=True, help="Also write the alt texts to NAME.xmp beside the results.")
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
    help="Also write the alt texts to this file, with a row per result file and language.",
)
@click.option(
    "--project",
    metavar="NAME",
    callback=checked_name,
    help="Use this name as the project and as context for the alt texts.",
)
@click.option(
    "--context",
    metavar="TEXT",
    callback=_checked_context,
    default="",
    help="Say what page or article the pictures are for, in at most 500 characters. The vision model reads it; it is"
    " deleted with the job.",
)
@air_gapped_option
@data_dir_option
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[Path, ...],
    out: Path,
    flat: bool,
    languages: tuple[str, ...],
    convert_to: str,
    only: tuple[str, ...],
    quality: str | None,
    max_width: int | None,
    max_height: int | None,
    effort: Effort | None,
    jobs: int | None,
    write_metadata: bool,
    overwrite: bool,
    sidecar: bool,
    watch: bool,
    dry_run: bool,
    as_json: bool,
    csv_file: Path | None,
    project: str | None,
    context: str,
    data_dir: str | None,
) -> None:
    """Optimize, convert, rename and describe pictures.

    Takes JPEG, PNG, GIF, WebP and TIFF files, HEIC with the extra heic, and folders, which are searched recursively;
    hidden files and links to folders in them are skipped. Writes two files per picture to the --out folder, in the same
    subfolders: the optimized picture in its own format, and the converted one. Both get the SEO file name; the alt
    texts are printed. Your files are never overwritten: if a name is taken, -2, -3 … is added. The pictures themselves
    are not changed. Pictures of which nothing but the colours is known are listed first: their alt texts need your
    words.

    The --out folder has a manifest, a hidden file: the same command again continues an interrupted run, processes what
    is new or changed, and skips the rest. A picture whose content or options have changed gets new results in place of
    the old ones. Results are never taken as input. Ctrl+C finishes the pictures in work, and ends the command at once
    if it is pressed again.

    The work costs credits of the account "default". After the command, also after Ctrl+C, the data folder
    contains neither the pictures nor their jobs. If a server owns the data folder, that server does the work.

    Exit code: 0 every picture is done, 1 some files failed, 2 no file can be processed, 130 interrupted.
    """
    from imgproc_local.cli.process.request import make_request
    from imgproc_local.cli.process.run import Run, RunOptions
    from imgproc_local.compose import used_model_status
    from imgproc_local.domain.image import Format
    from imgproc_local.domain.job import StageName
    from imgproc_local.domain.plan import DEFAULT_PROJECT_NAME, Operation, Plan

    config = load_config(ctx, data_dir, effort=effort, quality_target=quality, codec_threads=jobs)
    plan = Plan(
        Operation.PROCESS,
        languages,
        Format(convert_to),
        project_name=project or DEFAULT_PROJECT_NAME,
        context=context,
        max_width_px=max_width,
        max_height_px=max_height,
    )
    if overwrite and not write_metadata:
        raise click.UsageError("--overwrite needs --write-metadata.")
    if csv_file is not None and not csv_file.absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {str(csv_file.parent)!r}: create it first.", param_hint="'--csv'")
    if (write_metadata or sidecar) and only and "analyze" not in only:
        raise click.UsageError("--write-metadata and --sidecar need alt texts: add --only analyze.")
    text_options = [
        name for name, asked in (("write", write_metadata), ("replace", overwrite), ("sidecar", sidecar)) if asked
    ]
    stages = [StageName(name) for name in only]
    model = used_model_status(config)
    if context and (model.model is None or model.problem) and (not only or "analyze" in only):
        click.echo(
            "--context has no effect: no vision model is in use. `imgproc-local models list` lists them.", err=True
        )
    request = make_request(plan, stages, config, model.model, *text_options)
    changed_settings = tuple(
        flag for flag, value in (("--quality", quality), ("--effort", effort)) if value is not None
    )
    run = Run(
        config, RunOptions(paths, out, flat, write_metadata, overwrite, sidecar, watch, changed_settings), request
    )
    run.find()
    if dry_run:
        _print_plan(run, as_json)
        return
    try:
        asyncio.run(run.process())
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        exit_command(ctx, EXIT_INTERRUPTED, has_unstopped_threads=False)
    _report(run, convert_to, as_json, watch)
    if csv_file is not None:
        _write_csv(run, csv_file)
    exit_command(ctx, run.exit_code, run.has_unstopped_threads)


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


def _write_csv(run: Run, csv_file: Path) -> None:
    from imgproc_local.cli.process.report import csv_bytes
    from imgproc_local.system.files import write_atomically

    write_atomically(csv_file, csv_bytes(run.outcomes))
