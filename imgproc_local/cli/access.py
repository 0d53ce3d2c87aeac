"""`keys`, `credits`, `sessions` and `sign-in`: who may use the service. All work beside a running server.

Each change is a line of the audit log.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import click

from imgproc_local.cli.help import Command, Group
from imgproc_local.cli.log_file import log_act
from imgproc_local.cli.options import account_option, checked_name, completing, with_config
from imgproc_local.cli.output import Refused, echo_json, printable, say, table
from imgproc_local.compose import Store, open_store
from imgproc_local.config import Config
from imgproc_local.storage.accounts import DEFAULT_ACCOUNT, ApiKey
from imgproc_local.storage.database import QUERIES, rfc3339, utc_now
from imgproc_local.storage.inspection import DATABASE_FILE, read_database
from imgproc_local.system.folder_lock import Owner, current_owner

Result = TypeVar("Result")

_MAX_GRANT = 1_000_000_000_000
"""Far below SQLite's largest integer, so that no realistic number of grants overflows a balance."""


def in_store(config: Config, use: Callable[[Store], Awaitable[Result]], *, create: bool = False) -> Result:
    """The result of `use` with the opened store. With `create`, a missing data folder is created."""

    async def run() -> Result:
        async with open_store(config, create=create) as store:
            return await use(store)

    return asyncio.run(run())


def _ids(query: str, description: str) -> Callable[[Config], dict[str, str]]:
    """What reads the ids of a list, each with the column `description`, and changes nothing in the data folder."""

    def read(rows: sqlite3.Connection) -> dict[str, str]:
        found = rows.execute(QUERIES[query], {"at": rfc3339(utc_now())})
        return {row["id"]: printable(row[description]) for row in found}

    return lambda config: read_database(config.data_dir / DATABASE_FILE, read)


_complete_key = completing(_ids("keys_in_force", "name"))
_complete_session = completing(_ids("list_sessions", "browser"))


# ---- keys ----


@click.group("keys", cls=Group)
def keys() -> None:
    """Create, list and revoke API keys. Works beside a running server."""


@keys.command("create")
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
@with_config
def _create_key(config: Config, name: str, rate_limit: int | None, account: str, as_json: bool) -> None:
    """Create a key and show it. It can't be shown again.

    Examples:
      imgproc-local keys create --name shop
      imgproc-local keys create --name tests --rate-limit 0
    """
    key, secret = in_store(config, lambda store: store.keys.create(name, account, rate_limit), create=True)
    log_act(config.data_dir, "key.create", key=key.id, account=key.account_id)
    if as_json:
        echo_json({"id": key.id, "name": key.name, "key": secret})
        return
    click.echo(f"The API key {key.name!r} of the account {key.account!r}, shown only this once:\n\n    {secret}\n")
    say(f"Send it as `Authorization: Bearer KEY`. Revoke it with `imgproc-local keys revoke {key.id}`.")


@keys.command("list")
@click.option("--all", "every", is_flag=True, help="Also list revoked keys.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of all keys, also the revoked ones.")
@with_config
def _list_keys(config: Config, every: bool, as_json: bool) -> None:
    """List the keys, oldest first. They are not shown themselves: only their hashes are stored.

    Examples:
      imgproc-local keys list --all
    """
    stored = in_store(config, lambda store: store.keys.all())
    if as_json:
        echo_json(stored)
        return
    listed = [key for key in stored if every or key.revoked_at is None]
    if listed:
        _print_keys(listed, config.rate_limit_per_minute)
    else:
        say("There is no key. Create one with `imgproc-local keys create --name NAME`.")
    if hidden := len(stored) - len(listed):
        say(f"Not listed: {hidden:,} revoked. `imgproc-local keys list --all` lists them, too.")


def _print_keys(listed: Sequence[ApiKey], default_limit: int) -> None:
    rows = [("ID", "NAME", "ACCOUNT", "PER MINUTE", "CREATED", "STATE")]
    for key in listed:
        limit = default_limit if key.rate_limit is None else key.rate_limit
        per_minute = ("no limit" if limit == 0 else str(limit)) + (" (default)" if key.rate_limit is None else "")
        state = "active" if key.revoked_at is None else f"revoked {key.revoked_at[:19]}Z"
        rows.append((key.id, key.name, key.account, per_minute, f"{key.created_at[:19]}Z", state))
    click.echo("\n".join(table(rows)))


@keys.command("revoke")
@click.argument("key_id", metavar="ID", shell_complete=_complete_key)
@with_config
def _revoke_key(config: Config, key_id: str) -> None:
    """Revoke the key with this ID, at once. `keys list` shows the IDs.

    Examples:
      imgproc-local keys revoke 01kb2x6v0m7r3t9w5y8z1a4c6e
    """
    in_store(config, lambda store: store.keys.revoke(key_id))
    log_act(config.data_dir, "key.revoke", key=key_id.lower())
    click.echo(f"Revoked {key_id.lower()}.")


# ---- credits ----


@click.group("credits", cls=Group)
def credits_() -> None:
    """Show and grant credits. Works beside a running server."""


@credits_.command("balance")
@account_option("Show the balance of this account.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with account and balance.")
@with_config
def _show_balance(config: Config, account: str, as_json: bool) -> None:
    """Show the balance of an account.

    Examples:
      imgproc-local credits balance --account shop
    """

    async def balance(store: Store) -> int:
        return await store.credits.balance(await store.keys.account_id(account, create=account == DEFAULT_ACCOUNT))

    _print_balance(account, in_store(config, balance), as_json)


@credits_.command("grant")
@click.argument("amount", metavar="N", type=click.IntRange(1, _MAX_GRANT))
@account_option("Grant the credits to this account.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with account and balance.")
@with_config
def grant(config: Config, amount: int, account: str, as_json: bool) -> None:
    """Add N credits to an account and show the new balance.

    Examples:
      imgproc-local credits grant 50000 --account shop
    """

    async def granted(store: Store) -> tuple[str, int]:
        account_id = await store.keys.account_id(account, create=account == DEFAULT_ACCOUNT)
        return account_id, await store.credits.grant(account_id, amount)

    account_id, balance = in_store(config, granted, create=True)
    log_act(config.data_dir, "credits.grant", account=account_id, amount=amount)
    _print_balance(account, balance, as_json)


def _print_balance(account: str, balance: int, as_json: bool) -> None:
    if as_json:
        echo_json({"account": account, "balance": balance})
    else:
        click.echo(f"The account {account!r} has {balance:,} credits.")


# ---- browsers that are signed in to the local page ----


@click.group("sessions", cls=Group)
def sessions() -> None:
    """List and revoke the browsers that are signed in to the local page. Works beside a running server."""


@sessions.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@with_config
def _list_sessions(config: Config, as_json: bool) -> None:
    """List the browsers that are signed in, oldest first.

    Examples:
      imgproc-local sessions list
    """
    stored = in_store(config, lambda store: store.sessions.all())
    if as_json:
        echo_json(stored)
        return
    if not stored:
        say("No browser is signed in. `imgproc-local sign-in` prints a link that signs one in.")
        return
    rows = [("ID", "SIGNED IN", "EXPIRES", "BROWSER")]
    for session in stored:
        browser = printable(session.browser)[:60]
        rows.append((session.id, f"{session.created_at[:19]}Z", session.expires_at[:10], browser))
    click.echo("\n".join(table(rows)))


@sessions.command("revoke")
@click.argument("session_id", metavar="[ID]", required=False, shell_complete=_complete_session)
@click.option("--all", "every", is_flag=True, help="Revoke every session and every unused sign-in link.")
@with_config
def _revoke_session(config: Config, session_id: str | None, every: bool) -> None:
    """Sign out the browser with this ID, at once. `sessions list` shows the IDs.

    Examples:
      imgproc-local sessions revoke 01kb2x6v0m7r3t9w5y8z1a4c6e
      imgproc-local sessions revoke --all
    """
    if (session_id is None) != every:
        raise click.UsageError("Expected the ID of one session, or --all.")
    if session_id is None:
        revoked = in_store(config, lambda store: store.sessions.revoke_all())
    else:
        in_store(config, lambda store: store.sessions.revoke(session_id))
        revoked = [session_id.lower()]
    for session in revoked:
        log_act(config.data_dir, "session.revoke", session=session)
    click.echo(f"Revoked {len(revoked)} sessions." if every else f"Revoked {revoked[0]}.")


@click.command("sign-in", cls=Command)
@with_config
def sign_in(config: Config) -> None:
    """Print a link that opens the local page of the running server.

    The link works once, within ten minutes. The browser that opens it stays signed in for 30 days, or until it signs
    out; `imgproc-local sessions` lists such browsers and signs them out.

    Examples:
      imgproc-local sign-in
    """
    click.echo(page_link(config, require_server(config)))


def require_server(config: Config) -> Owner:
    """The server that runs on the data folder. Raises: Refused, if there is none."""
    owner = current_owner(config.data_dir)
    if owner is None or owner.address is None:
        raise Refused(f"No server runs on the data folder {config.data_dir}. Start it with `imgproc-local serve`.")
    return owner


def page_link(config: Config, server: Owner) -> str:
    """A new link that signs a browser in once to the page of a running server. Raises: StorageFailed."""
    token = in_store(config, lambda store: store.sessions.new_link())
    log_act(config.data_dir, "link.create")
    return link_text(server.public_url or str(server.address), token)


def link_text(address: str, token: str) -> str:
    return f"{address}/?token={token}"
