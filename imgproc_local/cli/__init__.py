"""The command line: one file per command, loaded only when it is called."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from typing import Any

import click

from imgproc_local import __version__
from imgproc_local.cli.options import air_gapped_option
from imgproc_local.cli.output import give_up_output_that_fails
from imgproc_local.domain.errors import ServiceError

COMMANDS = {
    "serve": "serve.command",
    "process": "process.command",
    "keys": "keys",
    "credits": "credits",
    "models": "models.command",
    "doctor": "doctor.command",
    "config": "config",
}
"""Each command and the module that holds it, in the order in which `--help` lists them."""
HIDDEN = {"rescan-jpeg": "rescan_jpeg"}
EXIT_REFUSED = 2


class _Lazy(click.Group):
    """Imports a command when it is called or listed: `keys list` needs no web server."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = (COMMANDS | HIDDEN).get(cmd_name)
        if name is None:
            return None
        module = importlib.import_module(f"imgproc_local.cli.{name}")
        command: click.Command = module.command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ServiceError as error:
            raise Refused(error.message) from error
        except OSError as error:
            # what no room of the house has words for: the surroundings are at fault, not the program
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                give_up_output_that_fails()
                what = error.filename or "something, perhaps what is printed,"
                raise click.ClickException(f"The disk is full: {what} could not be written.") from error
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) and error.filename:
                advice = "Give yourself the right to it, or choose another folder."
                raise Refused(f"{error.filename} can't be used ({error.strerror}). {advice}") from error
            raise


class Refused(click.ClickException):
    """Told on standard error without a traceback."""

    exit_code = EXIT_REFUSED


@click.command(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="imgproc-local")
@click.option("--data-dir", metavar="DIR", help="Folder of the database and the files (IMGPROC_DATA_DIR).")
@air_gapped_option
@click.pass_context
def main(ctx: click.Context, data_dir: str | None) -> None:
    """SEO file names, alt texts, smaller files and modern formats for your images, on your own machine."""
    ctx.ensure_object(dict)["data_dir"] = data_dir
    _open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # alt texts must not die of a C locale


def _open_missing_streams() -> None:
    """A start without a console, or with closed streams, has none. Loggers die of that, and the next file that is
    opened would get the number that C libraries write their errors to.
    """
    if os.name == "posix":
        for number in range(3):
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
