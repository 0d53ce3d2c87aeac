"""How much memory a worker may use for one picture. A picture that needs more is refused by its stage."""

from __future__ import annotations

from imgproc_local.domain.image import READ_ONLY_FORMATS, ImageInfo

MEGABYTE = 1024 * 1024
BASE_BYTES = 256 * MEGABYTE
"""The process itself, and buffers that do not depend on the size of the picture."""
SMALL_PIXELS = 4_000_000
BYTES_PER_SMALL_PIXEL = 260
"""Up to `SMALL_PIXELS`, AVIF is encoded at several qualities and scored in memory."""
BYTES_PER_PIXEL = 10
"""Each further pixel: large pictures are decoded and encoded in strips."""
BYTES_PER_UNSTREAMED_PIXEL = 16
"""A HEIC, and a TIFF that is stored in one piece, are decoded in memory as a whole."""
NEAR_LIMIT = 0.6
"""A failure of a worker that used at least this share of its limit is explained by the limit: libraries that get no
memory often report damaged data instead. Pictures without defects need less than this share.
"""


def memory_limit_bytes(info: ImageInfo) -> int:
    """The limit for the worker's own memory while it works on this picture."""
    small = min(info.pixels, SMALL_PIXELS)
    per_pixel = BYTES_PER_PIXEL + (BYTES_PER_UNSTREAMED_PIXEL if info.format in READ_ONLY_FORMATS else 0)
    return BASE_BYTES + BYTES_PER_SMALL_PIXEL * small + per_pixel * info.pixels
