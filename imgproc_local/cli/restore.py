"""`restore`: unpacks a backup into an empty data folder."""

from __future__ import annotations

from pathlib import Path

import click

from imgproc_local.cli.options import data_dir_option, load_config
from imgproc_local.cli.output import echo_json, path_text, printable
from imgproc_local.system.files import encodable_text


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@data_dir_option
@click.pass_context
def command(ctx: click.Context, file: Path, as_json: bool, data_dir: str | None) -> None:
    """Restore the backup FILE into an empty data folder.

    The whole backup is compared with its hashes first: one that is truncated or was changed is refused, and nothing is
    restored. Jobs that were not finished are processed at the next start of the server. API keys that were revoked
    since the backup are valid again; all browsers are signed out.
    """
    from imgproc_local.storage.backup import require_empty, restore_backup
    from imgproc_local.storage.database import rfc3339, utc_now
    from imgproc_local.system.folder_lock import FolderLock

    folder = load_config(ctx, data_dir).data_dir
    require_empty(folder)
    with FolderLock(folder, "restore"):
        manifest, keys = restore_backup(file, folder, rfc3339(utc_now()))
    if as_json:
        counts = {"files": len(manifest.files), "keys": keys, "created_at": manifest.created_at}
        echo_json({"data_dir": encodable_text(str(folder)), **counts, "left_out": manifest.left_out})
        return
    click.echo(
        f"Restored the database and {len(manifest.files):,} files, backed up at {manifest.created_at},"
        f" to {printable(path_text(folder))}.\n{keys:,} API keys are valid as they were then, also those revoked since:"
        " list them with `imgproc-local keys list`, revoke them with `imgproc-local keys revoke ID`."
    )
    if manifest.left_out:
        click.echo(f"{len(manifest.left_out):,} files were damaged or missing when the backup was made.", err=True)
