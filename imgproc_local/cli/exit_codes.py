"""How a command ends: the exit codes, the error of a refused command, and the exit that does not wait for threads."""

from __future__ import annotations

import os

import click

from imgproc_local.cli.output import discard_unwritable_output

EXIT_PROBLEM = 1
"""Part of the work failed, or a check found a problem."""
EXIT_REFUSED = 2
"""Nothing was done: an argument, a setting or the data folder can't be used. click uses the same code."""
EXIT_INTERRUPTED = 130
"""Ended by Ctrl+C. Shells expect 128 plus the number of the signal, which is 2 for SIGINT."""


class Refused(click.ClickException):
    """Ends the command before it does anything: the message is printed to standard error, without a traceback."""

    exit_code = EXIT_REFUSED


def exit_command(ctx: click.Context, exit_code: int, has_unstopped_threads: bool) -> None:
    """End the command with `exit_code`, without waiting for threads that did not stop when asked."""
    if has_unstopped_threads:
        discard_unwritable_output()
        os._exit(exit_code)
    ctx.exit(exit_code)
