"""Scores an encoding against the picture with SSIMULACRA 2.1, on a sample of tiles or on the whole picture.

100 means the same picture; at 90 no difference shows when the two alternate at the same place; 70 is high quality, 50
medium; below 0 the pictures have little in common. A C extension of this package computes the error maps, except those
whose weights are negligible. It returns their means and 4-norms, which this module combines into one score.

A few tiles represent the picture: encoding, decoding and scoring them costs a fraction of the whole. A picture that is
hardly larger than its sample is used whole.

Source: SSIMULACRA 2.1, Jon Sneyers, Cloudinary; weights and polynomial as published with libjxl. Borders are treated as
in the `ssimulacra2` package for Python (see `_ssimulacra2.c`). libjxl pads with zeros: above 80 its scores are higher,
mostly by less than 0.3, on pictures of a few hundred pixels by up to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

from imgproc_local.codecs.picture.decode import Profile, to_srgb_through
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.codecs.quality import _ssimulacra2
from imgproc_local.domain.plan import TARGETS

_Buffer = bytes | bytearray | memoryview

TARGET_SCORE = TARGETS["web"]
"""The default target. `QualityScale.initial` also refers to it, whichever target is set."""

TILE_PX = 192
TILES = 12
"""Number of tiles in the usual sample: 0.44 megapixels."""

WHOLE = 1_000_000
"""Pass this as the number of tiles to score the whole picture, whatever its size."""

BAND_PIXELS = 2_000_000
"""Pixels scored at a time where a picture is too large to be scored at once."""

_MIN_BAND_ROWS = 256
"""The rows that SSIMULACRA 2 needs for all of its six scales, 1:1 to 1:32."""


class Sample:
    """Tiles of a picture, joined in `image`, against which encodings of `image` are scored.

    Colours are compared after conversion to sRGB from `profile`; None means sRGB. `share` is the share of the picture's
    pixels that the sample has.
    """

    def __init__(self, picture: pyvips.Image, tiles: int = TILES, profile: Profile | None = None) -> None:
        """`picture` is in memory, 8 bits unless numbers define its colours, grey or RGB, with or without alpha."""
        self._positions = _tile_positions(picture, tiles)
        self.profile = profile
        self.image = self.part_of(picture)
        self.is_whole = not self._positions
        self.share = self.image.width * self.image.height / (picture.width * picture.height)
        self._alpha = self.image.hasalpha()

    @cached_property
    def _reference(self) -> Reference:
        srgb = to_srgb_through(self.image, self.profile)
        return Reference(_rows(srgb, alpha=self._alpha), srgb.width, srgb.height, 4 if self._alpha else 3)

    def part_of(self, picture: pyvips.Image) -> pyvips.Image:
        """The same tiles of another picture of the same size; that picture itself if the sample is whole."""
        if not self._positions:
            return picture
        tiles = [picture.crop(left, top, TILE_PX, TILE_PX) for left, top in self._positions]
        # in several rows of tiles: below `_MIN_BAND_ROWS` pixel rows, scales would be left out
        return pyvips.Image.arrayjoin(tiles, across=math.isqrt(len(tiles) - 1) + 1).copy_memory()

    def score(self, decoded: pyvips.Image) -> float:
        """Score of a decoded encoding of `image`, in the colours of `profile`."""
        return self.score_srgb(to_srgb_through(decoded, self.profile))

    def score_srgb(self, decoded: pyvips.Image) -> float:
        """Score of a decoded encoding of `image` that is in sRGB already."""
        return self._reference.score(_rows(decoded, alpha=self._alpha))


def score(picture: pyvips.Image, decoded: pyvips.Image, profile: Profile | None = None) -> float:
    """Score of `decoded` against `picture`, of any size, computed in bands, so that memory stays bounded.

    It is within 0.1 of the score of the whole picture.
    """
    height = max(2 * _MIN_BAND_ROWS, BAND_PIXELS // picture.width // _MIN_BAND_ROWS * _MIN_BAND_ROWS)
    edges = [*range(0, max(1, picture.height - height // 2), height), picture.height]

    alpha = picture.hasalpha()

    def rows(image: pyvips.Image, top: int, bottom: int) -> memoryview:
        band = to_srgb_through(image.crop(0, top, image.width, bottom - top), profile)
        return _rows(band, alpha=alpha)

    def norms(top: int, bottom: int) -> list[tuple[float, ...]]:
        reference = Reference(rows(picture, top, bottom), picture.width, bottom - top, 4 if alpha else 3)
        return reference.norms(rows(decoded, top, bottom))

    heights = [bottom - top for top, bottom in pairwise(edges)]
    bands = [norms(top, bottom) for top, bottom in pairwise(edges)]
    return min(_score_of(_combined_norms(heights, each)) for each in zip(*bands, strict=True))


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


# ---- the metric

# Nested, outermost first: channel X, Y, B-Y; scale 1:1 to 1:32; mean, 4-norm; SSIM, artefacts, lost detail.
# fmt: off
_WEIGHTS = (
    0.0, 0.0007376606707406586, 0.0,
    0.0, 0.0007793481682867309, 0.0,
    0.0, 0.0004371155730107379, 0.0,
    1.1041726426657346, 0.00066284834129271, 0.00015231632783718752,
    0.0, 0.0016406437456599754, 0.0,
    1.8422455520539298, 11.441172603757666, 0.0,
    0.0007989109436015163, 0.000176816438078653, 0.0,
    1.8787594979546387, 10.94906990605142, 0.0,
    0.0007289346991508072, 0.9677937080626833, 0.0,
    0.00014003424285435884, 0.9981766977854967, 0.00031949755934435053,
    0.0004550992113792063, 0.0, 0.0,
    0.0013648766163243398, 0.0, 0.0,
    0.0, 0.0, 0.0,
    7.466890328078848, 0.0, 17.445833984131262,
    0.0006235601634041466, 0.0, 0.0,
    6.683678146179332, 0.00037724407979611296, 1.027889937768264,
    225.20515300849274, 0.0, 0.0,
    19.213238186143016, 0.0011401524586618361, 0.001237755635509985,
    176.39317598450694, 0.0, 0.0,
    24.43300999870476, 0.28520802612117757, 0.0004485436923833408,
    0.0, 0.0, 0.0,
    34.77906344483772, 44.835625328877896, 0.0,
    0.0, 0.0, 0.0,
    0.0, 0.0, 0.0,
    0.0, 0.0008680556573291698, 0.0,
    0.0, 0.0, 0.0,
    0.0, 0.0005313191874358747, 0.0,
    0.00016533814161379112, 0.0, 0.0,
    0.0, 0.0, 0.0,
    0.0004179171803251336, 0.0017290828234722833, 0.0,
    0.0020827005846636437, 0.0, 0.0,
    8.826982764996862, 23.19243343998926, 0.0,
    95.1080498811086, 0.9863978034400682, 0.9834382792465353,
    0.0012286405048278493, 171.2667255897307, 0.9807858872435379,
    0.0, 0.0, 0.0,
    0.0005130064588990679, 0.0, 0.00010854057858411537,
)
# fmt: on


class Reference:
    """A picture that others are scored against.

    `pixels` are H×W×3 uint8 sRGB rows without padding, or H×W×4 with alpha, not premultiplied. Pictures with alpha are
    composited over black and over white, in sRGB as in browsers, and the lower score counts, which takes twice the
    time. Scoring is thread-safe and releases the GIL. It takes about 2 KB of memory per pixel of width. Sides below 8
    pixels are padded to 8 by repeating the edge.
    Raises: ValueError if the size does not match the pixels, MemoryError.
    """

    def __init__(self, pixels: _Buffer, width_px: int, height_px: int, bands: int = 3) -> None:
        backgrounds = (0, 255) if bands == 4 else (0,)  # an opaque picture has none to be seen
        self._references = [_ssimulacra2.Reference(pixels, width_px, height_px, bands, grey) for grey in backgrounds]

    def norms(self, pixels: _Buffer) -> list[tuple[float, ...]]:
        """What `_score_of` takes, for each background, of a picture of the same size. Raises: as `score`."""
        return [reference.norms(pixels) for reference in self._references]

    def score(self, pixels: _Buffer) -> float:
        """The score of a picture of the same size, at most 100. Raises: ValueError, MemoryError."""
        return min(map(_score_of, self.norms(pixels)))


def _combined_norms(heights: Sequence[int], norms: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """The norms of the whole picture, computed from the norms of its parts, weighted by their height in rows."""
    together = []
    for number in range(min(map(len, norms))):
        power = 4 if number // 3 % 2 else 1  # means and 4-norms alternate in threes
        total = sum(height * part[number] ** power for height, part in zip(heights, norms, strict=True))
        together.append((total / sum(heights)) ** (1 / power))
    return tuple(together)


def _score_of(norms: tuple[float, ...]) -> float:
    """The score for the norms of a pair of pictures, in the order of the weights.

    A picture below 256 pixels on a side has fewer than six scales. As in the published implementation, its norms are
    multiplied by the first weights, also where those belong to other maps.
    """
    distance = 0.9562382616834844 * sum(weight * norm for weight, norm in zip(_WEIGHTS, norms, strict=False))
    distance = 2.326765642916932 * distance - 0.020884521182843837 * distance**2 + 6.248496625763138e-05 * distance**3
    return 100 - 10 * distance**0.6276336467831387 if distance > 0 else 100.0
