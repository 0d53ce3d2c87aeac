"""`health`: asks the running server whether it works, for the health check of a container and for monitoring."""

from __future__ import annotations

import click
import httpx

from imgproc_local.cli.access import require_server
from imgproc_local.cli.help import Command
from imgproc_local.cli.options import data_dir_option, load_settings_before_air_gap

_TIMEOUT_S = 10.0


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
    try:
        # the server named this address itself, which its certificate need not do
        answer = httpx.get(f"{server.address}/healthz", timeout=_TIMEOUT_S, trust_env=False, verify=False)  # noqa: S501
    except httpx.HTTPError as error:
        raise click.ClickException(f"The server at {server.address} does not answer ({error}).") from error
    if not answer.is_success:
        raise click.ClickException(answer.text)
    click.echo(answer.content)
