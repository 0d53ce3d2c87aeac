"""The pixel work of SSIMULACRA 2.1 with libvips, for installs without a compiler: what `_ssimulacra2.c` does, slower.

Every step is an operation of libvips on a three-band float picture. What several steps read is stored in memory first,
because libvips would compute it anew for each.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

from imgproc_local.codecs.picture import decode  # noqa: F401  sets libvips up
from imgproc_local.codecs.picture.libvips import pyvips

LEVELS = 6
MIN_SIDE_PX = 8
RADIUS_PX = 5
_SIGMA_PX = 1.5
_C2 = 0.0009
_BIAS = 0.0037930732552754493
_ABSORBANCE = [
    [0.30, 0.622, 0.078],
    [0.23, 0.692, 0.078],
    [0.24342268924547819, 0.20476744424496821, 0.5518098665095536],
]
_TO_XYB = [[7.0, -7.0, 0.0], [0.5, 0.5, 0.0], [-0.5, -0.5, 1.0]]
"""From the cube roots of the absorbances to X, Y and B-Y. X is multiplied by 14."""
_OFFSETS = [0.42, 0.01, 0.55]

Picture = Any
"""A `pyvips.Image`."""


class _Level(NamedTuple):
    """What depends on the reference alone, in memory."""

    image: Picture
    mean: Picture
    variance: Picture


class Reference:
    """A picture that others are compared with: RGB, or RGBA composited over the grey `background`, both sRGB."""

    def __init__(self, pixels: bytes | bytearray | memoryview, width: int, height: int, bands: int, background: int):
        self._size = (width, height, bands)
        self._background = background
        self._levels = []
        for image in self._xyb_levels(pixels):
            blurred = _blur(image.bandjoin(image * image)).copy_memory()
            mean = blurred[0:3].copy_memory()
            self._levels.append(_Level(image, mean, (blurred[3:6] - mean * mean).copy_memory()))

    def norms(self, pixels: bytes | bytearray | memoryview, /) -> tuple[float, ...]:
        """For each channel and level the means, then the 4-norms, of three error maps."""
        compared = zip(self._levels, self._xyb_levels(pixels), strict=True)
        levels = [_level_norms(reference, image) for reference, image in compared]
        return tuple(norm for channel in range(3) for level in levels for norm in level[channel])

    def _xyb_levels(self, pixels: bytes | bytearray | memoryview) -> list[Picture]:
        width, height, bands = self._size
        image = pyvips.Image.new_from_memory(pixels, width, height, bands, "uchar")
        if bands == 4:
            alpha = image[3]
            image = ((image[0:3] * alpha + (255 - alpha) * self._background + 127) / 255).floor().cast("uchar")
        image = image.embed(0, 0, max(width, MIN_SIDE_PX), max(height, MIN_SIDE_PX), extend="copy")
        linear = image.maplut(_transfer_curve()).copy_memory()
        levels: list[Picture] = []
        while len(levels) < LEVELS and min(linear.width, linear.height) >= MIN_SIDE_PX:
            levels.append(_xyb(linear).copy_memory())
            linear = linear.shrink(2, 2, ceil=True).copy_memory()
        return levels


@cache
def _transfer_curve() -> Picture:
    """Linear light for each value of sRGB. Source: IEC 61966-2-1."""
    values = [value / 255 for value in range(256)]
    curve = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values]
    return pyvips.Image.new_from_array([curve]).cast("float").copy_memory()


@cache
def _gaussian() -> Picture:
    taps = [math.exp(-(distance**2) / (2 * _SIGMA_PX**2)) for distance in range(-RADIUS_PX, RADIUS_PX + 1)]
    return pyvips.Image.new_from_array([[tap / math.fsum(taps) for tap in taps]])


def _xyb(linear: Picture) -> Picture:
    absorbed = linear.recomb(pyvips.Image.new_from_array(_ABSORBANCE)) + _BIAS
    roots = absorbed ** (1 / 3) - _BIAS ** (1 / 3)
    return roots.recomb(pyvips.Image.new_from_array(_TO_XYB)).linear([1, 1, 1], _OFFSETS)


def _blur(image: Picture) -> Picture:
    """A blurred copy. Beyond the left and right border lies zero; beyond the other two, the mirrored picture."""
    width, height, margin = image.width, image.height, RADIUS_PX
    larger = image.embed(0, margin, width, height + 2 * margin, extend="mirror")
    larger = larger.embed(margin, 0, width + 2 * margin, height + 2 * margin, extend="black")
    return larger.convsep(_gaussian(), precision="float").crop(margin, margin, width, height)


def _positive(image: Picture) -> Picture:
    return (image + image.abs()) * 0.5


def _level_norms(reference: _Level, image: Picture) -> list[list[float]]:
    """For each channel the means and then the 4-norms of its three maps."""
    difference = image - reference.image
    blurred = _blur(image.bandjoin([image * image, difference * difference])).copy_memory()
    mean, square, difference2 = blurred[0:3], blurred[3:6], blurred[6:9]
    mean_difference2 = (mean - reference.mean) * (mean - reference.mean)
    variances = reference.variance + (square - mean * mean)
    difference_variance = difference2 - mean_difference2
    ssim = mean_difference2 + (mean_difference2 * -1 + 1) * (difference_variance / (variances + _C2))
    edge = ((image - mean).abs() + 1) / ((reference.image - reference.mean).abs() + 1) - 1
    maps = _positive(ssim.bandjoin([edge, edge * -1])).copy_memory()
    pixels = image.width * image.height
    # in a row of `stats`, column 2 is the sum and column 3 the sum of squares; row 0 is of all bands together
    sums = [maps.stats().crop(2, 1, 1, 9), (maps * maps).stats().crop(3, 1, 1, 9)]
    norms = [[sums[order].getpoint(0, band)[0] / pixels for band in range(9)] for order in range(2)]
    return [
        [norms[0][channel + 3 * kind] for kind in range(3)]
        + [norms[1][channel + 3 * kind] ** 0.25 for kind in range(3)]
        for channel in range(3)
    ]
