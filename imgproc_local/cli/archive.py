"""The command `archive`: processes more pictures than one machine can, on the workers of a Dask cluster."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import click

from imgproc_local.cli import output
from imgproc_local.cli.help import PictureCommand
from imgproc_local.cli.options import PictureFlags, data_dir_option, load_settings, picture_options, request_for
from imgproc_local.compose import core_count
from imgproc_local.domain.errors import how_to_install
from imgproc_local.system.files import is_disk_full

if TYPE_CHECKING:
    from imgproc_local.archive.picture import Row
    from imgproc_local.archive.run import Counts

_HOW_TO_INSTALL = f"This command needs the extra `cluster`. {how_to_install('cluster')}"
_MAX_SHOWN_FAILURES = 20
"""How many failed pictures are printed, so that an archive with a million of them does not fill a log."""


@click.command("archive", cls=PictureCommand)
@click.argument("source")
@click.argument("target")
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Start N worker processes on this machine.  [default: one per core]",
)
@click.option("--scheduler", metavar="ADDRESS", help="Use the workers of this Dask scheduler, such as tls://HOST:8786.")
@click.option(
    "--allow-open-tcp",
    is_flag=True,
    help="Use a scheduler on another machine without TLS. Whoever reaches it can run any program on the workers.",
)
@picture_options
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Process at most N pictures.")
@data_dir_option
@click.pass_context
def command(ctx: click.Context, /, workers: int | None, flags: PictureFlags, **values: Any) -> None:
    """Process an archive of pictures on many workers.

    SOURCE and TARGET are folders, which every worker must see under the same path, or URLs of object stores, such as
    s3://BUCKET/PATH. The results are those of `process --archive-names`, in the same subfolders. TARGET also gets
    archive.parquet, with a row per picture, and alt.csv, with the texts.

    The same command again continues an interrupted run, and processes what is new, changed or failed.

    Exit code: 0 every picture is done, 1 some failed, 2 nothing was done, 130 interrupted.

    Examples:
      imgproc-local archive /mnt/photos /mnt/results --workers 4
      imgproc-local archive s3://photos s3://results --scheduler tls://dask:8786
    """
    config = load_settings(ctx, effort=flags.effort, quality_target=flags.quality).config
    if values["scheduler"] is not None and workers is not None:
        raise click.UsageError("--scheduler has its own workers: leave out --workers.")
    if config.compression_service != "local":
        raise output.Refused("archive optimizes with the local codecs: set compression_service to 'local'.")
    if config.air_gapped:
        raise output.Refused("archive connects to workers and object stores, so it can't be used in air-gapped mode.")
    try:
        from imgproc_local.archive.run import Arguments, run_archive
    except ModuleNotFoundError as error:
        raise output.Refused(f"{_HOW_TO_INSTALL} ({error.name} is missing)") from error
    arguments = Arguments(workers=workers or core_count(), **values)
    stop = threading.Event()
    progress, began_s = output.RunProgress(sys.stderr), time.monotonic()
    message = "Ending after the running tasks, if there are any. Press Ctrl+C again to stop at once."

    def report(row: Row, counts: Counts) -> None:
        if row.outcome == "failed" and counts.failed <= _MAX_SHOWN_FAILURES:
            progress.print(output.printable(f"Failed: {row.source}: {row.problems[0].message}"))
        progress.update(_progress_text(counts, time.monotonic() - began_s))

    try:
        with progress.shown(), output.interruptible(stop, message):
            request = request_for(flags, config, archive_names=True)
            counts = run_archive(arguments, request, config, report, stop)
    except ImportError as error:  # the message of fsspec names the package
        missing = f"The plug-in of fsspec for a URL is missing, which every worker needs too: {error}."
        raise output.Refused(missing) from error
    except OSError as error:
        if is_disk_full(error) or isinstance(error, PermissionError):  # reported in the same way for every command
            raise
        file = f"{error.filename}: " if error.filename else ""
        reason = error.strerror or error
        raise click.ClickException(f"The source or the target can't be used: {file}{reason}.") from error
    except KeyboardInterrupt:
        click.echo("Interrupted. The same command again continues the run.", err=True)
        ctx.exit(output.EXIT_INTERRUPTED)
    _print_result(counts, arguments.target)
    if stop.is_set():
        click.echo("Interrupted. The same command again continues the run.", err=True)
        ctx.exit(output.EXIT_INTERRUPTED)
    if not (counts.done or counts.failed or counts.unchanged):
        click.echo("There is no picture in SOURCE.", err=True)
        ctx.exit(output.EXIT_REFUSED)
    ctx.exit(output.EXIT_PROBLEM if counts.failed else 0)


def _print_result(counts: Counts, target: str) -> None:
    click.echo(
        f"{counts.done:,} done, {counts.unchanged:,} unchanged since an earlier run, {counts.failed:,} failed,"
        f" {counts.skipped:,} skipped."
    )
    if counts.failed > _MAX_SHOWN_FAILURES:
        more = counts.failed - _MAX_SHOWN_FAILURES
        click.echo(f"{more:,} more failed than are printed here: archive.parquet has the reason of each.", err=True)
    if counts.needing_text:
        click.echo(f"Pictures of this run in need of a text: {counts.needing_text:,}.")
    if counts.processed or counts.unchanged:
        click.echo(output.printable(f"The results, alt.csv and archive.parquet are in {target}."))


def _progress_text(counts: Counts, elapsed_s: float) -> str:
    """What a run has done after `elapsed_s`, the most important first, because a terminal cuts the end."""
    parts = [f"{counts.processed:,} {'picture' if counts.processed == 1 else 'pictures'} processed"]
    if counts.processed and elapsed_s > 0:
        per_s = counts.processed / elapsed_s
        parts.append(f"{per_s * 60:,.0f} a minute" if per_s < 10 else f"{per_s:,.0f} a second")
    if counts.unchanged:
        parts.append(f"{counts.unchanged:,} unchanged")
    if counts.failed:
        parts.append(f"{counts.failed:,} failed")
    return ", ".join(parts)
