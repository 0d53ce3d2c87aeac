"""One finding of `doctor`."""

from __future__ import annotations

from typing import Literal

from imgproc_local.cli.output import whole_text

State = Literal["ok", "warning", "problem"]


class Check:
    """One finding. `advice` says what to do, where there is something."""

    def __init__(self, name: str, state: State, detail: str, advice: str | None = None) -> None:
        self.name = name
        self.state = state
        self.detail = whole_text(detail)
        self.advice = advice
