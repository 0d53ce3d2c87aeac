"""Reduces the colours of a picture as far as the target score allows: to a palette, or to fewer levels per channel.

`smallest_palette`: libimagequant uses as few colours as its own quality setting allows. The lowest sufficient setting
is searched for each picture, and with dithering again if a first trial shows that it pays. The search in a large
picture uses tiles; the result is checked on the whole. The score hardly changes if a white background becomes light
grey, or the orange of a small logo another orange, but people see it. So the colours of flat areas are preserved
exactly, except in gradients.

`posterized` is for graphics that 256 colours can't represent. Samples in detailed areas are rounded to multiples of a
step. Smooth areas (flat colours and gradients) are preserved: rounding would cause visible bands, and they compress
well without it. Photographs have few smooth areas and are not posterised.
"""

from __future__ import annotations

import io
import math
import sys
from bisect import bisect_left
from functools import cache, partial
from typing import Any

import deflate
from msgspec import Struct
from PIL import Image

from imgproc_local.codecs.container import Blocks, Data
from imgproc_local.codecs.container import png as container
from imgproc_local.codecs.picture.decode import Profile, evaluate, rgba, to_srgb_through, without_alpha
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.codecs.quality.score import TILES, Sample, score
from imgproc_local.codecs.quality.search import Limits, QualityScale, Tolerance, search
from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.plan import Effort

_SCALE = QualityScale(lowest=1, initial=80, highest=100, slope=0.7)

QUICK_EFFORT = 4
"""libimagequant's effort for the first trial, which shows whether 256 colours can suffice. Effort 7 takes three times
as long.
"""

_DITHER = 0.5
"""libimagequant's level of dithering, where it is used. It often takes more bytes than the points that it gains."""

_LOG_BYTES_PER_POINT = 0.05
"""Natural logarithm of the ratio of file sizes that one point of score is worth."""

_FLAT_PX = 64
"""A flat area has at least as many pixels. The orange of a small logo in a screenshot had 200."""

_NEAR = 4
"""A flat colour that differs in no channel by more than this from two others is taken for a level of a gradient."""

_MAX_FLAT_COLOURS = 128
"""Half of a palette. Graphics have up to 60; enlarged pixels of a photograph would take all of it."""

_MAX_SHIFT = 2
"""A palette colour that differs by no more than this from a flat area's becomes that one, which saves an entry. With 8,
soft edges get worse, and some pictures take 1.8 times the bytes.
"""

_LARGE_SAMPLE_TILES = 54
"""Two megapixels. Pictures of up to three megapixels are searched as a whole."""

_STEPS = (2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8, 9, 10, 12, 14, 16)
"""Steps to round to. With a fractional step such as 2.5, green is rounded to multiples of 2, but red and blue to
multiples of 3, because errors in red and blue are less visible.
"""


class PaletteSearch(Struct, frozen=True):
    """How to search: libimagequant's effort, the number of tiles in the sample, and the limits of the search."""

    effort: int
    tiles: int
    limits: Limits


_QUICK = PaletteSearch(QUICK_EFFORT, TILES, Limits(close=Tolerance(0.0, 0.7), max_trials=5))
_THOROUGH = PaletteSearch(7, _LARGE_SAMPLE_TILES, Limits(close=Tolerance(0.0, 0.35), max_trials=7))
SEARCHES: dict[Effort, PaletteSearch] = {"fast": _QUICK, "balanced": _THOROUGH, "best": _THOROUGH}


class Indexed(Struct, frozen=True):
    """An indexed picture: one byte per pixel, its index into at most 256 colours. A colour is four bytes, RGBA."""

    width_px: int
    height_px: int
    indices: bytes
    colours: tuple[bytes, ...]

    def shown(self, profile: Profile | None = None) -> pyvips.Image:
        """The picture as RGBA, converted to sRGB from an ICC profile where one is given."""
        stored = b"".join(self.colours).ljust(1024, b"\0")
        colours = pyvips.Image.new_from_memory(stored, 256, 1, 4, "uchar").copy(interpretation="srgb")
        return self.index_image().maplut(to_srgb_through(colours, profile)).copy(interpretation="srgb")

    def index_image(self) -> pyvips.Image:
        return pyvips.Image.new_from_memory(self.indices, self.width_px, self.height_px, 1, "uchar")


def read_indexed(data: Data) -> Indexed:
    """The pixels and the palette of an indexed PNG. Indices beyond the palette are black, as in browsers."""
    # without its metadata: Pillow refuses pictures with long texts
    with Image.open(io.BytesIO(container.with_blocks(data, Blocks()))) as opened:
        opened.load()
        size, indices = opened.size, opened.tobytes()
    palette, alpha = b"", b""
    for chunk in container.chunks(data):
        if chunk.kind == b"PLTE":
            palette = bytes(data[chunk.payload : chunk.end])
        elif chunk.kind == b"tRNS":
            alpha = bytes(data[chunk.payload : chunk.end])
    palette, alpha = palette.ljust(768, b"\0"), alpha.ljust(256, b"\xff")
    colours = tuple(palette[3 * index : 3 * index + 3] + alpha[index : index + 1] for index in range(256))
    return Indexed(*size, indices, colours)


def estimated_bytes(data: bytes) -> int:
    """An estimate of the compressed size of `data`; of long data, from 16 slices of 64 KB."""
    slices, slice_bytes = 16, 64 * 1024
    part = data
    if len(data) > slices * slice_bytes:
        step = len(data) // slices
        part = b"".join(data[start : start + slice_bytes] for start in range(0, step * slices, step))
    return len(deflate.zlib_compress(part, 7)) * len(data) // max(1, len(part))


class Result(Struct, frozen=True):
    """An indexed picture and its score; `exact` where no pixel changed, which has no score."""

    picture: Indexed
    exact: bool
    score: float | None


class _FlatAreas(Struct, frozen=True):
    """RGBA colours to preserve exactly. `labels` has each pixel's index in `colours` plus 1, or 0 for other colours."""

    colours: list[bytes]
    labels: pyvips.Image


class _Trial(Struct, frozen=True):
    dither: float
    quality: int
    effort: int
    picture: Indexed
    score: float
    size_bytes: int

    def outweighs(self, other: _Trial | None) -> bool:
        """Whether the points that this trial gains are worth its bytes; also where there is nothing to compare with."""
        if other is None:
            return True
        return math.log(self.size_bytes / other.size_bytes) < _LOG_BYTES_PER_POINT * (self.score - other.score)


def smallest_palette(
    image: pyvips.Image, profile: Profile | None, target: float, check_stop: CheckStop, options: PaletteSearch
) -> Result | None:
    """The picture with the palette that takes the fewest bytes, None where 256 colours can't meet the target.

    `image` is in memory, 8 bits, grey or RGB, with or without alpha. Its stored values are quantised; only to be scored
    are they converted to sRGB from its ICC `profile` (None: sRGB). Raises: what `check_stop` raises.
    """
    sample = Sample(image, options.tiles, profile)
    colours = _flat_colours(image)
    areas = _labelled(sample.image, colours)

    def attempt(dither: float, quality: int, effort: int = options.effort) -> _Trial:
        picture = _quantised(sample.image, areas, dither, quality, effort, check_stop)
        size_bytes = estimated_bytes(picture.indices) + 3 * len(picture.colours)
        return _Trial(dither, quality, effort, picture, sample.score_srgb(picture.shown(profile)), size_bytes)

    first = attempt(_DITHER, _SCALE.highest, QUICK_EFFORT)
    if first.score < target - 3:  # a higher effort does not gain so many points
        return None
    trials = [first]
    if first.score < target + 1:  # fewer colours would score below the target
        trials.append(attempt(0.0, _SCALE.highest))
    else:
        plain = search(partial(attempt, 0.0), _SCALE, options.limits, target, _SCALE.initial)
        start = min((quality for quality, trial in plain.items() if trial.score >= target), default=_SCALE.initial)
        dithered = cache(partial(attempt, _DITHER))
        trials += [*plain.values(), dithered(start)]
        if dithered(start).outweighs(plain.get(start)):
            predicted = {quality: trial.score for quality, trial in plain.items()}
            trials += search(dithered, _SCALE, options.limits, target, start, predicted).values()
    best = min((trial for trial in trials if trial.score >= target), key=lambda trial: trial.size_bytes, default=None)
    if best is None:
        return None
    picture, reached = best.picture, best.score
    if not sample.is_whole:
        areas = _labelled(image, colours)
        for added in (0, 10, 100):  # with the settings found on tiles, or at a higher quality
            quality = _SCALE.clamped(best.quality + added)
            picture = _quantised(image, areas, best.dither, quality, best.effort, check_stop)
            reached = score(image, picture.shown(), profile)
            if reached >= target:
                break
    if reached < target:
        return None
    exact = bool((rgba(image) - picture.shown()).abs().max() == 0)
    return Result(picture, exact, None if exact else reached)


def _quantised(
    image: pyvips.Image, areas: _FlatAreas, dither: float, quality: int, effort: int, check_stop: CheckStop
) -> Indexed:
    """The picture quantised by libimagequant, with the colours of flat areas restored."""
    options = {"palette": True, "Q": quality, "dither": dither, "effort": effort, "compression": 1, "keep": "none"}
    picture = read_indexed(evaluate(image, check_stop, "pngsave_buffer", **options))
    colours = [colour if colour[3] else bytes(4) for colour in picture.colours[: max(picture.indices) + 1]]
    replaceable = dict(enumerate(colours))
    table = bytearray(256)
    for label, colour in enumerate(areas.colours, 1):
        nearest = min(replaceable, key=lambda each: _distance(replaceable[each], colour), default=None)
        index = len(colours)
        if nearest is not None and (index == 256 or _distance(replaceable[nearest], colour) <= _MAX_SHIFT):
            index = nearest
        colours[index : index + 1] = [colour]  # replaces a colour, or appends one
        replaceable.pop(index, None)
        table[label] = index
    lookup = pyvips.Image.new_from_memory(bytes(table), 256, 1, 1, "uchar")
    indices = (areas.labels == 0).ifthenelse(picture.index_image(), areas.labels.maplut(lookup))
    return Indexed(picture.width_px, picture.height_px, bytes(indices.write_to_memory()), tuple(colours))


def _flat_colours(image: pyvips.Image) -> list[bytes]:
    """The colours, RGBA, of at least a fortieth of the pixels, then those of smaller flat areas, outside gradients.

    Of large pictures, about 250,000 pixels are counted.
    """
    colours, packed = rgba(image).copy_memory(), _packed(image)
    around = packed.embed(0, 0, image.width + 1, image.height + 1, extend="copy")
    right, below = (around.crop(left, top, image.width, image.height) for left, top in ((1, 0), (0, 1)))
    same = (packed == right) & (packed == below)
    flat = same.rank(min(2, image.width), min(2, image.height), 0)  # no soft edges, no noise
    step = max(1, int((image.width * image.height / 250_000) ** 0.5))
    large = _frequent(colours, step, image.width * image.height / 40)
    other = [1, 0, 0, 0]  # no pixel has it: transparent ones are black
    found = _frequent(flat.ifthenelse(colours, other), step, _FLAT_PX)[:_MAX_FLAT_COLOURS]

    def is_preserved(colour: bytes) -> bool:
        is_level = sum(_distance(colour, each) <= _NEAR for each in found) > 2
        return colour not in (bytes(other), *large) and not is_level

    return large + [colour for colour in found if is_preserved(colour)]


def _frequent(image: pyvips.Image, step: int, min_px: float) -> list[bytes]:
    """The colours of at least so many pixels, the most frequent first, by each `step`th pixel of each `step`th row."""
    subsampled = image.subsample(step, step)
    pixels = Image.frombytes("RGBA", (subsampled.width, subsampled.height), subsampled.write_to_memory())
    counted: list[Any] = pixels.getcolors(subsampled.width * subsampled.height) or []
    min_count = max(2, min_px / step**2)
    frequent = [each for each in counted if each[0] >= min_count]
    return [bytes(colour) for _, colour in sorted(frequent, reverse=True)]


def _labelled(image: pyvips.Image, colours: list[bytes]) -> _FlatAreas:
    labels = pyvips.Image.black(image.width, image.height)
    packed = _packed(image)
    for label, colour in enumerate(colours, 1):
        labels = (packed == int.from_bytes(colour, sys.byteorder, signed=True)).ifthenelse(label, labels)
    return _FlatAreas(colours, labels.cast("uchar").copy_memory())


def _packed(image: pyvips.Image) -> pyvips.Image:
    """The picture as RGBA in one number per pixel, which compares faster than four."""
    return rgba(image).copy_memory().copy(bands=1, format="int")


def _distance(one: bytes, other: bytes) -> int:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def posterized(image: pyvips.Image, profile: bytes | None, target: float, check_stop: CheckStop) -> pyvips.Image | None:
    """The picture posterised with the largest of the `_STEPS` that meets the target; None for photographs, or if none
    does.

    `image` is in memory, 8 bits, grey or RGB; its alpha channel is preserved. `profile` is its ICC profile, None for
    sRGB. Raises: what `check_stop` raises.
    """
    smooth = evaluate(_smooth(image), check_stop, "copy_memory")
    # photographs have up to 2 % smooth pixels, more only with overexposed skies; graphics with photographs have 20 %
    if smooth.avg() < 255 * 0.05:
        return None
    sample = Sample(image, _LARGE_SAMPLE_TILES, profile)
    sample_smooth = sample.part_of(smooth)

    def is_too_large(step: float) -> bool:
        check_stop()
        return sample.score(_rounded(sample.image, sample_smooth, step)) < target

    for step in reversed(_STEPS[: bisect_left(_STEPS, True, key=is_too_large)]):
        result = evaluate(_rounded(image, smooth, step), check_stop, "copy_memory")
        if sample.is_whole or score(image, result, profile) >= target:
            return result
    return None


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
