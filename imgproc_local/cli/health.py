"""`health`: asks the running server whether it works, for the health check of a container and for monitoring."""

from __future__ import annotations

import ssl
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

import click

from imgproc_local.cli.access import require_server
from imgproc_local.cli.help import Command
from imgproc_local.cli.options import data_dir_option, load_settings_before_air_gap

_TIMEOUT_S = 10.0
_MAX_BYTES = 4096


@click.command("health", cls=Command)
@data_dir_option
@click.pass_context
def health(ctx: click.Context) -> None:
    """Ask the running server whether it works.

    Prints what it answers at /healthz. This is the one connection that --air-gapped allows: to the server itself.

    Exit code: 0 it works, 1 it does not, 2 none runs on the data folder.

    Examples:
      imgproc-local health
    """
    server = require_server(load_settings_before_air_gap(ctx).config)
    # the server named this address itself, which its certificate need not do
    anyone = ssl.create_default_context()
    anyone.check_hostname = False
    anyone.verify_mode = ssl.CERT_NONE
    try:
        opener = build_opener(ProxyHandler({}), HTTPSHandler(context=anyone))
        with opener.open(f"{server.address}/healthz", timeout=_TIMEOUT_S) as answer:
            click.echo(answer.read(_MAX_BYTES))
    except HTTPError as error:
        with error:
            raise click.ClickException(error.read(_MAX_BYTES).decode(errors="replace")) from error
    except (OSError, HTTPException) as error:
        raise click.ClickException(f"The server at {server.address} does not answer ({error}).") from error
