"""`credits`: shows the balance of an account and grants credits. Works beside a running server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from imgproc_local.cli.log_file import open_audit_log
from imgproc_local.cli.options import account_option, data_dir_option, load_config
from imgproc_local.system.audit import audit

if TYPE_CHECKING:
    from imgproc_local.compose import Store
    from imgproc_local.config import Config

MAX_GRANT = 1_000_000_000_000
"""Far below SQLite's largest integer, so that no realistic number of grants overflows a balance."""


@click.group("credits")
def command() -> None:
    """Show and grant credits. Works beside a running server."""


@command.command("balance")
@account_option("Show the balance of this account.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with account and balance.")
@data_dir_option
@click.pass_context
def show_balance(ctx: click.Context, account: str, as_json: bool, data_dir: str | None) -> None:
    """Show the balance of an account."""
    _print_balance(account, asyncio.run(_balance(load_config(ctx, data_dir), account)), as_json)


@command.command("grant")
@click.argument("amount", metavar="N", type=click.IntRange(1, MAX_GRANT))
@account_option("Grant the credits to this account.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with account and balance.")
@data_dir_option
@click.pass_context
def grant(ctx: click.Context, amount: int, account: str, as_json: bool, data_dir: str | None) -> None:
    """Add N credits to an account and show the new balance."""
    _print_balance(account, asyncio.run(_grant(load_config(ctx, data_dir), account, amount)), as_json)


def _print_balance(account: str, balance: int, as_json: bool) -> None:
    from imgproc_local.cli.output import echo_json

    if as_json:
        echo_json({"account": account, "balance": balance})
    else:
        click.echo(f"The account {account!r} has {balance:,} credits.")


async def _balance(config: Config, account: str) -> int:
    """The balance of the account. Raises: NotFound."""
    from imgproc_local.compose import open_store

    async with open_store(config) as store:
        return await store.credits.balance(await _account_id(store, account))


async def _grant(config: Config, account: str, amount: int) -> int:
    """Add `amount` credits to the account and return its new balance. Raises: NotFound."""
    from imgproc_local.compose import open_store

    async with open_store(config, create=True) as store:
        account_id = await _account_id(store, account)
        balance = await store.credits.grant(account_id, amount)
    with open_audit_log(config.data_dir):
        audit("credits.grant", account=account_id, amount=amount, by="command")
    return balance


async def _account_id(store: Store, account: str) -> str:
    """The id of the account; the default account is created if it does not exist yet.

    Raises: NotFound, if another account does not exist.
    """
    from imgproc_local.storage.accounts import DEFAULT_ACCOUNT

    return await store.keys.account_id(account, create=account == DEFAULT_ACCOUNT)
