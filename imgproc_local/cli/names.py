"""Names that people give on the command line."""

from __future__ import annotations

import click

MAX_CHARS = 255


def checked_name(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """The name that can be stored: one line, not empty, valid Unicode. A click callback."""
    if value is None:
        return None
    text = value.strip()
    if not text:
        raise click.BadParameter("expected a name, but it is empty.")
    if len(text) > MAX_CHARS:
        raise click.BadParameter(f"expected at most {MAX_CHARS} characters, but {len(text)} came.")
    if not text.isprintable():
        raise click.BadParameter(f"expected printable characters, but {text!r} came.")
    return text
