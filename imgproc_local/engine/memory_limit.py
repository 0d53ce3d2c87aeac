"""How much memory a worker may use for one picture. The stage of a picture that needs more fails."""

from __future__ import annotations

from imgproc_local.domain.image import READ_ONLY_FORMATS, ImageInfo

MEGABYTE = 1024 * 1024
BASE_BYTES = 256 * MEGABYTE
"""The process itself, and buffers that do not depend on the size of the picture."""
SMALL_PIXELS = 4_000_000
BYTES_PER_SMALL_PIXEL = 260
"""For each of the first `SMALL_PIXELS`: up to this size, AVIF is encoded at several qualities and scored as a whole."""
BYTES_PER_PIXEL = 10
"""For every pixel. Large pictures are decoded and encoded in strips."""
BYTES_PER_UNSTREAMED_PIXEL = 16
"""Added for every pixel of a HEIC or TIFF: a HEIC, and a TIFF stored in one piece, are decoded in memory as a whole."""
NEAR_LIMIT = 0.6
"""If a worker fails after using at least this share of its limit, the limit is reported as the cause: libraries that
get no memory often report damaged data instead. Pictures without defects need less than this share.
"""


def memory_limit_bytes(info: ImageInfo) -> int:
    """The limit for the worker's own memory while it works on this picture."""
    small = min(info.pixels, SMALL_PIXELS)
    per_pixel = BYTES_PER_PIXEL + (BYTES_PER_UNSTREAMED_PIXEL if info.format in READ_ONLY_FORMATS else 0)
    return BASE_BYTES + BYTES_PER_SMALL_PIXEL * small + per_pixel * info.pixels
