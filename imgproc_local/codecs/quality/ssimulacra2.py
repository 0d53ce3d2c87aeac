"""Scores the visual similarity of two pictures with SSIMULACRA 2.1, the metric of the quality targets.

100 means the same picture; at 90 no difference shows when the two alternate at the same place; 70 is high quality, 50
medium; below 0 the pictures have little in common. The error maps are computed by a C extension of this package or, if
it was not built, by libvips, over ten times slower. Both return the means and 4-norms of the maps, which this module
combines into one score. The C extension leaves out maps whose weights are negligible.

Source: SSIMULACRA 2.1, Jon Sneyers, Cloudinary; weights and polynomial as published with libjxl. Borders are treated as
in the `ssimulacra2` package for Python (see `_ssimulacra2.c`). libjxl pads with zeros: above 80 its scores are higher,
mostly by less than 0.3, on pictures of a few hundred pixels by up to 1.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import cache
from typing import Literal, Protocol

try:
    from imgproc_local.codecs.quality import _ssimulacra2 as _compiled
except ImportError:  # no compiler was there when the package was installed
    _compiled = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

Buffer = bytes | bytearray | memoryview
Backend = Literal["c", "libvips"]
BACKENDS: tuple[Backend, ...] = ("libvips",) if _compiled is None else ("c", "libvips")
"""The backends available here; the first is the default."""

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


def backend() -> Backend:
    """The default backend: the C extension, or libvips if it was not built."""
    return BACKENDS[0]


class Reference:
    """A picture that others are scored against.

    `pixels` are H×W×3 uint8 sRGB rows without padding, which must not change later. Scoring is thread-safe and releases
    the GIL. It takes about 2 KB of memory per pixel of width with the C extension; with libvips, the reference takes 48
    bytes per pixel. Sides below 8 pixels are padded to 8 by repeating the edge.
    Raises: ValueError if the size does not match the pixels, MemoryError.
    """

    def __init__(self, pixels: Buffer, width_px: int, height_px: int, *, using: Backend | None = None) -> None:
        self._shape = (width_px, height_px, 3)
        self._reference = _open_reference(pixels, self._shape, 0, using or backend())

    def score(self, pixels: Buffer) -> float:
        """The score of a picture of the same size, at most 100. Raises: ValueError, MemoryError."""
        _check(pixels, self._shape)
        return score_of(self._reference.norms(pixels))


class TransparentReference:
    """Like `Reference`, for H×W×4 uint8 rows: sRGB and alpha, not premultiplied.

    Pictures are composited over black and over white, in sRGB as in browsers, and the lower score counts. This takes
    twice the time, so use `Reference` for opaque pictures.
    """

    def __init__(self, pixels: Buffer, width_px: int, height_px: int, *, using: Backend | None = None) -> None:
        self._shape = (width_px, height_px, 4)
        self._references = [_open_reference(pixels, self._shape, grey, using or backend()) for grey in (0, 255)]

    def score(self, pixels: Buffer) -> float:
        """The score of a picture of the same size, at most 100. Raises: ValueError, MemoryError."""
        _check(pixels, self._shape)
        return min(score_of(reference.norms(pixels)) for reference in self._references)


def score_of_bands(bands: Iterable[tuple[Buffer, Buffer, int, int]]) -> float:
    """The score of a picture given in horizontal bands: (original pixels, other pixels, width, height) for each.

    Within 0.1 of the score of the whole picture if bands are hundreds of rows high. Holds one band at a time. Rows are
    H×W×3 or H×W×4 as in `Reference` and `TransparentReference`. Raises: ValueError, MemoryError.
    """
    parts_by_background: dict[int, list[tuple[int, tuple[float, ...]]]] = {}
    for pixels, other, width_px, height_px in bands:
        shape = (width_px, height_px, 4 if memoryview(pixels).nbytes == width_px * height_px * 4 else 3)
        _check(other, shape)
        for background in (0, 255) if shape[2] == 4 else (0,):
            norms = _open_reference(pixels, shape, background, backend()).norms(other)
            parts_by_background.setdefault(background, []).append((height_px, norms))
    return min(score_of(_combined_norms(parts)) for parts in parts_by_background.values())


def _combined_norms(parts: list[tuple[int, tuple[float, ...]]]) -> tuple[float, ...]:
    """The norms of the whole picture, computed from the norms of its bands, weighted by height."""
    rows = sum(height for height, _ in parts)
    together = []
    for number in range(min(len(norms) for _, norms in parts)):
        power = 4 if number // 3 % 2 else 1  # means and 4-norms alternate in threes
        mean = sum(height * norms[number] ** power for height, norms in parts) / rows
        together.append(mean ** (1 / power))
    return tuple(together)


class _BackendReference(Protocol):
    def norms(self, pixels: Buffer, /) -> tuple[float, ...]: ...


def _check(pixels: Buffer, shape: tuple[int, int, int]) -> None:
    width_px, height_px, bands = shape
    if width_px < 1 or height_px < 1:
        raise ValueError(f"expected a picture of at least 1×1 pixels, got {width_px}×{height_px}")
    expected, got = width_px * height_px * bands, memoryview(pixels).nbytes
    if got != expected:
        raise ValueError(f"expected {expected} bytes for {width_px}×{height_px} pixels of {bands} bands, got {got}")


def _open_reference(pixels: Buffer, shape: tuple[int, int, int], background: int, using: Backend) -> _BackendReference:
    _check(pixels, shape)
    if using == "libvips":
        if _compiled is None:
            _log_fallback()
        from imgproc_local.codecs.quality import ssimulacra2_vips

        return ssimulacra2_vips.Reference(pixels, *shape, background)
    if _compiled is None:
        raise ValueError('expected the backend "libvips" because the C extension was not built, got "c"')
    return _compiled.Reference(pixels, *shape, background)


@cache
def _log_fallback() -> None:
    """Log once that the C extensions are missing."""
    log.warning(
        "Scores are computed by libvips, over ten times slower: the C extensions were not compiled when imgproc-local "
        "was installed. Install a C compiler and Python's headers, then install imgproc-local again."
    )


def score_of(norms: tuple[float, ...]) -> float:
    """The score for the norms of a pair of pictures, in the order of the weights.

    A picture below 256 pixels on a side has fewer than six scales. As in the published implementation, its norms are
    multiplied by the first weights, also where those belong to other maps.
    """
    distance = 0.9562382616834844 * sum(weight * norm for weight, norm in zip(_WEIGHTS, norms, strict=False))
    distance = 2.326765642916932 * distance - 0.020884521182843837 * distance**2 + 6.248496625763138e-05 * distance**3
    return 100 - 10 * distance**0.6276336467831387 if distance > 0 else 100.0
