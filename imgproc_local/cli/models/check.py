"""`models check`: shows how a model describes the user's own pictures, each as soon as it is described.

They are described as by the service, which also uses the texts in their metadata. Nothing is stored. The model runs on
another thread, so that Ctrl+C takes effect at once.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from imgproc_local.cli.languages import language_codes
from imgproc_local.cli.options import data_dir_option, load_config
from imgproc_local.cli.output import EXIT_INTERRUPTED
from imgproc_local.domain.errors import BadImage, StageCancelled, StageFailed
from imgproc_local.domain.result import TextSource, Translation

if TYPE_CHECKING:
    from imgproc_local.engine.direct import DirectStages
    from imgproc_local.engine.stage import CancellationToken

POLL_S = 0.2
"""How often the waiting thread returns to Python code: on Windows, Ctrl+C does not interrupt a wait without timeout."""


class DescribedPicture(Struct, frozen=True):
    """One picture of the folder. If it could not be described, `error` says why."""

    picture: str
    seconds: float
    texts: tuple[Translation, ...] = ()
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
    import msgspec

    from imgproc_local.cli.output import echo_json
    from imgproc_local.cli.process.discovery import Finder
    from imgproc_local.compose import load_model, model_store, open_stages
    from imgproc_local.domain.plan import DEFAULT_LANGUAGES, MAX_LANGUAGES, Operation, accepted_formats
    from imgproc_local.engine.stage import CancellationToken

    config = msgspec.structs.replace(load_config(ctx, data_dir), model=name)
    model = model_store(config).any_model(name)
    codes = languages or DEFAULT_LANGUAGES
    if len(codes) > MAX_LANGUAGES:
        raise click.UsageError(f"--languages: expected at most {MAX_LANGUAGES} codes, received {len(codes)}.")
    accepted = accepted_formats(Operation.ANALYZE, local=True)
    pictures = Finder([folder], folder, [], flat=False, accepted=accepted).find().pictures
    if not pictures:
        raise click.UsageError(f"There are no pictures that can be described in {folder}.")
    token = CancellationToken(math.inf)

    def describe_all() -> list[DescribedPicture]:
        load_model(config, model, token.check, retry_test=True).close()  # raises an error if it does not work
        click.echo(f"{name} describes {len(pictures)} pictures in {', '.join(codes)} …", err=True)
        described = []
        with TemporaryDirectory(prefix="imgproc-check-") as temporary, open_stages(config, Path(temporary)) as stages:
            for picture in pictures:
                described.append(_describe(stages, picture.path, folder, codes, token))
                if not as_json:
                    _show(described[-1])
        return described

    with ThreadPoolExecutor(1, "models-check") as pool:
        try:
            future = pool.submit(describe_all)
            while not future.done():
                wait([future], POLL_S)
        except KeyboardInterrupt:
            token.cancel()
            pool.shutdown()
            click.echo("Interrupted.", err=True)
            raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    described = future.result()
    if as_json:
        echo_json(described)
        return
    sources = [text.source for picture in described for text in picture.texts]
    median_s = statistics.median([picture.seconds for picture in described if picture.error is None] or [0.0])
    click.echo(
        f"Written by the model: {sources.count(TextSource.VISION)} of {len(sources)} texts. Median time per picture:"
        f" {median_s:.1f} s. The other texts were in the files, or the model's were refused twice."
    )


def _describe(
    stages: DirectStages, path: Path, folder: Path, codes: tuple[str, ...], token: CancellationToken
) -> DescribedPicture:
    """Describe one picture of `folder`. Raises: StageCancelled, after Ctrl+C."""
    from imgproc_local.codecs.picture.formats import EVERY_FORMAT
    from imgproc_local.domain.job import StageName
    from imgproc_local.domain.plan import Operation, Plan
    from imgproc_local.engine.stage import WorkItem

    name = str(path.relative_to(folder))
    (analyze,) = (stage for stage in stages.stages if stage.name == StageName.ANALYZE)
    began_s = time.monotonic()
    try:
        read = stages.reader.read(path, EVERY_FORMAT)
        work = WorkItem(
            path=os.fsencode(path),
            size_bytes=path.stat().st_size,
            info=read.info,
            plan=Plan(Operation.ANALYZE, codes),
            original_filename=path.name,
            options=stages.options,
            record=read.record,
        )
        texts = analyze.run(work, token.check).texts
    except StageCancelled:
        raise
    except (BadImage, StageFailed, OSError) as error:
        message = error.strerror or "" if isinstance(error, OSError) else error.message
        return DescribedPicture(name, 0.0, error=message)
    return DescribedPicture(name, round(time.monotonic() - began_s, 2), texts)


def _show(described: DescribedPicture) -> None:
    """Print one picture for people."""
    click.echo(f"{described.picture}  {described.error or f'{described.seconds:.1f} s'}")
    for text in described.texts:
        click.echo(f"  {text.language_code}  {text.seo_filename}  ({text.source.value})\n      {text.seo_alt_text}")
    click.echo()
