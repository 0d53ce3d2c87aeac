"""`models`: which vision models there are, getting one onto this machine, and which one describes.

Works beside a running server, which takes notice with its next picture.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from imgproc_local.cli.models.check import check
from imgproc_local.cli.options import data_dir_option, load_config

if TYPE_CHECKING:
    from imgproc_local.cli.progress import Transfer
    from imgproc_local.config import Config
    from imgproc_local.vision.models.catalogue import Entry
    from imgproc_local.vision.models.manifest import Manifest
    from imgproc_local.vision.models.model import VisionModel
    from imgproc_local.vision.models.store import ModelStore

EXIT_PROBLEM = 1
EXIT_INTERRUPTED = 130


@click.group("models")
def command() -> None:
    """Get, check and choose the vision model that describes. Works beside a running server."""


command.add_command(check)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@data_dir_option
@click.pass_context
def list_models(ctx: click.Context, as_json: bool, data_dir: str | None) -> None:
    """List the installed models and those that can be pulled."""
    from imgproc_local.cli.output import echo_json, printable, size_text, table

    config = load_config(ctx, data_dir)
    known = _all(config)
    if as_json:
        echo_json(known)
        return
    rows = [("NAME", "STATE", "SIZE", "MEMORY", "LICENCE", "LANGUAGES", "GRADES")]
    for one in known:
        state = f"{one['state']}, in use" if one["in_use"] else one["state"]
        grades = _grades(one["grades"])
        memory = size_text(one["memory_mb"] * 1_000_000) if one["memory_mb"] else ""
        size = size_text(one["size_bytes"])
        rows.append((one["name"], state, size, memory, printable(one["licence"]), printable(one["languages"]), grades))
    for line in table(rows, right=(2, 3)):
        click.echo(line)
    click.echo(f"\nModels are kept in {config.models_folder}.")
    if not any(one["in_use"] for one in known):
        click.echo("None is in use: pictures are described from what their files say.")


@command.command("pull")
@click.argument("name", metavar="NAME")
@click.option(
    "--to",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Make a folder to carry to another machine and `models import` there, instead of installing.",
)
@data_dir_option
@click.pass_context
def pull(ctx: click.Context, name: str, to: Path | None, data_dir: str | None) -> None:
    """Download a model that `models list` shows, make sure of it, try it and install it.

    A download that was cut off goes on where it stopped. HF_ENDPOINT, HF_TOKEN and the usual proxy variables are
    heeded.
    """
    from imgproc_local.domain.errors import SettingInvalid
    from imgproc_local.vision.models.download import pull_model, pull_to

    config = load_config(ctx, data_dir)
    if config.air_gapped:
        raise SettingInvalid(
            "air_gapped is true: nothing is downloaded. Run `models pull NAME --to DIR` on a connected machine, carry"
            " DIR here, and run `models import DIR`."
        )
    entry = _entry(config, name)
    click.echo(f"{name}: {entry.repository}, licence {entry.licence or 'not known'}", err=True)
    with _telling("Stopped. The same command goes on where it stopped.") as progress:
        if to is not None:
            pull_to(to, name, entry, progress)
        else:
            manifest = pull_model(_models(config), name, entry, partial(_prove, progress), progress)
    if to is not None:
        click.echo(f"{to} holds {name}. Carry it to the other machine and run `imgproc-local models import {to.name}`.")
    else:
        _tell_installed(config, manifest)


@command.command("import")
@click.argument(
    "sources",
    metavar="PATH...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, path_type=Path, resolve_path=True),
)
@click.option("--name", metavar="NAME", help="What to call it.  [default: what its manifest or the catalogue says]")
@click.option("--sha256", metavar="HEX", multiple=True, help="Refuse the model unless a file has this SHA-256.")
@click.option("--template", metavar="NAME", help="llama.cpp's name of its chat template.  [default: the one inside]")
@click.option("--image-tokens", metavar="N", type=click.IntRange(1, 4096), help="The most tokens of one picture.")
@data_dir_option
@click.pass_context
def import_(
    ctx: click.Context,
    sources: tuple[Path, ...],
    name: str | None,
    sha256: tuple[str, ...],
    template: str | None,
    image_tokens: int | None,
    data_dir: str | None,
) -> None:
    """Install a model from files: its two GGUF files in any order, a folder with them, or a tar (also .tar.gz).

    What `models pull --to DIR` made is such a folder. Nothing is downloaded.
    """
    from imgproc_local.vision.models.catalogue import read_catalogue
    from imgproc_local.vision.models.install import ImportOptions, import_model

    config = load_config(ctx, data_dir)
    wanted = ImportOptions(name=name, template=template, image_tokens=image_tokens, sha256=sha256)
    with _telling("Stopped; nothing was installed.") as progress:
        catalogue = read_catalogue(config.catalogue)
        manifest = import_model(_models(config), sources, wanted, catalogue, partial(_prove, progress), progress)
    _tell_installed(config, manifest)


@command.command("use")
@click.argument("name", metavar="NAME|none")
@data_dir_option
@click.pass_context
def use(ctx: click.Context, name: str, data_dir: str | None) -> None:
    """Let an installed model describe, from the next picture on; `none` describes without a model."""
    from imgproc_local.vision.models.store import NO_MODEL

    config = load_config(ctx, data_dir)
    _models(config).select(name)
    click.echo("Pictures are described without a model." if name == NO_MODEL else f"{name} is in use.")
    if config.model and config.model != name:
        click.echo(f"But the setting model is {config.model!r}, and it goes before this choice.", err=True)


@command.command("verify")
@click.argument("name", metavar="[NAME]", required=False)
@data_dir_option
@click.pass_context
def verify(ctx: click.Context, name: str | None, data_dir: str | None) -> None:
    """Compare the files of a model, or of all, with their SHA-256, and try it again where it did not work.

    Exit code: 0 all is well, 1 there is a problem.
    """
    from imgproc_local.domain.errors import ModelUnusable
    from imgproc_local.vision.llm.selftest import passed_self_test, record_problem

    models = _models(load_config(ctx, data_dir))
    problems = 0
    for each in [name] if name else models.names():
        with _telling("Stopped.") as progress:
            try:
                models.verify(each, progress)
                progress.clear()
                model = models.model(each)
                _prove(progress, model)
            except ModelUnusable as error:
                progress.clear()
                problems += 1
                with suppress(ModelUnusable):
                    # the service must not load what is damaged
                    record_problem(models.model(each), error.message)
                click.echo(f"{each}: {error.message}")
            else:
                click.echo(f"{each}: whole{', and works here' if passed_self_test(model) else ''}.")
    if not name and not models.names():
        click.echo("No model is installed.")
    if problems:
        ctx.exit(EXIT_PROBLEM)


@command.command("remove")
@click.argument("name", metavar="NAME")
@data_dir_option
@click.pass_context
def remove(ctx: click.Context, name: str, data_dir: str | None) -> None:
    """Delete an installed model from the disk."""
    _models(load_config(ctx, data_dir)).remove(name)
    click.echo(f"Removed {name}.")


@command.command("self-test", hidden=True)
@click.argument("model", metavar="JSON")
def self_test_child(model: str) -> None:
    """Try a model in this process, which may end of it, and print what was found."""
    import msgspec

    from imgproc_local.system.air_gap import seal_as_parent

    seal_as_parent()
    from imgproc_local.vision.llm.selftest_child import run_self_test
    from imgproc_local.vision.models.model import VisionModel

    described = msgspec.json.decode(model, type=VisionModel, dec_hook=lambda _, value: Path(value))
    click.echo(msgspec.json.encode(run_self_test(described)).decode())


def _models(config: Config) -> ModelStore:
    from imgproc_local.vision.models.store import ModelStore

    return ModelStore(config.models_folder, config.model_run_options)


def _entry(config: Config, name: str) -> Entry:
    from imgproc_local.domain.errors import ModelUnusable
    from imgproc_local.vision.models.catalogue import read_catalogue

    catalogue = read_catalogue(config.catalogue)
    if name not in catalogue:
        raise ModelUnusable(f"{name!r} is not in the catalogue. Known: {', '.join(catalogue)}.")
    return catalogue[name]


def _all(config: Config) -> list[dict[str, Any]]:
    """What `list` tells: the installed models, then those that can be pulled."""
    from imgproc_local.domain.errors import ModelUnusable
    from imgproc_local.vision.models.catalogue import read_catalogue

    models, catalogue = _models(config), read_catalogue(config.catalogue)
    in_use = config.model or models.selected()
    told: list[dict[str, Any]] = []
    for name in models.names():
        try:
            manifest, state = models.manifest(name), _state(models.model(name))
        except ModelUnusable as error:
            told.append(_row(name, None, "damaged", in_use=name == in_use, problem=error.message))
        else:
            told.append(_row(name, manifest, state, in_use=name == in_use, grades=models.grades(name)))
    installed = {one["name"] for one in told}
    return told + [_row(name, entry, "can be pulled") for name, entry in catalogue.items() if name not in installed]


def _grades(shares: dict[str, float]) -> str:
    """By letter: the languages, or how many where they are many."""
    from imgproc_local.vision.grading.grade import format_grade

    letters: dict[str, list[str]] = {}
    for language, share in shares.items():
        letters.setdefault(format_grade(share)[0], []).append(language)
    return ", ".join(
        f"{letter}: {' '.join(codes) if len(codes) <= 6 else f'{len(codes)} languages'}"
        for letter, codes in sorted(letters.items())
    )


def _state(model: VisionModel) -> str:
    from imgproc_local.vision.llm.selftest import known_problem, passed_self_test

    if passed_self_test(model):
        return "installed"
    return "does not work here" if known_problem(model) else "installed, not tried yet"


def _row(
    name: str,
    about: Manifest | Entry | None,
    state: str,
    *,
    in_use: bool = False,
    problem: str | None = None,
    grades: dict[str, float] | None = None,
) -> dict[str, Any]:
    return {
        "name": name,
        "state": state,
        "in_use": in_use,
        "problem": problem,
        "size_bytes": about.size_bytes if about else 0,
        "memory_mb": about.memory_mb if about else 0,
        "licence": about.licence if about else "",
        "languages": about.languages if about else "",
        "image_tokens": about.chat.image_tokens if about else None,
        "grades": grades or {},
    }


def _prove(progress: Transfer, model: VisionModel) -> None:
    """Try the model in a process of its own, unless that was done; without llama.cpp that is left for later."""
    from imgproc_local.vision.llm.library import NOT_INSTALLED
    from imgproc_local.vision.llm.selftest import llama_is_installed, passed_self_test, require_self_test

    progress.clear()
    if not llama_is_installed():
        click.echo(f"The model is not tried: {NOT_INSTALLED}", err=True)
        return
    if not passed_self_test(model):
        click.echo(f"Trying {model.name} in a process of its own …", err=True)
    require_self_test(model, retry=True)


def _tell_installed(config: Config, manifest: Manifest) -> None:
    from imgproc_local.cli.output import size_text

    in_use = (config.model or _models(config).selected()) == manifest.name
    hint = "in use from the next picture on" if in_use else f"`imgproc-local models use {manifest.name}` puts it to use"
    click.echo(f"Installed {manifest.name}, {size_text(manifest.size_bytes)}; {hint}.")


@contextmanager
def _telling(stopped: str) -> Iterator[Transfer]:
    """Progress on standard error inside the block; Ctrl+C ends the program with `stopped`."""
    from imgproc_local.cli.progress import Transfer

    progress = Transfer(sys.stderr)
    try:
        yield progress
    except KeyboardInterrupt:
        progress.clear()
        click.echo(stopped, err=True)
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    finally:
        progress.clear()
