"""Help pages as plain text: options and commands in sections, whole summaries, and examples at the end.

A docstring that becomes a help page may end with a paragraph that begins with the line “Examples:”.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import click

_MAX_TERM_CHARS = 26
"""The widest option that is described on its own line. The description of a wider one begins on the next line."""
_MAX_SUMMARY_CHARS = 200
"""More than the first sentence of any docstring: click cuts off what is longer."""


class _Page(click.Command):
    """What commands and groups share. `sections` are the headings of its lists, each with the names below it."""

    sections: ClassVar[Mapping[str, Collection[str]]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help, _, self.examples = inspect.cleandoc(self.help or "").partition("\n\nExamples:\n")

    def get_short_help_str(self, limit: int = _MAX_SUMMARY_CHARS) -> str:
        return super().get_short_help_str(_MAX_SUMMARY_CHARS)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            formatter.write(f"\nExamples:\n{self.examples}\n")

    def option_lists(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """The headings, each with its options and their descriptions; “Options” has those that no section names."""
        options = {each.opts[-1]: each for each in self.get_params(ctx) if isinstance(each, click.Option)}
        named = {name for names in self.sections.values() for name in names}
        sections = {**self.sections, "Options": [name for name in options if name not in named]}
        records = {name: record for name, option in options.items() if (record := option.get_help_record(ctx))}
        lists = {heading: [records[name] for name in names if name in records] for heading, names in sections.items()}
        return {heading: rows for heading, rows in lists.items() if rows}


class Command(_Page):
    """A command. Its sections name options; those that no section names follow below “Options”."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_lists(formatter, self.option_lists(ctx))


class PictureCommand(Command):
    """`process` or `archive`. A section may name options that only one of them has."""

    sections: ClassVar = {
        "Input": ("--files-from", "--exclude", "--watch", "--limit"),
        "What is made": (
            *("--only", "--format", "--quality", "--effort", "--only-smaller"),
            *("--max-width", "--max-height", "--widths"),
        ),
        "Texts": ("--languages", "--role", "--context", "--project", "--write-metadata", "--overwrite", "--sidecar"),
        "Output": (
            *("--out", "--flat", "--archive-names", "--in-place", "--backup-suffix", "--preserve"),
            *("--csv", "--html"),
        ),
        "Run": ("--jobs", "--workers", "--scheduler", "--allow-open-tcp", "--dry-run", "--json", "--quiet"),
    }


class Group(_Page, click.Group):
    """A group of commands. Its sections name commands, if it has sections."""

    command_class = Command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = self.sections or {"Commands": self.list_commands(ctx)}
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        summaries = {name: command.get_short_help_str() for name, command in commands.items() if command}
        lists = {heading: [(name, summaries[name]) for name in names] for heading, names in sections.items()}
        _write_lists(formatter, lists)


def _write_lists(formatter: click.HelpFormatter, lists: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Write lists below their headings, with all descriptions in one column."""
    terms = [term for rows in lists.values() for term, _ in rows]
    width = max((len(term) for term in terms if len(term) <= _MAX_TERM_CHARS), default=0)
    for heading, rows in lists.items():
        with formatter.section(heading):
            formatter.write_dl([(term.ljust(width), description) for term, description in rows], col_max=width)
