"""`models check`: grades a model per language by its descriptions of pictures with known content.

The model runs on another thread, so that Ctrl+C takes effect at once. The grades are saved at the end, all or none.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from imgproc_local.cli.exit_codes import EXIT_INTERRUPTED
from imgproc_local.cli.languages import language_codes
from imgproc_local.cli.options import data_dir_option, load_config
from imgproc_local.domain.stop import CheckStop

if TYPE_CHECKING:
    from imgproc_local.cli.models.folder_check import DescribedPicture
    from imgproc_local.config import Config
    from imgproc_local.vision.grading.check import LanguageResult
    from imgproc_local.vision.models.model import AnyModel

Result = TypeVar("Result")

MAX_PICTURE_S = 600_000.0
"""As long as the longest --timeout, so that only --timeout ends a check."""
POLL_S = 0.2
"""How often the waiting thread returns to Python code: on Windows, Ctrl+C does not interrupt a wait without timeout."""


@click.command("check")
@click.argument("name", metavar="NAME")
@click.option(
    "--languages",
    metavar="CODES",
    callback=language_codes,
    help="Grade these languages, such as en,de.  [default: the languages in the model's manifest, else all]",
)
@click.option(
    "--folder",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Describe the pictures in DIR instead, and show the texts without a grade.  [default of --languages: en]",
)
@click.option(
    "--timeout",
    "timeout_min",
    metavar="MINUTES",
    type=click.FloatRange(0, 10_000, min_open=True),
    default=180,
    show_default=True,
    help="Stop after this time without saving a grade.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array with every text.")
@data_dir_option
@click.pass_context
def check(
    ctx: click.Context,
    name: str,
    languages: tuple[str, ...],
    folder: Path | None,
    timeout_min: float,
    as_json: bool,
    data_dir: str | None,
) -> None:
    """Grade a model in each language.

    The model describes twelve drawings. Its grade is the share of facts that the alt texts name correctly, in five
    areas of equal weight: colours and shapes, counts, positions, words in the picture, and things in a simple scene. A
    text that breaks the rules for alt texts, or is in another language, counts as naming no fact. Photographs are
    harder: use the grade to compare models and languages, and --folder to judge a model on your own pictures.
    """
    from imgproc_local.cli.output import echo_json
    from imgproc_local.compose import model_store
    from imgproc_local.vision.grading.check import languages_in_claim
    from imgproc_local.vision.models.model import LoopbackModel

    config = load_config(ctx, data_dir)
    models = model_store(config)
    model = models.any_model(name)
    if folder is not None:
        _check_on_folder(config, model, languages, folder, timeout_min, as_json)
        return
    claim = "" if isinstance(model, LoopbackModel) else models.manifest(name).languages
    codes = languages or languages_in_claim(claim)
    results = run_stoppable(lambda check_stop: _grade(config, model, codes, check_stop), timeout_min)
    # printed before they are saved, so that a failed write does not lose hours of work
    if as_json:
        echo_json([_result_fields(result) for result in results])
    else:
        _print_results(results)
    models.save_grades(name, models.grades(name) | {result.language: round(result.share, 4) for result in results})


def _check_on_folder(
    config: Config, model: AnyModel, languages: tuple[str, ...], folder: Path, timeout_min: float, as_json: bool
) -> None:
    from imgproc_local.cli.models.folder_check import check_on_folder, lines_of, summary
    from imgproc_local.cli.output import echo_json
    from imgproc_local.domain.plan import DEFAULT_LANGUAGES, MAX_LANGUAGES

    codes = languages or DEFAULT_LANGUAGES
    if len(codes) > MAX_LANGUAGES:
        raise click.UsageError(f"With --folder, --languages may have at most {MAX_LANGUAGES} codes.")

    def show(described: DescribedPicture) -> None:
        if not as_json:
            click.echo("\n".join(lines_of(described)))

    described = run_stoppable(
        lambda check_stop: check_on_folder(config, model, codes, folder, show, check_stop), timeout_min
    )
    if as_json:
        echo_json(described)
    else:
        click.echo(summary(described))


def _grade(config: Config, model: AnyModel, codes: tuple[str, ...], check_stop: CheckStop) -> list[LanguageResult]:
    from imgproc_local.cli.progress import log_above
    from imgproc_local.compose import load_model
    from imgproc_local.vision.grading.check import check_model
    from imgproc_local.vision.grading.probes import PROBES
    from imgproc_local.vision.llm.selftest import passed_self_test
    from imgproc_local.vision.models.model import VisionModel

    if isinstance(model, VisionModel) and not passed_self_test(model):
        click.echo(f"Testing {model.name} in a child process …", err=True)
    loaded = load_model(config, model, check_stop, retry_test=True, picture_timeout_s=MAX_PICTURE_S)
    count = f"{len(codes)} languages" if len(codes) > 1 else "1 language"
    click.echo(f"{model.name} describes {len(PROBES)} pictures in {count} …", err=True)
    progress = _Progress()
    try:
        with log_above(progress.line.print_above if progress.line else None):
            return check_model(loaded, codes, progress, check_stop)
    finally:
        progress.clear()
        loaded.close()


def run_stoppable(work: Callable[[CheckStop], Result], timeout_min: float) -> Result:
    """Run `work(check_stop)` on another thread and return its result.

    `check_stop` raises after Ctrl+C and after the time limit. Raises: what `work` raises; Exit after Ctrl+C.
    """
    from imgproc_local.domain.errors import StageCancelled, StageTimedOut

    stopped = threading.Event()
    deadline = time.monotonic() + 60 * timeout_min

    def check_stop() -> None:
        if stopped.is_set():
            raise StageCancelled("The check was stopped.")
        if time.monotonic() > deadline:
            raise StageTimedOut(
                f"The check did not end within {timeout_min:g} minutes; no grade was saved."
                " Use a longer --timeout or fewer --languages."
            )

    with ThreadPoolExecutor(1, "models-check") as pool:
        try:
            future = pool.submit(work, check_stop)
            while not future.done():
                wait([future], POLL_S)
        except KeyboardInterrupt:
            stopped.set()
            pool.shutdown()
            click.echo("Interrupted. No grade was saved.", err=True)
            raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    return future.result()


class _Progress:
    """Shows the number of texts written and an estimate of the remaining time, on a terminal."""

    def __init__(self) -> None:
        from imgproc_local.cli.progress import StatusLine

        self.line = StatusLine(sys.stderr) if sys.stderr.isatty() else None
        self._start = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if self.line is not None:
            left_min = (time.monotonic() - self._start) / done * (total - done) / 60
            self.line.draw(f"{done} of {total} texts, about {left_min:.0f} minutes left")

    def clear(self) -> None:
        if self.line is not None:
            self.line.clear()


def _print_results(results: list[LanguageResult]) -> None:
    from imgproc_local.cli.output import table
    from imgproc_local.domain.languages import LANGUAGES
    from imgproc_local.vision.grading.grade import GRADE_MEANINGS, format_grade

    rows = [("LANGUAGE", "GRADE", *(area.upper() for area in results[0].areas), "REFUSED")]
    for result in results:
        refused = sum(bool(text.rejection) for text in result.texts)
        shares = (f"{share:.0%}" for share in result.areas.values())
        name = f"{result.language}  {LANGUAGES[result.language].name}"
        rows.append((name, format_grade(result.share), *shares, f"{refused} of {len(result.texts)}"))
    for line in table(rows, right_aligned=range(1, len(rows[0]))):
        click.echo(line)
    click.echo(f"\n{GRADE_MEANINGS} REFUSED: texts against the rules or in another language. --json prints all texts.")


def _result_fields(result: LanguageResult) -> dict[str, object]:
    from imgproc_local.vision.grading.grade import format_grade

    return {
        "language": result.language,
        "grade": format_grade(result.share),
        "share": round(result.share, 4),
        "areas": {area: round(share, 4) for area, share in result.areas.items()},
        "texts": [
            {"picture": text.probe, "alt_text": text.alt_text, "refused": text.rejection or None, "missed": text.missed}
            for text in result.texts
        ],
    }
