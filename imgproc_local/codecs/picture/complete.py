"""Decodes pictures completely or not at all.

Damage that a decoder reports is an error; a picture is never processed with its lower half missing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from PIL import Image

from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.domain.image import Format, ImageInfo

Image.MAX_IMAGE_PIXELS = None  # codecs.picture.source enforces the limit, counting every frame

T = TypeVar("T")


def decode_complete(path: Path, info: ImageInfo, decode: Callable[[str], T]) -> T:
    """The result of `decode`, called with a `fail_on` level at which libvips refuses incomplete pictures.

    libjpeg reports a truncated scan only as a warning, like harmless stray bytes between segments. So a JPEG is first
    decoded with warnings as errors. If that fails and `jpeg_reaches_its_end`, it is decoded again with warnings
    ignored. The text of the warning can't decide: libvips has one error buffer for the whole process, and other threads
    write to it.
    """
    if info.format is not Format.JPEG:
        return decode("error")
    try:
        return decode("warning")
    except pyvips.Error:
        if not jpeg_reaches_its_end(path):
            raise
    return decode("error")


def jpeg_reaches_its_end(path: Path) -> bool:
    """Whether a JPEG has data for its last rows.

    Pillow raises an error for a file that ends too early. If a truncated scan is followed by an end marker, libjpeg
    fills the rest with the last colour: at an eighth of the size, where each pixel is one block, the last three rows
    then have one colour. White and black rows are accepted as a border that belongs to the picture.
    """
    try:
        with Image.open(path) as picture:
            if picture.mode != "CMYK":
                picture.draft(picture.mode, (max(1, picture.width // 8), max(1, picture.height // 8)))
            picture.load()
            last_rows = picture.crop((0, max(0, picture.height - 3), picture.width, picture.height))
    except OSError:
        return False
    bounds = _extrema(last_rows)
    return any(low != high for low, high in bounds) or all(low in (0, 255) for low, _ in bounds)


def _extrema(picture: Image.Image) -> list[tuple[float, float]]:
    return [band.getextrema() for band in picture.split()]  # type: ignore[misc]
