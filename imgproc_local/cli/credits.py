"""`credits`: what an account has, and granting it more; beside a running server too."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from imgproc_local.cli.names import checked_name
from imgproc_local.cli.options import data_dir_option, load_config

if TYPE_CHECKING:
    from imgproc_local.config import Config

MOST_AT_ONCE = 1_000_000_000_000
"""Keeps a balance far below SQLite's largest integer, however often it is granted."""


@click.group("credits")
def command() -> None:
    """Show and grant credits. Works beside a running server."""


@command.command("balance")
@click.option(
    "--account", metavar="NAME", callback=checked_name, default="default", show_default=True, help="Whose balance."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with account and balance.")
@data_dir_option
@click.pass_context
def balance(ctx: click.Context, account: str, as_json: bool, data_dir: str | None) -> None:
    """Show the balance of an account."""
    _tell(account, asyncio.run(_move(load_config(ctx, data_dir), account, 0)), as_json)


@command.command("grant")
@click.argument("amount", metavar="N", type=click.IntRange(1, MOST_AT_ONCE))
@click.option(
    "--account", metavar="NAME", callback=checked_name, default="default", show_default=True, help="Who gets them."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with account and balance.")
@data_dir_option
@click.pass_context
def grant(ctx: click.Context, amount: int, account: str, as_json: bool, data_dir: str | None) -> None:
    """Add N credits to an account and show the new balance."""
    _tell(account, asyncio.run(_move(load_config(ctx, data_dir), account, amount)), as_json)


def _tell(account: str, credits_now: int, as_json: bool) -> None:
    from imgproc_local.cli.output import echo_json

    if as_json:
        echo_json({"account": account, "balance": credits_now})
    else:
        click.echo(f"The account {account!r} has {credits_now:,} credits.")


async def _move(config: Config, account: str, amount: int) -> int:
    """Grant `amount`, where it is more than nothing, and return the balance. Raises `NotFound`."""
    from imgproc_local.compose import open_store
    from imgproc_local.storage.keys import DEFAULT_ACCOUNT

    async with open_store(config) as store:
        account_id = await store.keys.account_id(account, create=account == DEFAULT_ACCOUNT)
        if amount:
            return await store.credits.grant(account_id, amount)
        return await store.credits.balance(account_id)
