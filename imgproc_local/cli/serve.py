"""`serve`: the API and the local page on this machine.

The data folder is locked first, so that of two starts at the same time one becomes the server and the other one finds
it. The socket listens before the application is imported: a client that connects meanwhile waits.
"""

from __future__ import annotations

import asyncio
import html
import ipaddress
import os
import socket
import ssl
import sys
import threading
import time
import webbrowser
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import click

from imgproc_local import __version__
from imgproc_local.cli import log_file
from imgproc_local.cli.access import link_text, page_link
from imgproc_local.cli.help import Command
from imgproc_local.cli.options import general_options, load_settings_before_air_gap
from imgproc_local.cli.output import exit_command, flush_output, path_text, say
from imgproc_local.compose import Services, lock_folder, open_services
from imgproc_local.config import Config, Loaded, Settings, default_data_dir
from imgproc_local.domain.addresses import ALL_INTERFACES, is_loopback
from imgproc_local.domain.errors import DataFolderBusy, ServiceError, SettingInvalid, StorageFailed
from imgproc_local.storage.accounts import LINK_VALID_S, audit, link_page
from imgproc_local.system import air_gap
from imgproc_local.system.files import write_atomically
from imgproc_local.system.folder_lock import FolderLock, Owner, current_owner

SHUTDOWN_S = 5
"""How long an orderly stop waits for requests in flight."""
STARTING_S = 10.0
"""How long a server that has locked the data folder may take until it publishes its address."""
_BROWSER_TIMEOUT_S = 10.0
"""How long a command waits for the thread of `_open_in_browser` before it ends."""
_LINK_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>imgproc-local</title>
<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url={link}">
<p><a href="{link}">Open imgproc-local</a></p>
</html>
"""
_NOT_STARTED_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>imgproc-local did not start</title>
<h1>imgproc-local did not start</h1>
<p>{reason}</p>
<p>The log file is {log}.</p>
</html>
"""


@click.command("serve", cls=Command)
@click.option("--host", metavar="ADDRESS", help="Listen on this address.  [default: 127.0.0.1]")
@click.option("--port", metavar="PORT", type=int, help="Listen on this port; 0 uses a free one.  [default: 8484]")
@click.option(
    "--tls-cert",
    metavar="FILE",
    type=click.Path(readable=False),
    help="Serve https with this certificate and its key, without a password, in one PEM file.",
)
@click.option(
    "--behind-proxy",
    metavar="ADDRESS[,…]",
    help="Trust the forwarded headers of these proxies, which must terminate TLS.",
)
@click.option(
    "--browser/--no-browser",
    default=None,
    help="Open the local page in a browser, or don't.  [default: open it when started from a terminal]",
)
@general_options
@click.pass_context
def command(ctx: click.Context, /, browser: bool | None, **flags: object) -> None:
    """Serve the API and the local page until stopped.

    If a server is already running on the data folder, print its address and open its page. If the start is refused,
    the reason is also written to the log file, and --browser shows it as a page. An address that other machines can
    reach needs TLS: --tls-cert or --behind-proxy.

    Exit code: 0 stopped normally or already running, 1 can't listen on the address or port, 2 refused.

    Examples:
      imgproc-local serve --port 9000
      imgproc-local serve --host 0.0.0.0 --tls-cert tls.pem
    """
    config = None
    try:
        loaded = load_settings_before_air_gap(ctx, **flags)
        config = loaded.config
        # the air gap is inherited by child processes: a browser could not connect even to this server
        open_browser = (sys.stdout.isatty() if browser is None else browser) and not config.air_gapped
        has_unstopped_threads = _serve_or_show_running(loaded, flags, open_browser)
    except (ServiceError, click.ClickException, OSError) as error:
        folder = config.data_dir if config else _probable_data_dir(ctx)
        if folder is not None:
            in_browser = browser is True and not (config and config.air_gapped)
            _report_refused_start(folder, str(error), in_browser=in_browser)
        raise
    flush_output()
    exit_command(ctx, 0, has_unstopped_threads)


def _probable_data_dir(ctx: click.Context) -> Path | None:
    """The data folder of the flags, the environment or the default, for a start whose settings can't be loaded.

    None if that folder does not exist. The settings file is not consulted.
    """
    named = ctx.find_root().ensure_object(dict).get("data_dir") or os.environ.get("IMGPROC_DATA_DIR")
    try:
        folder = Path(named).expanduser().absolute() if named else default_data_dir()
    except (SettingInvalid, RuntimeError):
        return None
    return folder if folder.is_dir() else None


def _serve_or_show_running(loaded: Loaded, flags: dict[str, object], open_browser: bool) -> bool:
    """Serve until a signal, or show the server that runs on the data folder. Returns whether threads still run."""

    config = loaded.config
    try:
        lock = lock_folder(config, "serve")
    except DataFolderBusy:
        running = running_server(config.data_dir)
        if running is None:
            raise
        _show_running(config, running, flags, open_browser)
        return False
    try:
        _require_protection(config)
        with _listen(config) as listener:
            if config.air_gapped:
                air_gap.enable()
            return asyncio.run(_serve(Settings(loaded), lock, listener, open_browser))
    finally:
        lock.release()


def _show_running(config: Config, running: Owner, flags: dict[str, object], open_browser: bool) -> None:
    """Print the address of the running server and, with `open_browser`, open its page.

    Raises: DataFolderBusy, if the `flags` of this start ask for another address, or it is to be air-gapped.
    """
    assert running.address is not None
    where = urlsplit(running.address)
    refused = None
    other_host = flags["host"] and _without_localhost(str(flags["host"])) != _without_localhost(where.hostname or "")
    if other_host or (flags["port"] and flags["port"] != where.port):
        refused = f"The data folder {config.data_dir} is already served at"
    elif config.air_gapped and not running.air_gapped:
        refused = "air_gapped is true, but a server that was started without it runs at"
    if refused:
        advice = "Stop that server first, or use another folder with --data-dir."
        raise DataFolderBusy(f"{refused} {running.address} (process {running.pid}). {advice}")
    click.echo(f"imgproc-local is already running: it serves {running.address}/api/v1  (process {running.pid})")
    if open_browser:
        try:
            open_link(config.data_dir, page_link(config, running)).join(_BROWSER_TIMEOUT_S)
        except (StorageFailed, OSError) as error:
            click.echo(f"Its page could not be opened ({error}).", err=True)


# ---- a server that runs already, the browser, and a start that was refused ----


def running_server(folder: Path) -> Owner | None:
    """The server that owns the data folder, with its address; None if another command owns it.

    Waits at most `STARTING_S` until a server that is starting publishes its address, for a folder that is locked.
    """
    began = time.monotonic()
    while time.monotonic() - began < STARTING_S:
        owner = current_owner(folder)  # None between the lock and the first publication
        if owner is not None and owner.address is not None:
            return owner
        if owner is not None and owner.doing != "serve":
            return None
        time.sleep(0.1)
    return None


def _open_in_browser(url: str) -> threading.Thread:
    """Open `url` on a new thread, because some browsers block until they are closed. Returns the thread.

    Every user of the machine can read it among the arguments of the browser's command.
    """
    thread = threading.Thread(target=webbrowser.open, args=(url,), name="imgproc-browser", daemon=True)
    thread.start()
    return thread


def open_link(folder: Path, link: str) -> threading.Thread:
    """Open a sign-in link to the server on `folder` as `_open_in_browser` does, but from a file that only this user can
    read. Raises: OSError.
    """

    page = link_page(folder)
    write_atomically(page, _LINK_PAGE.format(link=html.escape(link)).encode(), mode=0o600)
    return _open_in_browser(page.as_uri())


def _report_refused_start(data_dir: Path, reason: str, *, in_browser: bool) -> None:
    """Write `reason` to the log file in `data_dir`; with `in_browser`, also show it as a page.

    As far as files can be written there. The caller prints the reason to standard error in any case.
    """
    with suppress(OSError):
        log = log_file.log_refused_start(data_dir, reason)
        if in_browser:
            page = log.with_name("not-started.html")
            reason = html.escape(log_file.without_secrets(reason))
            text = _NOT_STARTED_PAGE.format(reason=reason, log=html.escape(str(log)))
            page.write_text(text, encoding="utf-8", errors="replace")
            _open_in_browser(page.as_uri()).join(_BROWSER_TIMEOUT_S)


# ---- the address ----


def _require_protection(config: Config) -> None:
    """Check that other machines connect only by TLS, and that the TLS file can be used. Raises: SettingInvalid.

    Beyond loopback, requests and keys cross a network.
    """
    if config.tls_cert:
        _check_tls_file(config.tls_cert)
    elif not config.behind_proxy and not is_loopback(config.host):
        raise SettingInvalid(
            f"Other machines can reach {config.host}, and without TLS anyone on the network could read pictures and"
            " keys: give --tls-cert, or give the address of a proxy with"
            " TLS as --behind-proxy ADDRESS, or listen on 127.0.0.1."
        )


def _check_tls_file(file: str) -> None:
    """Raises: SettingInvalid, if the file does not have a certificate and its key."""

    def refuse_password() -> str:
        raise SettingInvalid(f"tls_cert must have a key without a password; the one in {file} has one.")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file, password=refuse_password)
    except OSError as error:  # SSLError is one
        raise SettingInvalid(
            f"tls_cert must be one PEM file of a certificate and its private key; {file} is not"
            f" ({error.strerror}). If the key is a file of its own, append it to the certificate."
        ) from error


def _listen(config: Config) -> socket.socket:
    """A listener at the address of the settings. Names other than localhost are looked up when it is bound.

    Raises: SettingInvalid, for such a name in air-gapped mode; click.ClickException.
    """
    host = _without_localhost(config.host)
    if config.air_gapped:
        try:
            ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            raise SettingInvalid(
                f"host must be an IP address where air_gapped is true, because names need a lookup; received {host!r}."
            ) from None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm only if the protocol is given; with the algorithm, every response takes 44 ms
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, config.port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise click.ClickException(
            f"Can't listen on {config.host} port {config.port}: {error.strerror}. Choose another port with --port"
            " (0 uses a free one, those below 1024 often need administrator rights), or an address of this"
            " machine with --host."
        ) from error
    listener.setblocking(False)
    return listener


def _without_localhost(host: str) -> str:
    return "127.0.0.1" if host == "localhost" else host


# ---- the service ----


async def _serve(settings: Settings, lock: FolderLock, listener: socket.socket, open_browser: bool) -> bool:
    """Serve on `listener` until a signal stops the server. Returns whether threads still run stages."""

    config = settings.config
    async with open_services(settings, lock=lock) as services:
        from imgproc_local.api.app import end_requests, make_app
        from imgproc_local.server import Server, server_config
        from imgproc_local.web import page

        address = _url(config, listener.getsockname()[1])
        lock.publish(address, air_gapped=config.air_gapped, public_url=config.public_address)
        log_file.log_to_file(config.data_dir)
        log_file.audit_to_file(config.data_dir)
        log_file.lifecycle.info("imgproc-local %s serves %s as process %d", __version__, address, os.getpid())
        address = config.public_address or address
        await _print_start(services, address)
        app = make_app(services, page.HANDLERS)
        server = Server(server_config(app, SHUTDOWN_S, config.tls_cert), on_stop=partial(end_requests, app))
        if open_browser:
            try:
                open_link(config.data_dir, link_text(address, await services.store.sessions.new_link()))
            except OSError as error:
                log_file.lifecycle.warning("the page could not be opened in a browser (%s)", error)
        try:
            await server.serve(sockets=[listener])
            log_file.lifecycle.info("stopped")
        except Exception:
            log_file.lifecycle.exception("stopped by an unexpected error")
            raise
    return services.engine.has_unstopped_threads


def _url(config: Config, port: int) -> str:
    """The URL by which this machine reaches the service.

    With TLS on all interfaces it has the machine's name, because certificates are issued for names.
    """
    host = config.host
    if host in ALL_INTERFACES:
        host = socket.gethostname() if config.tls_cert else "127.0.0.1" if host == ALL_INTERFACES[0] else "::1"
    scheme = "https" if config.tls_cert else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{port}"


async def _print_start(services: Services, address: str) -> None:
    """Print where the service is and how to get access to it.

    Secrets are printed only to a terminal: a sign-in link and, if there was never a key, the first API key. Output to
    anything else may be stored, as in systemd's journal. A failed write is logged, and the server continues.
    """
    try:
        click.echo(f"imgproc-local serves {address}/api/v1  (stop with Ctrl+C)")
        click.echo(f"Data: {path_text(services.config.data_dir)}")
        if services.config.air_gapped:
            error = air_gap.seccomp_error()
            scope = f"Python code only: {error}" if error else "this program and every library in it"
            click.echo(f"Air-gapped: network connections are refused ({scope}).")
        if sys.stdout.isatty():
            await _print_secrets(services, address)
        else:
            say("The page: `imgproc-local sign-in` prints a link to it.")
            say("API keys: `imgproc-local keys create --name NAME` creates one.")
        sys.stdout.flush()
    except OSError as error:
        log_file.lifecycle.warning("the start messages could not be printed (%s)", error.strerror)


async def _print_secrets(services: Services, address: str) -> None:
    link = link_text(address, await services.store.sessions.new_link())
    say(f"Page: {link}  (works once, for {LINK_VALID_S // 60} minutes; then `imgproc-local sign-in`)")
    if not await services.store.keys.all():
        key, secret = await services.store.keys.create("first key")
        audit("key.create", key=key.id, account=key.account_id, by="serve")
        click.echo(f"\nYour API key, shown only this once:\n\n    {secret}\n")
        say("Create more with `imgproc-local keys create --name NAME`.")
