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
from typing import Any

import click
from msgspec import Struct, structs

from imgproc_local.cli import output
from imgproc_local.cli.discovery import Finder
from imgproc_local.cli.help import Group
from imgproc_local.cli.options import completing, languages_option, with_config
from imgproc_local.codecs.picture.formats import EVERY_FORMAT
from imgproc_local.compose import load_model, model_list, model_store, open_stages
from imgproc_local.config import Config
from imgproc_local.domain.errors import BadImage, ModelUnusable, StageCancelled, StageTimedOut
from imgproc_local.domain.job import StageName
from imgproc_local.domain.plan import ACCEPTED_LOCALLY, Operation, Plan
from imgproc_local.domain.result import TextSource, Translation
from imgproc_local.engine.pipeline import CancellationToken, Pipeline, StageResult, run_stages
from imgproc_local.vision.llm import selftest
from imgproc_local.vision.llm.bindings import NOT_INSTALLED
from imgproc_local.vision.llm.listing import EXTRA_MISSING, ModelRow
from imgproc_local.vision.models import install, networks, store
from imgproc_local.vision.models.model import Manifest, VisionModel, loopback_model, read_catalogue

_complete_installed = completing(lambda config: dict.fromkeys(model_store(config).names(), "installed"))
_complete_offered = completing(lambda _: {name: model.licence for name, model in read_catalogue().items()})
_NO_MODEL_IN_USE = "No model is in use: pictures are described from metadata."


@click.group("models", cls=Group)
def command() -> None:
    """Install, check and select the vision model. Works beside a running server."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@with_config
def _list_models(config: Config, as_json: bool) -> None:
    """List the models of this machine, and those that can be pulled.

    Models of this machine are those that are installed, and those in Ollama, LM Studio and llama-server.

    Exit code: 0, or 1 if the models folder can't be read, as when its drive is not connected.

    Examples:
      imgproc-local models list
    """

    shown = {
        "available": "can be pulled",
        "paused": "can be pulled, unfinished",
        "untested": "installed, not tested yet",
        "unusable": "does not work here",
    }

    def cells(row: ModelRow) -> tuple[str, ...]:
        state = f"in {row.program}" if row.state == "in-program" else shown.get(row.state, row.state)
        return (
            output.printable(row.name),
            f"{state}, in use" if row.in_use else state,
            output.size_text(row.size_bytes) if row.size_bytes else "",
            output.size_text(row.memory_bytes) if row.memory_bytes else "",
            output.printable(row.licence),
            output.printable(row.languages),
        )

    models = model_list(config)
    own, problem = models.own()
    rows = [*own, *models.in_programs(models.offered())]
    if as_json:
        output.echo_json(rows)
    else:
        heading = ("NAME", "STATE", "SIZE", "MEMORY", "LICENCE", "LANGUAGES")
        click.echo("\n".join(output.table([heading, *map(cells, rows)], right_aligned=(2, 3))))
        for row in rows:
            if row.problem:
                click.echo(f"\n{row.name}: {row.problem}")
        click.echo(f"\nModels folder: {config.models_folder}")
        if problem is None and not any(row.in_use for row in rows):
            click.echo(_NO_MODEL_IN_USE)
    if problem is not None:
        click.echo(f"Installed models are not listed: {problem}", err=True)
        click.get_current_context().exit(output.EXIT_PROBLEM)


@command.command("pull")
@click.argument("name", metavar="NAME", shell_complete=_complete_offered)
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

    Examples:
      imgproc-local models pull gemma-4-e2b
      imgproc-local models pull gemma-4-e2b --to stick
    """

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
    type=click.Path(exists=True, path_type=Path, resolve_path=True),
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
    # a line break is hard to type in some shells
    callback=lambda _ctx, _parameter, text: text and text.replace("\\n", "\n"),
    help="Start each answer with TEXT, such as an empty thought of a reasoning model; \\n is a line break.",
)
@click.option(
    "--signers",
    type=click.Path(exists=True, dir_okay=False, path_type=Path, resolve_path=True),
    help="Refuse a model unless its manifest is signed with a key in FILE, an allowed_signers file of OpenSSH."
    "  [default: the setting model_signers]",
)
@with_config
def import_(config: Config, sources: tuple[Path, ...], signers: Path | None, **options: Any) -> None:
    """Install a model from files on this machine.

    PATH is its two GGUF files in any order, or a folder with them; `models pull --to DIR` creates such a folder. For
    `ocr`, PATH is the wheel of rapidocr or a folder with it. Nothing is downloaded.

    Examples:
      imgproc-local models import stick
      imgproc-local models import --name mine model.gguf mmproj.gguf
    """

    if signers is None and config.model_signers:
        signers = Path(config.model_signers).expanduser().absolute()
    wanted = install.ImportOptions(signers=signers, **options)
    with _showing_progress("Interrupted. Nothing was installed.") as progress:
        models = model_store(config, may_be_new=True)
        _report_installed(config, install.import_(models, sources, wanted, partial(_self_test, progress), progress))


@command.command("use")
@click.argument("name", metavar="NAME|PROGRAM:NAME|none", shell_complete=_complete_installed)
@with_config
def use(config: Config, name: str) -> None:
    """Select the model that describes pictures.

    It is used from the next picture on. With `none`, pictures are described from metadata. PROGRAM:NAME is a model in
    another program on this machine; PROGRAM is ollama, lmstudio or
    llama-server, which is also `llama serve`.

    Examples:
      imgproc-local models use gemma-4-e2b
      imgproc-local models use ollama:gemma3:4b
    """

    if (other := loopback_model(name)) is not None and (problem := model_list(config).problem_of(other)) is not None:
        raise ModelUnusable(problem)
    model_store(config).select(name)
    click.echo(_NO_MODEL_IN_USE if name == store.NO_MODEL else f"{name} is in use.")
    if other is not None and other.program == "lmstudio":
        click.echo(
            "With LM Link, LM Studio may run a model on another machine and send pictures there; `lms link disable`"
            " turns it off.",
            err=True,
        )
    if config.model and config.model != name:
        click.echo(f"The setting model is {config.model!r} and overrides this selection.", err=True)


@command.command("verify")
@click.argument("name", metavar="[NAME]", required=False, shell_complete=_complete_installed)
@with_config
def verify(config: Config, name: str | None) -> None:
    """Verify the files of installed models.

    Compares the files of the model NAME, or of all models, with their SHA-256. Repeats the test of each model that has
    not passed it on this machine.

    Exit code: 0 no problem, 1 at least one problem.

    Examples:
      imgproc-local models verify
    """

    models = model_store(config)
    names = [name] if name else models.names()
    if not name and networks.installed_folder(models.folder):
        names.append(store.OCR)
    problems = 0
    for each in names:
        with _showing_progress("Interrupted.") as progress:
            try:
                install.verify(models, each, progress)
                if each != store.OCR:
                    _self_test(progress, models.model(each))
                outcome = "files verified."
            except ModelUnusable as error:
                outcome = error.message
                problems += 1
                with suppress(ModelUnusable):
                    # a running server reads this and does not load damaged files
                    selftest.record_problem(models.model(each), error.message)
        output.say(f"{each}: {outcome}")
    if not names:
        click.echo("No model is installed.")
    if problems:
        click.get_current_context().exit(output.EXIT_PROBLEM)


@command.command("check")
@click.argument("name", metavar="NAME", shell_complete=_complete_installed)
@click.option(
    "--folder",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path, resolve_path=True),
    required=True,
    help="Describe the pictures in DIR and its subfolders.",
)
@languages_option("Languages of the texts.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array with every text.")
@with_config
def check(config: Config, name: str, folder: Path, languages: tuple[str, ...], as_json: bool) -> None:
    """Show how a model describes your own pictures.

    For each picture of a folder: file names, alt texts, their source, and seconds. They are described as by the
    service, which also uses the texts in their metadata. Nothing is stored.

    No grade is computed, because only someone who sees the pictures knows whether a text is true. Take some without
    a caption, and some that tempt a model to invent: an empty room, a blurred sign, a table without the usual cup.

    Examples:
      imgproc-local models check gemma-4-e2b --folder photos --languages en,de
    """

    config = structs.replace(config, model=name)
    model = model_store(config).any_model(name)
    plan = Plan(Operation.ANALYZE, languages)
    accepted = ACCEPTED_LOCALLY[plan.operation]
    pictures = Finder([folder], folder, [], flat=False, accepted=accepted).find().pictures
    if not pictures:
        raise click.UsageError(f"There are no pictures that can be described in {folder}.")
    stop = threading.Event()
    described = []
    with TemporaryDirectory(prefix="imgproc-check-") as temporary, output.interruptible(stop, "Interrupted."):
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
        click.get_current_context().exit(output.EXIT_INTERRUPTED)
    if as_json:
        output.echo_json(described)
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
    texts: tuple[Translation, ...]
    error: str | None


def _described(pipeline: Pipeline, plan: Plan, path: Path, folder: Path) -> _DescribedPicture:
    try:
        read = pipeline.reader.read(path, EVERY_FORMAT)
        (result,) = run_stages(pipeline, plan, path, path.name, read, (StageName.ANALYZE,))
    except (BadImage, StageTimedOut, OSError) as error:
        reason = (error.strerror or "") if isinstance(error, OSError) else error.message
        result = StageResult(StageName.ANALYZE, None, reason, 0.0)
    texts = () if result.output is None else result.output.texts
    return _DescribedPicture(str(path.relative_to(folder)), round(result.duration_s, 2), texts, result.error or None)


def _show(described: _DescribedPicture) -> None:
    click.echo(f"{described.picture}  {described.error or f'{described.seconds:.1f} s'}")
    for text in described.texts:
        click.echo(f"  {text.language_code}  {text.seo_filename}  ({text.source.value})\n      {text.seo_alt_text}")
    click.echo()


@command.command("remove")
@click.argument("name", metavar="NAME", shell_complete=_complete_installed)
@with_config
def remove(config: Config, name: str) -> None:
    """Delete an installed model from the disk.

    Examples:
      imgproc-local models remove gemma-4-e2b
    """

    model_store(config).remove(name)
    click.echo(f"Removed {name}.")


def _self_test(progress: output.TransferProgress, model: VisionModel) -> None:
    """Test the model in a child process, unless it passed before. Without llama.cpp, print that it is not tested."""

    progress.clear()
    if not selftest.llama_is_installed():
        click.echo(f"The model is not tested, and may be damaged: {NOT_INSTALLED}", err=True)
        return
    if not selftest.passed_self_test(model):
        click.echo(f"Testing {model.name} in a child process …", err=True)
    selftest.require_self_test(model, retry=True)


def _report_installed(config: Config, manifest: Manifest | None) -> None:
    """Say what was installed, and how to use it. `manifest` is None for the networks that read text."""

    if manifest is None:
        has_libraries = store.can_read_text()
        use = "Text in pictures is read from the next picture on." if has_libraries else EXTRA_MISSING
        click.echo(f"Installed {store.OCR}, {output.size_text(networks.SIZE_BYTES)}. {use}")
        return
    use = "In use from the next picture on"
    if (config.model or model_store(config).selected()) != manifest.name:
        use = f"To use it: `imgproc-local models use {manifest.name}`"
    elif not selftest.llama_is_installed():
        use = "It is selected, but no model can run here: pictures are described from metadata"
    size = output.size_text(manifest.size_bytes)
    output.say(f"Installed {manifest.name}, {size}, licence {manifest.licence or 'unknown'}. {use}.")


@contextmanager
def _showing_progress(interrupted: str) -> Iterator[output.TransferProgress]:
    """Show progress on standard error inside the block. Ctrl+C ends the program with the message `interrupted`."""
    progress = output.TransferProgress(sys.stderr)
    try:
        with progress.shown():
            yield progress
    except KeyboardInterrupt:
        click.echo(interrupted, err=True)
        raise click.exceptions.Exit(output.EXIT_INTERRUPTED) from None
