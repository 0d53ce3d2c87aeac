"""The alpha of an AVIF, encoded separately from its colours at a quality of its own.

Errors in alpha show as fringes around every cut-out shape, also where colours of the same quality look right. So alpha
is bounded by its worst error, and stored without loss where that adds little to the file.
"""

from __future__ import annotations

import io
from bisect import bisect_left
from typing import Any

from msgspec import Struct
from PIL import Image

from imgproc_local.codecs.container.avif_writer import CodedPicture, picture_of
from imgproc_local.codecs.picture.decode import evaluate
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.domain.errors import CheckStop

MAX_ERROR = 16
"""The largest error of any pixel's alpha, of 255."""

MAX_LOSSLESS_SHARE = 0.02
"""Lossless alpha is preferred where it makes the file larger by less than this share."""

QUALITIES = (54, 62, 70, 82, 84, 86, 88, 90, 92, 95)
"""libvips' Q. At the lowest the mean error of soft alpha is below 1; at the highest the worst error of all pictures
measured, noise included, was 6.
"""

FIRST_QUALITY = QUALITIES.index(82)
SMALL_SHARE, SMALL_BYTES = 0.05, 1_000
"""If alpha at `FIRST_QUALITY` takes less than `SMALL_SHARE` of the colours' bytes, or less than `SMALL_BYTES`, no lower
quality is tried.
"""

EFFORT, LOSSLESS_EFFORT, DRAFT_EFFORT = 3, 1, 0
"""Lossless with effort 3 takes three times the CPU time of 1 and saves 2 to 9 % of the alpha's bytes."""


class _Encodings(Struct):
    """What has been encoded of one picture's alpha."""

    picture: pyvips.Image
    draft: CodedPicture | None = None
    lossless: CodedPicture | None = None
    lossy: CodedPicture | None = None
    is_searched: bool = False


class AlphaEncoder:
    """Encodes alpha, that of each picture once, however many qualities a search tries for its colours."""

    def __init__(self, check_stop: CheckStop) -> None:
        self._check_stop = check_stop
        self._encodings: dict[int, _Encodings] = {}
        self._lowest: int | None = None
        """Index of the lowest quality within `MAX_ERROR` for the first picture: a sample, where there is one."""

    def use_stored(self, picture: pyvips.Image, stored: CodedPicture) -> None:
        """Makes `draft` and `encode` return `stored`, which has 8 bits, for a picture. Its colours need 8 bits too."""
        self._encodings[id(picture)] = _Encodings(picture, draft=stored, lossless=stored, is_searched=True)

    def draft(self, picture: pyvips.Image) -> CodedPicture:
        """The alpha of a picture in memory without loss, in 8 bits and in the shortest time."""
        known = self._known(picture)
        if known.draft is None:
            known.draft = self._coded(picture, bitdepth=8, lossless=True, effort=DRAFT_EFFORT)
        return known.draft

    def encode(self, picture: pyvips.Image, bit_depth: int, colour_bytes: int) -> CodedPicture:
        """The alpha of a picture in memory with at most `MAX_ERROR`, for a file whose colours take `colour_bytes`.

        `bit_depth` is that of the colours, as libavif requires, and the same for all calls with one picture.
        """
        known = self._known(picture)
        if known.lossless is None:
            known.lossless = self._coded(picture, bitdepth=bit_depth, lossless=True, effort=LOSSLESS_EFFORT)
        lossless_bytes = len(known.lossless.data)
        if lossless_bytes < MAX_LOSSLESS_SHARE * colour_bytes:
            return known.lossless
        if not known.is_searched:
            known.lossy, known.is_searched = self._lossy(picture, bit_depth, colour_bytes), True
        if known.lossy is None:
            return known.lossless
        lossy_bytes = len(known.lossy.data)
        is_cheap = lossless_bytes - lossy_bytes < MAX_LOSSLESS_SHARE * (colour_bytes + lossy_bytes)
        return known.lossless if is_cheap else known.lossy

    def _known(self, picture: pyvips.Image) -> _Encodings:
        # holding the picture keeps its id from being given to another
        return self._encodings.setdefault(id(picture), _Encodings(picture))

    def _lossy(self, picture: pyvips.Image, bit_depth: int, colour_bytes: int) -> CodedPicture | None:
        """The smallest encoding within `MAX_ERROR`, None where no quality reaches that.

        After the first picture, qualities below that of its result are not tried.
        """
        alpha = _in_eight_bits(picture[picture.bands - 1]).copy_memory()
        within_bound: dict[int, CodedPicture] = {}

        def is_within_bound(index: int) -> bool:
            encoded = self._avif(picture, bitdepth=bit_depth, Q=QUALITIES[index], effort=EFFORT)
            if worst_error(encoded, alpha) > MAX_ERROR:
                return False
            within_bound[index] = picture_of(encoded, alpha=True)
            return True

        first = FIRST_QUALITY if self._lowest is None else self._lowest
        candidates = range(first + 1, len(QUALITIES))
        if is_within_bound(first):
            small_bytes = max(SMALL_BYTES, SMALL_SHARE * colour_bytes)
            is_small = len(within_bound[first].data) < small_bytes
            candidates = range(0 if self._lowest is not None or is_small else first)
        # finds the lowest quality; what it tries is added to `within_bound`
        bisect_left(candidates, True, key=is_within_bound)
        if not within_bound:
            return None
        lowest = min(within_bound)
        self._lowest = lowest if self._lowest is None else self._lowest
        return within_bound[lowest]

    def _coded(self, picture: pyvips.Image, **options: Any) -> CodedPicture:
        return picture_of(self._avif(picture, **options), alpha=True)

    def _avif(self, picture: pyvips.Image, **options: Any) -> bytes:
        """An AVIF of a black picture with this alpha. Given the alpha as grey, libvips would store three channels."""
        alpha = picture[picture.bands - 1]
        if alpha.format == "uchar" and options["bitdepth"] > 8:
            alpha = (alpha * 257).cast("ushort")
        black = pyvips.Image.black(alpha.width, alpha.height, bands=3).cast(alpha.format)
        masked = black.bandjoin(alpha).copy(interpretation="rgb16" if alpha.format == "ushort" else "srgb")
        options |= {"compression": "av1", "subsample_mode": "on", "keep": "none"}
        return bytes(evaluate(masked, self._check_stop, "heifsave_buffer", **options))


def worst_error(encoded: bytes, alpha: pyvips.Image) -> int:
    """The largest difference between 8-bit alpha and that of an encoded AVIF as browsers decode it."""
    with Image.open(io.BytesIO(encoded)) as shown:
        rows = shown.convert("RGBA").getchannel("A").tobytes()
    decoded = pyvips.Image.new_from_memory(rows, alpha.width, alpha.height, 1, "uchar")
    return int((decoded - alpha).abs().max())


def _in_eight_bits(alpha: pyvips.Image) -> pyvips.Image:
    return alpha if alpha.format == "uchar" else (alpha / 257).rint().cast("uchar")
