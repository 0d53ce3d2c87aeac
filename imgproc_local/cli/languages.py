"""The option `--languages`: language codes separated by commas."""

from __future__ import annotations

import difflib

import click

from imgproc_local.domain.languages import LANGUAGES


def language_codes(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    """A click callback: the codes in their order, without duplicates; an empty tuple if the option is not given."""
    if value is None:
        return ()
    codes = tuple(dict.fromkeys(code.strip().lower() for code in value.split(",") if code.strip()))
    if not codes:
        raise click.BadParameter(f"expected language codes separated by commas, such as en,de; received {value!r}.")
    for code in codes:
        if code not in LANGUAGES:
            raise click.BadParameter(
                f"expected language codes separated by commas, such as en,de; {code!r} is not a supported language."
                f"{_suggestion(code)} Supported: {', '.join(LANGUAGES)}."
            )
    return codes


def _suggestion(text: str) -> str:
    """A sentence that suggests the closest language; "" if there is none.

    `text` may be a misspelt code or language name, or a code with a region such as en-US.
    """
    if text[:2] in LANGUAGES and text[2:3] in ("-", "_"):
        suggested = text[:2]
    else:
        names = {name.lower(): each.code for each in LANGUAGES.values() for name in (each.name, each.native_name)}
        names |= {code: code for code in LANGUAGES}
        near = difflib.get_close_matches(text, names, n=1)
        if not near:
            return ""
        suggested = names[near[0]]
    return f" Did you mean {suggested} ({LANGUAGES[suggested].name})?"
