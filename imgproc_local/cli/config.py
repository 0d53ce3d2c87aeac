"""`config`: the settings in effect and the source of each."""

from __future__ import annotations

import click

from imgproc_local.cli.options import data_dir_option, load_settings


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
    import msgspec

    from imgproc_local.cli.output import echo_json, encodable_text, printable
    from imgproc_local.config import CONFIG_VARIABLE, SETTINGS, default_config_path, setting_meta

    loaded = load_settings(ctx, data_dir)
    values = msgspec.to_builtins(loaded.config, enc_hook=lambda value: encodable_text(str(value)))
    if as_json:
        echo_json(
            {
                "file": None if loaded.file is None else encodable_text(str(loaded.file)),
                "settings": [
                    {
                        "name": name,
                        "value": values[name],
                        "source": encodable_text(loaded.origins[name]),
                        "description": setting_meta(name).description,
                    }
                    for name in SETTINGS
                ],
            }
        )
        return
    if loaded.file is not None:
        click.echo(f"Settings file: {loaded.file}\n")
    else:
        default = default_config_path()
        by_variable = f"set {CONFIG_VARIABLE} to the path of another file" if default else f"set {CONFIG_VARIABLE}"
        how = f"create {default}, or {by_variable}" if default else f"{by_variable} to its path"
        click.echo(f"Settings file: none. To use one, {how}.\n")
    for name in SETTINGS:
        value = msgspec.json.encode(values[name]).decode()
        click.echo(f"{name} = {printable(value)}  ({loaded.origins[name]})")
        click.echo(f"    {setting_meta(name).description}")
