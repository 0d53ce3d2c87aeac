"""`serve`: the API on this machine.

The socket is bound and listening before the application is imported, so that a second copy on the same port fails at
once, and a client that connects early waits instead of being refused.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from imgproc_local import __version__
from imgproc_local.cli.options import air_gapped_option, data_dir_option, load_unsealed, seal_if_asked
from imgproc_local.cli.output import give_up_output_that_fails, path_text
from imgproc_local.cli.process.temporary import use_temporary_folder
from imgproc_local.cli.serve.log_file import own as log_file
from imgproc_local.cli.serve.log_file import write_log_file
from imgproc_local.cli.serve.port_holder import Holder, port_holder
from imgproc_local.cli.serve.running import APPEARING_S, open_page, open_page_of, running_server
from imgproc_local.config import Config
from imgproc_local.domain.errors import DataFolderBusy, SettingInvalid

if TYPE_CHECKING:
    from imgproc_local.compose import Services
    from imgproc_local.system.folder_lock import Owner

BACKLOG = 512
SHUTDOWN_S = 5
"""How long an orderly stop waits for requests in flight."""


@click.command("serve")
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="Port to listen on; 0 takes a free one.  [default: 8484]")
@click.option(
    "--browser/--no-browser",
    default=None,
    help="Open the local page in a browser, or don't.  [default: from a terminal]",
)
@air_gapped_option
@data_dir_option
@click.pass_context
def command(ctx: click.Context, host: str | None, port: int | None, browser: bool | None, data_dir: str | None) -> None:
    """Serve the API and the local page until stopped.

    Where a server is already running on the data folder, it is told and its page opened. Exit code: 0 stopped in order,
    or already running; 1 the port is taken; 2 refused.
    """
    config = load_unsealed(ctx, data_dir, host=host, port=port).config
    # a browser is a program of its own, which could not reach even this machine from a sealed process
    open_browser = (sys.stdout.isatty() if browser is None else browser) and not config.air_gapped
    running = running_server(config.data_dir)
    if running is None:
        try:
            abandoned = _listen_and_serve(config, open_browser)
        except (PortTaken, DataFolderBusy) as refusal:
            # perhaps by a second start at the same moment
            appears_s = APPEARING_S if isinstance(refusal, PortTaken) and refusal.may_be_this_program else 0
            running = running_server(config.data_dir, appears_s)
            if running is None:
                raise
    if running is not None:
        _tell_running(config, running, host, port, open_browser)
        return
    give_up_output_that_fails()
    if abandoned:
        # a codec that reacts to nothing would hold up the interpreter's exit
        os._exit(0)


class PortTaken(click.ClickException):
    """Somebody else listens there."""

    def __init__(self, refusal: str, holder: Holder) -> None:
        super().__init__(
            f"{refusal} It is held by {holder.words}: choose another port with --port, or --port 0 for any free one."
        )
        self.may_be_this_program = holder.may_be_this_program


def _tell_running(config: Config, running: Owner, host: str | None, port: int | None, open_browser: bool) -> None:
    """Say where the server is, and show it. Refused where another address was asked for by name."""
    assert running.address is not None
    where = urlsplit(running.address)
    if (host and _numeric(host, air_gapped=False) != where.hostname) or (port and port != where.port):
        raise DataFolderBusy(
            f"The data folder {config.data_dir} is served at {running.address} already (process {running.pid})."
            " Stop that server first, or use another folder with --data-dir."
        )
    if config.air_gapped and not running.air_gapped:
        raise DataFolderBusy(
            f"air_gapped is true, but the server that runs at {running.address} (process {running.pid}) was started"
            " without it. Stop that server first, or use another folder with --data-dir."
        )
    click.echo(f"imgproc-local is already running: it serves {running.address}/api/v1  (process {running.pid})")
    if open_browser:
        problem = open_page_of(running.address, config.data_dir)
        if problem is not None:
            click.echo(f"Its page could not be opened ({problem}).", err=True)


def _listen_and_serve(config: Config, open_browser: bool) -> int:
    """Serve until a signal comes. Returns how many threads did not come back."""
    listener = _listen(config)
    try:
        seal_if_asked(config)
        return asyncio.run(_serve(config, listener, open_browser))
    finally:
        listener.close()


def _listen(config: Config) -> socket.socket:
    host = _numeric(config.host, config.air_gapped)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # the protocol is named: asyncio leaves Nagle's algorithm on where it is 0, and every answer takes 44 ms
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, config.port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        refusal = f"Can't listen on {config.host} port {config.port}: {error.strerror}."
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(refusal, port_holder(config.port)) from error
        raise click.ClickException(f"{refusal} {_what_to_do(config, error)}") from error
    listener.setblocking(False)
    return listener


def _numeric(host: str, air_gapped: bool) -> str:
    """`host` without a lookup, where one can be told without."""
    if host == "localhost":
        return "127.0.0.1"
    if air_gapped:
        try:
            ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            raise SettingInvalid(
                f"host must be an address where air_gapped is true, for a name has to be looked up; {host!r} came."
            ) from None
    return host


def _what_to_do(config: Config, error: OSError) -> str:
    if error.errno == errno.EACCES and config.port:
        return "Ports below 1024 are often the administrator's: choose another with --port."
    return "Choose an address of this machine with --host (127.0.0.1 is always one)."


async def _serve(config: Config, listener: socket.socket, open_browser: bool) -> int:
    """Serve until a signal comes. Returns how many threads did not come back."""
    from imgproc_local.compose import open_services

    async with open_services(config, "serve") as services:
        from imgproc_local.api.app import answer_head, make_app
        from imgproc_local.cli.serve.server import Server, server_config
        from imgproc_local.web import page

        address = _url(config.host, listener.getsockname()[1])
        _tell_owner(services, address)
        write_log_file(config.data_dir)
        use_temporary_folder(config.data_dir)
        log_file.info("imgproc-local %s serves %s as process %d", __version__, address, os.getpid())
        await _greet(services, address)
        app = make_app(services, page.HANDLERS)
        server = Server(server_config(answer_head(app), SHUTDOWN_S), on_stop=services.engine.end_waits)
        if open_browser:
            open_page(f"{address}/?token={services.page.new_ticket()}")
        try:
            await server.serve(sockets=[listener])
            log_file.info("stopped")
        except Exception:
            log_file.exception("ended by an unforeseen error")
            raise
    return services.engine.abandoned_threads


def _url(host: str, port: int) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104
    return f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{port}"


def _tell_owner(services: Services, address: str) -> None:
    from imgproc_local.storage.clock import rfc3339, utc_now
    from imgproc_local.system.folder_lock import Owner

    owner = Owner(os.getpid(), "serve", address, rfc3339(utc_now()), air_gapped=services.config.air_gapped)
    services.lock.tell(owner)


async def _greet(services: Services, address: str) -> None:
    """Say where the service is; on an empty folder, make a key and show it once. Serving does not depend on it."""
    try:
        await _say(services, address)
    except OSError as error:
        log_file.warning("what the start tells could not be printed (%s)", error.strerror)


async def _say(services: Services, address: str) -> None:
    click.echo(f"imgproc-local serves {address}/api/v1  (stop with Ctrl+C)")
    click.echo(f"Page: {address}/?token={services.page.token}")
    click.echo(f"Data: {path_text(services.config.data_dir)}")
    if services.config.air_gapped:
        from imgproc_local.system.air_gap import kernel_gap

        held = f"Python code only, for {kernel_gap()}" if kernel_gap() else "this program and every library in it"
        click.echo(f"Air-gapped: no connection to anywhere is opened ({held}).")
    if not await services.store.keys.all():
        _, secret = await services.store.keys.create("first key")
        click.echo(f"\nYour API key, shown only this once:\n\n    {secret}\n")
        click.echo("Make more with `imgproc-local keys create --name NAME`.")
    sys.stdout.flush()
