"""The functions that optimise and convert, by Pillow's name of the format."""

from __future__ import annotations

from imgproc_local.codecs import avif, gif, webp
from imgproc_local.codecs.formats import FORMATS
from imgproc_local.codecs.jpeg import optimize as jpeg
from imgproc_local.codecs.metadata.blocks import Blocks
from imgproc_local.codecs.png import optimize as png
from imgproc_local.domain.image import Format


def read_blocks(data: bytes, form: Format) -> Blocks:
    """The metadata blocks of a file."""
    return FORMATS[form].container.read_blocks(data)


OPTIMIZE = {
    "JPEG": jpeg.optimize,
    "PNG": png.optimize,
    "GIF": gif.optimize,
    "WEBP": webp.optimize,
    "AVIF": avif.optimize,
}
CONVERT = {"WEBP": webp.convert, "AVIF": avif.convert}
