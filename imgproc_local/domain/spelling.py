"""Suggestions for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggested_setting(name: str, known: Iterable[str]) -> str:
    """The end of the message about an unknown setting: the most similar known name, and where all are listed."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"{f' Did you mean {near[0]}?' if near else ''} `imgproc-local config show` lists all settings."
