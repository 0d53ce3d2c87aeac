"""One result of `doctor` or `verify`, and how results are printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from imgproc_local.cli.output import printable

State = Literal["ok", "warning", "problem"]


class Check(Struct, frozen=True):
    """The result of one check: `detail` is what was found, `advice` what the user can do, None if nothing.

    A `warning` is about something that works, but not as well as it could; a `problem` about something that does not.
    """

    name: str
    state: State
    detail: str
    advice: str | None = None


def check_lines(checks: Sequence[Check]) -> Iterator[str]:
    """One line per result, with its advice below it, and a summary."""
    width = max(len(check.name) for check in checks)
    for check in checks:
        yield f"{check.state:<8} {check.name:<{width}}  {printable(check.detail)}"
        if check.advice:
            yield f"{'':<8} {'':<{width}}  -> {printable(check.advice)}"
    yield ""
    for state in ("problem", "warning"):
        names = [check.name for check in checks if check.state == state]
        if names:
            yield f"{len(names)} {state}{'s' if len(names) > 1 else ''}: {', '.join(names)}."
            return
    yield "No problems found."
