"""`serve`: the API on this machine.

The socket is bound and listening before the application is imported, so that a second copy on the same port fails at
once, and a client that connects early waits instead of being refused.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
import threading
import webbrowser
from typing import TYPE_CHECKING

import click

from imgproc_local.cli.settings import data_dir_option, load_config
from imgproc_local.config import Config

if TYPE_CHECKING:
    from imgproc_local.compose import Services

BACKLOG = 512
SHUTDOWN_S = 5
"""How long an orderly stop waits for requests in flight."""


@click.command("serve")
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="Port to listen on; 0 takes a free one.  [default: 8484]")
@click.option("--no-browser", is_flag=True, help="Don't open the local page in a browser.")
@data_dir_option
@click.pass_context
def command(ctx: click.Context, host: str | None, port: int | None, no_browser: bool, data_dir: str | None) -> None:
    """Serve the API and the local page until stopped."""
    _open_missing_streams()
    config = load_config(ctx, data_dir, host=host, port=port)
    listener = _listen(config)
    abandoned = asyncio.run(_serve(config, listener, open_browser=not no_browser and sys.stdout.isatty()))
    if abandoned:
        # a codec that reacts to nothing would hold up the interpreter's exit
        sys.stdout.flush()
        os._exit(0)


def _open_missing_streams() -> None:
    """A start without a console has no standard streams, and loggers die of that."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123


def _listen(config: Config) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # the protocol is named: asyncio leaves Nagle's algorithm on where it is 0, and every answer takes 44 ms
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((config.host, config.port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise click.ClickException(
            f"Can't listen on {config.host} port {config.port}: {error.strerror}. {_what_to_do(config, error)}"
        ) from error
    listener.setblocking(False)
    return listener


def _what_to_do(config: Config, error: OSError) -> str:
    if error.errno != errno.EADDRINUSE:
        return "Choose an address of this machine with --host (127.0.0.1 is always one)."
    from imgproc_local.storage.lock import current_owner

    owner = current_owner(config.data_dir)
    if owner is not None and owner.address is not None:
        return f"It is already running: {owner.address} (process {owner.pid})."
    return "Another program has it: choose another port with --port, or --port 0 for any free one."


async def _serve(config: Config, listener: socket.socket, open_browser: bool) -> int:
    """Serve until a signal comes. Returns how many threads did not come back."""
    from imgproc_local.compose import open_services

    async with open_services(config, "serve") as services:
        from imgproc_local.api.app import answer_head, make_app
        from imgproc_local.cli.server import Server, server_config
        from imgproc_local.web import page

        address = _address(config, listener)
        _tell_owner(services, address)
        await _greet(services, address)
        app = make_app(services, page.HANDLERS)
        server = Server(server_config(answer_head(app), SHUTDOWN_S), on_stop=services.engine.signals.close)
        if open_browser:
            _open_page(f"{address}/?token={services.page.new_ticket()}")
        await server.serve(sockets=[listener])
    return services.engine.abandoned_threads


def _address(config: Config, listener: socket.socket) -> str:
    port = listener.getsockname()[1]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(config.host, config.host)  # noqa: S104
    return f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{port}"


def _open_page(link: str) -> None:
    """Open the page on a thread: some browsers are waited for, and this one waits for the server."""
    threading.Thread(target=webbrowser.open, args=(link,), name="imgproc-browser", daemon=True).start()


def _tell_owner(services: Services, address: str) -> None:
    from imgproc_local.storage.clock import rfc3339, utc_now
    from imgproc_local.storage.lock import Owner

    services.lock.tell(Owner(os.getpid(), "serve", address=address, since=rfc3339(utc_now())))


async def _greet(services: Services, address: str) -> None:
    """Say where the service is; on an empty folder, make a key and show it once."""
    click.echo(f"imgproc-local serves {address}/api/v1  (stop with Ctrl+C)")
    click.echo(f"Page: {address}/?token={services.page.token}")
    click.echo(f"Data: {services.config.data_dir}")
    if not await services.store.keys.all():
        _, secret = await services.store.keys.create("first key")
        click.echo(f"\nYour API key, shown only this once:\n\n    {secret}\n")
        click.echo("Make more with `imgproc-local keys create --name NAME`.")
    sys.stdout.flush()
