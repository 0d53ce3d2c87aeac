"""`sessions`: list and revoke the browsers that are signed in to the local page."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from imgproc_local.cli.log_file import open_audit_log
from imgproc_local.cli.options import data_dir_option, load_config
from imgproc_local.system.audit import audit

if TYPE_CHECKING:
    from imgproc_local.config import Config
    from imgproc_local.storage.sessions import PageSession


@click.group("sessions")
def command() -> None:
    """List and revoke the browsers that are signed in to the local page. Works beside a running server."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@data_dir_option
@click.pass_context
def list_sessions(ctx: click.Context, as_json: bool, data_dir: str | None) -> None:
    """List the browsers that are signed in, oldest first."""
    from imgproc_local.cli.output import echo_json, printable, table

    sessions = asyncio.run(_all(load_config(ctx, data_dir)))
    if as_json:
        echo_json(
            [
                {
                    "id": session.id,
                    "browser": session.browser,
                    "created_at": session.created_at,
                    "expires_at": session.expires_at,
                }
                for session in sessions
            ]
        )
        return
    if not sessions:
        click.echo("No browser is signed in. `imgproc-local sign-in` prints a link that signs one in.")
        return
    rows = [("ID", "SIGNED IN", "EXPIRES", "BROWSER")]
    rows += [
        (session.id, session.created_at[:19] + "Z", session.expires_at[:10], printable(session.browser)[:60])
        for session in sessions
    ]
    for line in table(rows):
        click.echo(line)


@command.command("revoke")
@click.argument("session_id", metavar="ID", required=False)
@click.option("--all", "every", is_flag=True, help="Revoke every session and every unused sign-in link.")
@data_dir_option
@click.pass_context
def revoke(ctx: click.Context, session_id: str | None, every: bool, data_dir: str | None) -> None:
    """Sign out the browser with this ID, at once, and revoke the API key of its page. `sessions list` shows the IDs."""
    if (session_id is None) != every:
        raise click.UsageError("Expected the ID of one session, or --all.")
    config = load_config(ctx, data_dir)
    revoked = asyncio.run(_revoke(config, session_id))
    click.echo(f"Revoked {len(revoked)} sessions." if every else f"Revoked {revoked[0]}.")


async def _all(config: Config) -> list[PageSession]:
    from imgproc_local.compose import open_store

    async with open_store(config) as store:
        return await store.sessions.all()


async def _revoke(config: Config, session_id: str | None) -> list[str]:
    """Revoke one session; for None, every session and unused link. Returns the ids of the sessions."""
    from imgproc_local.compose import open_store

    async with open_store(config) as store:
        if session_id is None:
            revoked = await store.sessions.revoke_all()
        else:
            await store.sessions.revoke(session_id)
            revoked = [session_id.lower()]
    with open_audit_log(config.data_dir):
        for session in revoked:
            audit("session.revoke", session=session, by="command")
    return revoked
