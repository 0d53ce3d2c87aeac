"""Scores of an encoding against the picture, on a sample of tiles or on the whole picture.

A few tiles represent the picture: encoding, decoding and scoring them costs a fraction of the whole. A picture that is
hardly larger than its sample is used whole.
"""

from __future__ import annotations

import math
from itertools import pairwise

from imgproc_local.codecs.picture.decode import to_srgb_through
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.codecs.quality.ssimulacra2 import Reference, score_of_bands
from imgproc_local.domain.plan import TARGETS

TARGET_SCORE = TARGETS["web"]
"""The default target. `QualityScale.initial` also refers to it, whichever target is set."""

TILE_PX = 192
TILES = 12
"""Number of tiles in the usual sample: 0.44 megapixels."""

WHOLE = 1_000_000
"""Pass this as the number of tiles to score the whole picture, whatever its size."""

BAND_PIXELS = 2_000_000
"""Pixels scored at a time where a picture is too large to be scored at once."""

MIN_BAND_ROWS = 256
"""The rows that SSIMULACRA 2 needs for all of its six scales, 1:1 to 1:32."""


class Sample:
    """Tiles of a picture, joined in `image`, against which encodings of `image` are scored.

    Colours are compared after conversion to sRGB from the ICC profile `profile`; None means sRGB. `share` is the share
    of the picture's pixels that the sample has.
    """

    def __init__(self, picture: pyvips.Image, tiles: int = TILES, profile: bytes | None = None) -> None:
        """`picture` is in memory, 8 bits, grey or RGB, with or without alpha."""
        self._positions = _tile_positions(picture, tiles)
        self.profile = profile
        self.image = self.part_of(picture)
        self.is_whole = not self._positions
        self.share = self.image.width * self.image.height / (picture.width * picture.height)
        srgb = to_srgb_through(self.image, profile)
        self._alpha = srgb.hasalpha()
        self._reference = Reference(_rows(srgb, alpha=self._alpha), srgb.width, srgb.height, 4 if self._alpha else 3)

    def part_of(self, picture: pyvips.Image) -> pyvips.Image:
        """The same tiles of another picture of the same size; that picture itself if the sample is whole."""
        if not self._positions:
            return picture
        tiles = [picture.crop(left, top, TILE_PX, TILE_PX) for left, top in self._positions]
        # in several rows of tiles: below `MIN_BAND_ROWS` pixel rows, scales would be left out
        return pyvips.Image.arrayjoin(tiles, across=math.isqrt(len(tiles) - 1) + 1).copy_memory()

    def score(self, decoded: pyvips.Image) -> float:
        """Score of a decoded encoding of `image`, in the colours of `profile`."""
        return self.score_srgb(to_srgb_through(decoded, self.profile))

    def score_srgb(self, decoded: pyvips.Image) -> float:
        """Score of a decoded encoding of `image` that is in sRGB already."""
        return self._reference.score(_rows(decoded, alpha=self._alpha))


def score(picture: pyvips.Image, decoded: pyvips.Image, profile: bytes | None = None) -> float:
    """Score of `decoded` against `picture`, of any size, computed in bands, so that memory stays bounded."""
    height = max(2 * MIN_BAND_ROWS, BAND_PIXELS // picture.width // MIN_BAND_ROWS * MIN_BAND_ROWS)
    edges = [*range(0, max(1, picture.height - height // 2), height), picture.height]

    def rows(image: pyvips.Image, top: int, bottom: int) -> memoryview:
        band = to_srgb_through(image.crop(0, top, image.width, bottom - top), profile)
        return _rows(band, alpha=picture.hasalpha())

    parts = (
        (rows(picture, top, bottom), rows(decoded, top, bottom), picture.width, bottom - top)
        for top, bottom in pairwise(edges)
    )
    return score_of_bands(parts, 4 if picture.hasalpha() else 3)


def _rows(image: pyvips.Image, *, alpha: bool) -> memoryview:
    """H×W×3 or, with alpha, H×W×4 uint8 rows without padding."""
    if image.bands < 3:
        grey = image[0]
        image = grey.bandjoin([grey, grey, *([image[1]] if image.bands == 2 else [])])
    if alpha and not image.hasalpha():  # encoders drop an opaque alpha channel
        image = image.bandjoin(255)
    elif image.hasalpha() and not alpha:
        image = image.extract_band(0, n=3)
    return memoryview(image.write_to_memory())


def _tile_positions(image: pyvips.Image, count: int) -> list[tuple[int, int]]:
    """Left and top of `count` tiles that represent the picture, or none if the whole picture is the sample.

    All tiles are ordered by their detail and divided into `count` equal groups; the middle tile of each is taken.
    """
    across, down = image.width // TILE_PX, image.height // TILE_PX
    if image.width * image.height <= 1.5 * count * TILE_PX * TILE_PX or across * down < count:
        return []
    green = image[min(1, image.bands - 1)].crop(0, 0, across * TILE_PX, down * TILE_PX)
    detail = (green - green.gaussblur(1.5, precision="approximate")).abs().cast("uchar")
    amounts = detail.shrink(TILE_PX, TILE_PX).write_to_memory()
    order = sorted(range(across * down), key=lambda index: amounts[index])
    chosen = [order[int((part + 0.5) * len(order) / count)] for part in range(count)]
    return [(index % across * TILE_PX, index // across * TILE_PX) for index in sorted(chosen)]
