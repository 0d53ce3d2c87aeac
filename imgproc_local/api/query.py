"""Numbers in a query string, with their bounds told."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def read_integer(
    query: Mapping[str, Any],
    name: str,
    errors: dict[str, list[str]],
    *,
    minimum: int,
    maximum: int,
    default: int | None = None,
) -> int:
    """The integer called `name`; a missing, malformed or unbounded one is noted in `errors`."""
    text = str(query.get(name) or "").strip()
    expected = f"{name} must be an integer from {minimum} to {maximum}"
    if not text:
        if default is None:
            errors[name] = [f"{expected}; it is required and none came."]
        return minimum if default is None else default
    if not re.fullmatch(r"[+-]?[0-9]{1,12}", text) or not minimum <= int(text) <= maximum:
        errors[name] = [f"{expected}; {text[:40]!r} came."]
        return minimum
    return int(text)
