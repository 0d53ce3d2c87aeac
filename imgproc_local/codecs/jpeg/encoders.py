"""Ways to write a JPEG.

jpegli makes the smallest files at equal score on most pictures, in a tenth of mozjpeg's time; its scans are put
together by mozjpeg. mozjpeg itself writes what jpegli doesn't: grey, full chroma, and pictures too large to be held in
memory. Where the packages with the two were not installed, libvips' mozjpeg does all.
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
except ImportError:  # no compiler was there when the package was installed
    _splice = None  # type: ignore[assignment]
try:
    import mozjpeg_lossless_optimization as mozjpeg_scans
except ImportError:
    mozjpeg_scans = None

LOWEST, HIGHEST = 30, 97

_MOZJPEG = {"trellis_quant": True, "overshoot_deringing": True, "optimize_coding": True, "keep": "none"}
_MS_SSIM, _KLEIN = 2, 5
"""mozjpeg's tables: the first makes the smallest files at equal score in general, the second of calm pictures. Both are
rare elsewhere, so that they tell our own files.
"""


_MIRRORED, _FLIPPED = frozenset((2, 3, 7, 8)), frozenset((3, 4, 6, 7))
"""EXIF orientations that turn the stored picture's right edge to another side, or its lower one."""


class Encoder(Struct, frozen=True):
    """`draft` writes a picture in memory quickly; `packed` gives the same in fewer bytes, of the picture or its draft.

    With `stored`, a JPEG, only the brightness of drafts counts: the colours are those of `stored`, turned upright.
    """

    draft: Callable[[pyvips.Image, int, CheckStop], bytes]
    packed: Callable[[pyvips.Image, int, bytes, CheckStop], bytes]
    stored: bytes | None = None
    orientation: int = 1

    def spliced(self, draft: bytes) -> bytes:
        """The draft of the whole picture with the colours it shall have. Raises: ValueError where that can't be."""
        return draft if self.stored is None else _splice.spliced(draft, self.stored, self.orientation)


def encoders(image: pyvips.Image, *, large: bool) -> list[Encoder]:
    """Those for a picture of 8 bits, grey or RGB, the one with the smallest files first, the one for any score last."""
    usual = Encoder(_jpegli, _scans_packed)
    if pyjpegli is None or image.bands != 3 or large:
        usual = _mozjpeg("on", large=large)
    return [usual, _mozjpeg("off", large=large)]


def with_stored_colour(encoder: Encoder, stored: bytes, orientation: int) -> Encoder | None:
    """The same for brightness, with the colours of a JPEG as they are; None where what it takes was not installed.

    Nor where they take too many bytes, being stored in full, nor where they can't be turned: where the right or lower
    edge lies within a block and would come to lie left or above.
    """
    info, (across, down) = container.read_header(stored), container.luma_sampling(stored)
    if _splice is None or mozjpeg_scans is None or across * down == 1:
        return None
    mirrored, flipped = orientation in _MIRRORED, orientation in _FLIPPED
    if (mirrored and info.width_px % (8 * across or 1)) or (flipped and info.height_px % (8 * down or 1)):
        return None
    return Encoder(encoder.draft, _scans_packed, stored, orientation)


def for_calm_pictures() -> Encoder:
    """One that makes smaller files than others where there is little to see."""
    return _mozjpeg("on", _KLEIN)


def missing() -> list[str]:
    """The parts that make files smaller and are not installed here."""
    parts = {"pyjpegli": pyjpegli, "mozjpeg-lossless-optimization": mozjpeg_scans, "the C extension": _splice}
    return [name for name, part in parts.items() if part is None]


def is_ours(data: bytes) -> bool:
    """Whether its brightness was quantised as only this module does it."""
    return container.luma_quantization(data) in our_tables()


def _jpegli(image: pyvips.Image, quality: int, check_stop: CheckStop) -> bytes:
    pixels = finish(image, check_stop, "write_to_memory")
    return bytes(pyjpegli.encode(pixels, image.width, image.height, quality))


def _scans_packed(_image: pyvips.Image, _quality: int, draft: bytes, check_stop: CheckStop) -> bytes:
    check_stop()
    # only of what jpegli wrote or the splicing has checked: on coefficients that no picture has, it ends the process
    return draft if mozjpeg_scans is None else bytes(mozjpeg_scans.optimize(draft))


def _mozjpeg(subsample_mode: str, quant_table: int = _MS_SSIM, *, large: bool = False) -> Encoder:
    def encode(image: pyvips.Image, quality: int, check_stop: CheckStop, **more: Any) -> bytes:
        options = {"Q": quality, "subsample_mode": subsample_mode, "quant_table": quant_table, **_MOZJPEG, **more}
        return bytes(finish(image, check_stop, "jpegsave_buffer", **options))

    def packed(image: pyvips.Image, quality: int, _draft: bytes, check_stop: CheckStop) -> bytes:
        # a search for the best scans holds several of them
        return encode(image, quality, check_stop, optimize_scans=not large, interlace=True)

    return Encoder(encode, packed)


@cache
def our_tables() -> frozenset[tuple[int, ...]]:
    """The luma tables written here, one for each quality and encoder."""
    tiny = pyvips.Image.black(8, 8)
    found = [
        tiny.jpegsave_buffer(Q=quality, quant_table=table, keep="none")
        for table in (_MS_SSIM, _KLEIN)
        for quality in range(LOWEST, HIGHEST + 1)
    ]
    if pyjpegli is not None:
        found += [pyjpegli.encode(bytes(192), 8, 8, quality) for quality in range(LOWEST, HIGHEST + 1)]
    return frozenset(map(container.luma_quantization, found))
