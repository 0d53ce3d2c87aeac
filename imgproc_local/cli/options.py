"""How a command gets its settings: its own flags over everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from imgproc_local.config import Config, Loaded


def data_dir_option(function: Any) -> Any:
    """`--data-dir` is understood after the command too, where most people write it."""
    return click.option("--data-dir", metavar="DIR", help="Folder of the database and the files (IMGPROC_DATA_DIR).")(
        function
    )


def air_gapped_option(function: Any) -> Any:
    """`--air-gapped` is understood after the command too."""
    return click.option(
        "--air-gapped",
        is_flag=True,
        expose_value=False,
        callback=_remember_air_gapped,
        help="Open no connection to anywhere, and let no library open one (IMGPROC_AIR_GAPPED).",
    )(function)


def _remember_air_gapped(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_root().ensure_object(dict)["air_gapped"] = True


def load_settings(ctx: click.Context, data_dir: str | None = None, **flags: Any) -> Loaded:
    """The settings for this call. In air-gapped mode the process is sealed with that. Raises `SettingInvalid`."""
    loaded = load_unsealed(ctx, data_dir, **flags)
    seal_if_asked(loaded.config)
    return loaded


def load_config(ctx: click.Context, data_dir: str | None = None, **flags: Any) -> Config:
    return load_settings(ctx, data_dir, **flags).config


def load_unsealed(ctx: click.Context, data_dir: str | None = None, **flags: Any) -> Loaded:
    """For who opens a listener first, and calls `seal_if_asked` then."""
    from imgproc_local.config import load

    group_flags: dict[str, Any] = ctx.find_root().obj or {}
    return load({**group_flags, **flags, "data_dir": data_dir or group_flags.get("data_dir")})


def seal_if_asked(config: Config) -> None:
    if config.air_gapped:
        from imgproc_local.system import air_gap

        air_gap.seal()
