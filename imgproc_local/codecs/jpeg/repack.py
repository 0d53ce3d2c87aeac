"""Lossless recompression of a JPEG's scans by mozjpeg, in a child process.

The package mozjpeg-lossless-optimization exits its process on invalid coefficients, so a child runs it, with limited
time and memory. A result is used only if every pixel is the same. Run as a program, this module is the child: it reads
a JPEG from standard input and writes the new one to standard output.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Sequence

from imgproc_local.domain.stop import CheckStop
from imgproc_local.system.child import ChildTimedOut, limit_this_process, run_supervised

log = logging.getLogger(__name__)


TIMEOUT_S = 60.0
"""The time limit of the child. A picture of 24 megapixels takes two seconds."""

MAX_MEMORY_BYTES = 600_000_000
"""The limit of the child's address space. A picture of 24 megapixels with 4:4:4 chroma takes half of it."""

CHILD_COMMAND = "rescan-jpeg"
"""The subcommand with which a frozen program runs `run_child`."""

_PACKAGE = "mozjpeg_lossless_optimization"


def repacked(data: bytes, check_stop: CheckStop, *, command: Sequence[str] | None = None) -> bytes | None:
    """The same pixels and metadata in fewer bytes, None if that is not possible. `data` is a file with one JPEG image.

    Tests give another `command` than `child_command()`. Raises: what `check_stop` raises.
    """
    if importlib.util.find_spec(_PACKAGE) is None:
        return None
    packed = _run(data, child_command() if command is None else command, check_stop)
    if packed is None or len(packed) >= len(data):
        return None
    if not _same_pixels(data, packed, check_stop):
        log.warning("Recompressing the scans of a JPEG changed its pixels or damaged it; the result is discarded.")
        return None
    return packed


def child_command() -> list[str]:
    """The command that starts the child. A frozen program has no separate interpreter: it starts itself."""
    if getattr(sys, "frozen", False):
        return [sys.executable, CHILD_COMMAND]
    return [sys.executable, "-m", __name__]


def run_child() -> None:
    """What the child does. The package may end the process at any time, without output."""
    limit_this_process(TIMEOUT_S, MAX_MEMORY_BYTES)
    from mozjpeg_lossless_optimization import COPY_MARKERS, optimize

    sys.stdout.buffer.write(optimize(sys.stdin.buffer.read(), COPY_MARKERS.ALL))
    sys.stdout.buffer.flush()


def _run(data: bytes, command: Sequence[str], check_stop: CheckStop) -> bytes | None:
    """The output of the child; None if it could not be started, failed or took too long."""
    try:
        ended = run_supervised(command, data=data, timeout_s=TIMEOUT_S, check_stop=check_stop)
    except OSError as error:
        log.warning("The process that recompresses JPEG scans can't be started: %s", error.strerror)
        return None
    except ChildTimedOut:
        log.warning("The scans of a JPEG were not recompressed within %.0f seconds.", TIMEOUT_S)
        return None
    if ended.status:
        reason = ended.last_error_line[:200]
        log.info(
            "The scans of a JPEG can't be recompressed: the process ended with status %d. %s", ended.status, reason
        )
        return None
    return ended.output


def _same_pixels(data: bytes, packed: bytes, check_stop: CheckStop) -> bool:
    # imported here, because the child does not need libvips
    from imgproc_local.codecs.picture.decode import evaluate
    from imgproc_local.codecs.picture.libvips import pyvips

    try:
        before, after = (pyvips.Image.jpegload_buffer(each, access="sequential") for each in (data, packed))
        shape, other = ((each.width, each.height, each.bands, each.interpretation) for each in (before, after))
        return shape == other and evaluate(before != after, check_stop, "max") == 0
    except pyvips.Error:
        return False


if __name__ == "__main__":
    run_child()
