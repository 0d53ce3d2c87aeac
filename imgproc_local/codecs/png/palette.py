"""Reduces a picture to the smallest palette that meets the target score.

libimagequant uses as few colours as its own quality setting allows. The lowest sufficient setting is searched for each
picture, with and without dithering. The search in a large picture uses tiles; the result is checked on the whole.

The score hardly changes if a white background becomes light grey, but people see it. So the colours of large areas are
preserved exactly.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import Struct
from PIL import Image

from imgproc_local.codecs.picture.decode import evaluate
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.codecs.png.deflate import Indexed, estimated_bytes, read_indexed
from imgproc_local.codecs.quality.sample import TILES, Sample, score
from imgproc_local.codecs.quality.search import Limits, QualityScale, Tolerance, search
from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.plan import Effort

SCALE = QualityScale(lowest=1, initial=80, highest=100, slope=0.7)

QUICK_EFFORT = 4
"""libimagequant's effort for the first trial, which shows whether 256 colours can suffice. Effort 7 takes three times
as long.
"""

MAX_QUICK_SHORTFALL = 3.0
"""If the first trial scores more than this many points below the target, a higher effort cannot reach it either."""

MIN_SURPLUS = 1.0
"""If 256 colours score less than this many points above the target, fewer colours would score below it."""

DITHER_LEVELS = (0.0, 0.5)
QUALITY_STEPS = (0, 5, 15, 100)
"""Tried in turn until the whole picture meets the target: each is added to the quality setting found on tiles."""

MIN_LARGE_AREA_SHARE = 0.025
"""A colour of at least this share of the pixels is preserved exactly. At most forty colours can reach this share; the
colours of a gradient do not.
"""

_MAX_COUNTED_PIXELS = 250_000
"""Larger pictures are subsampled to about this many pixels before their colours are counted."""


class PaletteSearch(Struct, frozen=True):
    """How to search: libimagequant's effort, the number of tiles in the sample, and the limits of the search."""

    effort: int
    tiles: int
    limits: Limits


QUICK = PaletteSearch(QUICK_EFFORT, TILES, Limits(close=Tolerance(0.0, 0.7), max_trials=5))
THOROUGH = PaletteSearch(7, 54, Limits(close=Tolerance(0.0, 0.35), max_trials=7))
"""The 54 tiles of the sample have two megapixels. Pictures of up to three megapixels are searched as a whole."""

SEARCHES: dict[Effort, PaletteSearch] = {"fast": QUICK, "balanced": THOROUGH, "best": THOROUGH}


class Result(Struct, frozen=True):
    """An indexed picture; `exact` where no pixel changed."""

    picture: Indexed
    exact: bool


class _LargeAreas(Struct, frozen=True):
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


def smallest_palette(
    image: pyvips.Image, profile: bytes | None, target: float, check_stop: CheckStop, options: PaletteSearch
) -> Result | None:
    """The picture with the palette that takes the fewest bytes, None where 256 colours can't meet the target.

    `image` is in memory, 8 bits, grey or RGB, with or without alpha. Its stored values are quantised; only to be scored
    are they converted to sRGB from its ICC `profile` (None: sRGB). Raises: what `check_stop` raises.
    """
    sample = Sample(image, options.tiles, profile)
    colours = _large_area_colours(image)
    areas = _labelled(sample.image, colours)

    def attempt(dither: float, quality: int, effort: int = options.effort) -> _Trial:
        picture = _quantised(sample.image, areas, dither, quality, effort, check_stop)
        size_bytes = estimated_bytes(picture.indices) + 3 * len(picture.colours)
        return _Trial(dither, quality, effort, picture, sample.score_srgb(picture.shown(profile)), size_bytes)

    first = attempt(DITHER_LEVELS[-1], SCALE.highest, QUICK_EFFORT)
    if first.score < target - MAX_QUICK_SHORTFALL:
        return None
    trials = [first]
    if first.score < target + MIN_SURPLUS:
        trials += [attempt(dither, SCALE.highest) for dither in DITHER_LEVELS]
    else:
        start = SCALE.initial
        for dither in DITHER_LEVELS:
            found = search(partial(attempt, dither), SCALE, options.limits, target, start)
            start = min((quality for quality, trial in found.items() if trial.score >= target), default=start)
            trials += found.values()
    best = min((trial for trial in trials if trial.score >= target), key=lambda trial: trial.size_bytes, default=None)
    if best is None:
        return None
    picture = best.picture if sample.is_whole else _quantised_whole(image, profile, colours, best, target, check_stop)
    if picture is None:
        return None
    return Result(picture, bool((_rgba(image) - picture.shown()).abs().max() == 0))


def _quantised_whole(
    image: pyvips.Image,
    profile: bytes | None,
    colours: list[bytes],
    found: _Trial,
    target: float,
    check_stop: CheckStop,
) -> Indexed | None:
    """The whole picture quantised with the settings found on its tiles, or at a higher quality until it meets the
    target.
    """
    areas = _labelled(image, colours)
    for step in QUALITY_STEPS:
        quality = SCALE.clamped(found.quality + step)
        picture = _quantised(image, areas, found.dither, quality, found.effort, check_stop)
        if score(image, picture.shown(), profile) >= target:
            return picture
    return None


def _quantised(
    image: pyvips.Image, areas: _LargeAreas, dither: float, quality: int, effort: int, check_stop: CheckStop
) -> Indexed:
    """The picture quantised by libimagequant, with the colours of large areas restored."""
    options = {"palette": True, "Q": quality, "dither": dither, "effort": effort, "compression": 1, "keep": "none"}
    picture = read_indexed(evaluate(image, check_stop, "pngsave_buffer", **options))
    colours = [colour if colour[3] else bytes(4) for colour in picture.colours[: max(picture.indices) + 1]]
    replaceable = dict(enumerate(colours))
    table = bytearray(256)
    for label, colour in enumerate(areas.colours, 1):
        index = colours.index(colour) if colour in colours else len(colours)
        if index == 256:
            index = min(replaceable, key=lambda each: _distance(replaceable[each], colour))
        colours[index : index + 1] = [colour]  # replaces a colour, or appends one
        replaceable.pop(index, None)
        table[label] = index
    lookup = pyvips.Image.new_from_memory(bytes(table), 256, 1, 1, "uchar")
    indices = (areas.labels == 0).ifthenelse(picture.index_image(), areas.labels.maplut(lookup))
    return Indexed(picture.width_px, picture.height_px, bytes(indices.write_to_memory()), tuple(colours))


def _large_area_colours(image: pyvips.Image) -> list[bytes]:
    """The colours, RGBA, of at least `MIN_LARGE_AREA_SHARE` of the pixels, the most frequent first."""
    step = max(1, int((image.width * image.height / _MAX_COUNTED_PIXELS) ** 0.5))
    subsampled = _rgba(image.subsample(step, step))
    pixels = Image.frombytes("RGBA", (subsampled.width, subsampled.height), subsampled.write_to_memory())
    counted: list[Any] = pixels.getcolors(subsampled.width * subsampled.height) or []
    min_count = max(2, MIN_LARGE_AREA_SHARE * subsampled.width * subsampled.height)
    return [bytes(colour) for count, colour in sorted(counted, reverse=True) if count >= min_count]


def _labelled(image: pyvips.Image, colours: list[bytes]) -> _LargeAreas:
    labels = pyvips.Image.black(image.width, image.height)
    pixels = _rgba(image).copy_memory()
    for label, colour in enumerate(colours, 1):
        labels = (pixels == list(colour)).bandand().ifthenelse(label, labels).copy_memory()
    return _LargeAreas(colours, labels.cast("uchar"))


def _distance(one: bytes, other: bytes) -> int:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def _rgba(image: pyvips.Image) -> pyvips.Image:
    """The picture as RGBA; fully transparent pixels are black."""
    image = image if image.bands > 2 else image.colourspace("srgb")
    return (image[3] == 0).ifthenelse(0, image) if image.hasalpha() else image.bandjoin(255)
