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


def load_settings(ctx: click.Context, data_dir: str | None = None, **flags: Any) -> Loaded:
    """The settings for this call. Raises `SettingInvalid`."""
    from imgproc_local.config import load

    group_flags: dict[str, Any] = ctx.find_root().obj or {}
    return load({**flags, "data_dir": data_dir or group_flags.get("data_dir")})


def load_config(ctx: click.Context, data_dir: str | None = None, **flags: Any) -> Config:
    return load_settings(ctx, data_dir, **flags).config
