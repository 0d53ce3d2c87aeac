"""The fewest colours with which a picture still looks as the target asks.

libimagequant takes as many colours as its own quality number needs; which number that is, and whether dithering pays,
is searched for each picture by its score. A larger picture is searched on tiles and checked whole.

Scores hardly see a page that turns from white to a light grey, people do: colours of large areas stay exactly.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import Struct
from PIL import Image

from imgproc_local.codecs.decode import CheckStop, finish
from imgproc_local.codecs.libvips import pyvips
from imgproc_local.codecs.png.deflate import quick_bytes, read_indexed
from imgproc_local.codecs.png.palette_order import Indexed
from imgproc_local.codecs.quality.sample import Sample, lowest_quality, score

EFFORT = 7
GLIMPSE_EFFORT = 4
"""A third of the time, for the question whether 256 colours can do at all."""

HOPELESS = 3.0
"""So far below the target at a glimpse, no effort reaches it."""

LITTLE_LEFT = 1.0
"""So little above the target with all colours, fewer would miss it."""

USUAL = 80
DITHERS = (0.0, 0.5)
TILES = 54
"""Two megapixels; pictures of up to three are searched whole."""

MORE_COLOURS = (0, 5, 15, 100)
"""What is added to the number found on tiles until the whole passes."""

LARGE_AREA = 0.025
"""Of the pixels: from here on a colour is kept exactly. So there are at most forty of them; steps of gradients stay
below.
"""

_COUNTED_PIXELS = 250_000


class Reduced(Struct, frozen=True):
    """A picture in few colours; `exact` where no pixel changed."""

    picture: Indexed
    exact: bool


class _Kept(Struct, frozen=True):
    """Colours, RGBA, that stay exactly; `labels` says for each pixel which it is, counted from 1, 0 for none."""

    colours: list[bytes]
    labels: pyvips.Image


class _Probe(Struct, frozen=True):
    dither: float
    quality: int
    effort: int
    picture: Indexed
    score: float
    size_bytes: int


def reduced(image: pyvips.Image, profile: bytes | None, target: float, check_stop: CheckStop) -> Reduced | None:
    """The smallest of the forms tried, None where 256 colours can't look as the target asks.

    `image` is in memory, 8 bits, grey or RGB, with or without alpha; its colours are reduced as stored, and scored as
    `profile` has them shown, None for sRGB. Raises: what `check_stop` raises.
    """
    sample = Sample(image, TILES, profile)
    colours = _of_large_areas(image)
    kept = _labelled(sample.image, colours)
    probes: dict[tuple[float, int, int], _Probe] = {}

    def probe(dither: float, quality: int, effort: int = EFFORT) -> float:
        key = dither, quality, effort
        if key not in probes:
            picture = _quantised(sample.image, kept, *key, check_stop)
            size_bytes = quick_bytes(picture.indices) + 3 * len(picture.colours)
            probes[key] = _Probe(*key, picture, sample.score_shown(picture.shown(profile)), size_bytes)
        return probes[key].score

    glimpse = probe(DITHERS[-1], 100, GLIMPSE_EFFORT)
    if glimpse < target - HOPELESS:
        return None
    if glimpse < target + LITTLE_LEFT:
        for dither in DITHERS:
            probe(dither, 100)
    else:
        start = USUAL
        for dither in DITHERS:
            found = lowest_quality(partial(probe, dither), target, lowest=1, highest=100, start=start)
            start = found or start
    passing = sorted((each for each in probes.values() if each.score >= target), key=lambda each: each.size_bytes)
    if not passing:
        return None
    best: Indexed | None = passing[0].picture
    if not sample.is_whole:
        kept = _labelled(image, colours)
        best = None
        for more in MORE_COLOURS:
            quality = min(100, passing[0].quality + more)
            picture = _quantised(image, kept, passing[0].dither, quality, passing[0].effort, check_stop)
            if score(image, picture.shown(), profile) >= target:
                best = picture
                break
    if best is None:
        return None
    return Reduced(best, bool((_rgba(image) - best.shown()).abs().max() == 0))


def _quantised(
    image: pyvips.Image, kept: _Kept, dither: float, quality: int, effort: int, check_stop: CheckStop
) -> Indexed:
    options = {"palette": True, "Q": quality, "dither": dither, "effort": effort, "compression": 1, "keep": "none"}
    picture = read_indexed(finish(image, check_stop, "pngsave_buffer", **options))
    colours = [colour if colour[3] else bytes(4) for colour in picture.colours[: max(picture.indices) + 1]]
    free = dict(enumerate(colours))
    table = bytearray(256)
    for label, colour in enumerate(kept.colours, 1):
        place = colours.index(colour) if colour in colours else len(colours)
        if place == 256:
            place = min(free, key=lambda one: _distance(free[one], colour))
        colours[place : place + 1] = [colour]
        free.pop(place, None)
        table[label] = place
    numbers = pyvips.Image.new_from_memory(bytes(table), 256, 1, 1, "uchar")
    indices = (kept.labels == 0).ifthenelse(picture.rows(), kept.labels.maplut(numbers))
    return Indexed(picture.width_px, picture.height_px, bytes(indices.write_to_memory()), tuple(colours))


def _of_large_areas(image: pyvips.Image) -> list[bytes]:
    """The colours, RGBA, of at least `LARGE_AREA` of the pixels, the most frequent first."""
    step = max(1, int((image.width * image.height / _COUNTED_PIXELS) ** 0.5))
    thin = _rgba(image.subsample(step, step))
    pixels = Image.frombytes("RGBA", (thin.width, thin.height), thin.write_to_memory())
    counted: list[Any] = pixels.getcolors(thin.width * thin.height) or []
    least = max(2, LARGE_AREA * thin.width * thin.height)
    return [bytes(colour) for count, colour in sorted(counted, reverse=True) if count >= least]


def _labelled(image: pyvips.Image, colours: list[bytes]) -> _Kept:
    labels = pyvips.Image.black(image.width, image.height)
    pixels = _rgba(image).copy_memory()
    for label, colour in enumerate(colours, 1):
        labels = (pixels == list(colour)).bandand().ifthenelse(label, labels).copy_memory()
    return _Kept(colours, labels.cast("uchar"))


def _distance(one: bytes, other: bytes) -> int:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def _rgba(image: pyvips.Image) -> pyvips.Image:
    """With alpha, and black where nothing can be seen."""
    image = image if image.bands > 2 else image.colourspace("srgb")
    return (image[3] == 0).ifthenelse(0, image) if image.hasalpha() else image.bandjoin(255)
