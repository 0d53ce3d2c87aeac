"""Fewer levels per channel in a picture that 256 colours can't show: its busy parts are rounded to multiples of a step.

Smooth areas, flat ones and gradients, keep their very samples: there rounding would show as bands, and they pack well
as they are. A photograph has next to none; it is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from imgproc_local.codecs.decode import CheckStop, finish, without_alpha
from imgproc_local.codecs.libvips import pyvips
from imgproc_local.codecs.quality.sample import Sample, score

STEPS = (2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8, 9, 10, 12, 14, 16)
"""With a half, green has the lower of two steps, and red and blue, which are seen less, the higher."""

PACKED_WELL = (2, 3, 4, 6, 8, 12, 16)
"""These may take fewer bytes than a coarser one."""

TILES = 54
"""Two megapixels; pictures of up to three are searched whole."""

GRAPHIC_SMOOTH_SHARE = 0.05
"""Photographs have up to 0.02 here, except for overexposed skies, graphics with photographs in them 0.2 and more."""


def rounded(image: pyvips.Image, profile: bytes | None, target: float, check_stop: CheckStop) -> Iterator[pyvips.Image]:
    """The picture with the coarsest steps that look as the target asks; none for a photograph.

    `image` is in memory, 8 bits, grey or RGB, with or without alpha, which stays; `profile` is what its colours mean,
    None for sRGB. Raises: what `check_stop` raises.
    """
    smooth = finish(_smooth(image), check_stop, "copy_memory")
    if smooth.avg() < 255 * GRAPHIC_SMOOTH_SHARE:
        return
    sample = Sample(image, TILES, profile)
    part_smooth = sample.part_of(smooth)
    low, high = 0, len(STEPS)
    while low < high:
        check_stop()
        middle = (low + high) // 2
        if sample.score(_rounded(sample.image, part_smooth, STEPS[middle])) >= target:
            low = middle + 1
        else:
            high = middle
    passing = STEPS[:low]
    for steps in (passing, [step for step in passing[:-1] if step in PACKED_WELL]):
        for step in reversed(steps):
            found = finish(_rounded(image, smooth, step), check_stop, "copy_memory")
            if sample.is_whole or score(image, found, profile) >= target:
                yield found
                break


def _rounded(image: pyvips.Image, smooth: pyvips.Image, step: float) -> pyvips.Image:
    colour = without_alpha(image)
    others, green = (_multiples(each(step)) for each in (math.ceil, math.floor))
    table = others if colour.bands == 1 else others.bandjoin([green, others])
    found = smooth.ifthenelse(colour, colour.maplut(table))
    if image.hasalpha():
        found = found.bandjoin(image[image.bands - 1])
    return found.copy(interpretation=image.interpretation)


def _multiples(step: int) -> pyvips.Image:
    levels = bytes(min(255, (value + step // 2) // step * step) if value < 255 else 255 for value in range(256))
    return pyvips.Image.new_from_memory(levels, 256, 1, 1, "uchar")


def _smooth(image: pyvips.Image) -> pyvips.Image:
    """255 where no pixel around differs from the line between its own neighbours by more than rounding does."""
    colour = without_alpha(image)
    around = colour.embed(1, 1, image.width + 2, image.height + 2, extend="mirror").cast("short")

    def at(left: int, top: int) -> pyvips.Image:
        return around.crop(left, top, image.width, image.height)

    bends = [(at(1, 1) * 2 - at(*one) - at(*other)).abs() for one, other in (((0, 1), (2, 1)), ((1, 0), (1, 2)))]
    straight = ((bends[0] <= 1) & (bends[1] <= 1)).bandand()
    return straight.rank(min(3, image.width), min(3, image.height), 0)
