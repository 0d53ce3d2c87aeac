"""The help pages of all commands, as a terminal shows them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from imgproc_local.cli import main

METAVARS = {
    "ADDRESS", "ADDRESS[,…]", "AGE", "CODES", "DIR", "FILE", "FILE|FOLDER...|-", "HEX", "ID", "[ID]", "LEVEL", "N",
    "NAME", "[NAME]", "NAME|PROGRAM:NAME|none", "PATH...", "PATTERN", "PIXELS", "PORT", "SOURCE", "SUFFIX",
    "TARGET", "TEXT",
}  # fmt: skip
"""The words for the values of options and arguments. A choice shows its values instead."""


def every_command(command: click.Command = main, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """The words and the object of each command and group, the program itself first."""
    yield " ".join(words), command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=command.name)
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            assert subcommand is not None
            yield from every_command(subcommand, (*words, name))


def page(words: str, columns: int = 80) -> str:
    shown = CliRunner().invoke(
        main, [*words.split(), "--help"], env={"COLUMNS": str(columns)}, prog_name="imgproc-local"
    )
    assert shown.exit_code == 0, shown.output
    return shown.stdout


EVERY_COMMAND = dict(every_command())
LEAVES = [words for words, command in EVERY_COMMAND.items() if not isinstance(command, click.Group)]


@pytest.mark.parametrize("words", EVERY_COMMAND, ids=lambda words: words or "program")
def test_no_line_is_cut_or_wider_than_the_terminal(words: str) -> None:
    for columns in (80, 100, 200):
        text = page(words, columns)
        assert max(map(len, text.splitlines())) <= min(columns, 100)
        assert "..." not in re.sub(r"[A-Z]\]?\.\.\.", "", text)


def test_lists_of_commands_show_the_whole_first_sentence_of_each_page_on_one_line() -> None:
    for words in EVERY_COMMAND:
        if words:
            group, _, name = words.rpartition(" ")
            first = re.split(r"(?<=\.)\s", " ".join(page(words).split("\n\n")[1].split()))[0]
            assert re.search(rf"^  {name} +{re.escape(first)}$", page(group), re.MULTILINE), words


@pytest.mark.parametrize("words", LEAVES)
def test_the_page_of_a_command_ends_with_examples_of_it(words: str) -> None:
    description, _, examples = page(words).rpartition("\n\nExamples:\n")
    for line in examples.splitlines():
        assert line.startswith("  imgproc-local ")
        assert words in line
        for option in (word for word in shlex.split(line) if word.startswith("--")):
            assert f" {option} " in description + page("").partition("\n\nExamples:\n")[0], line


@pytest.mark.parametrize("words", EVERY_COMMAND, ids=lambda words: words or "program")
def test_every_option_has_a_help_text_and_the_words_for_values_are_the_same_everywhere(words: str) -> None:
    command = EVERY_COMMAND[words]
    context = click.Context(command)
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
        is_flag = isinstance(parameter, click.Option) and parameter.is_flag
        if not is_flag and not isinstance(parameter.type, click.Choice):
            assert parameter.make_metavar(context) in METAVARS, parameter.name


def test_commands_and_the_options_of_process_and_archive_are_in_sections() -> None:
    for words, expected in {
        "": ["Options", "Process pictures", "Run the service", "Take care of the data", "Vision models", "Examples"],
        "process": ["Input", "What is made", "Texts", "Output", "Run", "Options", "Examples"],
        "archive": ["Input", "What is made", "Texts", "Run", "Options", "Examples"],
    }.items():
        assert re.findall(r"^(\S.*):$", page(words), re.MULTILINE) == expected
        _, _, others = page(words).partition("\nOptions:\n")
        in_no_section = set(re.findall(r"^  .*?--([\w-]+)", others.partition("\n\n")[0], re.MULTILINE))
        assert in_no_section <= {"version", "data-dir", "air-gapped", "help"}
