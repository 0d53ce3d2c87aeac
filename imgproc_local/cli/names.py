"""Names of keys, accounts and projects on the command line."""

from __future__ import annotations

import click

MAX_CHARS = 255


def checked_name(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """A click callback: the name without surrounding whitespace; None if the option is not given.

    Raises: click.BadParameter unless the name has 1 to `MAX_CHARS` printable characters.
    """
    if value is None:
        return None
    text = value.strip()
    if not text:
        raise click.BadParameter("expected a name, received empty text.")
    if len(text) > MAX_CHARS:
        raise click.BadParameter(f"expected at most {MAX_CHARS} characters, received {len(text)}.")
    if not text.isprintable():
        raise click.BadParameter(f"expected printable characters, received {text!r}.")
    return text
