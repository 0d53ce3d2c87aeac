"""The scans of a foreign JPEG packed anew by mozjpeg, every pixel as it was.

The package that does it ends its whole process on coefficients that no picture has, so a child process runs it, in
bounded time and memory. Whatever becomes of the child, the picture comes out the same or not at all.
Run as a program this module is that child: a JPEG on standard input, the new one on standard output.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Callable, Sequence

from imgproc_local.system.child import ChildTimedOut, limit_this_process, run_supervised

log = logging.getLogger(__name__)

CheckStop = Callable[[], None]

TIMEOUT_S = 60.0
"""24 megapixels take two seconds."""

MAX_MEMORY_BYTES = 600_000_000
"""Of addresses. 24 megapixels in full chroma take half."""

CHILD_COMMAND = "rescan-jpeg"
_PACKAGE = "mozjpeg_lossless_optimization"


def rescanned(data: bytes, check_stop: CheckStop, *, command: Sequence[str] | None = None) -> bytes | None:
    """The same pixels and metadata in fewer bytes; None where that can't be had. `data` is one picture.

    `command` is run in place of the program's own. Raises: what `check_stop` raises.
    """
    if importlib.util.find_spec(_PACKAGE) is None:
        return None
    packed = _run(data, own_command() if command is None else command, check_stop)
    if packed is None or len(packed) >= len(data):
        return None
    if not _same_pixels(data, packed, check_stop):
        log.warning("A JPEG whose scans were packed anew was not the same picture; it stays as it was.")
        return None
    return packed


def own_command() -> list[str]:
    """The child, as a command. Only a frozen program needs the command line for it, which takes longer to start."""
    if getattr(sys, "frozen", False):
        return [sys.executable, CHILD_COMMAND]
    return [sys.executable, "-m", __name__]


def run_child() -> None:
    """What the child does: it may end at any time without an answer."""
    limit_this_process(TIMEOUT_S, MAX_MEMORY_BYTES)
    from mozjpeg_lossless_optimization import COPY_MARKERS, optimize

    sys.stdout.buffer.write(optimize(sys.stdin.buffer.read(), COPY_MARKERS.ALL))
    sys.stdout.buffer.flush()


def _run(data: bytes, command: Sequence[str], check_stop: CheckStop) -> bytes | None:
    """What the child wrote; None where it could not be started or failed."""
    try:
        ended = run_supervised(command, data=data, timeout_s=TIMEOUT_S, check_stop=check_stop)
    except OSError as error:
        log.warning("The process that packs JPEG scans can't be started: %s", error.strerror)
        return None
    except ChildTimedOut:
        log.warning("The scans of a JPEG were not packed within %.0f seconds.", TIMEOUT_S)
        return None
    if ended.status:
        reason = ended.last_error_line[:200]
        log.info("The scans of a JPEG can't be packed: the process ended with %d. %s", ended.status, reason)
        return None
    return ended.output


def _same_pixels(data: bytes, packed: bytes, check_stop: CheckStop) -> bool:
    # imported here, so that the child goes without
    from imgproc_local.codecs.decode import finish
    from imgproc_local.codecs.libvips import pyvips

    try:
        before, after = (pyvips.Image.jpegload_buffer(each, access="sequential") for each in (data, packed))
        shape, other = ((each.width, each.height, each.bands, each.interpretation) for each in (before, after))
        return shape == other and finish(before != after, check_stop, "max") == 0
    except pyvips.Error:
        return False


if __name__ == "__main__":
    run_child()
