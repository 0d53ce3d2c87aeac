"""Options that several commands share, loading the settings with the flags of a command, and what `process` and
`archive` make of each picture.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, get_args

import click
from click.shell_completion import CompletionItem
from msgspec import Struct
from msgspec.structs import replace

from imgproc_local.cli.output import name_folder, say
from imgproc_local.compose import model_store, used_model_status
from imgproc_local.config import Config, Loaded, load
from imgproc_local.domain import plan
from imgproc_local.domain.errors import ModelUnusable, ServiceError
from imgproc_local.domain.image import CONVERT_TARGETS, Format
from imgproc_local.domain.job import StageName
from imgproc_local.domain.languages import LANGUAGES, language_of
from imgproc_local.system import air_gap

if TYPE_CHECKING:
    from imgproc_local.batch import BatchRequest

_MAX_NAME_CHARS = 255
"""Characters of the name of a key, an account or a project."""


def _store_setting(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    """A click callback: what a command adds to the settings of `load_settings`. The value after its name wins."""
    if value == "":  # a shell variable that is not set; the default folder is not what was meant
        raise click.BadParameter("expected a folder, received an empty text.")
    if value:
        ctx.find_root().ensure_object(dict)[parameter.name] = value


data_dir_option = click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(readable=False),
    expose_value=False,
    callback=_store_setting,
    help="Store the database and the files in this folder (IMGPROC_DATA_DIR).",
)
"""The program and its commands have it, so that it is accepted before and after the command's name."""
_air_gapped_option = click.option(
    "--air-gapped",
    is_flag=True,
    expose_value=False,
    callback=_store_setting,
    help="Refuse every network connection, also those of libraries (IMGPROC_AIR_GAPPED).",
)
"""As `data_dir_option`."""


def general_options(function: Callable[..., Any]) -> Any:
    """Add `--data-dir` and `--air-gapped` to a command."""
    return data_dir_option(_air_gapped_option(function))


def with_config(function: Callable[..., Any]) -> Any:
    """Add `--data-dir` to a command, which receives its settings as the first argument."""

    @wraps(function)
    def command(**values: Any) -> Any:
        return function(load_settings(click.get_current_context()).config, **values)

    return data_dir_option(command)


def checked_name(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """A click callback: the name without surrounding whitespace; None if the option is not given.

    Raises: click.BadParameter unless the name has 1 to `_MAX_NAME_CHARS` printable characters.
    """
    if value is None:
        return None
    text = value.strip()
    if not 1 <= len(text) <= _MAX_NAME_CHARS or not text.isprintable():
        expected = f"expected 1 to {_MAX_NAME_CHARS} printable characters"
        raise click.BadParameter(f"{expected}, received {len(text)}: {text[:40]!r}.")
    return text


def account_option(what: str) -> Callable[[Any], Any]:
    """Add `--account` to a command; `what` is its help."""
    return click.option("--account", metavar="NAME", callback=checked_name, default="default", help=what)


def load_settings(ctx: click.Context, **flags: Any) -> Loaded:
    """The settings of this command. In air-gapped mode, also block the network for this process.

    Raises: SettingInvalid.
    """
    loaded = load_settings_before_air_gap(ctx, **flags)
    if loaded.config.air_gapped:
        air_gap.enable()
    return loaded


def load_settings_before_air_gap(ctx: click.Context, **flags: Any) -> Loaded:
    """The settings of this command; the network is not blocked yet.

    For a command that opens a listener first and then calls `air_gap.enable` in air-gapped mode.
    """
    loaded = load({**ctx.find_root().ensure_object(dict), **flags})
    if loaded.origins["data_dir"] != "default":
        name_folder(ctx, loaded.config.data_dir)
    return loaded


def completing(find: Callable[[Config], Mapping[str, str]]) -> Callable[..., list[CompletionItem]]:
    """A completion of click: the values that `find` returns for the settings of the command, with their descriptions.

    It runs at each press of the Tab key: `find` creates nothing and asks no other program. An error means no values.
    """

    def complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            found = find(load_settings(ctx).config)
        except (ServiceError, OSError):
            return []
        return [CompletionItem(value, help=text) for value, text in found.items() if value.startswith(incomplete)]

    return complete


def _complete_languages(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The lists that continue one such as `en,d` by a code that it does not have yet."""
    before, comma, code = incomplete.rpartition(",")
    return [
        CompletionItem(before + comma + each.code, help=each.name)
        for each in LANGUAGES.values()
        if each.code.startswith(code) and each.code not in before.split(",")
    ]


def _language_codes(_ctx: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """A click callback for codes separated by commas: the codes in their order, without duplicates.

    Raises: click.BadParameter, also for more than the API's maximum number of languages per picture.
    """
    read = {tag.strip(): language_of(tag.strip()) for tag in value.split(",") if tag.strip()}
    if not read:
        raise click.BadParameter(f"expected language codes separated by commas, such as en,de; received {value!r}.")
    for tag, (code, reason) in read.items():
        if not code:
            problem = f"{reason}." if reason else f"{tag!r} is not a supported language.{_suggestion(tag.lower())}"
            raise click.BadParameter(
                f"expected language codes separated by commas, such as en,de; {problem}"
                f" Supported: {', '.join(LANGUAGES)}."
            )
    codes = tuple(dict.fromkeys(code for code, _ in read.values()))
    if len(codes) > plan.MAX_LANGUAGES:
        raise click.BadParameter(f"expected at most {plan.MAX_LANGUAGES} languages, received {len(codes)}.")
    return codes


def languages_option(what: str) -> Callable[[Any], Any]:
    """Add `--languages` to a command; `what` is its help."""
    return click.option(
        "--languages",
        metavar="CODES",
        callback=_language_codes,
        shell_complete=_complete_languages,
        default="en",
        help=what,
    )


def _suggestion(text: str) -> str:
    """A sentence that suggests the closest language; "" if there is none.

    `text` may be a misspelt code or language name.
    """
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
    widths: tuple[int, ...]
    only_smaller: bool
    effort: plan.Effort | None
    write_metadata: bool
    overwrite: bool
    sidecar: bool
    project: str | None
    role: str
    context: str


def _checked_context(_ctx: click.Context, _parameter: click.Parameter, value: str) -> str:
    """A click callback: the text without surrounding whitespace, with the API's maximum length."""
    value = value.strip()
    if len(value) > plan.MAX_CONTEXT_CHARS:
        raise click.BadParameter(f"expected at most {plan.MAX_CONTEXT_CHARS} characters, received {len(value)}.")
    return value


def _checked_widths(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[int, ...]:
    """A click callback: the widths, sorted. Raises: click.BadParameter."""
    try:
        return () if value is None else plan.parse_widths(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


_SIDE = click.IntRange(1, plan.MAX_SIDE_PX)
_OPTIONS = (
    languages_option("Write alt texts in these languages, such as en,de. The file names are in the first one."),
    click.option(
        "--format",
        "convert_to",
        type=click.Choice(CONVERT_TARGETS, case_sensitive=False),
        default="webp",
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
        metavar="LEVEL",
        help="How closely results match the original: visually-lossless, web, small, or a score from 50 to 95."
        "  [default: the setting quality_target]",
    ),
    click.option("--max-width", type=_SIDE, metavar="PIXELS", help="Scale down to this width."),
    click.option("--max-height", type=_SIDE, metavar="PIXELS", help="Scale down to this height."),
    click.option(
        "--widths",
        metavar="PIXELS",
        callback=_checked_widths,
        help="Also convert to these widths, such as 480,960,1600, but never wider than the picture.",
    ),
    click.option(
        "--only-smaller",
        is_flag=True,
        help="Keep the converted file only if it is smaller than the optimized one or, with --only convert, than the"
        " picture.",
    ),
    click.option(
        "--effort",
        type=click.Choice(get_args(plan.Effort), case_sensitive=False),
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
        type=click.Choice([role.value for role in plan.Role], case_sensitive=False),
        default=plan.Role.INFORMATIVE.value,
        help="What the pictures are for on their page. The alt text of a decorative one is empty; that of a link or"
        " button says what --context says: where it leads, or what it does.",
    ),
    click.option(
        "--context",
        show_default=False,
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
    from imgproc_local.codecs.picture.formats import install_advice

    if advice := install_advice(Format(flags.convert_to)):
        raise click.BadParameter(advice, param_hint="'--format'")
    has_texts = not flags.only or "analyze" in flags.only
    if flags.overwrite and not flags.write_metadata:
        raise click.UsageError("--overwrite needs --write-metadata.")
    role = plan.Role(flags.role)
    has_function = role in (plan.Role.LINK, plan.Role.BUTTON)
    if (flags.write_metadata or flags.sidecar or role is not plan.Role.INFORMATIVE) and not has_texts:
        raise click.UsageError("--write-metadata, --sidecar and --role need alt texts: add --only analyze.")
    if has_function and not flags.context:
        aim = "where the link leads" if role is plan.Role.LINK else "what the button does"
        raise click.UsageError(f"--role {flags.role} needs --context: say {aim}, as the alt text has to.")
    if (flags.widths or flags.only_smaller) and flags.only and "convert" not in flags.only:
        raise click.UsageError("--widths and --only-smaller need converted files: add --only convert.")
    if flags.write_metadata and set(flags.only) == {"analyze"}:
        advice = "add --only optimize or --only convert, or use --sidecar."
        raise click.UsageError(f"--write-metadata needs files to write to: {advice}")
    try:
        model = model_store(config).active_name(config.model)
    except ModelUnusable:
        model = "unknown"
    has_model = model is not None and not used_model_status(config).problem
    if flags.context and not (has_model or has_function) and has_texts:
        say(
            "--context has no effect: no vision model is in use. `imgproc-local models list` shows which there are.",
            err=True,
        )
    whole = plan.Plan(
        plan.Operation.PROCESS,
        flags.languages,
        Format(flags.convert_to),
        project_name=flags.project or plan.DEFAULT_PROJECT_NAME,
        context=flags.context,
        max_width_px=flags.max_width,
        max_height_px=flags.max_height,
        widths=flags.widths,
        only_smaller=flags.only_smaller,
        role=role,
    )
    only = [replace(whole, operation=plan.Operation(name)) for name in StageName if name in flags.only]
    plans = tuple(only) if 0 < len(only) < len(StageName) else (whole,)
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
