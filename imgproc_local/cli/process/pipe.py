"""`process -`: one picture from standard input, and its result to standard output. The texts are on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from msgspec import structs

from imgproc_local.cli.process.results_folder import Outcome, RunOptions, temporary_folder


def stages_for_one_file(options: RunOptions, only: tuple[str, ...]) -> tuple[str, ...]:
    """The value of --only for a picture on standard output. Raises: click.UsageError, if there is not one file."""
    if len(options.paths) > 1:
        raise click.UsageError("Expected no other path beside -, which reads one picture from standard input.")
    chosen = only or ("analyze", "optimize")
    if len(set(chosen) - {"analyze"}) != 1:
        advice = "choose --only optimize, the default, or convert."
        raise click.UsageError(f"Expected one file for standard output: {advice}")
    return chosen


@contextmanager
def received(options: RunOptions, max_bytes: int) -> Iterator[RunOptions]:
    """Options to process the picture on standard input: it and its results are files of a folder that ends with the
    block. A picture that is too large has one byte more than `max_bytes`.

    Raises: click.UsageError, if standard input or output is a terminal, or closed and thus replaced by the null device;
    Refused, if no temporary file can be written.
    """
    if any(stream.isatty() or stream.name == os.devnull for stream in (sys.stdin, sys.stdout)):
        raise click.UsageError("Expected an open pipe or file, not a terminal: imgproc-local process - < a.jpg > b.jpg")
    with temporary_folder() as folder:
        picture = Path(folder, "image")
        with picture.open("xb") as file:
            while chunk := sys.stdin.buffer.read(min(max_bytes + 1 - file.tell(), 1024 * 1024)):
                file.write(chunk)
        yield structs.replace(options, paths=(picture,), out=Path(folder, "out"))


def send(options: RunOptions, outcomes: Sequence[Outcome]) -> None:
    """Write the result to standard output."""
    for file in (file for outcome in outcomes if outcome.record is not None for file in outcome.record.files):
        sys.stdout.buffer.write((options.out / file.path).read_bytes())
