"""`keys`: create, list and revoke API keys. A running server applies each change at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from imgproc_local.cli.log_file import open_audit_log
from imgproc_local.cli.options import account_option, checked_name, data_dir_option, load_config
from imgproc_local.system.audit import audit

if TYPE_CHECKING:
    from imgproc_local.config import Config
    from imgproc_local.storage.accounts import ApiKey


@click.group("keys")
def command() -> None:
    """Create, list and revoke API keys. Works beside a running server."""


@command.command("create")
@click.option(
    "--name", metavar="NAME", callback=checked_name, required=True, help="Name the key after the program that uses it."
)
@click.option(
    "--rate-limit",
    type=click.IntRange(0, 1_000_000),
    metavar="N",
    help="Allow N requests per minute; 0 means no limit.  [default: the setting rate_limit_per_minute]",
)
@account_option("Create the key for this account, and the account if it does not exist.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with id, name and key.")
@data_dir_option
@click.pass_context
def create(
    ctx: click.Context, name: str, rate_limit: int | None, account: str, as_json: bool, data_dir: str | None
) -> None:
    """Create a key and show it. It can't be shown again."""
    from imgproc_local.cli.output import echo_json

    key, secret = asyncio.run(_create(load_config(ctx, data_dir), name, account, rate_limit))
    if as_json:
        echo_json({"id": key.id, "name": key.name, "key": secret})
        return
    click.echo(f"The API key {key.name!r} of the account {key.account!r}, shown only this once:\n\n    {secret}\n")
    click.echo(f"Send it as `Authorization: Bearer KEY`. Revoke it with `imgproc-local keys revoke {key.id}`.")


@command.command("list")
@click.option("--all", "every", is_flag=True, help="Also list revoked keys.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of all keys, also the revoked ones.")
@data_dir_option
@click.pass_context
def list_keys(ctx: click.Context, every: bool, as_json: bool, data_dir: str | None) -> None:
    """List the keys, oldest first. They are not shown themselves: only their hashes are stored."""
    from imgproc_local.cli.output import echo_json

    config = load_config(ctx, data_dir)
    keys = asyncio.run(_all_keys(config))
    if as_json:
        echo_json(
            [
                {
                    "id": key.id,
                    "name": key.name,
                    "account": key.account,
                    "rate_limit": key.rate_limit,
                    "created_at": key.created_at,
                    "revoked_at": key.revoked_at,
                }
                for key in keys
            ]
        )
        return
    listed = [key for key in keys if every or key.revoked_at is None]
    hidden = len(keys) - len(listed)
    if not listed:
        click.echo("There is no key. Create one with `imgproc-local keys create --name NAME`.")
    else:
        _print_keys(listed, config.rate_limit_per_minute)
    if hidden:
        click.echo(f"Not listed: {hidden:,} revoked. `imgproc-local keys list --all` lists them, too.")


def _print_keys(keys: Sequence[ApiKey], default_limit: int) -> None:
    from imgproc_local.cli.output import table

    rows = [("ID", "NAME", "ACCOUNT", "PER MINUTE", "CREATED", "STATE")]
    rows += [
        (
            key.id,
            key.name,
            key.account,
            _limit_text(key.rate_limit, default_limit),
            key.created_at[:19] + "Z",
            "active" if key.revoked_at is None else f"revoked {key.revoked_at[:19]}Z",
        )
        for key in keys
    ]
    for line in table(rows):
        click.echo(line)


@command.command("revoke")
@click.argument("key_id", metavar="ID")
@data_dir_option
@click.pass_context
def revoke(ctx: click.Context, key_id: str, data_dir: str | None) -> None:
    """Revoke the key with this ID, at once. `keys list` shows the IDs."""
    asyncio.run(_revoke(load_config(ctx, data_dir), key_id))
    click.echo(f"Revoked {key_id.lower()}.")


def _limit_text(rate_limit: int | None, default: int) -> str:
    limit = default if rate_limit is None else rate_limit
    text = "no limit" if limit == 0 else str(limit)
    return f"{text} (default)" if rate_limit is None else text


async def _create(config: Config, name: str, account: str, rate_limit: int | None) -> tuple[ApiKey, str]:
    from imgproc_local.compose import open_store

    async with open_store(config, create=True) as store:
        key, secret = await store.keys.create(name, account, rate_limit)
    with open_audit_log(config.data_dir):
        audit("key.create", key=key.id, account=key.account_id, by="command")
    return key, secret


async def _all_keys(config: Config) -> list[ApiKey]:
    from imgproc_local.compose import open_store

    async with open_store(config) as store:
        return await store.keys.all()


async def _revoke(config: Config, key_id: str) -> None:
    from imgproc_local.compose import open_store

    async with open_store(config) as store:
        await store.keys.revoke(key_id)
    with open_audit_log(config.data_dir):
        audit("key.revoke", key=key_id.lower(), by="command")
