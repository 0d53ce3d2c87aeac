"""Scores the visual similarity of two pictures with SSIMULACRA 2.1, the metric of the quality targets.

100 means the same picture; at 90 no difference shows when the two alternate at the same place; 70 is high quality, 50
medium; below 0 the pictures have little in common. A C extension of this package computes the error maps, except those
whose weights are negligible. It returns their means and 4-norms, which this module combines into one score.

Source: SSIMULACRA 2.1, Jon Sneyers, Cloudinary; weights and polynomial as published with libjxl. Borders are treated as
in the `ssimulacra2` package for Python (see `_ssimulacra2.c`). libjxl pads with zeros: above 80 its scores are higher,
mostly by less than 0.3, on pictures of a few hundred pixels by up to 1.
"""

from __future__ import annotations

from collections.abc import Iterable

from imgproc_local.codecs.quality import _ssimulacra2

Buffer = bytes | bytearray | memoryview

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

    def __init__(self, pixels: Buffer, width_px: int, height_px: int, bands: int = 3) -> None:
        self._references = [
            _ssimulacra2.Reference(pixels, width_px, height_px, bands, grey) for grey in _backgrounds(bands)
        ]

    def score(self, pixels: Buffer) -> float:
        """The score of a picture of the same size, at most 100. Raises: ValueError, MemoryError."""
        return min(score_of(reference.norms(pixels)) for reference in self._references)


def score_of_bands(parts: Iterable[tuple[Buffer, Buffer, int, int]], bands: int) -> float:
    """The score of a picture given in horizontal parts: (original pixels, other pixels, width, height) for each.

    Within 0.1 of the score of the whole picture if parts are hundreds of rows high. Holds one part at a time. Rows have
    3 or 4 `bands` as in `Reference`. Raises: ValueError, MemoryError.
    """
    backgrounds = _backgrounds(bands)
    heights: list[int] = []
    norms: dict[int, list[tuple[float, ...]]] = {grey: [] for grey in backgrounds}
    for pixels, other, width_px, height_px in parts:
        heights.append(height_px)
        for grey in backgrounds:
            norms[grey].append(_ssimulacra2.Reference(pixels, width_px, height_px, bands, grey).norms(other))
    return min(score_of(_combined_norms(heights, each)) for each in norms.values())


def _backgrounds(bands: int) -> tuple[int, ...]:
    """The greys over which a picture is composited; of an opaque one, the first has no effect."""
    return (0, 255) if bands == 4 else (0,)


def _combined_norms(heights: list[int], norms: list[tuple[float, ...]]) -> tuple[float, ...]:
    """The norms of the whole picture, computed from the norms of its parts, weighted by their height in rows."""
    together = []
    for number in range(min(map(len, norms))):
        power = 4 if number // 3 % 2 else 1  # means and 4-norms alternate in threes
        total = sum(height * part[number] ** power for height, part in zip(heights, norms, strict=True))
        together.append((total / sum(heights)) ** (1 / power))
    return tuple(together)


def score_of(norms: tuple[float, ...]) -> float:
    """The score for the norms of a pair of pictures, in the order of the weights.

    A picture below 256 pixels on a side has fewer than six scales. As in the published implementation, its norms are
    multiplied by the first weights, also where those belong to other maps.
    """
    distance = 0.9562382616834844 * sum(weight * norm for weight, norm in zip(_WEIGHTS, norms, strict=False))
    distance = 2.326765642916932 * distance - 0.020884521182843837 * distance**2 + 6.248496625763138e-05 * distance**3
    return 100 - 10 * distance**0.6276336467831387 if distance > 0 else 100.0
