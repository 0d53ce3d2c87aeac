"""The JPEG encoders: jpegli and mozjpeg.

On most pictures jpegli makes the smallest files at equal score, in a tenth of mozjpeg's time. mozjpeg then optimizes
the progressive scans of these files losslessly. mozjpeg encodes what jpegli does not: grey pictures, chroma in full
resolution (4:4:4), and pictures too large to be held in memory. If pyjpegli is not installed, the mozjpeg in libvips
encodes everything.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct

from imgproc_local.codecs.container import jpeg as container
from imgproc_local.codecs.jpeg import _splice
from imgproc_local.codecs.picture.decode import evaluate
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.domain.errors import CheckStop

try:
    import pyjpegli
except ImportError:  # there are no wheels for musl
    pyjpegli = None
try:
    import mozjpeg_lossless_optimization as mozjpeg_scans
except ImportError:
    mozjpeg_scans = None

LOWEST_QUALITY, HIGHEST_QUALITY = 30, 97
"""The range of the encoders' quality settings that is searched."""

_MOZJPEG = {"trellis_quant": True, "overshoot_deringing": True, "optimize_coding": True, "keep": "none"}
_MS_SSIM, _KLEIN = 2, 5
"""Indices of mozjpeg's quantisation tables. The first makes the smallest files at equal score in general, the second
for pictures with little detail. Other programs rarely use these tables, so they identify files written here.
"""

_RIGHT_EDGE_MOVES, _LOWER_EDGE_MOVES = frozenset((2, 3, 7, 8)), frozenset((3, 4, 6, 7))
"""The EXIF orientations that move the right edge of the stored picture to the left or upper edge of the upright one,
and those that do so with its lower edge.
"""


class Original(Struct, frozen=True):
    """The JPEG that a picture was decoded from, and its EXIF orientation."""

    data: bytes
    orientation: int


class Encoder(Struct, frozen=True):
    """`draft` quickly encodes a picture in memory; `final` returns a smaller file of the same quality setting.

    Both take the picture and its quality setting. `final` also takes the draft: jpegli's files have the coefficients of
    the draft, while mozjpeg ignores the draft and encodes the picture again.

    With `original`, only the luma of a draft is used: `spliced` replaces its chroma coefficients with those of the
    original, turned upright.
    """

    draft: Callable[[pyvips.Image, int, CheckStop], bytes]
    final: Callable[[pyvips.Image, int, bytes, CheckStop], bytes]
    original: Original | None = None

    def spliced(self, draft: bytes) -> bytes:
        """The draft, with the chroma of `original` if given. Raises: ValueError if the two JPEGs are incompatible."""
        if self.original is None:
            return draft
        return _splice.spliced(draft, self.original.data, self.original.orientation)


def encoders(image: pyvips.Image, *, large: bool) -> list[Encoder]:
    """The encoders for an 8-bit picture, grey or RGB; with `large`, for one that is not held in memory.

    The first makes the smallest files; the last stores chroma in full resolution (4:4:4) for the highest scores.
    """
    default = Encoder(_jpegli, _with_optimized_scans)
    if pyjpegli is None or image.bands != 3 or large:
        default = _mozjpeg("on", large=large)
    return [default, _mozjpeg("off", large=large)]


def with_chroma_of(original: Original, encoder: Encoder) -> Encoder | None:
    """An encoder that encodes only luma, like `encoder`, and copies the chroma coefficients of `original`.

    None where the packages for it are not installed; where chroma is stored in full resolution (4:4:4), which takes too
    many bytes; and where the orientation would move a partial block at the right or lower edge to the left or upper
    edge, as for `jpegtran -perfect`.
    """
    (width_px, height_px), (across, down) = container.size(original.data), container.luma_sampling(original.data)
    if mozjpeg_scans is None or across * down == 1:
        return None
    right_moves, lower_moves = (original.orientation in each for each in (_RIGHT_EDGE_MOVES, _LOWER_EDGE_MOVES))
    # a damaged header can have a sampling factor of 0, which `_splice` refuses
    if (right_moves and width_px % (8 * across or 1)) or (lower_moves and height_px % (8 * down or 1)):
        return None
    return Encoder(encoder.draft, _with_optimized_scans, original)


def low_detail_encoder() -> Encoder:
    """The encoder that makes the smallest files of pictures with little detail."""
    return _mozjpeg("on", _KLEIN)


def missing_packages() -> list[str]:
    """Names of the optional packages that would make files smaller but are not installed."""
    packages = {"pyjpegli": pyjpegli, "mozjpeg-lossless-optimization": mozjpeg_scans}
    return [name for name, package in packages.items() if package is None]


def was_encoded_here(data: bytes) -> bool:
    """Whether a JPEG's luma was quantised with a table that this module uses.

    The steps of a table never grow with the quality. So for each encoder, a bisection with tiny pictures finds the
    quality at which they are as small as in `data`.
    """
    table = container.luma_quantization(data)
    qualities = range(LOWEST_QUALITY, HIGHEST_QUALITY + 1)
    for tables in _luma_tables():
        index = bisect_left(qualities, -sum(table), key=lambda quality: -sum(tables(quality)))
        if index < len(qualities) and tables(qualities[index]) == table:
            return True
    return False


def _jpegli(image: pyvips.Image, quality: int, check_stop: CheckStop) -> bytes:
    pixels = evaluate(image, check_stop, "write_to_memory")
    return bytes(pyjpegli.encode(pixels, image.width, image.height, quality))


def _with_optimized_scans(_image: pyvips.Image, _quality: int, draft: bytes, check_stop: CheckStop) -> bytes:
    check_stop()
    # safe only for files written by jpegli or checked by `_splice`: invalid coefficients make mozjpeg exit the process
    return draft if mozjpeg_scans is None else bytes(mozjpeg_scans.optimize(draft))


def _mozjpeg(subsample_mode: str, quant_table: int = _MS_SSIM, *, large: bool = False) -> Encoder:
    def encode(image: pyvips.Image, quality: int, check_stop: CheckStop, **extra: Any) -> bytes:
        options = {"Q": quality, "subsample_mode": subsample_mode, "quant_table": quant_table, **_MOZJPEG, **extra}
        return bytes(evaluate(image, check_stop, "jpegsave_buffer", **options))

    def final(image: pyvips.Image, quality: int, _draft: bytes, check_stop: CheckStop) -> bytes:
        # optimize_scans holds the data of several candidate scan scripts in memory
        return encode(image, quality, check_stop, optimize_scans=not large, interlace=True)

    return Encoder(encode, final)


def _luma_tables() -> list[Callable[[int], tuple[int, ...]]]:
    """For each encoder here, the function from a quality to its luma quantisation table."""
    tiny = pyvips.Image.black(8, 8)

    def mozjpeg(quality: int, quant_table: int) -> tuple[int, ...]:
        return container.luma_quantization(tiny.jpegsave_buffer(Q=quality, quant_table=quant_table, keep="none"))

    def jpegli(quality: int) -> tuple[int, ...]:
        return container.luma_quantization(pyjpegli.encode(bytes(192), 8, 8, quality))

    return [partial(mozjpeg, quant_table=table) for table in (_MS_SSIM, _KLEIN)] + ([jpegli] if pyjpegli else [])
