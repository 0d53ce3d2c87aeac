"""`models check`: lets a model describe pictures whose content is known, and keeps a grade per language.

The model works on a thread of its own, so that Ctrl+C is heeded at once. Grades are kept when all is done, or not at
all.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

import click

from imgproc_local.cli.options import data_dir_option, load_config

if TYPE_CHECKING:
    from imgproc_local.vision.grading.check import Result
    from imgproc_local.vision.models.store import ModelStore

Done = TypeVar("Done")

EXIT_INTERRUPTED = 130
LOOK_S = 0.2
"""How often the waiting thread looks up: on Windows a wait without an end would not see Ctrl+C."""


def _language_codes(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Codes with commas between them, each once; () where none were given."""
    from imgproc_local.domain.languages import LANGUAGES

    codes = tuple(dict.fromkeys(code.strip().lower() for code in (value or "").split(",") if code.strip()))
    if value is not None and not codes:
        raise click.BadParameter("expected language codes with commas between them, such as en,de; none came.")
    unknown = [code for code in codes if code not in LANGUAGES]
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r} is no language offered. All: {', '.join(LANGUAGES)}.")
    return codes


@click.command("check")
@click.argument("name", metavar="NAME")
@click.option(
    "--languages",
    metavar="CODES",
    callback=_language_codes,
    help="Codes with commas between them.  [default: those that the model's card names, else all]",
)
@click.option(
    "--timeout",
    "timeout_min",
    metavar="MINUTES",
    type=click.FloatRange(0, 10_000, min_open=True),
    default=180,
    show_default=True,
    help="Give up after this long; no grade is kept then.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array, with every text the model wrote.")
@data_dir_option
@click.pass_context
def check(
    ctx: click.Context, name: str, languages: tuple[str, ...], timeout_min: float, as_json: bool, data_dir: str | None
) -> None:
    """Grade a model on this machine: it describes twelve drawn pictures in each language.

    Counted is what its alt texts name: colours and shapes, how many, what is where, words that stand in the picture,
    things of a simple scene. Each of the five counts the same. A text that could not be published, or is in another
    language, names nothing. Photographs are harder: the grade compares models and languages.
    """
    from imgproc_local.cli.output import echo_json
    from imgproc_local.vision.grading.check import languages_in_claim
    from imgproc_local.vision.models.store import ModelStore

    config = load_config(ctx, data_dir)
    models = ModelStore(config.models_folder, config.model_run_options, must_exist=bool(config.models_dir))
    asked = languages or languages_in_claim(models.manifest(name).languages)
    results = stoppable(lambda check_stop: _graded(models, name, asked, check_stop), timeout_min)
    # shown first: where they can't be kept, the hours were not for nothing
    if as_json:
        echo_json([_told(result) for result in results])
    else:
        _show(results)
    models.save_grades(name, models.grades(name) | {result.language: round(result.share, 4) for result in results})


def _graded(models: ModelStore, name: str, asked: tuple[str, ...], check_stop: Callable[[], None]) -> list[Result]:
    from imgproc_local.vision.grading.check import check as check_model
    from imgproc_local.vision.grading.probes import PROBES
    from imgproc_local.vision.llm.llama import Llama
    from imgproc_local.vision.llm.selftest import passed_self_test, require_self_test

    model = models.model(name)
    if not passed_self_test(model):
        click.echo(f"Trying {name} in a process of its own …", err=True)
    require_self_test(model, check_stop=check_stop, retry=True)
    count = f"{len(asked)} languages" if len(asked) > 1 else "1 language"
    click.echo(f"{name} describes {len(PROBES)} pictures in {count} …", err=True)
    llama = Llama(model, check_stop)
    progress = _Progress()
    try:
        return check_model(llama, asked, progress, check_stop)
    finally:
        progress.clear()
        llama.close()


def stoppable(work: Callable[[Callable[[], None]], Done], timeout_min: float) -> Done:
    """What `work` returns, run on another thread with a `check_stop` that Ctrl+C and the time limit trip."""
    from imgproc_local.domain.errors import StageCancelled, StageTimedOut

    stopped = threading.Event()
    deadline = time.monotonic() + 60 * timeout_min

    def check_stop() -> None:
        if stopped.is_set():
            raise StageCancelled("The check was stopped.")
        if time.monotonic() > deadline:
            raise StageTimedOut(
                f"The check did not end within {timeout_min:g} minutes; no grade was kept."
                " Give it longer with --timeout, or fewer --languages."
            )

    with ThreadPoolExecutor(1, "models-check") as pool:
        try:
            future = pool.submit(work, check_stop)
            while not future.done():
                wait([future], LOOK_S)
        except KeyboardInterrupt:
            stopped.set()
            pool.shutdown()
            click.echo("Stopped; no grade was kept.", err=True)
            raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    return future.result()


class _Progress:
    """Texts written and a guess at the time left, on a terminal."""

    def __init__(self) -> None:
        from imgproc_local.cli.progress import Line

        self._line = Line(sys.stderr) if sys.stderr.isatty() else None
        self._start = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if self._line is not None:
            left_min = (time.monotonic() - self._start) / done * (total - done) / 60
            self._line.draw(f"{done} of {total} texts, about {left_min:.0f} minutes left")

    def clear(self) -> None:
        if self._line is not None:
            self._line.clear()


def _show(results: list[Result]) -> None:
    from imgproc_local.cli.output import table
    from imgproc_local.domain.languages import LANGUAGES
    from imgproc_local.vision.grading.grade import GRADE_MEANINGS, format_grade

    rows = [("LANGUAGE", "GRADE", *(area.upper() for area in results[0].areas), "REFUSED")]
    for result in results:
        refused = sum(bool(text.refused) for text in result.texts)
        shares = (f"{share:.0%}" for share in result.areas.values())
        name = f"{result.language}  {LANGUAGES[result.language].name}"
        rows.append((name, format_grade(result.share), *shares, f"{refused} of {len(result.texts)}"))
    for line in table(rows, right=range(1, len(rows[0]))):
        click.echo(line)
    click.echo(f"\n{GRADE_MEANINGS} REFUSED: texts that could not be published. What was written: --json.")


def _told(result: Result) -> dict[str, object]:
    from imgproc_local.vision.grading.grade import format_grade

    return {
        "language": result.language,
        "grade": format_grade(result.share),
        "share": round(result.share, 4),
        "areas": {area: round(share, 4) for area, share in result.areas.items()},
        "texts": [
            {"picture": text.probe, "alt_text": text.alt_text, "refused": text.refused or None, "missed": text.missed}
            for text in result.texts
        ],
    }
