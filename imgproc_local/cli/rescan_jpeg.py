"""`rescan-jpeg`: the child process in which a frozen program recompresses scans; see `codecs/jpeg/repack.py`."""

from __future__ import annotations

import click

from imgproc_local.codecs.jpeg.repack import run_child


@click.command("rescan-jpeg", hidden=True)
def command() -> None:
    """Recompress the scans of a JPEG from standard input to standard output. A crash ends only this process."""
    run_child()
