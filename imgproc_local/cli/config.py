"""`config`: the settings in effect and the source of each."""

from __future__ import annotations

import click
import msgspec

from imgproc_local.cli.options import data_dir_option, load_settings
from imgproc_local.cli.output import echo_json, printable
from imgproc_local.system.files import encodable_text


@click.group("config")
def command() -> None:
    """Show the settings."""


@command.command("show")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@data_dir_option
@click.pass_context
def show(ctx: click.Context, as_json: bool, data_dir: str | None) -> None:
    """Show every setting with its value, its source and its description.

    The value is the first of: a flag of the command, the environment variable (IMGPROC_ and the name in capitals), the
    settings file, the default.
    """
    from imgproc_local.config import CONFIG_VARIABLE, default_config_path

    loaded = load_settings(ctx, data_dir)
    if as_json:
        echo_json({"file": loaded.file and encodable_text(str(loaded.file)), "settings": loaded.shown()})
        return
    none = f"none. To use one, create {default_config_path() or 'it'}, or set {CONFIG_VARIABLE} to the path of a file."
    click.echo(f"Settings file: {loaded.file or none}\n")
    for setting in loaded.shown():
        value = msgspec.json.encode(setting.value).decode()
        click.echo(f"{setting.name} = {printable(value)}  ({setting.source})")
        click.echo(f"    {setting.description}")
