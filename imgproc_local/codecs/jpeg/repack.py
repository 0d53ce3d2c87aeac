"""The scans of a foreign JPEG packed anew by mozjpeg, every pixel as it was.

The package that does it ends its whole process on coefficients that no picture has, so a child process runs it, in
bounded time and memory. Whatever becomes of the child, the picture comes out the same or not at all.
Run as a program this module is that child: a JPEG on standard input, the new one on standard output.
"""

from __future__ import annotations

import importlib.util
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import imgproc_local

log = logging.getLogger(__name__)

CheckStop = Callable[[], None]

TIMEOUT_S = 60.0
"""24 megapixels take two seconds."""

MAX_MEMORY_BYTES = 600_000_000
"""Of addresses. 24 megapixels in full chroma take half."""

POLL_S = 0.1
CHILD_COMMAND = "rescan-jpeg"
_PACKAGE = "mozjpeg_lossless_optimization"


def rescanned(data: bytes, check_stop: CheckStop, *, command: Sequence[str] | None = None) -> bytes | None:
    """The same pixels and metadata in fewer bytes; None where that can't be had. `data` is one picture.

    `command` is run in place of the program's own. Raises: what `check_stop` raises.
    """
    if importlib.util.find_spec(_PACKAGE) is None:
        return None
    packed = _ask_child(data, own_command() if command is None else command, check_stop)
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
    import faulthandler

    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    faulthandler.dump_traceback_later(TIMEOUT_S, exit=True)  # also where the parent is gone
    from mozjpeg_lossless_optimization import COPY_MARKERS, optimize

    sys.stdout.buffer.write(optimize(sys.stdin.buffer.read(), COPY_MARKERS.ALL))
    sys.stdout.buffer.flush()


def _ask_child(data: bytes, command: Sequence[str], check_stop: CheckStop) -> bytes | None:
    # from the package's own folder: `python -m` would take modules from any other one that it is started in
    home = Path(imgproc_local.__file__).parents[1]
    pipe = subprocess.PIPE
    try:
        child = subprocess.Popen(command, cwd=home, stdin=pipe, stdout=pipe, stderr=pipe)  # noqa: S603 - this program
    except OSError as error:
        log.warning("The process that packs JPEG scans can't be started: %s", error.strerror)
        return None
    deadline = time.monotonic() + TIMEOUT_S
    with child:
        try:
            unsent: bytes | None = data
            while True:
                try:
                    out, errors = child.communicate(unsent, timeout=POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    unsent = None  # the rest of it goes out with the next call
                    check_stop()
                    if time.monotonic() > deadline:
                        log.warning("The scans of a JPEG were not packed within %.0f seconds.", TIMEOUT_S)
                        return None
        finally:
            child.kill()
    if child.returncode:
        told = errors.decode("utf-8", "replace").split("\n")
        last = next((line.strip()[:200] for line in reversed(told) if line.strip()), "")
        log.info("The scans of a JPEG can't be packed: the process ended with %d. %s", child.returncode, last)
        return None
    return out


def _same_pixels(data: bytes, packed: bytes, check_stop: CheckStop) -> bool:
    # imported here, so that the child goes without
    import pyvips

    from imgproc_local.codecs.decode import finish

    try:
        before, after = (pyvips.Image.jpegload_buffer(each, access="sequential") for each in (data, packed))
        shape, other = ((each.width, each.height, each.bands, each.interpretation) for each in (before, after))
        return shape == other and finish(before != after, check_stop, "max") == 0
    except pyvips.Error:
        return False


if __name__ == "__main__":
    run_child()
