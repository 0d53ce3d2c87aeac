"""Finds the lowest quality number at which a picture still looks as the target asks, on a sample of the picture.

A quality number means something else for every picture, so it is searched: a few tiles that stand for the whole are
encoded, decoded and scored until the number is found. A picture no larger than the sample is searched whole.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from imgproc_local.codecs.decode import in_srgb
from imgproc_local.codecs.libvips import pyvips
from imgproc_local.codecs.quality import ssimulacra2 as quality
from imgproc_local.codecs.quality.ssimulacra2 import Reference, TransparentReference
from imgproc_local.domain.quality import TARGETS

TARGET_SCORE = TARGETS["web"]
"""SSIMULACRA2 of a result against what came, where nothing else is asked for."""

TILE_PX = 192
TILES = 12
"""Together 0.44 megapixels: what one probe encodes, decodes and scores."""

WHOLE = 1_000_000
"""More tiles than any picture has."""

BAND_PIXELS = 2_000_000
"""So much of a picture is scored at a time where the whole of it is."""

SCALE_PX = 256
"""Scores look at a picture down to 1:32; less than this many rows would have fewer scales."""

MAX_PROBES = 7
USUAL_RISE, MIN_RISE = 0.7, 0.3
CLOSE_ENOUGH = 0.35
"""A score this much above the target ends the search: one step of quality is worth more."""


class Sample:
    """Tiles of a picture, side by side: encode `image`, decode it again and ask for its score.

    Colours are compared as `profile` has them shown, None for sRGB.
    """

    def __init__(self, picture: pyvips.Image, tiles: int = TILES, profile: bytes | None = None) -> None:
        """`picture` is in memory, 8 bits, grey or RGB, with or without alpha."""
        self._tiles = _tiles(picture, tiles)
        self._profile = profile
        self.image = self.part_of(picture)
        self.is_whole = not self._tiles
        self.share = self.image.width * self.image.height / (picture.width * picture.height)
        shown = in_srgb(self.image, profile)
        self._alpha = shown.hasalpha()
        reference = TransparentReference if self._alpha else Reference
        self._reference = reference(_rows(shown, alpha=self._alpha), shown.width, shown.height)

    def part_of(self, picture: pyvips.Image) -> pyvips.Image:
        """The same tiles of a picture of the same size."""
        if not self._tiles:
            return picture
        tiles = [picture.crop(left, top, TILE_PX, TILE_PX) for left, top in self._tiles]
        return pyvips.Image.arrayjoin(tiles, across=4).copy_memory()

    def score(self, decoded: pyvips.Image) -> float:
        """How much the sample's encoding looks like it."""
        return self.score_shown(in_srgb(decoded, self._profile))

    def score_shown(self, shown: pyvips.Image) -> float:
        """The same for a picture in sRGB already."""
        return self._reference.score(_rows(shown, alpha=self._alpha))


def score(picture: pyvips.Image, decoded: pyvips.Image, profile: bytes | None = None) -> float:
    """How much `decoded` looks like `picture`, of whatever size: scored in bands, so that memory stays bounded."""
    height = max(2 * SCALE_PX, BAND_PIXELS // picture.width // SCALE_PX * SCALE_PX)
    edges = [*range(0, max(1, picture.height - height // 2), height), picture.height]

    def rows(image: pyvips.Image, top: int, bottom: int) -> bytes:
        band = in_srgb(image.crop(0, top, image.width, bottom - top), profile)
        return _rows(band, alpha=picture.hasalpha())

    return quality.score_of_bands(
        (rows(picture, top, bottom), rows(decoded, top, bottom), picture.width, bottom - top)
        for top, bottom in pairwise(edges)
    )


def _rows(image: pyvips.Image, *, alpha: bool) -> bytes:
    """H×W×3 or H×W×4 uint8 rows, as they are scored."""
    if image.bands < 3:
        grey = image[0]
        image = grey.bandjoin([grey, grey, *([image[1]] if image.bands == 2 else [])])
    if alpha and not image.hasalpha():  # encoders drop an alpha that says nothing
        image = image.bandjoin(255)
    elif image.hasalpha() and not alpha:
        image = image.extract_band(0, n=3)
    return bytes(image.write_to_memory())


def _tiles(image: pyvips.Image, count: int) -> list[tuple[int, int]]:
    """Where tiles from calm to busy lie, evenly: the middle one of each of `count` equal parts, ordered by activity.

    Empty where the picture is looked at whole.
    """
    across, down = image.width // TILE_PX, image.height // TILE_PX
    if image.width * image.height <= 1.5 * count * TILE_PX * TILE_PX or across * down < count:
        return []
    green = image[min(1, image.bands - 1)].crop(0, 0, across * TILE_PX, down * TILE_PX)
    detail = (green - green.gaussblur(1.5, precision="approximate")).abs().cast("uchar")
    activity = detail.shrink(TILE_PX, TILE_PX).write_to_memory()
    order = sorted(range(across * down), key=lambda index: activity[index])
    chosen = [order[int((part + 0.5) * len(order) / count)] for part in range(count)]
    return [(index % across * TILE_PX, index // across * TILE_PX) for index in sorted(chosen)]


def lowest_quality(
    scored: Callable[[int], float], target: float, *, lowest: int, highest: int, start: int
) -> int | None:
    """The lowest number whose score reaches `target`, None where not even `highest` does.

    `scored` gives the score of a number and is asked at most `MAX_PROBES` times; scores grow with the numbers.
    """
    known: dict[int, float] = {}
    below, above = lowest - 1, highest + 1
    quality = start
    for _ in range(MAX_PROBES):
        known[quality] = score = scored(quality)
        if score >= target:
            above = quality
            if score - target <= CLOSE_ENOUGH:
                break
        else:
            below = quality
        if above - below <= 1:
            break
        guess = quality + round((target - score) / _rise(known))
        quality = min(max(guess, below + 1), above - 1)
    return above if above <= highest else None


def _rise(known: dict[int, float]) -> float:
    """Score per step of quality: between the two numbers asked last, a usual one at first."""
    if len(known) < 2:
        return USUAL_RISE
    (one, one_score), (other, other_score) = list(known.items())[-2:]
    return min(max((other_score - one_score) / (other - one), 0.1), 5.0)


def rise_of(scores: dict[int, float], usual: float = USUAL_RISE) -> float:
    """Score per step of quality over all that were asked."""
    low, high = min(scores), max(scores)
    return max(MIN_RISE, (scores[high] - scores[low]) / (high - low)) if high > low else usual
