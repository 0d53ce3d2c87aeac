"""Options that several commands share, loading the settings with the flags of a command, and what `process` and
`archive` make of each picture.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, get_args

import click
from msgspec import Struct
from msgspec.structs import replace

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.domain.image import CONVERT_TARGETS, Format
from imgproc_local.domain.job import StageName
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.plan import (
    DEFAULT_PROJECT_NAME,
    MAX_CONTEXT_CHARS,
    MAX_LANGUAGES,
    MAX_SIDE_PX,
    Effort,
    Operation,
    Plan,
    Role,
)

if TYPE_CHECKING:
    from imgproc_local.batch import BatchRequest
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


# ---- what is made of each picture, by `process` and `archive`


class PictureFlags(Struct, frozen=True):
    """The values of the options. None is an option that was not given and has no default."""

    languages: tuple[str, ...]
    convert_to: str
    only: tuple[str, ...]
    quality: str | None
    max_width: int | None
    max_height: int | None
    effort: Effort | None
    write_metadata: bool
    overwrite: bool
    sidecar: bool
    project: str | None
    role: str
    context: str


def _checked_context(_ctx: click.Context, _parameter: click.Parameter, value: str) -> str:
    """A click callback: the text without surrounding whitespace, with the API's maximum length."""
    value = value.strip()
    if len(value) > MAX_CONTEXT_CHARS:
        raise click.BadParameter(f"expected at most {MAX_CONTEXT_CHARS} characters, received {len(value)}.")
    return value


_OPTIONS = (
    click.option(
        "--languages",
        metavar="CODES",
        callback=language_codes,
        default="en",
        show_default=True,
        help="Write alt texts in these languages, such as en,de. The file names are in the first one.",
    ),
    click.option(
        "--format",
        "convert_to",
        type=click.Choice(CONVERT_TARGETS, case_sensitive=False),
        default="webp",
        show_default=True,
        help="Convert to this format.",
    ),
    click.option(
        "--only",
        type=click.Choice([stage.value for stage in StageName], case_sensitive=False),
        multiple=True,
        help="Do only this: analyze (names and texts), optimize or convert. Can be repeated.",
    ),
    click.option(
        "--quality",
        metavar="TARGET",
        help="How closely results match the original: visually-lossless, web, small, or a score from 50 to 95."
        "  [default: the setting quality_target]",
    ),
    click.option(
        "--max-width", type=click.IntRange(1, MAX_SIDE_PX), metavar="PIXELS", help="Scale down to this width."
    ),
    click.option(
        "--max-height", type=click.IntRange(1, MAX_SIDE_PX), metavar="PIXELS", help="Scale down to this height."
    ),
    click.option(
        "--effort",
        type=click.Choice(get_args(Effort), case_sensitive=False),
        help="Trade CPU time for file size at the same quality.  [default: the setting effort]",
    ),
    click.option(
        "--write-metadata",
        is_flag=True,
        help="Write the alt texts that a person or a model wrote into the results, as XMP.",
    ),
    click.option(
        "--overwrite", is_flag=True, help="With --write-metadata, replace alt texts that the pictures already have."
    ),
    click.option("--sidecar", is_flag=True, help="Also write the alt texts to NAME.xmp beside the results."),
    click.option(
        "--project",
        metavar="NAME",
        callback=checked_name,
        help="Use this name as the project and as context for the alt texts.",
    ),
    click.option(
        "--role",
        type=click.Choice([role.value for role in Role], case_sensitive=False),
        default=Role.INFORMATIVE.value,
        show_default=True,
        help="What the pictures are for on their page. The alt text of a decorative one is empty; that of a link or"
        " button says what --context says: where it leads, or what it does.",
    ),
    click.option(
        "--context",
        metavar="TEXT",
        callback=_checked_context,
        default="",
        help="Say what page or article the pictures are for, in at most 500 characters. The vision model reads it; it"
        " is not stored. With --role, say where the link leads, or what the button does.",
    ),
)


def picture_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command, which receives their values as the argument `flags`, a `PictureFlags`."""

    @wraps(function)
    def with_flags(*arguments: Any, **values: Any) -> Any:
        flags = PictureFlags(**{name: values.pop(name) for name in PictureFlags.__struct_fields__})
        return function(*arguments, flags=flags, **values)

    decorated: Callable[..., Any] = with_flags
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def request_for(flags: PictureFlags, config: Config, *, archive_names: bool) -> BatchRequest:
    """The request for these options; for `archive_names` see `BatchRequest`.

    Says if no vision model reads the context. Raises: click.UsageError.
    """
    from imgproc_local.batch import BatchRequest, options_hash
    from imgproc_local.compose import model_store, used_model_status

    has_texts = not flags.only or "analyze" in flags.only
    if flags.overwrite and not flags.write_metadata:
        raise click.UsageError("--overwrite needs --write-metadata.")
    role = Role(flags.role)
    has_function = role in (Role.LINK, Role.BUTTON)
    if (flags.write_metadata or flags.sidecar or role is not Role.INFORMATIVE) and not has_texts:
        raise click.UsageError("--write-metadata, --sidecar and --role need alt texts: add --only analyze.")
    if has_function and not flags.context:
        aim = "where the link leads" if role is Role.LINK else "what the button does"
        raise click.UsageError(f"--role {flags.role} needs --context: say {aim}, as the alt text has to.")
    if flags.write_metadata and set(flags.only) == {"analyze"}:
        raise click.UsageError(
            "--write-metadata needs files to write to: add --only optimize or --only convert, or use --sidecar."
        )
    try:
        model = model_store(config).active_name(config.model)
    except ModelUnusable:
        model = "unknown"
    has_model = model is not None and not used_model_status(config).problem
    if flags.context and not (has_model or has_function) and has_texts:
        click.echo(
            "--context has no effect: no vision model is in use. `imgproc-local models list` shows which there are.",
            err=True,
        )
    plan = Plan(
        Operation.PROCESS,
        flags.languages,
        Format(flags.convert_to),
        project_name=flags.project or DEFAULT_PROJECT_NAME,
        context=flags.context,
        max_width_px=flags.max_width,
        max_height_px=flags.max_height,
        role=role,
    )
    only = [Operation(name) for name in StageName if name in flags.only]
    is_part = 0 < len(only) < len(StageName)
    plans = tuple(replace(plan, operation=operation) for operation in only) if is_part else (plan,)
    is_set = (flags.write_metadata, flags.overwrite, flags.sidecar, archive_names)
    changes = list(itertools.compress(("write", "replace", "sidecar", "archive-names"), is_set))
    return BatchRequest(
        plans,
        flags.languages,
        options_hash(plans, changes, config, model),
        write_metadata=flags.write_metadata,
        overwrite=flags.overwrite,
        sidecar=flags.sidecar,
        archive_names=archive_names,
    )
