"""libvips with the settings of this program, from which every module of `codecs` imports `pyvips`, and the errors of
image libraries as domain errors with messages for people.

Loaders that libvips does not consider safe for untrusted files stay blocked.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from PIL.Image import DecompressionBombError

from imgproc_local.domain.errors import BrokenImage, ServiceError, StageFailed, TooManyPixels

# libvips reads these variables when it is loaded
os.environ.setdefault("VIPS_CONCURRENCY", "1")  # one thread per call, because the engine runs several calls at once
os.environ.setdefault("VIPS_WARNING", "0")  # no warnings on standard error: what matters is raised as an error

import pyvips

__all__ = ["of_samples", "pyvips", "translate", "translate_errors", "upright", "with_profile"]

# A Python log handler can be called inside itself, when the garbage collector frees an image there and libvips logs a
# message about it; GLib then ends the process.
pyvips._remove_log_handler()
pyvips.cache_set_max(0)
pyvips.block_untrusted_set(True)


def of_samples(
    samples: bytes | bytearray, width: int, height: int, bands: int, *, is_deep: bool = False
) -> pyvips.Image:
    """A picture in memory of samples of 8 bits, or 16 if it `is_deep`, row by row without padding: grey or, of three
    bands and more, RGB.
    """
    image = pyvips.Image.new_from_memory(samples, width, height, bands, "ushort" if is_deep else "uchar")
    spaces = ("grey16", "rgb16") if is_deep else ("b-w", "srgb")
    return image.copy(interpretation=spaces[bands >= 3])


def with_profile(image: pyvips.Image, profile: bytes | None) -> pyvips.Image:
    """The picture with this profile embedded; the picture itself without one."""
    if not profile:
        return image
    image = image.copy()
    image.set_type(pyvips.GValue.blob_type, "icc-profile-data", profile)
    return image


def upright(image: pyvips.Image, orientation: int) -> pyvips.Image:
    """A picture stored with this EXIF orientation, as it is displayed."""
    image = image.copy()
    image.set_type(pyvips.GValue.gint_type, "orientation", orientation)
    return image.autorot()


# ---- errors ----

_SYSTEM_ERRNOS = (
    errno.ENOSPC, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EDQUOT, errno.EACCES, errno.ENOENT, errno.EIO,
)  # fmt: skip
"""Errors of the system, not of the picture."""
_DECODER_ERRORS = (
    pyvips.Error, OSError, SyntaxError, ValueError, EOFError, LookupError, OverflowError, RecursionError, struct.error,
    zlib.error,
)  # fmt: skip
_FULL = "memory or disk space ran out, or a file can't be opened."
_VIPS_MESSAGES = {
    "vipsimage: unable to write to": "its temporary file can't be written to the disk.",
    **dict.fromkeys(("out of memory", "unable to allocate", "no space left", "unable to open"), _FULL),
    "compression support is not configured": "it is compressed by a method that is not supported. Save it again with"
    " LZW or Deflate.",
    "webpsave: unable to encode": "it has more detail than WebP can store at this size. Scale it down, or convert it to"
    " AVIF.",
}
"""What to say of errors of libvips that are not about damage, by words in their messages.

The last is that libwebp's encoder failed on decoded pixels; libvips does not pass the cause on. The known cause is too
much detail: the first partition of a WebP has at most 512 KB for the modes of all blocks. A photograph of 169
megapixels could be encoded, one of 196 could not. Source: RFC 6386, 9.3.
"""


@contextmanager
def translate_errors(task: str) -> Iterator[None]:
    """A context manager and decorator that raises domain errors in place of those of image libraries.

    `task` says in the message what failed, as in "The picture can't be read".
    """
    try:
        yield
    except ServiceError:
        raise
    except Exception as error:
        domain_error = translate(error, task)
        if domain_error is None:
            raise
        raise domain_error from error


def translate(error: Exception, task: str) -> ServiceError | None:
    """The domain error for an error of pyvips, Pillow, zlib or struct; None for errors that no image library raises.

    Library messages can contain paths, so they are only in the cause and not in the message.
    """
    if isinstance(error, MemoryError):
        return StageFailed(f"{task}: there is not enough memory.")
    if isinstance(error, pyvips.Error):
        text = str(error).lower()
        for words, message in _VIPS_MESSAGES.items():
            if words in text:
                return StageFailed(f"{task}: {message}")
    if isinstance(error, DecompressionBombError):
        return TooManyPixels(f"{task}: it has more pixels than can be decoded.")
    if isinstance(error, OSError) and error.errno in _SYSTEM_ERRNOS:
        return StageFailed(f"{task}: {error.strerror or 'storage failed'}.")
    if isinstance(error, _DECODER_ERRORS):
        return BrokenImage(f"{task}: its data is damaged or incomplete.")
    return None
