"""Writes the manual page: `imgproc-local.1.in`, with the commands and their options put in. Source: man(7).

They are those of this source tree, not read from the help pages of a built program.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from imgproc_local.cli import main  # noqa: E402 - of the folder above

NAME = "imgproc-local"


def page(release: str, date: str) -> str:
    """The manual page of this version, dated `YYYY-MM-DD`."""
    program = click.Context(main, info_name=NAME, **main.context_settings)
    commands = list(_commands(program))
    parts = {
        "DATE": date,
        "VERSION": _roff(release),
        "DESCRIPTION": _roff(main.help),
        "OPTIONS": "\n".join(_options(program)),
        "COMMANDS": "\n".join(line for command in commands for line in _command(command)),
        "EXAMPLES": "\n".join(line for command in commands for line in _examples(command)),
    }
    template = (HERE / f"{NAME}.1.in").read_text(encoding="utf-8")
    return re.sub("@([A-Z]+)@", lambda part: parts[part[1]], template)


def _commands(group: click.Context) -> Iterator[click.Context]:
    """The commands in a group and in the groups below it, in the order of the help page."""
    for name in group.command.list_commands(group):
        inner = click.Context(group.command.get_command(group, name), info_name=name, parent=group)
        yield from _commands(inner) if isinstance(inner.command, click.Group) else [inner]


def _command(context: click.Context) -> Iterator[str]:
    """The subsection of a command: how it is written, what it does, its options."""
    words = context.command_path.removeprefix(f"{NAME} ")
    usage = " ".join(context.command.collect_usage_pieces(context))
    yield from (f".SS {_roff(words)}", f".B {_roff(context.command_path)}", f".I {_roff(usage)}")
    for paragraph in context.command.help.split("\n\n"):
        yield from (".PP", _roff(paragraph))
    yield from _options(context)


def _options(context: click.Context) -> Iterator[str]:
    """The options, without those that the program has too."""
    general = main.option_lists(context.find_root())["Options"] if context.parent else []
    for heading, rows in context.command.option_lists(context).items():
        if heading != "Options":
            yield from (".PP", f"{heading}:")
        for option, description in rows:
            if (option, description) not in general:
                yield from (".TP", f".B {_roff(option)}", _roff(description))


def _examples(context: click.Context) -> Iterator[str]:
    yield from (".PP", _roff(context.command.get_short_help_str()), ".PP", ".EX")
    yield from (_roff(f"    {line.strip()}") for line in context.command.examples.splitlines())
    yield ".EE"


def _roff(text: str) -> str:
    """`text` as it is, in ASCII, with words in backticks in bold."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    escaped = re.sub(r"[^\0-\x7f]", lambda char: f"\\[u{ord(char[0]):04X}]", escaped)
    escaped = re.sub(r"^(?=[.'])", "\\\\&", escaped, flags=re.MULTILINE)
    return re.sub("`([^`]*)`", r"\\fB\1\\fR", escaped)
