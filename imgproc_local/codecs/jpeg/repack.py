"""Lossless recompression of a JPEG's scans by mozjpeg, in a child process.

The package mozjpeg-lossless-optimization exits its process on invalid coefficients, which decoders accept, so a child
runs it. A result is used only if every pixel is the same.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import time

from imgproc_local.domain.errors import CheckStop
from imgproc_local.system.piped_child import ChildEnded, PipedChild, Requests, program

log = logging.getLogger(__name__)


TIMEOUT_S = 60.0
"""The time limit of the child. A picture of 24 megapixels takes two seconds."""
POLL_S = 0.1
CHILD_COMMAND = "jpeg-packer"
"""The argument with which this program calls `run_child`."""

_PACKAGE = "mozjpeg_lossless_optimization"


def repacked(data: bytes, check_stop: CheckStop) -> bytes | None:
    """The same pixels and metadata in fewer bytes, None if that is not possible. `data` is a file with one JPEG image.

    Raises: what `check_stop` raises.
    """
    if importlib.util.find_spec(_PACKAGE) is None:
        return None
    packed = _packed_by_child(data, check_stop)
    if packed is None or len(packed) >= len(data):
        return None
    if not _same_pixels(data, packed, check_stop):
        log.warning("Recompressing the scans of a JPEG changed its pixels or damaged it; the result is discarded.")
        return None
    return packed


def run_child() -> None:
    """Answer one request, a JPEG, with the new one. The package may end the process instead."""
    requests = Requests()
    from mozjpeg_lossless_optimization import COPY_MARKERS, optimize

    requests.start_reading()
    requests.answer(optimize(requests.next(), COPY_MARKERS.ALL))


def _packed_by_child(data: bytes, check_stop: CheckStop) -> bytes | None:
    """The answer of the child; None if it could not be started, ended without one or took too long."""
    try:
        child = PipedChild(program(CHILD_COMMAND), os.environ)
    except OSError as error:
        log.warning("The process that recompresses JPEG scans can't be started: %s", error.strerror)
        return None
    deadline_s = time.monotonic() + TIMEOUT_S
    try:
        child.send(data)
        while (packed := child.receive(POLL_S)) is None:
            check_stop()
            if time.monotonic() > deadline_s:
                log.warning("The scans of a JPEG were not recompressed within %.0f seconds.", TIMEOUT_S)
                return None
        return packed
    except ChildEnded as ended:
        reason = ended.last_error_line[:200]
        log.info("The scans of a JPEG can't be recompressed: the process ended with %s. %s", ended.cause, reason)
        return None
    finally:
        child.kill()


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
