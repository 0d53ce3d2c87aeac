"""`sign-in`: a link that signs a browser in to the local page."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imgproc_local.cli.exit_codes import Refused
from imgproc_local.cli.log_file import open_audit_log
from imgproc_local.cli.options import data_dir_option, load_config
from imgproc_local.system.audit import audit

if TYPE_CHECKING:
    from imgproc_local.config import Config


@click.command("sign-in")
@data_dir_option
@click.pass_context
def command(ctx: click.Context, data_dir: str | None) -> None:
    """Print a link that opens the local page of the running server.

    The link works once, within ten minutes. The browser that opens it stays signed in for 30 days, or until it signs
    out; `imgproc-local sessions` lists such browsers and signs them out.
    """
    config = load_config(ctx, data_dir)
    click.echo(asyncio.run(page_link(config, _address(config.data_dir))))


def _address(folder: Path) -> str:
    """The address of the server on the data folder. Raises: Refused."""
    from imgproc_local.system.folder_lock import current_owner

    owner = current_owner(folder)
    if owner is None or owner.address is None:
        raise Refused(
            f"No server runs on the data folder {folder}. Start it with `imgproc-local serve`, and the"
            " same --data-dir if you use one."
        )
    return owner.address


async def page_link(config: Config, address: str) -> str:
    """A new link that signs a browser in once at `address`. Raises: StorageFailed."""
    from imgproc_local.compose import open_store

    async with open_store(config) as store:
        token = await store.sessions.new_link()
    with open_audit_log(config.data_dir):
        audit("link.create", by="command")
    return link_text(address, token)


def link_text(address: str, token: str) -> str:
    return f"{address}/?token={token}"
