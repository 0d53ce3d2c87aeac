"""`backup`: writes the database and the pictures of its jobs to an archive. Works beside a running server."""

from __future__ import annotations

from pathlib import Path

import click

from imgproc_local import __version__
from imgproc_local.cli.exit_codes import EXIT_PROBLEM
from imgproc_local.cli.log_file import open_audit_log
from imgproc_local.cli.options import data_dir_option, load_config
from imgproc_local.cli.output import echo_json, path_text, printable, size_text
from imgproc_local.system.audit import audit
from imgproc_local.system.files import encodable_text


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@data_dir_option
@click.pass_context
def command(ctx: click.Context, file: Path, as_json: bool, data_dir: str | None) -> None:
    """Back up the data folder into the new file FILE.

    Works beside a running server. FILE is a tar archive with the database, the pictures of all jobs, and hashes that
    `restore` checks. It is written completely or not at all, and holds API keys only as hashes. Vision models and
    settings are not part of it. Exit code: 0 complete, 1 damaged or missing pictures were left out, 2 nothing was
    written.
    """
    from imgproc_local.storage.backup import write_backup
    from imgproc_local.storage.database import rfc3339, utc_now

    folder = load_config(ctx, data_dir).data_dir
    file = file.absolute()
    manifest = write_backup(folder, file, __version__, rfc3339(utc_now()))
    with open_audit_log(folder):
        audit("data.backup", files=len(manifest.files), by="command")
    if as_json:
        counts = {"files": len(manifest.files), "size_bytes": file.stat().st_size}
        echo_json({"file": encodable_text(str(file)), **counts, "left_out": manifest.left_out})
    else:
        size = size_text(file.stat().st_size)
        click.echo(f"{printable(path_text(file))}: the database and {len(manifest.files):,} files, {size}.")
        for sha256, problem in manifest.left_out.items():
            click.echo(f"Left out: {sha256}, {problem}.", err=True)
        if manifest.left_out:
            click.echo("`imgproc-local verify` says what to do about damaged files.", err=True)
    ctx.exit(EXIT_PROBLEM if manifest.left_out else 0)
