"""The report of an archive: one HTML file that loads nothing and runs no script.

Its Content Security Policy allows only its style and thumbnails. It names pictures by their path below SOURCE, and
neither SOURCE nor TARGET, because TARGET may be public.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

import imgproc_local
from imgproc_local.archive.manifest import Problem
from imgproc_local.archive.summary import MAX_MESSAGE_CHARS, LastRun, Sample, Sizes, Summary
from imgproc_local.cli.output import duration_text, size_text
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.domain.image import Format
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.result import TextSource

FAILURES = {
    "picture": "because of the picture itself",
    "source": "because it could not be read",
    "target": "because a result could not be written",
    "worker": "because every worker ended",
}
"""What follows a number of failed pictures, by `FailureKind`."""
ORIGINS = {
    TextSource.VISION: "Vision model",
    TextSource.EMBEDDED: "Text in the file",
    TextSource.FACTS: "Words in the file",
    TextSource.PERSON: "Person",
    TextSource.PIXELS: "To be written",
}
"""The columns of the table of texts."""


def report_page(summary: Summary, samples: Sequence[Sample], run: LastRun) -> bytes:
    """The report as HTML."""
    folder = resources.files("imgproc_local.cli.archive")
    style = (folder / "report.css").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters.update(_FILTERS)
    sizes = [("Optimized", summary.optimized), ("Converted", summary.converted)]
    page = environment.from_string((folder / "report.html").read_text(encoding="utf-8")).render(
        style=Markup(style),  # noqa: S704 - a file of the package
        style_sha256=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        summary=summary,
        samples=samples,
        run=run,
        done=summary.outcomes["done"],
        failed=summary.outcomes["failed"],
        failures=sorted(summary.failures.items()),
        totals=[(name, _total(sums.values())) for name, sums in sizes if sums],
        sizes=[(name, sorted(sums.items())) for name, sums in sizes if sums],
        languages=sorted({language for language, _ in summary.texts}),
        origins=[origin.value for origin in ORIGINS if any(found == origin for _, found in summary.texts)],
        version=imgproc_local.__version__,
    )
    return page.encode("utf-8", "backslashreplace")


def _total(sums: Iterable[Sizes]) -> Sizes:
    total = Sizes()
    for each in sums:
        total.pictures += each.pictures
        total.before_bytes += each.before_bytes
        total.after_bytes += each.after_bytes
    return total


def _change(sizes: Sizes) -> str:
    """The change of the size in percent, such as “−63 %”; "" without bytes."""
    if not sizes.before_bytes:
        return ""
    percent = round(100 * sizes.after_bytes / sizes.before_bytes) - 100
    return f"{'−' if percent < 0 else '+' if percent else '±'}{abs(percent)} %"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _format_name(value: str | None) -> str:
    return FORMATS[Format(value)].name if value else "unknown"


def _reason(problem: Problem) -> str:
    message = problem.message[:MAX_MESSAGE_CHARS]
    return message if problem.stage is None else f"{problem.stage}: {message}"


def _instant(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d at %H:%M} UTC"


_FILTERS: dict[str, Any] = {
    "base64": lambda data: base64.b64encode(data).decode(),
    "change": _change,
    "counted": _counted,
    "duration": duration_text,
    "failure": lambda kind: FAILURES.get(kind, kind),
    "format_name": _format_name,
    "instant": _instant,
    "language_name": lambda code: LANGUAGES[code].name if code in LANGUAGES else code,
    "model_digest": lambda model: model.partition(" ")[2],
    "model_name": lambda model: model.partition(" ")[0],
    "number": lambda number: f"{number:,}",
    "origin": lambda name: ORIGINS[TextSource(name)],
    "reason": _reason,
    "size": size_text,
}
