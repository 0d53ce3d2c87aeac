"""`config`: which settings are in force and where each comes from."""

from __future__ import annotations

import click

from imgproc_local.cli.options import data_dir_option, load_settings


@click.group("config")
def command() -> None:
    """Show the settings."""


@command.command("show")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@data_dir_option
@click.pass_context
def show(ctx: click.Context, as_json: bool, data_dir: str | None) -> None:
    """Show every setting, its value, where it comes from and what it does.

    A setting is taken from the first of: a flag of the command, the environment (IMGPROC_ and its name in capitals),
    the settings file, the default.
    """
    import msgspec

    from imgproc_local.cli.output import echo_json, plain, whole_text
    from imgproc_local.config import CONFIG_VARIABLE, SETTINGS, default_config_path, setting_meta

    loaded = load_settings(ctx, data_dir)
    values = msgspec.to_builtins(loaded.config, enc_hook=lambda value: whole_text(str(value)))
    if as_json:
        echo_json(
            {
                "file": None if loaded.file is None else whole_text(str(loaded.file)),
                "settings": [
                    {
                        "name": name,
                        "value": values[name],
                        "source": whole_text(loaded.origins[name]),
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
        usual = default_config_path()
        expected = f"{usual} or the one" if usual else "the one"
        click.echo(f"Settings file: none; {expected} that {CONFIG_VARIABLE} names.\n")
    for name in SETTINGS:
        value = msgspec.json.encode(values[name]).decode()
        click.echo(f"{name} = {plain(value)}  ({loaded.origins[name]})")
        click.echo(f"    {setting_meta(name).description}")
