"""Tables from letters to their romanisation, written as two strings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

_Letter = TypeVar("_Letter", str, int)
"""A letter, or the index of a Hangul letter in Unicode's order."""


def romanisation(letters: Iterable[_Letter], latin: str) -> dict[_Letter, str]:
    """A map from each letter to its romanisation. `latin` has them in order, separated by spaces; `-` is empty."""
    return dict(zip(letters, latin.replace("-", "").split(" "), strict=True))
