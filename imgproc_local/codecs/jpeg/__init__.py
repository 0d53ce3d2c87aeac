"""JPEG: encodes pictures again at the lowest quality that meets the target, or compresses their scans losslessly.

jpegli makes the smallest files at equal score, in a tenth of mozjpeg's time. mozjpeg then optimizes the progressive
scans of these files losslessly. mozjpeg encodes what jpegli does not: grey pictures, chroma in full resolution (4:4:4),
and large pictures. If pyjpegli is not installed, the mozjpeg in libvips encodes everything.

Encoding a JPEG again harms its chroma most, which takes few of the bytes: it is stored at half the resolution, so it is
enlarged, averaged and quantised a second time. Where possible, the chroma coefficients of the original are preserved
and only luma is encoded again. At equal score this takes a tenth fewer bytes.

Encoding again loses detail, so its result is discarded if it saves too little. A file with a quantisation table that
this service writes is not encoded again, so that optimizing a result changes nothing.

The clean copy of a file has the same picture data, and of its metadata only what may be published.
"""

from __future__ import annotations

import logging
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from msgspec import Struct, structs

from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import jpeg as container
from imgproc_local.codecs.jpeg import _splice
from imgproc_local.codecs.metadata.icc import rewritten
from imgproc_local.codecs.metadata.record import Record, blocks_for, read_record
from imgproc_local.codecs.picture.decode import (
    decode_complete,
    evaluate,
    open_upright,
    to_srgb,
    to_srgb_if_visually_lossless,
)
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.codecs.picture.source import Source
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
from imgproc_local.domain.image import Disclosure, Format, ImageInfo, KeepLocation
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

_SCALE = QualityScale(lowest=30, initial=88, highest=97, slope=0.9)
_DRAFT_LIMITS, _FINAL_LIMITS = Limits(Tolerance(0.35, 0.35), max_trials=6), Limits(Tolerance(0.35, 0.35), max_trials=3)
_MAX_SCORED_PIXELS = 4_000_000
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

_MAX_SIZE_SHARE = 0.95
"""A lossy encoding must not be larger than this share of the clean copy."""


def candidates(source: Source) -> Iterator[bytes]:
    """The clean copy, and either a lossy encoding that meets the target or the same pixels compressed losslessly.

    A lossy encoding is upright; if the pixels are copied, the orientation remains a tag. The pixels of an Ultra HDR
    picture are copied with its gain map. CMYK is converted to sRGB through its profile.
    """
    info, check_stop = source.info, source.check_stop
    gain_map = container.gain_map(source.data)
    if gain_map is not None:
        iso_segments = container.iso_gain_map_segments(source.data)
        if iso_segments or _describes_gain_map(source.record):
            yield from _with_gain_map(source, iso_segments, _cleaned_gain_map(gain_map))
            return
    clean = source.clean_copy()
    yield clean
    encoded = None
    written_here = container.components(source.data) < 4 and _was_encoded_here(clean, check_stop)
    if written_here:
        _check_complete(source.path, info, check_stop)
    else:
        max_bytes = int(_MAX_SIZE_SHARE * len(clean))
        encoded = decode_complete(source.path, info, lambda fail_on: _encoded(source, clean, max_bytes, fail_on))
    # what was encoded here is packed already: only bytes that no scan needs can make it shorter
    encoded = encoded or _repacked(clean, check_stop, is_trusted=written_here)
    if encoded is not None:
        yield encoded


def converted(source: Source) -> bytes:
    """The picture of a working copy as JPEG; where no quality meets the target, at the highest one in 4:4:4."""
    encoded = decode_complete(source.path, source.info, lambda fail_on: _encoded(source, None, sys.maxsize, fail_on))
    if encoded is not None:
        return encoded
    image, profile = _opened(source, "error")
    return _with_profile(_Encoder(source.check_stop, full_chroma=True).final(image, _SCALE.highest), source, profile)


def _encoded(source: Source, clean: bytes | None, max_bytes: int, fail_on: str) -> bytes | None:
    """The picture encoded again, None if that takes more than `max_bytes` or no quality meets the target.

    `clean` is the clean copy of a JPEG, None for a working copy.
    """
    info, check_stop = source.info, source.check_stop
    opened, profile = _opened(source, fail_on)
    image, original = evaluate(opened, check_stop, "copy_memory"), None
    if info.pixels < LARGE_PIXELS:
        in_srgb, profile = to_srgb_if_visually_lossless(image, profile)
        # chroma can be copied from the original only if its pixels were not converted
        if clean is not None and in_srgb is image and container.components(clean) == 3:
            original = _Original(clean, info.orientation)
        image = in_srgb
    sample = Sample(image, profile=profile)
    if info.pixels >= LARGE_PIXELS:  # decoded again while it is encoded, so that it is not held in memory meanwhile
        image, _ = _opened(source, fail_on)
    options = source.options
    encoded = _smallest(image, sample, original, options.target, max_bytes, check_stop, options.effort)
    if encoded is None:
        return None
    encoded = _with_profile(encoded, source, profile)
    return encoded if len(encoded) <= max_bytes else None


def _opened(source: Source, fail_on: str) -> tuple[pyvips.Image, bytes | None]:
    image = open_upright(source.path, source.info, fail_on=fail_on)
    return (to_srgb(image), None) if image.interpretation == "cmyk" else (image, source.record.icc)


def _with_profile(encoded: bytes, source: Source, profile: bytes | None) -> bytes:
    return container.with_blocks(encoded, structs.replace(source.blocks_for(Format.JPEG), icc=profile))


def _repacked(clean: bytes, check_stop: CheckStop, *, is_trusted: bool = False) -> bytes | None:
    """The same pixels without unused tables and bytes after a scan's last block; None if that is not shorter.

    mozjpeg exits the process on invalid coefficients, which decoders accept, so it only gets what `_splice` checked.
    `is_trusted` is for files that were encoded here: `_splice` refuses the grey and the very detailed ones.
    """
    try:
        checked = _splice.spliced(clean, clean)
    except ValueError as error:
        log.debug("The scans of a JPEG can't be recompressed: %s", error)
        if not is_trusted:
            return None
        checked = clean
    check_stop()
    # in the order of a clean copy, optimizing the result again changes nothing
    packed = container.with_blocks(_with_optimized_scans(checked), container.read_blocks(clean))
    return packed if len(packed) < len(clean) and _same_pixels(clean, packed, check_stop) else None


def _same_pixels(one: bytes, other: bytes, check_stop: CheckStop) -> bool:
    before, after = (pyvips.Image.jpegload_buffer(each, access="sequential") for each in (one, other))
    return bool(evaluate(before != after, check_stop, "max") == 0)


def _check_complete(path: Path, info: ImageInfo, check_stop: CheckStop) -> None:
    """Decode the whole picture, so that an incomplete one is refused even if its data is only copied."""
    unrotated = structs.replace(info, orientation=1)
    shrink = 8 if min(info.width_px, info.height_px) >= 8 else 1
    decode_complete(
        path,
        info,
        lambda fail_on: evaluate(open_upright(path, unrotated, shrink=shrink, fail_on=fail_on), check_stop, "avg"),
    )


def _with_gain_map(source: Source, iso_segments: bytes, gain_map: bytes) -> Iterator[bytes]:
    """The clean copy of an Ultra HDR picture, and the same file with its scans compressed better."""
    blocks = blocks_for(source.record, Format.JPEG, orientation=source.info.orientation, gain_map_bytes=len(gain_map))
    clean = container.with_blocks(source.data, blocks)
    _check_complete(source.path, source.info, source.check_stop)
    for picture in (clean, _repacked(clean, source.check_stop)):
        if picture is not None:
            yield container.with_blocks_and_gain_map(picture, blocks, iso_segments, gain_map)


def _describes_gain_map(record: Record) -> bool:
    """Whether the XMP still describes a gain map after cleaning, which removes XMP that can't be parsed."""
    packet = blocks_for(record, Format.JPEG, gain_map_bytes=0).xmp or b""
    return any(name in packet for name in container.GAIN_MAP_IDENTIFIERS)


def _cleaned_gain_map(gain_map: bytes) -> bytes:
    """The gain map with only its colour profile and the metadata that says how to apply it."""
    blocks = container.read_blocks(gain_map)
    described = blocks_for(read_record(blocks, Disclosure(KeepLocation.NONE)), Format.JPEG, gain_map_bytes=0)
    clean = container.with_blocks(gain_map, Blocks(xmp=described.xmp, icc=rewritten(blocks.icc)))
    return clean[:2] + container.iso_gain_map_segments(gain_map) + clean[2:]


# ---- the encoders


class _Original(Struct, frozen=True):
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
    original: _Original | None = None

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
            return _with_optimized_scans(encoded)
        # optimize_scans holds the data of several candidate scan scripts in memory
        return self._mozjpeg(image, quality, optimize_scans=not _is_large(image), interlace=True)

    def _mozjpeg(self, image: pyvips.Image, quality: int, **extra: int) -> bytes:
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

        return EncoderProfile(
            self.encode,
            None if sample.is_whole else self.draft,
            pyvips.Image.jpegload_buffer,
            _SCALE,
            decode_draft=decode_draft,
            draft_limits=_DRAFT_LIMITS,
            final_limits=_FINAL_LIMITS,
        )


def _smallest(
    image: pyvips.Image,
    sample: Sample,
    original: _Original | None,
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
    is_large = image.width * image.height > _MAX_SCORED_PIXELS
    by_sample = not sample.is_whole and (effort == "fast" or is_large)
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


def _with_optimized_scans(encoded: bytes) -> bytes:
    """The same coefficients in other scans, which take fewer bytes; unchanged where the package is not installed.

    It is only safe for what jpegli wrote or `_splice` checked: invalid coefficients make mozjpeg exit the process.
    """
    return bytes(mozjpeg_scans.optimize(encoded)) if mozjpeg_scans else encoded


def missing_packages() -> list[str]:
    """Names of the optional packages that would make files smaller but are not installed."""
    packages = {"pyjpegli": pyjpegli, "mozjpeg-lossless-optimization": mozjpeg_scans}
    return [name for name, package in packages.items() if package is None]


def _was_encoded_here(data: bytes, check_stop: CheckStop) -> bool:
    """Whether a JPEG's luma was quantised with a table that this module uses.

    The steps of a table never grow with the quality. So for each encoder, a bisection with tiny pictures finds the
    quality at which they are as small as in `data`.
    """
    table, tiny = container.luma_quantization(data), pyvips.Image.black(8, 8, bands=3).copy(interpretation="srgb")
    mozjpeg = _Encoder(check_stop)
    # version 0.1.0 encoded pictures of little detail with mozjpeg's table 5
    drafts: list[Callable[[pyvips.Image, int], bytes]] = [mozjpeg.draft, partial(mozjpeg._mozjpeg, quant_table=5)]
    for draft in [*drafts, _Encoder(check_stop, is_jpegli=True).draft] if pyjpegli else drafts:

        def steps(quality: int, draft: Callable[[pyvips.Image, int], bytes] = draft) -> tuple[int, ...]:
            return container.luma_quantization(draft(tiny, quality))

        qualities = range(_SCALE.lowest, _SCALE.highest)
        index = bisect_left(qualities, -sum(table), key=lambda quality: -sum(steps(quality)))
        if steps(_SCALE.lowest + index) == table:
            return True
    return False


def _encoders(image: pyvips.Image, original: _Original | None, check_stop: CheckStop) -> Iterator[_Encoder]:
    """The encoders to try in turn: the first makes the smallest files, the last reaches the highest scores."""
    is_jpegli = pyjpegli is not None and image.bands == 3 and not _is_large(image)
    if original and _has_usable_chroma(original):
        yield _Encoder(check_stop, is_jpegli, original=original)
    yield _Encoder(check_stop, is_jpegli)
    yield _Encoder(check_stop, full_chroma=True)


def _has_usable_chroma(original: _Original) -> bool:
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
