"""Tables of letters and their romanisation, from two strings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

_Letter = TypeVar("_Letter", str, int)
"""A letter, or the index of a Hangul letter in Unicode's order."""


def romanisation(letters: Iterable[_Letter], latin: str) -> dict[_Letter, str]:
    """A map from each letter to its romanisation. `latin` lists these in order, separated by spaces; `-` means ""."""
    return dict(zip(letters, latin.replace("-", "").split(" "), strict=True))
