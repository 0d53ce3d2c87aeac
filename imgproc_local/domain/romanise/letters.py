"""How tables of letters are written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

_Letter = TypeVar("_Letter", str, int)
"""A letter, or the number of one in Unicode's order (Hangul)."""


def romanisation(letters: Iterable[_Letter], latin: str) -> dict[_Letter, str]:
    """A map from each letter to its romanisation. `latin` is separated by spaces; `-` drops the letter."""
    return dict(zip(letters, latin.replace("-", "").split(" "), strict=True))
