"""The JPEG encoders: jpegli and mozjpeg.

On most pictures jpegli makes the smallest files at equal score, in a tenth of mozjpeg's time; mozjpeg's lossless
optimiser then arranges its scans. mozjpeg itself encodes what jpegli does not: grey, chroma in full resolution, and
pictures too large to be held in memory. Where the packages of these two are not installed, the mozjpeg inside libvips
encodes everything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from msgspec import Struct

from imgproc_local.codecs.container import jpeg as container
from imgproc_local.codecs.decode import CheckStop, finish
from imgproc_local.codecs.libvips import pyvips

try:
    import pyjpegli
except ImportError:  # there are no wheels for musl
    pyjpegli = None
try:
    from imgproc_local.codecs.jpeg import _splice
except ImportError:  # the package was installed without a compiler
    _splice = None  # type: ignore[assignment]
try:
    import mozjpeg_lossless_optimization as mozjpeg_scans
except ImportError:
    mozjpeg_scans = None

LOWEST, HIGHEST = 30, 97

_MOZJPEG = {"trellis_quant": True, "overshoot_deringing": True, "optimize_coding": True, "keep": "none"}
_MS_SSIM, _KLEIN = 2, 5
"""Numbers of mozjpeg's quantisation tables: the first makes the smallest files at equal score in general, the second
for pictures with little detail. Other programs rarely use them, so that files written here can be recognised.
"""

_MIRRORED, _FLIPPED = frozenset((2, 3, 7, 8)), frozenset((3, 4, 6, 7))
"""EXIF orientations that move the stored picture's right edge, or its lower edge, to the left or to the top."""


class Encoder(Struct, frozen=True):
    """`draft` encodes a picture in memory quickly; `packed` stores the same coefficients in fewer bytes.

    With `stored`, a JPEG, only the luma of a draft is used; the chroma coefficients are those of `stored`, turned
    upright by its EXIF orientation.
    """

    draft: Callable[[pyvips.Image, int, CheckStop], bytes]
    packed: Callable[[pyvips.Image, int, bytes, CheckStop], bytes]
    stored: bytes | None = None
    orientation: int = 1

    def spliced(self, draft: bytes) -> bytes:
        """The draft with the chroma of `stored`. Raises: ValueError where the two do not fit each other."""
        return draft if self.stored is None else _splice.spliced(draft, self.stored, self.orientation)


def encoders(image: pyvips.Image, *, large: bool) -> list[Encoder]:
    """The encoders for an 8-bit picture, grey or RGB: first the one with the smallest files, last the one that reaches
    any score, with chroma in full resolution.
    """
    usual = Encoder(_jpegli, _scans_packed)
    if pyjpegli is None or image.bands != 3 or large:
        usual = _mozjpeg("on", large=large)
    return [usual, _mozjpeg("off", large=large)]


def with_stored_chroma(encoder: Encoder, stored: bytes, orientation: int) -> Encoder | None:
    """The encoder for luma alone, with the chroma coefficients of a JPEG.

    None where the packages for it are not installed; where chroma is stored in full resolution, which takes too many
    bytes; and where turning upright would move a block that the right or lower edge cuts to the left or to the top.
    """
    info, (across, down) = container.read_header(stored), container.luma_sampling(stored)
    if _splice is None or mozjpeg_scans is None or across * down == 1:
        return None
    mirrored, flipped = orientation in _MIRRORED, orientation in _FLIPPED
    if (mirrored and info.width_px % (8 * across or 1)) or (flipped and info.height_px % (8 * down or 1)):
        return None
    return Encoder(encoder.draft, _scans_packed, stored, orientation)


def for_flat_pictures() -> Encoder:
    """The encoder that makes the smallest files of pictures with little detail."""
    return _mozjpeg("on", _KLEIN)


def missing() -> list[str]:
    """Names of optional parts that make files smaller and are not installed."""
    parts = {"pyjpegli": pyjpegli, "mozjpeg-lossless-optimization": mozjpeg_scans, "the C extension": _splice}
    return [name for name, part in parts.items() if part is None]


def is_ours(data: bytes) -> bool:
    """Whether a JPEG's luma was quantised with a table that this module uses."""
    return container.luma_quantization(data) in our_tables()


def _jpegli(image: pyvips.Image, quality: int, check_stop: CheckStop) -> bytes:
    pixels = finish(image, check_stop, "write_to_memory")
    return bytes(pyjpegli.encode(pixels, image.width, image.height, quality))


def _scans_packed(_image: pyvips.Image, _quality: int, draft: bytes, check_stop: CheckStop) -> bytes:
    check_stop()
    # only for files from jpegli or checked by the splicing: invalid coefficients make mozjpeg end the process
    return draft if mozjpeg_scans is None else bytes(mozjpeg_scans.optimize(draft))


def _mozjpeg(subsample_mode: str, quant_table: int = _MS_SSIM, *, large: bool = False) -> Encoder:
    def encode(image: pyvips.Image, quality: int, check_stop: CheckStop, **more: Any) -> bytes:
        options = {"Q": quality, "subsample_mode": subsample_mode, "quant_table": quant_table, **_MOZJPEG, **more}
        return bytes(finish(image, check_stop, "jpegsave_buffer", **options))

    def packed(image: pyvips.Image, quality: int, _draft: bytes, check_stop: CheckStop) -> bytes:
        # the search for the best scans holds several sets of them in memory
        return encode(image, quality, check_stop, optimize_scans=not large, interlace=True)

    return Encoder(encode, packed)


@cache
def our_tables() -> frozenset[tuple[int, ...]]:
    """The luma quantisation tables of every quality and encoder here."""
    tiny = pyvips.Image.black(8, 8)
    files = [
        tiny.jpegsave_buffer(Q=quality, quant_table=table, keep="none")
        for table in (_MS_SSIM, _KLEIN)
        for quality in range(LOWEST, HIGHEST + 1)
    ]
    if pyjpegli is not None:
        files += [pyjpegli.encode(bytes(192), 8, 8, quality) for quality in range(LOWEST, HIGHEST + 1)]
    return frozenset(map(container.luma_quantization, files))
