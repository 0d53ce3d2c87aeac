"""`models`: lists, installs, selects, checks and removes vision models, and installs the networks of `ocr`.

Works beside a running server, which uses a change from its next picture on. `models check` stores nothing.
"""

from __future__ import annotations

import math
import statistics
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct, structs

from imgproc_local.cli.options import language_codes, with_config
from imgproc_local.cli.output import (
    EXIT_INTERRUPTED,
    EXIT_PROBLEM,
    TransferProgress,
    echo_json,
    interruptible,
    printable,
    size_text,
    table,
)
from imgproc_local.domain.errors import BadImage, ModelUnusable, StageCancelled, StageTimedOut
from imgproc_local.domain.result import TextSource, Translation

if TYPE_CHECKING:
    from imgproc_local.config import Config
    from imgproc_local.domain.plan import Plan
    from imgproc_local.engine.pipeline import Pipeline
    from imgproc_local.vision.llm.listing import ModelRow
    from imgproc_local.vision.models.model import Manifest, VisionModel


_NO_MODEL_IN_USE = "No model is in use: pictures are described from metadata."


class _ModelPath(click.Path):
    """A path to import from. On Windows, warns before it opens a path on another machine."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from imgproc_local.system.files import is_on_network

        if is_on_network(Path(value)):
            warning = "is on the network: Windows opens a connection to that machine, and signs in there."
            click.echo(f"{value} {warning}", err=True)
        return super().convert(value, param, ctx)


@click.group("models")
def command() -> None:
    """Install, check and select the vision model. Works beside a running server."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@with_config
def _list_models(config: Config, as_json: bool) -> None:
    """List the installed models, those to pull, and those in Ollama, LM Studio and llama-server on this machine.

    Exit code: 0, or 1 if the models folder can't be read, as when its drive is not connected.
    """
    from imgproc_local.compose import model_list

    shown = {
        "available": "can be pulled",
        "paused": "can be pulled, unfinished",
        "untested": "installed, not tested yet",
        "unusable": "does not work here",
    }

    def cells(row: ModelRow) -> tuple[str, ...]:
        state = f"in {row.program}" if row.state == "in-program" else shown.get(row.state, row.state)
        return (
            printable(row.name),
            f"{state}, in use" if row.in_use else state,
            size_text(row.size_bytes) if row.size_bytes else "",
            size_text(row.memory_bytes) if row.memory_bytes else "",
            printable(row.licence),
            printable(row.languages),
        )

    models = model_list(config)
    own, problem = models.own()
    rows = [*own, *models.in_programs(models.offered())]
    if as_json:
        echo_json(rows)
    else:
        heading = ("NAME", "STATE", "SIZE", "MEMORY", "LICENCE", "LANGUAGES")
        click.echo("\n".join(table([heading, *map(cells, rows)], right_aligned=(2, 3))))
        for row in rows:
            if row.problem:
                click.echo(f"\n{row.name}: {row.problem}")
        click.echo(f"\nModels folder: {config.models_folder}")
        if problem is None and not any(row.in_use for row in rows):
            click.echo(_NO_MODEL_IN_USE)
    if problem is not None:
        click.echo(f"Installed models are not listed: {problem}", err=True)
        click.get_current_context().exit(EXIT_PROBLEM)


@command.command("pull")
@click.argument("name", metavar="NAME")
@click.option(
    "--to",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Download to this folder instead of installing, for `models import` on another machine.",
)
@with_config
def pull(config: Config, name: str, to: Path | None) -> None:
    """Download, verify, test and install a model.

    NAME is a model that `models list` shows as "can be pulled". An interrupted download is resumed. Uses
    HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE and the usual proxy variables; for `ocr`, the package index that
    PIP_INDEX_URL or UV_DEFAULT_INDEX names, or PyPI.
    """
    from imgproc_local.compose import model_store
    from imgproc_local.vision.models import install

    if config.air_gapped:
        raise ModelUnusable(install.AIR_GAPPED)
    with _showing_progress("Interrupted. Run the same command again to resume the download.") as progress:
        if to is None:
            models = model_store(config, may_be_new=True)
            _report_installed(config, install.pull(models, name, partial(_self_test, progress), progress))
            return
        install.pull_to(to, name, progress)
    folder = to.resolve()  # "." has no name
    advice = f"Copy it to the other machine, and run `imgproc-local models import {folder.name}` there."
    click.echo(f"{name} is in {folder}. {advice}")


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
@with_config
def import_(
    config: Config,
    sources: tuple[Path, ...],
    name: str | None,
    sha256: tuple[str, ...],
    template: str | None,
    image_tokens: int | None,
    answer_opening: str | None,
) -> None:
    """Install a model from files on this machine.

    PATH is its two GGUF files in any order, or a folder with them; `models pull --to DIR` creates such a folder. For
    `ocr`, PATH is the wheel of rapidocr or a folder with it. Nothing is downloaded.
    """
    from imgproc_local.compose import model_store
    from imgproc_local.vision.models import install
    from imgproc_local.vision.models.install import ImportOptions

    options = ImportOptions(
        name=name,
        template=template,
        image_tokens=image_tokens,
        # a line break is hard to type in some shells
        answer_opening=None if answer_opening is None else answer_opening.replace("\\n", "\n"),
        sha256=sha256,
    )
    with _showing_progress("Interrupted. Nothing was installed.") as progress:
        models = model_store(config, may_be_new=True)
        _report_installed(config, install.import_(models, sources, options, partial(_self_test, progress), progress))


@command.command("use")
@click.argument("name", metavar="NAME|PROGRAM:NAME|none")
@with_config
def use(config: Config, name: str) -> None:
    """Select the model that describes pictures.

    It is used from the next picture on. With `none`, pictures are described from metadata. PROGRAM:NAME is a model in
    another program on this machine; PROGRAM is ollama, lmstudio or
    llama-server, which is also `llama serve`.
    """
    from imgproc_local.compose import model_list, model_store
    from imgproc_local.vision.models.model import loopback_model
    from imgproc_local.vision.models.store import NO_MODEL

    if (other := loopback_model(name)) is not None and (problem := model_list(config).problem_of(other)) is not None:
        raise ModelUnusable(problem)
    model_store(config).select(name)
    click.echo(_NO_MODEL_IN_USE if name == NO_MODEL else f"{name} is in use.")
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
@with_config
def verify(config: Config, name: str | None) -> None:
    """Verify the files of installed models.

    Compares the files of the model NAME, or of all models, with their SHA-256. Repeats the test of each model that has
    not passed it on this machine.

    Exit code: 0 no problem, 1 at least one problem.
    """
    from imgproc_local.compose import model_store
    from imgproc_local.vision.llm.selftest import record_problem
    from imgproc_local.vision.models import install, networks
    from imgproc_local.vision.models.store import OCR

    models = model_store(config)
    names = [name] if name else models.names()
    if not name and networks.installed_folder(models.folder):
        names.append(OCR)
    problems = 0
    for each in names:
        with _showing_progress("Interrupted.") as progress:
            try:
                install.verify(models, each, progress)
                if each != OCR:
                    _self_test(progress, models.model(each))
                outcome = "files verified."
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
        click.get_current_context().exit(EXIT_PROBLEM)


@command.command("check")
@click.argument("name", metavar="NAME")
@click.option(
    "--folder",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path, resolve_path=True),
    required=True,
    help="Describe the pictures in DIR and its subfolders.",
)
@click.option(
    "--languages", metavar="CODES", callback=language_codes, default="en", help="Languages of the texts.  [default: en]"
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array with every text.")
@with_config
def check(config: Config, name: str, folder: Path, languages: tuple[str, ...], as_json: bool) -> None:
    """Show how a model describes your own pictures.

    For each picture of a folder: file names, alt texts, their source, and seconds. They are described as by the
    service, which also uses the texts in their metadata. Nothing is stored.

    No grade is computed, because only someone who sees the pictures knows whether a text is true. Take some without
    a caption, and some that tempt a model to invent: an empty room, a blurred sign, a table without the usual cup.
    """
    from imgproc_local.cli.discovery import Finder
    from imgproc_local.compose import load_model, model_store, open_stages
    from imgproc_local.domain.plan import ACCEPTED_LOCALLY, Operation, Plan
    from imgproc_local.engine.pipeline import CancellationToken

    config = structs.replace(config, model=name)
    model = model_store(config).any_model(name)
    plan = Plan(Operation.ANALYZE, languages)
    accepted = ACCEPTED_LOCALLY[plan.operation]
    pictures = Finder([folder], folder, [], flat=False, accepted=accepted).find().pictures
    if not pictures:
        raise click.UsageError(f"There are no pictures that can be described in {folder}.")
    stop = threading.Event()
    described = []
    with TemporaryDirectory(prefix="imgproc-check-") as temporary, interruptible(stop, "Interrupted."):
        with suppress(StageCancelled):
            load_model(config, model, CancellationToken(math.inf, stop).check, retry_test=True).close()
        click.echo(f"{name} describes {len(pictures)} pictures in {', '.join(languages)} …", err=True)
        with open_stages(config, Path(temporary)) as stages:
            pipeline = structs.replace(stages, timeout_s=math.inf, cancelled=stop)
            for picture in pictures:
                if not stop.is_set():
                    described.append(_described(pipeline, plan, picture.path, folder))
                if not stop.is_set() and not as_json:
                    _show(described[-1])
    if stop.is_set():
        click.get_current_context().exit(EXIT_INTERRUPTED)
    if as_json:
        echo_json(described)
        return
    sources = [text.source for picture in described for text in picture.texts]
    median_s = statistics.median([picture.seconds for picture in described if picture.error is None] or [0.0])
    click.echo(
        f"Written by the model: {sources.count(TextSource.VISION)} of {len(sources)} texts. Median time per picture:"
        f" {median_s:.1f} s. The other texts were in the files, or the model's were refused twice."
    )


class _DescribedPicture(Struct, frozen=True):
    """One picture of the folder. If it could not be described, `error` says why."""

    picture: str
    seconds: float
    texts: tuple[Translation, ...] = ()
    error: str | None = None


def _described(pipeline: Pipeline, plan: Plan, path: Path, folder: Path) -> _DescribedPicture:
    from imgproc_local.codecs.picture.formats import EVERY_FORMAT
    from imgproc_local.domain.job import StageName
    from imgproc_local.engine.pipeline import run_stages

    name = str(path.relative_to(folder))
    try:
        read = pipeline.reader.read(path, EVERY_FORMAT)
        (result,) = run_stages(pipeline, plan, path, path.name, read, (StageName.ANALYZE,))
    except (BadImage, StageTimedOut, OSError) as error:
        return _DescribedPicture(name, 0.0, error=(error.strerror if isinstance(error, OSError) else error.message))
    if result.output is None:
        return _DescribedPicture(name, 0.0, error=result.error)
    return _DescribedPicture(name, round(result.duration_s, 2), result.output.texts)


def _show(described: _DescribedPicture) -> None:
    click.echo(f"{described.picture}  {described.error or f'{described.seconds:.1f} s'}")
    for text in described.texts:
        click.echo(f"  {text.language_code}  {text.seo_filename}  ({text.source.value})\n      {text.seo_alt_text}")
    click.echo()


@command.command("remove")
@click.argument("name", metavar="NAME")
@with_config
def remove(config: Config, name: str) -> None:
    """Delete an installed model from the disk."""
    from imgproc_local.compose import model_store

    model_store(config).remove(name)
    click.echo(f"Removed {name}.")


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


def _report_installed(config: Config, manifest: Manifest | None) -> None:
    """Say what was installed, and how to use it. `manifest` is None for the networks that read text."""
    from imgproc_local.compose import model_store
    from imgproc_local.vision.llm.listing import EXTRA_MISSING
    from imgproc_local.vision.llm.selftest import llama_is_installed
    from imgproc_local.vision.models import networks
    from imgproc_local.vision.models.store import OCR, can_read_text

    if manifest is None:
        has_libraries = can_read_text()
        use = "Text in pictures is read from the next picture on." if has_libraries else EXTRA_MISSING
        click.echo(f"Installed {OCR}, {size_text(networks.SIZE_BYTES)}. {use}")
        return
    use = "In use from the next picture on"
    if (config.model or model_store(config).selected()) != manifest.name:
        use = f"To use it: `imgproc-local models use {manifest.name}`"
    elif not llama_is_installed():
        use = "It is selected, but no model can run here: pictures are described from metadata"
    size = size_text(manifest.size_bytes)
    click.echo(f"Installed {manifest.name}, {size}, licence {manifest.licence or 'unknown'}. {use}.")


@contextmanager
def _showing_progress(interrupted: str) -> Iterator[TransferProgress]:
    """Show progress on standard error inside the block. Ctrl+C ends the program with the message `interrupted`."""
    progress = TransferProgress(sys.stderr)
    try:
        with progress.shown():
            yield progress
    except KeyboardInterrupt:
        click.echo(interrupted, err=True)
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
