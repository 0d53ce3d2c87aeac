"""The codecs' doors by the format that Pillow writes."""

from __future__ import annotations

from imgproc_local.codecs import avif, gif, webp
from imgproc_local.codecs.jpeg import optimize as jpeg
from imgproc_local.codecs.png import optimize as png

OPTIMIZE = {
    "JPEG": jpeg.optimize,
    "PNG": png.optimize,
    "GIF": gif.optimize,
    "WEBP": webp.optimize,
    "AVIF": avif.optimize,
}
CONVERT = {"WEBP": webp.convert, "AVIF": avif.convert}
