"""The options of `process` and `archive` that say what is made of each picture."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, get_args

import click
from msgspec import Struct
from msgspec.structs import replace

from imgproc_local.cli.options import checked_name, language_codes
from imgproc_local.domain.image import Format
from imgproc_local.domain.job import StageName
from imgproc_local.domain.plan import (
    DEFAULT_PROJECT_NAME,
    MAX_CONTEXT_CHARS,
    MAX_SIDE_PX,
    Effort,
    Operation,
    Plan,
)

if TYPE_CHECKING:
    from imgproc_local.batch import BatchRequest
    from imgproc_local.config import Config


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
        type=click.Choice(("webp", "avif"), case_sensitive=False),
        default="webp",
        show_default=True,
        help="Convert to this format.",
    ),
    click.option(
        "--only",
        type=click.Choice(("analyze", "optimize", "convert"), case_sensitive=False),
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
        "--context",
        metavar="TEXT",
        callback=_checked_context,
        default="",
        help="Say what page or article the pictures are for, in at most 500 characters. The vision model reads it; it"
        " is not stored.",
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

    Says if no vision model reads the context, and if a server may hold the model too. Raises: click.UsageError.
    """
    from imgproc_local.batch import BatchRequest, options_hash
    from imgproc_local.compose import used_model_status
    from imgproc_local.system.folder_lock import current_owner
    from imgproc_local.vision.models.model import loopback_model

    has_texts = not flags.only or "analyze" in flags.only
    if flags.overwrite and not flags.write_metadata:
        raise click.UsageError("--overwrite needs --write-metadata.")
    if (flags.write_metadata or flags.sidecar) and not has_texts:
        raise click.UsageError("--write-metadata and --sidecar need alt texts: add --only analyze.")
    if flags.write_metadata and set(flags.only) == {"analyze"}:
        raise click.UsageError(
            "--write-metadata needs files to write to: add --only optimize or --only convert, or use --sidecar."
        )
    status = used_model_status(config)
    has_model = status.model is not None and not status.problem
    if flags.context and not has_model and has_texts:
        click.echo(
            "--context has no effect: no vision model is in use. `imgproc-local models list` shows which there are.",
            err=True,
        )
    is_file = status.model is not None and loopback_model(status.model) is None
    if has_model and is_file and has_texts and current_owner(config.data_dir) is not None:
        click.echo(
            "A server uses the data folder too. If it has loaded the vision model, that is in memory twice.", err=True
        )
    plan = Plan(
        Operation.PROCESS,
        flags.languages,
        Format(flags.convert_to),
        project_name=flags.project or DEFAULT_PROJECT_NAME,
        context=flags.context,
        max_width_px=flags.max_width,
        max_height_px=flags.max_height,
    )
    only = [Operation(name) for name in StageName if name in flags.only]
    is_part = 0 < len(only) < len(StageName)
    plans = tuple(replace(plan, operation=operation) for operation in only) if is_part else (plan,)
    is_set = (flags.write_metadata, flags.overwrite, flags.sidecar, archive_names)
    changes = list(itertools.compress(("write", "replace", "sidecar", "archive-names"), is_set))
    return BatchRequest(
        plans,
        flags.languages,
        options_hash(plans, changes, config, status.model),
        write_metadata=flags.write_metadata,
        overwrite=flags.overwrite,
        sidecar=flags.sidecar,
        archive_names=archive_names,
    )
