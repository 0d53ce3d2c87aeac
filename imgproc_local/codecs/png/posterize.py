"""Posterisation: fewer levels per channel for graphics that a palette of 256 colours can't represent.

Samples in detailed areas are rounded to multiples of a step. Smooth areas (flat colours and gradients) are preserved:
rounding would cause visible bands, and they compress well without it. Photographs have few smooth areas and are not
posterised.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator

from imgproc_local.codecs.picture.decode import evaluate, without_alpha
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.codecs.quality.sample import Sample, score
from imgproc_local.domain.errors import CheckStop

STEPS = (2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8, 9, 10, 12, 14, 16)
"""Steps to try. With a fractional step such as 2.5, green is rounded to multiples of 2, but red and blue to multiples
of 3, because errors in red and blue are less visible.
"""

STEPS_THAT_COMPRESS_WELL = (2, 3, 4, 6, 8, 12, 16)
"""With one of these steps the file may be smaller than with a larger step, because their levels compress better."""

TILES = 54
"""Number of tiles in the sample: two megapixels. Pictures of up to three megapixels are searched as a whole."""

MIN_SMOOTH_SHARE = 0.05
"""A picture with at least this share of smooth pixels is treated as a graphic. Photographs have up to 0.02, more only
with overexposed skies; graphics that contain photographs have 0.2 and more.
"""


def posterized(
    image: pyvips.Image, profile: bytes | None, target: float, check_stop: CheckStop
) -> Iterator[pyvips.Image]:
    """Yields the picture posterised with the largest step that meets the target, and with the largest of the smaller
    `STEPS_THAT_COMPRESS_WELL` that meets it.

    Yields nothing for photographs. `image` is in memory, 8 bits, grey or RGB; its alpha channel is preserved. `profile`
    is its ICC profile, None for sRGB. Raises: what `check_stop` raises.
    """
    smooth = evaluate(_smooth(image), check_stop, "copy_memory")
    if smooth.avg() < 255 * MIN_SMOOTH_SHARE:
        return
    sample = Sample(image, TILES, profile)
    sample_smooth = sample.part_of(smooth)

    def is_too_large(step: float) -> bool:
        check_stop()
        return sample.score(_rounded(sample.image, sample_smooth, step)) < target

    passing = STEPS[: bisect_left(STEPS, True, key=is_too_large)]
    for steps in (passing, [step for step in passing[:-1] if step in STEPS_THAT_COMPRESS_WELL]):
        for step in reversed(steps):
            result = evaluate(_rounded(image, smooth, step), check_stop, "copy_memory")
            if sample.is_whole or score(image, result, profile) >= target:
                yield result
                break


def _rounded(image: pyvips.Image, smooth: pyvips.Image, step: float) -> pyvips.Image:
    """The picture with its samples rounded to multiples of `step`, except in smooth areas."""
    colour = without_alpha(image)
    red_and_blue, green = _lookup_table(math.ceil(step)), _lookup_table(math.floor(step))
    table = red_and_blue if colour.bands == 1 else red_and_blue.bandjoin([green, red_and_blue])
    result = smooth.ifthenelse(colour, colour.maplut(table))
    if image.hasalpha():
        result = result.bandjoin(image[image.bands - 1])
    return result.copy(interpretation=image.interpretation)


def _lookup_table(step: int) -> pyvips.Image:
    """For each of 256 levels the nearest multiple of `step`; 255 for white."""
    levels = bytes(min(255, (value + step // 2) // step * step) if value < 255 else 255 for value in range(256))
    return pyvips.Image.new_from_memory(levels, 256, 1, 1, "uchar")


def _smooth(image: pyvips.Image) -> pyvips.Image:
    """A mask: 255 if none of the 3×3 pixels around has a second difference, horizontal or vertical, of more than 1."""
    colour = without_alpha(image)
    around = colour.embed(1, 1, image.width + 2, image.height + 2, extend="mirror").cast("short")

    def at(left: int, top: int) -> pyvips.Image:
        return around.crop(left, top, image.width, image.height)

    horizontal = (at(1, 1) * 2 - at(0, 1) - at(2, 1)).abs()
    vertical = (at(1, 1) * 2 - at(1, 0) - at(1, 2)).abs()
    straight = ((horizontal <= 1) & (vertical <= 1)).bandand()
    return straight.rank(min(3, image.width), min(3, image.height), 0)
