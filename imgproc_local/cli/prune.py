"""`prune`: removes old jobs, or only their files. Works beside a running server."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import click

from imgproc_local.cli.log_file import open_audit_log
from imgproc_local.cli.options import data_dir_option, load_config
from imgproc_local.cli.output import echo_json, size_text
from imgproc_local.system.audit import audit

if TYPE_CHECKING:
    from imgproc_local.config import Config
    from imgproc_local.storage.retention import Removable

UNITS = {"d": timedelta(days=1), "w": timedelta(weeks=1), "y": timedelta(days=365)}
Kind = Literal["jobs", "originals", "results"]


def _age(_ctx: click.Context, _parameter: click.Parameter, value: str) -> timedelta:
    match = re.fullmatch(r"([0-9]{1,5})([dwy])", value)
    if match is None:
        raise click.BadParameter(f"expected days, weeks or years such as 90d, 12w or 2y; received {value!r}.")
    return int(match[1]) * UNITS[match[2]]


@click.command("prune")
@click.option("--older-than", metavar="AGE", callback=_age, required=True, help="Remove what is older: 90d, 12w, 2y.")
@click.option(
    "--only",
    type=click.Choice(["originals", "results"]),
    help="Remove only these files. The jobs and their texts remain.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and remove nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@data_dir_option
@click.pass_context
def command(
    ctx: click.Context, older_than: timedelta, only: str | None, dry_run: bool, as_json: bool, data_dir: str | None
) -> None:
    """Remove finished jobs with their files, for good.

    The age is that of the upload. Unfinished jobs stay, and so do files that a newer job uses too. The ledger of
    credits stays complete. The settings retention_jobs_days, retention_originals_days and retention_results_days do the
    same regularly while the server runs.
    """
    kind: Kind = "originals" if only == "originals" else "results" if only == "results" else "jobs"
    removable, owner_deletes = asyncio.run(_prune(load_config(ctx, data_dir), kind, older_than, dry_run))
    if as_json:
        counts = {"jobs": removable.jobs, "files": removable.files, "size_bytes": removable.size_bytes}
        echo_json({"removed": not dry_run, **counts})
        return
    jobs = f"{removable.jobs:,} jobs and " if kind == "jobs" else ""
    verb = "Would remove" if dry_run else "Removed"
    click.echo(f"{verb} {jobs}{removable.files:,} files with {size_text(removable.size_bytes)}.")
    if owner_deletes and removable.files:
        click.echo("The running server or `process` deletes the files within a minute.")


async def _prune(config: Config, kind: Kind, older_than: timedelta, dry_run: bool) -> tuple[Removable, bool]:
    """Remove what is older, except with `dry_run`.

    Returns what is removed, and whether the process that owns the data folder deletes the files later.
    """
    from imgproc_local.compose import open_store
    from imgproc_local.domain.errors import DataFolderBusy
    from imgproc_local.storage.blobs import Blobs
    from imgproc_local.storage.jobs import Jobs
    from imgproc_local.storage.retention import MaxAge, Retention
    from imgproc_local.system.folder_lock import FolderLock

    max_age = MaxAge(**{kind: older_than})
    async with open_store(config) as store:
        retention = Retention(store.database)
        removable = await retention.removable(max_age)
        if dry_run:
            return removable, False
        await retention.remove(max_age)
        with open_audit_log(config.data_dir):
            audit("data.prune", kind=kind, jobs=removable.jobs, files=removable.files, by="command")
        try:
            with FolderLock(config.data_dir, "prune"):
                blobs = Blobs(config.data_dir, Jobs(store.database, config.queue_limit).is_referenced)
                await retention.delete_files(blobs)
        except DataFolderBusy:
            return removable, True
    return removable, False
