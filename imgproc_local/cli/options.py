"""Options that several commands share, and loading the settings with the flags of a command."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.plan import MAX_LANGUAGES

if TYPE_CHECKING:
    from imgproc_local.config import Config, Loaded


_MAX_NAME_CHARS = 255
"""Characters of the name of a key, an account or a project."""
DATA_DIR_HELP = "Store the database and the files in this folder (IMGPROC_DATA_DIR)."


def data_dir_option(function: Any) -> Any:
    """Add `--data-dir` to a command, so that it is accepted after the command's name too."""
    return click.option("--data-dir", metavar="DIR", help=DATA_DIR_HELP)(function)


def with_config(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--data-dir` to a command, which receives its settings as the first argument."""

    @wraps(function)
    def command(*, data_dir: str | None, **values: Any) -> Any:
        return function(load_config(click.get_current_context(), data_dir), **values)

    decorated: Callable[..., Any] = data_dir_option(command)
    return decorated


def checked_name(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """A click callback: the name without surrounding whitespace; None if the option is not given.

    Raises: click.BadParameter unless the name has 1 to `_MAX_NAME_CHARS` printable characters.
    """
    if value is None:
        return None
    text = value.strip()
    if not text:
        raise click.BadParameter("expected a name, received empty text.")
    if len(text) > _MAX_NAME_CHARS:
        raise click.BadParameter(f"expected at most {_MAX_NAME_CHARS} characters, received {len(text)}.")
    if not text.isprintable():
        raise click.BadParameter(f"expected printable characters, received {text!r}.")
    return text


def account_option(what: str) -> Callable[[Any], Any]:
    """Add `--account` to a command; `what` is its help."""
    return click.option(
        "--account", metavar="NAME", callback=checked_name, default="default", show_default=True, help=what
    )


def air_gapped_option(function: Any) -> Any:
    """Add `--air-gapped` to a command, so that it is accepted after the command's name too."""
    return click.option(
        "--air-gapped",
        is_flag=True,
        expose_value=False,
        callback=_store_air_gapped,
        help="Refuse every network connection, also those of libraries (IMGPROC_AIR_GAPPED).",
    )(function)


def _store_air_gapped(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_root().ensure_object(dict)["air_gapped"] = True


def load_settings(ctx: click.Context, data_dir: str | None = None, **flags: Any) -> Loaded:
    """The settings of this command. In air-gapped mode, also block the network for this process.

    Raises: SettingInvalid.
    """
    loaded = load_settings_before_air_gap(ctx, data_dir, **flags)
    enable_air_gap_if_set(loaded.config)
    return loaded


def load_config(ctx: click.Context, data_dir: str | None = None, **flags: Any) -> Config:
    """The same as `load_settings`, without the sources of the values."""
    return load_settings(ctx, data_dir, **flags).config


def load_settings_before_air_gap(ctx: click.Context, data_dir: str | None = None, **flags: Any) -> Loaded:
    """The settings of this command; the network is not blocked yet.

    For a command that opens a listener first and then calls `enable_air_gap_if_set`.
    """
    from imgproc_local.config import load

    group_flags: dict[str, Any] = ctx.find_root().obj or {}
    return load({**group_flags, **flags, "data_dir": data_dir or group_flags.get("data_dir")})


def enable_air_gap_if_set(config: Config) -> None:
    """In air-gapped mode, block the network for this process. This can't be undone."""
    if config.air_gapped:
        from imgproc_local.system import air_gap

        air_gap.enable()


def language_codes(_ctx: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """A click callback for codes separated by commas: the codes in their order, without duplicates.

    Raises: click.BadParameter, also for more than the API's maximum number of languages per picture.
    """
    codes = tuple(dict.fromkeys(code.strip().lower() for code in value.split(",") if code.strip()))
    if not codes:
        raise click.BadParameter(f"expected language codes separated by commas, such as en,de; received {value!r}.")
    for code in codes:
        if code not in LANGUAGES:
            raise click.BadParameter(
                f"expected language codes separated by commas, such as en,de; {code!r} is not a supported language."
                f"{_suggestion(code)} Supported: {', '.join(LANGUAGES)}."
            )
    if len(codes) > MAX_LANGUAGES:
        raise click.BadParameter(f"expected at most {MAX_LANGUAGES} languages, received {len(codes)}.")
    return codes


def _suggestion(text: str) -> str:
    """A sentence that suggests the closest language; "" if there is none.

    `text` may be a misspelt code or language name, or a code with a region such as en-US.
    """
    if text[:2] in LANGUAGES and text[2:3] in ("-", "_"):
        suggested = text[:2]
    else:
        names = {name.lower(): each.code for each in LANGUAGES.values() for name in (each.name, each.native_name)}
        names |= {code: code for code in LANGUAGES}
        near = difflib.get_close_matches(text, names, n=1)
        if not near:
            return ""
        suggested = names[near[0]]
    return f" Did you mean {suggested} ({LANGUAGES[suggested].name})?"
