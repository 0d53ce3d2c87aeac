"""Encodes a picture as JPEG at the lowest quality that meets the target score.

jpegli makes the smallest files at equal score, in a tenth of mozjpeg's time. mozjpeg then optimizes the progressive
scans of these files losslessly. mozjpeg encodes what jpegli does not: grey pictures, chroma in full resolution (4:4:4),
and large pictures. If pyjpegli is not installed, the mozjpeg in libvips encodes everything.

Encoding a JPEG again harms its chroma most, which takes few of the bytes: it is stored at half the resolution, so it is
enlarged, averaged and quantised a second time. Where possible, the chroma coefficients of the original are preserved
and only luma is encoded again. At equal score this takes a tenth fewer bytes.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterator

from msgspec import Struct

from imgproc_local.codecs.container import jpeg as container
from imgproc_local.codecs.jpeg import _splice
from imgproc_local.codecs.picture.decode import evaluate
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.codecs.quality.score import Sample
from imgproc_local.codecs.quality.search import (
    LARGE_PIXELS,
    EncoderProfile,
    Limits,
    QualityScale,
    SearchResult,
    Tolerance,
    encode_to_score,
    estimate,
)
from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.plan import Effort

try:
    import pyjpegli
except ImportError:  # there are no wheels for musl
    pyjpegli = None
try:
    import mozjpeg_lossless_optimization as mozjpeg_scans
except ImportError:
    mozjpeg_scans = None

log = logging.getLogger(__name__)

SCALE = QualityScale(lowest=30, initial=88, highest=97, slope=0.9)
_DRAFT_LIMITS, _FINAL_LIMITS = Limits(Tolerance(0.35, 0.35), max_trials=6), Limits(Tolerance(0.35, 0.35), max_trials=3)
MAX_SCORED_PIXELS = 4_000_000
_SAMPLE_ONLY_MARGIN = 0.25
"""Larger pictures are scored by a sample only, which scores this much higher than the whole."""

_MAX_PREDICTED_RATIO = 1.3
"""A picture is not encoded if its sample predicts a draft of more than this many times the bytes that are allowed. The
final file is about a tenth smaller than the draft.
"""

_MAX_PRESERVED_CHROMA_RATIO = 1.05
"""At the same quality number, a JPEG with preserved chroma scores higher than one with chroma encoded again. It is used
if it takes at most this many times the bytes.
"""

_MOZJPEG = {"quant_table": 2, "trellis_quant": True, "overshoot_deringing": True, "optimize_coding": True}
"""mozjpeg's quantisation table number 2 makes the smallest files at equal score. Other programs rarely use it."""

_LUMA_WEIGHTS = [[0.299, 0.587, 0.114]]
"""The weights of red, green and blue in luma. Source: JFIF 1.02, conversion to and from RGB."""


class Original(Struct, frozen=True):
    """The JPEG that a picture was decoded from, and its EXIF orientation."""

    data: bytes
    orientation: int


class _Encoder(Struct, frozen=True):
    """jpegli or mozjpeg, with chroma in half or in full resolution (4:4:4).

    With `original`, only luma is encoded, and the chroma coefficients of the original are copied, turned upright.
    """

    check_stop: CheckStop
    is_jpegli: bool = False
    full_chroma: bool = False
    original: Original | None = None

    def draft(self, image: pyvips.Image, quality: int) -> bytes:
        """The picture encoded quickly, with chroma of its own."""
        if self.is_jpegli:
            pixels = evaluate(image, self.check_stop, "write_to_memory")
            return bytes(pyjpegli.encode(pixels, image.width, image.height, quality))
        return self._mozjpeg(image, quality)

    def encode(self, image: pyvips.Image, quality: int) -> bytes:
        """The draft with the chroma of `original`, if given. Raises: ValueError if the two can't be combined."""
        encoded = self.draft(image, quality)
        return _splice.spliced(encoded, self.original.data, self.original.orientation) if self.original else encoded

    def has_costly_chroma(self, image: pyvips.Image, result: SearchResult) -> bool:
        """Whether the preserved chroma of a result takes so many bytes that chroma encoded again is likely better."""
        if self.original is None:
            return False
        return len(result.encoded) > _MAX_PRESERVED_CHROMA_RATIO * len(self.draft(image, result.quality))

    def final(self, image: pyvips.Image, quality: int, encoded: bytes = b"") -> bytes:
        """The same picture in fewer bytes. `encoded` is the result of `encode`, which mozjpeg does not need."""
        if self.is_jpegli or self.original:
            self.check_stop()
            return with_optimized_scans(encoded)
        # optimize_scans holds the data of several candidate scan scripts in memory
        return self._mozjpeg(image, quality, optimize_scans=not _is_large(image), interlace=True)

    def _mozjpeg(self, image: pyvips.Image, quality: int, **extra: bool) -> bytes:
        mode, options = "off" if self.full_chroma else "on", _MOZJPEG | extra
        return bytes(
            evaluate(image, self.check_stop, "jpegsave_buffer", Q=quality, subsample_mode=mode, keep="none", **options)
        )

    def profile(self, sample: Sample) -> EncoderProfile:
        """How the picture of this sample is encoded and scored. The tiles of a sample can't be spliced."""

        def decode_draft(encoded: bytes) -> pyvips.Image:
            decoded = pyvips.Image.jpegload_buffer(encoded)
            if not self.original or sample.is_whole:
                return decoded
            # with preserved chroma, a change of luma changes red, green and blue by the same amount
            change = (decoded - sample.image).recomb(_LUMA_WEIGHTS)
            return (sample.image + change).rint().cast("uchar").copy(interpretation="srgb")

        encode = self.encode
        return EncoderProfile(
            encode,
            encode if sample.is_whole else self.draft,
            pyvips.Image.jpegload_buffer,
            SCALE,
            drafts_suffice=True,
            decode_draft=decode_draft,
            draft_limits=_DRAFT_LIMITS,
            final_limits=_FINAL_LIMITS,
        )


def smallest(
    image: pyvips.Image,
    sample: Sample,
    original: Original | None,
    target: float,
    max_bytes: int,
    check_stop: CheckStop,
    effort: Effort = "balanced",
) -> bytes | None:
    """The smallest JPEG of an 8-bit picture, grey or RGB; None if that takes more than `max_bytes`, or if no encoder
    meets the target.

    `original` is the JPEG that `image` was decoded from, None if its pixels were changed after decoding. A large
    picture need not be in memory. Raises: what `check_stop` raises.
    """
    by_sample = effort == "fast" or image.width * image.height > MAX_SCORED_PIXELS
    best: tuple[_Encoder, SearchResult] | None = None
    for encoder in _encoders(image, original, check_stop):
        try:
            result = _nearest(encoder, image, sample, target, max_bytes, by_sample=by_sample)
        except ValueError as error:
            log.debug("The chroma of a JPEG can't be preserved and is encoded again: %s", error)
            continue
        if result is None:
            continue
        if best is None or len(result.encoded) < len(best[1].encoded):
            best = encoder, result
        if not encoder.has_costly_chroma(image, result):
            break
    if best is None:
        return None
    encoder, result = best
    encoded = encoder.final(image, result.quality, result.encoded)
    return encoded if len(encoded) <= max_bytes else None


def _nearest(
    encoder: _Encoder, image: pyvips.Image, sample: Sample, target: float, max_bytes: int, *, by_sample: bool
) -> SearchResult | None:
    """The encoding whose score is nearest to the target; None if it is not near enough, or too large.

    With `by_sample`, only the sample is scored. Of a large picture the result has no encoding, which `final` needs not.
    """
    profile = encoder.profile(sample)
    estimated = estimate(sample, profile, target + (_SAMPLE_ONLY_MARGIN if by_sample else 0))
    on_sample = estimated.sample_result
    if not on_sample.meets(target) or len(on_sample.encoded) > _MAX_PREDICTED_RATIO * max_bytes * sample.share:
        return None
    if by_sample:
        encoded = b"" if _is_large(image) else encoder.encode(image, estimated.quality)
        return SearchResult(estimated.quality, encoded, on_sample.score)
    result = encode_to_score(image, sample.profile, profile, target, sample, estimated)
    return result if result.meets(target) else None


def finest(image: pyvips.Image, check_stop: CheckStop) -> bytes:
    """The picture at the highest quality that is used here, with chroma in full resolution."""
    return _Encoder(check_stop, full_chroma=True).final(image, SCALE.highest)


def with_optimized_scans(encoded: bytes) -> bytes:
    """The same coefficients in other scans, which take fewer bytes; unchanged where the package is not installed.

    It is only safe for what jpegli wrote or `_splice` checked: invalid coefficients make mozjpeg exit the process.
    """
    return bytes(mozjpeg_scans.optimize(encoded)) if mozjpeg_scans else encoded


def missing_packages() -> list[str]:
    """Names of the optional packages that would make files smaller but are not installed."""
    packages = {"pyjpegli": pyjpegli, "mozjpeg-lossless-optimization": mozjpeg_scans}
    return [name for name, package in packages.items() if package is None]


def was_encoded_here(data: bytes, check_stop: CheckStop) -> bool:
    """Whether a JPEG's luma was quantised with a table that this module uses.

    The steps of a table never grow with the quality. So for each encoder, a bisection with tiny pictures finds the
    quality at which they are as small as in `data`.
    """
    table, tiny = container.luma_quantization(data), pyvips.Image.black(8, 8, bands=3).copy(interpretation="srgb")
    for is_jpegli in (False, True) if pyjpegli else (False,):
        encoder = _Encoder(check_stop, is_jpegli)

        def steps(quality: int, encoder: _Encoder = encoder) -> tuple[int, ...]:
            return container.luma_quantization(encoder.draft(tiny, quality))

        qualities = range(SCALE.lowest, SCALE.highest)
        index = bisect_left(qualities, -sum(table), key=lambda quality: -sum(steps(quality)))
        if steps(SCALE.lowest + index) == table:
            return True
    return False


def _encoders(image: pyvips.Image, original: Original | None, check_stop: CheckStop) -> Iterator[_Encoder]:
    """The encoders to try in turn: the first makes the smallest files, the last reaches the highest scores."""
    is_jpegli = pyjpegli is not None and image.bands == 3 and not _is_large(image)
    if original and _has_usable_chroma(original):
        yield _Encoder(check_stop, is_jpegli, original=original)
    yield _Encoder(check_stop, is_jpegli)
    yield _Encoder(check_stop, full_chroma=True)


def _has_usable_chroma(original: Original) -> bool:
    """Whether the chroma of a JPEG is worth preserving, and can be.

    False where the package for it is not installed; where chroma is stored in full resolution, which takes too many
    bytes; and where the orientation would move a partial block at the right or lower edge to the left or upper edge, as
    for `jpegtran -perfect`.
    """
    (width_px, height_px), (across, down) = container.size(original.data), container.luma_sampling(original.data)
    if mozjpeg_scans is None or across * down <= 1:  # in a damaged header, a factor can be 0
        return False
    right_edge_moves, lower_edge_moves = original.orientation in (2, 3, 7, 8), original.orientation in (3, 4, 6, 7)
    return not (right_edge_moves and width_px % (8 * across)) and not (lower_edge_moves and height_px % (8 * down))


def _is_large(image: pyvips.Image) -> bool:
    return bool(image.width * image.height >= LARGE_PIXELS)
