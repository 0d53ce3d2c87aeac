"""One result of `doctor`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

State = Literal["ok", "warning", "problem"]


class Check(Struct, frozen=True):
    """The result of one check: `detail` says what was seen, `advice` what the user can do, if anything.

    `warning` works, but not as well as it could; `problem` does not work.
    """

    name: str
    state: State
    detail: str
    advice: str | None = None
