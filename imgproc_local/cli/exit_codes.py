"""How a command ends: the exit codes, the error of a refused command, and an exit that does not wait for threads."""

from __future__ import annotations

import os

import click

from imgproc_local.cli.output import flush_output

EXIT_PROBLEM = 1
"""Part of the work failed, or a check found a problem."""
EXIT_REFUSED = 2
"""An argument, a setting or the data folder can't be used. click uses the same code."""
EXIT_INTERRUPTED = 130
"""Ended by Ctrl+C. Shells expect 128 plus the number of the signal, which is 2 for SIGINT."""


class Refused(click.ClickException):
    """Ends the command with `EXIT_REFUSED` and a message on standard error, without a traceback."""

    exit_code = EXIT_REFUSED


def exit_command(ctx: click.Context, exit_code: int, has_unstopped_threads: bool) -> None:
    """End the command with `exit_code`, without waiting for threads that did not stop when asked."""
    if has_unstopped_threads:
        flush_output()  # `os._exit` does not
        os._exit(exit_code)
    ctx.exit(exit_code)
