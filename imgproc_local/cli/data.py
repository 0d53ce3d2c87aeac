"""`config`, and `backup`, `restore` and `prune`: the settings, and care of the data folder.

All but `restore` work beside a running server.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import click
import msgspec

from imgproc_local import __version__
from imgproc_local.cli.access import in_store
from imgproc_local.cli.help import Command, Group
from imgproc_local.cli.log_file import log_act
from imgproc_local.cli.options import data_dir_option, load_settings, with_config
from imgproc_local.cli.output import EXIT_PROBLEM, echo_json, path_text, printable, say, size_text
from imgproc_local.compose import Store
from imgproc_local.config import CONFIG_VARIABLE, Config, default_config_path
from imgproc_local.domain.errors import DataFolderBusy
from imgproc_local.storage.backup import require_empty, restore_backup, write_backup
from imgproc_local.storage.blobs import Blobs
from imgproc_local.storage.database import rfc3339, utc_now
from imgproc_local.storage.jobs import Jobs, MaxAge, Removable, Retention
from imgproc_local.system.files import encodable_text
from imgproc_local.system.folder_lock import FolderLock, current_owner

_UNITS = {"d": timedelta(days=1), "w": timedelta(weeks=1), "y": timedelta(days=365)}


@click.group("config", cls=Group)
def settings() -> None:
    """Show the settings."""


@settings.command("show")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@data_dir_option
@click.pass_context
def show(ctx: click.Context, as_json: bool) -> None:
    """Show every setting with its value, its source and its description.

    The value is the first of: a flag of the command, the environment variable (IMGPROC_ and the name in capitals), the
    settings file, the default.

    Examples:
      imgproc-local config show --json
    """

    loaded = load_settings(ctx)
    if as_json:
        echo_json({"file": loaded.file and encodable_text(str(loaded.file)), "settings": loaded.shown()})
        return
    none = f"none. To use one, create {default_config_path() or 'it'}, or set {CONFIG_VARIABLE} to the path of a file."
    click.echo(f"Settings file: {loaded.file or none}\n")
    for setting in loaded.shown():
        value = msgspec.json.encode(setting.value).decode()
        click.echo(f"{setting.name} = {printable(value)}  ({setting.source})")
        click.echo(f"    {setting.description}")


@click.command("backup", cls=Command)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@with_config
def backup(config: Config, file: Path, as_json: bool) -> None:
    """Back up the data folder into the new file FILE.

    Works beside a running server. FILE is a tar archive with the database, the pictures of all jobs, and hashes that
    `restore` checks. It is written completely or not at all, and holds API keys only as hashes. Vision models and
    settings are not part of it. Exit code: 0 complete, 1 damaged or missing pictures were left out, 2 nothing was
    written.

    Examples:
      imgproc-local backup /srv/backups/images.tar
    """

    folder = config.data_dir
    file = file.absolute()
    manifest = write_backup(folder, file, __version__, rfc3339(utc_now()))
    log_act(folder, "data.backup", files=len(manifest.files))
    size_bytes = file.stat().st_size
    if as_json:
        counts = {"files": len(manifest.files), "size_bytes": size_bytes}
        echo_json({"file": path_text(file), **counts, "left_out": manifest.left_out})
    else:
        counted = f"the database and {len(manifest.files):,} files, {size_text(size_bytes)}"
        click.echo(f"{printable(path_text(file))}: {counted}.")
        for sha256, problem in manifest.left_out.items():
            click.echo(f"Left out: {sha256}, {problem}.", err=True)
        if manifest.left_out:
            say("`imgproc-local verify` says what to do about damaged files.", err=True)
    click.get_current_context().exit(EXIT_PROBLEM if manifest.left_out else 0)


@click.command("restore", cls=Command)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@with_config
def restore(config: Config, file: Path, as_json: bool) -> None:
    """Restore the backup FILE into an empty data folder.

    The whole backup is compared with its hashes first: one that is truncated or was changed is refused, and nothing is
    restored. Jobs that were not finished are processed at the next start of the server. API keys that were revoked
    since the backup are valid again; all browsers are signed out.

    Examples:
      imgproc-local --data-dir /srv/images restore /srv/backups/images.tar
    """

    folder = config.data_dir
    require_empty(folder)
    with FolderLock(folder, "restore"):
        manifest, keys = restore_backup(file, folder)
    if as_json:
        counts = {"files": len(manifest.files), "keys": keys, "created_at": manifest.created_at}
        echo_json({"data_dir": path_text(folder), **counts, "left_out": manifest.left_out})
        return
    say(
        f"Restored the database and {len(manifest.files):,} files, backed up at {manifest.created_at},"
        f" to {printable(path_text(folder))}.\n{keys:,} API keys are valid as they were then, also those revoked since:"
        " list them with `imgproc-local keys list`, revoke them with `imgproc-local keys revoke ID`."
    )
    if manifest.left_out:
        click.echo(f"{len(manifest.left_out):,} files were damaged or missing when the backup was made.", err=True)


def _age(_ctx: click.Context, _parameter: click.Parameter, value: str) -> timedelta:
    match = re.fullmatch(r"([0-9]{1,5})([dwy])", value)
    if match is None:
        raise click.BadParameter(f"expected days, weeks or years such as 90d, 12w or 2y; received {value!r}.")
    return int(match[1]) * _UNITS[match[2]]


@click.command("prune", cls=Command)
@click.option("--older-than", metavar="AGE", callback=_age, required=True, help="Remove what is older: 90d, 12w, 2y.")
@click.option(
    "--only",
    type=click.Choice(["originals", "results"]),
    help="Remove only these files. The jobs and their texts remain.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and remove nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@with_config
def prune(config: Config, older_than: timedelta, only: str | None, dry_run: bool, as_json: bool) -> None:
    """Remove finished jobs with their files, for good.

    The age is that of the upload. Unfinished jobs stay, and so do files that a newer job uses too. The ledger of
    credits stays complete. The settings retention_jobs_days, retention_originals_days and retention_results_days do the
    same regularly while the server runs.

    Examples:
      imgproc-local prune --older-than 90d --dry-run
      imgproc-local prune --older-than 1y --only originals
    """

    kind = only or "jobs"
    max_age = MaxAge(**{kind: older_than})

    async def remove(store: Store) -> Removable:
        """Remove the rows, and the files too unless another process owns the data folder, which does it later."""
        retention = Retention(store.database)
        removable = await retention.removable(max_age)
        if not dry_run:
            await retention.remove(max_age)
            log_act(config.data_dir, "data.prune", kind=kind, jobs=removable.jobs, files=removable.files)
            with suppress(DataFolderBusy), FolderLock(config.data_dir, "prune"):
                blobs = Blobs(config.data_dir, Jobs(store.database, config.queue_limit).is_referenced)
                await retention.delete_files(blobs)
        return removable

    removable = in_store(config, remove)
    if as_json:
        counts = {"jobs": removable.jobs, "files": removable.files, "size_bytes": removable.size_bytes}
        echo_json({"removed": not dry_run, **counts})
        return
    jobs = f"{removable.jobs:,} jobs and " if kind == "jobs" else ""
    verb = "Would remove" if dry_run else "Removed"
    click.echo(f"{verb} {jobs}{removable.files:,} files with {size_text(removable.size_bytes)}.")
    if not dry_run and removable.files and current_owner(config.data_dir):
        click.echo("The running server deletes the files within a minute.")
