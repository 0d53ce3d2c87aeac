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
            parts = code.split()
            if len(parts) > 1 and all(part in LANGUAGES for part in parts):
                raise click.BadParameter(
                    f"expected language codes separated by commas, such as {','.join(parts)}; received {value!r}."
                )
            raise click.BadParameter(
                f"{code!r} is not a supported language.{_suggestion(code)} Supported: {', '.join(LANGUAGES)}."
            )
    return codes


def _suggestion(code: str) -> str:
    """A sentence that suggests the closest language; "" if there is none.

    `code` may be a misspelt code or language name, or a code with a region such as en-US.
    """
    names = {
        name.lower(): language.code
        for language in LANGUAGES.values()
        for name in (language.name, language.name_without_region, language.native_name)
    }
    names |= {known: known for known in LANGUAGES}
    suggested = code[:2] if code[2:3] in ("-", "_") and code[:2] in LANGUAGES else None
    if suggested is None:
        matches = difflib.get_close_matches(code, names, n=1)
        suggested = names[matches[0]] if matches else None
    return f" Did you mean {suggested} ({LANGUAGES[suggested].name})?" if suggested else ""
