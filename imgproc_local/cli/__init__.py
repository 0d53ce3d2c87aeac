"""The command line. The module of a command is imported only when the command is called or listed."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from typing import Any, ClassVar

import click

from imgproc_local import __version__
from imgproc_local.cli.help import Group
from imgproc_local.cli.options import general_options
from imgproc_local.cli.output import Refused, flush_output
from imgproc_local.domain.errors import ServiceError
from imgproc_local.system.files import is_disk_full

_SECTIONS = {
    "Process pictures": {"process": "process:command", "archive": "archive:command"},
    "Run the service": {
        "serve": "serve:command",
        "sign-in": "access:sign_in",
        "sessions": "access:sessions",
        "keys": "access:keys",
        "credits": "access:credits_",
        "config": "data:settings",
        "health": "health:health",
    },
    "Take care of the data": {
        "doctor": "doctor:doctor",
        "verify": "doctor:verify",
        "backup": "data:backup",
        "restore": "data:restore",
        "prune": "data:prune",
    },
    "Vision models": {"models": "models:command"},
}
"""Each section of the help page with its commands: their modules, and their names there."""
COMMANDS = {name: place for commands in _SECTIONS.values() for name, place in commands.items()}
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}


class _LazyGroup(Group):
    """Imports a command when it is called or listed, so that `keys list` does not load the web server."""

    sections: ClassVar = _SECTIONS

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(f"imgproc_local.cli.{module}"), name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ServiceError as error:
            raise Refused(error.message) from error
        except OSError as error:
            # an error of the file system that the command did not handle itself
            if is_disk_full(error):
                flush_output()
                what = error.filename or "A file, or the output of this command,"
                raise click.ClickException(f"The disk is full: {what} could not be written.") from error
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) and error.filename:
                raise Refused(
                    f"{error.filename} can't be used ({error.strerror})."
                    " Change its permissions, or choose another folder."
                ) from error
            raise


@click.command(cls=_LazyGroup, commands=COMMANDS, context_settings=_SETTINGS)
@click.version_option(__version__, prog_name="imgproc-local")
@general_options
def main() -> None:
    """Write SEO file names and alt texts for your images, make them smaller and convert them, on your own machine.

    Examples:
      imgproc-local process --languages en,de photos
      imgproc-local serve
      imgproc-local process --help
    """
    _open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # the encoding of the terminal may lack characters of an alt text
            stream.reconfigure(errors="backslashreplace")


def _open_missing_streams() -> None:
    """Open the null device for each standard stream that is missing, as in a start without a console.

    Commands use the streams without checking for None. The next file that is opened would get a closed descriptor, and
    C libraries would write their errors into that file.
    """
    if os.name == "posix":
        for number in range(3):
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_RDWR)  # takes the lowest free descriptor, which is this one
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
