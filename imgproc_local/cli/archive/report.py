"""The report of an archive: one HTML file that loads nothing and runs no script.

Its Content Security Policy allows only its style. It names pictures by their path below SOURCE, and neither SOURCE nor
TARGET, because TARGET may be public.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

import imgproc_local
from imgproc_local.archive.manifest import Summary
from imgproc_local.cli.output import size_text
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.result import TextSource

_ORIGINS = {
    TextSource.VISION: "Vision model",
    TextSource.EMBEDDED: "Text in the file",
    TextSource.FACTS: "Words in the file",
    TextSource.PERSON: "Person",
    TextSource.PIXELS: "To be written",
}
"""The columns of the table of texts."""


def report_page(summary: Summary, model: str, is_complete: bool) -> bytes:
    """The report as HTML.

    `model` is the identity of the vision model of the last run, "" without one, and `is_complete` says that this run
    has seen the whole source.
    """
    folder = resources.files("imgproc_local.cli.archive")
    style = (folder / "report.css").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters.update(_FILTERS)
    page = environment.from_string((folder / "report.html").read_text(encoding="utf-8")).render(
        style=Markup(style),  # noqa: S704 - a file of the package
        style_sha256=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        summary=summary,
        model=model,
        is_complete=is_complete,
        written_at=f"{datetime.now(UTC):%Y-%m-%d at %H:%M} UTC",
        origins=[origin for origin in _ORIGINS if any(found is origin for _, found in summary.texts)],
        version=imgproc_local.__version__,
    )
    return page.encode("utf-8", "backslashreplace")


def _change(before_bytes: int, after_bytes: int) -> str:
    """The change of a size in percent, such as “−63 %”; "" without bytes."""
    if not before_bytes:
        return ""
    percent = round(100 * after_bytes / before_bytes) - 100
    return f"{'−' if percent < 0 else '+' if percent else '±'}{abs(percent)} %"


_FILTERS: dict[str, Any] = {
    "change": _change,
    "counted": lambda number, noun: f"{number:,} {noun}{'' if number == 1 else 's'}",
    "format_name": lambda image_format: FORMATS[image_format].name,
    "language_name": lambda code: LANGUAGES[code].name if code in LANGUAGES else code,
    "number": lambda number: f"{number:,}",
    "origin": _ORIGINS.__getitem__,
    "size": size_text,
}
