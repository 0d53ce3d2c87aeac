"""The parts of the `models` commands for `ocr`, the networks that read text in pictures beside any vision model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from imgproc_local.cli.output import size_text
from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.management.listing import EXTRA_MISSING, is_frozen
from imgproc_local.vision.ocr import download, model_files

if TYPE_CHECKING:
    from imgproc_local.vision.models.files import Progress
    from imgproc_local.vision.models.install import ImportOptions
    from imgproc_local.vision.models.store import ModelStore

NOT_INCLUDED = (
    "This program does not include the libraries that read text in pictures. They are installed with the extra ocr of"
    " the Python package imgproc-local."
)


def pull(models: ModelStore, to: Path | None, progress: Progress) -> None:
    """Download the networks and install them, or into the folder `to` for another machine.

    Raises: ModelUnusable, StorageFailed, DataFolderBusy.
    """
    if to is not None:
        download.pull_to(to, progress)
    elif is_frozen():
        raise ModelUnusable(NOT_INCLUDED)
    else:
        download.pull(models, progress)


def refuse_options(options: ImportOptions) -> None:
    """Raises: click.UsageError, if `models import` was given an option, because all are for vision models."""
    given = [name for name in options.__struct_fields__ if getattr(options, name) not in (None, ())]
    if given:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(
            f"The name and the SHA-256 of {model_files.NAME} are fixed, and it has no chat format: leave out {flags}."
        )


def report_installed() -> None:
    """Print what was installed and what it still needs."""
    click.echo(f"Installed {model_files.NAME}, {size_text(model_files.SIZE_BYTES)}.")
    if model_files.runtime_is_installed():
        click.echo("Text in pictures is read from the next picture on.")
    else:
        click.echo(EXTRA_MISSING, err=True)


def verify(models: ModelStore, progress: Progress) -> str | None:
    """What is wrong with the installed files; None if each has its expected SHA-256."""
    try:
        model_files.verify(models, progress)
    except ModelUnusable as error:
        return error.message
    return None
