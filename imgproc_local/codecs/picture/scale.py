"""Scales pictures down with libvips: Lanczos3 on the stored (not linear) samples, as libvips' `thumbnail` does.

Linear light would darken thin dark lines and text, and differ from what other programs make. Alpha is premultiplied,
so that the colours of transparent pixels do not spread to their neighbours. The whole picture is decoded first: the
scaling that libjpeg does while it decodes is faster and less sharp.
"""

from __future__ import annotations

from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.domain.image import ScaledSize


def scaled(image: pyvips.Image, size: ScaledSize) -> pyvips.Image:
    """A picture of any bands and 8 or 16 bits, scaled down; its profile and bit depth are preserved."""
    across, down = max(size.factor, 1 / image.width), max(size.factor, 1 / image.height)
    if not image.hasalpha():
        return image.resize(across, vscale=down)
    premultiplied = image.premultiply().resize(across, vscale=down)
    return premultiplied.unpremultiply().rint().cast(image.format)
