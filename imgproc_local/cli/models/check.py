"""`models check`: shows how a model describes the user's own pictures, each as soon as it is described.

They are described as by the service, which also uses the texts in their metadata. Nothing is stored. The model runs on
another thread, so that Ctrl+C takes effect at once.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
from msgspec import Struct

from imgproc_local.cli.exit_codes import EXIT_INTERRUPTED
from imgproc_local.cli.languages import language_codes
from imgproc_local.cli.options import data_dir_option, load_config
from imgproc_local.domain.errors import CheckStop

if TYPE_CHECKING:
    from imgproc_local.config import Config
    from imgproc_local.domain.result import Translation
    from imgproc_local.engine.stage import Output, WorkItem
    from imgproc_local.vision.models.model import AnyModel

Describe = Callable[["WorkItem", CheckStop], "Output"]
Result = TypeVar("Result")

POLL_S = 0.2
"""How often the waiting thread returns to Python code: on Windows, Ctrl+C does not interrupt a wait without timeout."""


class DescribedText(Struct, frozen=True):
    """`source` is a `TextSource`, "vision" if the model wrote the text."""

    language_code: str
    seo_filename: str
    seo_alt_text: str
    source: str


class DescribedPicture(Struct, frozen=True):
    """One picture of the folder. If it could not be described, `error` says why, and `seconds` is 0."""

    picture: str
    seconds: float
    texts: list[DescribedText]
    error: str | None = None


@click.command("check")
@click.argument("name", metavar="NAME")
@click.option(
    "--folder",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path, resolve_path=True),
    required=True,
    help="Describe the pictures in DIR and its subfolders.",
)
@click.option(
    "--languages",
    metavar="CODES",
    callback=language_codes,
    help="Languages of the texts, such as en,de.  [default: en]",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array with every text.")
@data_dir_option
@click.pass_context
def check(
    ctx: click.Context,
    name: str,
    folder: Path,
    languages: tuple[str, ...],
    as_json: bool,
    data_dir: str | None,
) -> None:
    """Show how a model describes your own pictures.

    For each picture of a folder: file names, alt texts, their source, and seconds. Nothing is stored.
    """
    from imgproc_local.cli.output import echo_json
    from imgproc_local.compose import model_store
    from imgproc_local.domain.plan import DEFAULT_LANGUAGES, MAX_LANGUAGES

    config = load_config(ctx, data_dir)
    model = model_store(config).any_model(name)
    codes = languages or DEFAULT_LANGUAGES
    if len(codes) > MAX_LANGUAGES:
        raise click.UsageError(f"--languages: expected at most {MAX_LANGUAGES} codes, received {len(codes)}.")

    def show(described: DescribedPicture) -> None:
        if not as_json:
            click.echo("\n".join(_lines_of(described)))

    described = run_stoppable(lambda check_stop: _check_on_folder(config, model, codes, folder, show, check_stop))
    if as_json:
        echo_json(described)
    else:
        click.echo(_summary(described))


def run_stoppable(work: Callable[[CheckStop], Result]) -> Result:
    """Run `work(check_stop)` on another thread and return its result.

    `check_stop` raises after Ctrl+C. Raises: what `work` raises; Exit after Ctrl+C.
    """
    from imgproc_local.domain.errors import StageCancelled

    stopped = threading.Event()

    def check_stop() -> None:
        if stopped.is_set():
            raise StageCancelled("The check was stopped.")

    with ThreadPoolExecutor(1, "models-check") as pool:
        try:
            future = pool.submit(work, check_stop)
            while not future.done():
                wait([future], POLL_S)
        except KeyboardInterrupt:
            stopped.set()
            pool.shutdown()
            click.echo("Interrupted.", err=True)
            raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    return future.result()


def _check_on_folder(
    config: Config,
    model: AnyModel,
    codes: tuple[str, ...],
    folder: Path,
    show: Callable[[DescribedPicture], None],
    check_stop: CheckStop,
) -> list[DescribedPicture]:
    """Describe every picture in `folder` and its subfolders, and call `show` with each.

    Raises: ModelUnusable, if the model does not work here; click.UsageError, if there are no pictures; what
    `check_stop` raises.
    """
    from imgproc_local.compose import model_under_test

    pictures = _pictures(folder)
    if not pictures:
        raise click.UsageError(f"There are no pictures that can be described in {folder}.")
    described = []
    with model_under_test(config, model, check_stop) as describe:
        count = f"{len(pictures)} pictures" if len(pictures) > 1 else "1 picture"
        click.echo(f"{model.name} describes {count} in {', '.join(codes)} …", err=True)
        for path in pictures:
            described.append(_describe(config, describe, path, str(path.relative_to(folder)), codes, check_stop))
            show(described[-1])
    return described


def _pictures(folder: Path) -> list[Path]:
    from imgproc_local.cli.process.discovery import Finder
    from imgproc_local.domain.plan import Operation, accepted_formats

    accepted = accepted_formats(Operation.ANALYZE, local=True)
    finder = Finder([folder], folder, [], flat=False, accepted=accepted)
    return [picture.path for picture in finder.find().pictures]


def _describe(
    config: Config, describe: Describe, path: Path, name: str, codes: tuple[str, ...], check_stop: CheckStop
) -> DescribedPicture:
    from imgproc_local.codecs.picture.probe import probe
    from imgproc_local.domain.errors import BadImage, StageCancelled, StageFailed, StageTimedOut
    from imgproc_local.domain.plan import Operation, Plan
    from imgproc_local.engine.stage import Options, WorkItem

    began_s = time.monotonic()
    try:
        work = WorkItem(
            path=os.fsencode(path),
            size_bytes=path.stat().st_size,
            info=probe(path, config.max_pixels),
            plan=Plan(Operation.ANALYZE, codes),
            original_filename=path.name,
            options=Options(target_score=0, keep_location=config.keep_location),
        )
        texts = [_described(text) for text in describe(work, check_stop).texts]
    except (StageCancelled, StageTimedOut):
        raise
    except (BadImage, StageFailed, OSError) as error:
        message = error.strerror or "" if isinstance(error, OSError) else error.message
        return DescribedPicture(name, 0.0, [], message)
    return DescribedPicture(name, round(time.monotonic() - began_s, 2), texts)


def _described(text: Translation) -> DescribedText:
    return DescribedText(text.language_code, text.seo_filename, text.seo_alt_text, text.source.value)


def _lines_of(described: DescribedPicture) -> Iterator[str]:
    """What the terminal shows of one picture."""
    if described.error is not None:
        yield f"{described.picture}: {described.error}\n"
        return
    yield f"{described.picture}  {described.seconds:.1f} s"
    for text in described.texts:
        yield f"  {text.language_code}  {text.seo_filename}  ({text.source})"
        yield f"      {text.seo_alt_text}"
    yield ""


def _summary(described: list[DescribedPicture]) -> str:
    """One line on all pictures."""
    seconds = [picture.seconds for picture in described if picture.error is None]
    texts = [text for picture in described for text in picture.texts]
    by_model = sum(text.source == "vision" for text in texts)
    median_s = statistics.median(seconds) if seconds else 0.0
    return (
        f"Written by the model: {by_model} of {len(texts)} texts. Median time per picture: {median_s:.1f} s."
        " The other texts were in the files, or the model's were refused twice."
    )
