"""`imgproc-local rescan-jpeg`: what a frozen program starts itself as, see `codecs.jpeg_rescan`."""

from __future__ import annotations

import click

from imgproc_local.codecs.jpeg.repack import run_child


@click.command("rescan-jpeg", hidden=True)
def command() -> None:
    """Pack the scans of a JPEG anew: from standard input to standard output, by a process that may end of it."""
    run_child()
