"""JPEG: quantises pictures again at the lowest quality that meets the target, or compresses their scans losslessly.

The coefficients of a JPEG are quantised again by `_requantize`, without rounding them to pixels. The steps are those of
jpegli, which make the smallest files at equal score. mozjpeg then optimizes the progressive scans losslessly. Chroma in
half the resolution is copied, because it suffers most and takes few bytes; where its steps are fine, other steps are
tried. Other pictures are quantised from a JPEG of the highest quality. mozjpeg encodes grey and large pictures, and all
if the package that optimizes scans is not installed.

Encoding again loses detail, so its result is discarded if it saves too little. A file with a quantisation table that
this service writes is not encoded again, so that optimizing a result changes nothing.

The clean copy of a file has the same picture data, and of its metadata only what may be published. This is one file,
because encoders, candidates and the search among them are read together.
"""

from __future__ import annotations

import logging
import sys
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache, partial

from msgspec import Struct, structs

from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import jpeg as container
from imgproc_local.codecs.jpeg import _requantize
from imgproc_local.codecs.metadata.icc import rewritten
from imgproc_local.codecs.metadata.record import blocks_for, read_record
from imgproc_local.codecs.picture import decode
from imgproc_local.codecs.picture.libvips import pyvips, upright
from imgproc_local.codecs.picture.source import Source, score_of, with_score
from imgproc_local.codecs.quality import search
from imgproc_local.codecs.quality.score import TILES, WHOLE, Sample, score
from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.image import Disclosure, Format, KeepLocation
from imgproc_local.domain.result import Note

try:
    import pyjpegli
except ImportError:  # there are no wheels for musl
    pyjpegli = None
try:
    import mozjpeg_lossless_optimization as mozjpeg_scans
except ImportError:
    mozjpeg_scans = None

log = logging.getLogger(__name__)

_SCALE = search.QualityScale(lowest=30, initial=90, highest=97, slope=0.9)
_COPIED_CHROMA_SCALE = structs.replace(_SCALE, initial=82, slope=0.6)
_LIMITS = search.Limits(search.Tolerance(0.35, 0.35), max_trials=6)
_MAX_SCORED_PIXELS = 4_000_000
_SAMPLE_MARGIN = 0.25
"""Larger pictures are searched on a sample, which scores this much higher than the whole."""

_WHOLE_LIMITS = search.Limits(search.Tolerance(1.25, 2.5), max_trials=3)
"""Then the whole picture is scored. On one of 17, it scored three points lower than the sample."""

_GROWTH_PER_POINT = 0.085
"""One point of the score takes about this share of the bytes where chroma is not copied."""

_MAX_COPIED_CHROMA_RATIO = 1.5
"""At the same quality number, a JPEG with copied chroma scores five points higher than one with other chroma steps. If
it takes more than this many times the bytes, other ways to encode chroma are tried.
"""

_FULL_CHROMA_FACTOR = 1.5
"""jpegli's chroma steps are for half the resolution. In full resolution, steps this much larger make smaller files."""

_MOZJPEG = {"quant_table": 2, "trellis_quant": True, "overshoot_deringing": True, "optimize_coding": True}
"""mozjpeg's quantisation table number 2 makes the smallest files at equal score. Other programs rarely use it."""

_LUMA_WEIGHTS = [[0.299, 0.587, 0.114]]
"""The weights of red, green and blue in luma. Source: JFIF 1.02, conversion to and from RGB."""

_GAIN_MAP_QUALITY = 90

_MAX_SIZE_SHARE = 0.95
"""A lossy encoding must not be larger than this share of the clean copy, and of the same pixels compressed better."""

_MUCH_SMALLER_SHARE = 0.7
"""A lossy encoding of at most this share of the clean copy is not compared with the same pixels compressed better."""


def candidates(source: Source) -> Iterator[bytes]:
    """The clean copy, and either a lossy encoding that meets the target or the same pixels compressed losslessly.

    A lossy encoding is upright; if the pixels are copied, the orientation remains a tag. An Ultra HDR picture keeps its
    gain map. CMYK is converted to sRGB through its profile.
    """
    info, check_stop = source.info, source.check_stop
    clean, gain_map = source.clean_copy(), cleaned_gain_map(source)
    yield with_gain_map(source, clean, gain_map, info.orientation)
    encoded = None
    written_here = container.components(source.data) < 4 and _was_encoded_here(clean)
    if written_here:
        _check_complete(source)
    else:
        max_bytes = int(_MAX_SIZE_SHARE * len(clean))
        encoded = decode.decode_complete(source.path, info, partial(_encoded, source, clean, max_bytes))
    orientation = 1
    if encoded is None or len(encoded) > _MUCH_SMALLER_SHARE * len(clean):
        # what was encoded here is packed already: only bytes that no scan needs can make it shorter
        packed = _repacked(clean, check_stop, is_trusted=written_here)
        if packed is not None and (encoded is None or len(encoded) > _MAX_SIZE_SHARE * len(packed)):
            encoded, orientation = packed, info.orientation
    if encoded is not None:
        yield with_gain_map(source, encoded, gain_map, orientation)


def converted(source: Source) -> bytes:
    """The picture of a working copy as JPEG; where no quality meets the target, at the highest one in 4:4:4."""
    encoded = decode.decode_complete(source.path, source.info, partial(_encoded, source, None, sys.maxsize))
    if encoded is not None:
        return encoded
    image, profile = _opened(source, "error")
    encoded = _Mozjpeg(image, source.check_stop, full_chroma=True).encode(_SCALE.highest, interlace=True)
    return source.finished(encoded, Format.JPEG, profile)


def _encoded(source: Source, clean: bytes | None, max_bytes: int, fail_on: str) -> bytes | None:
    """The picture encoded again, None if that takes more than `max_bytes` or no quality meets the target.

    `clean` is the clean copy of a JPEG, None for a working copy.
    """
    info, check_stop = source.info, source.check_stop
    opened, profile = _opened(source, fail_on)
    image, original = decode.evaluate(opened, check_stop, "copy_memory"), None
    if info.pixels < search.LARGE_PIXELS:
        in_srgb, profile = decode.to_srgb_if_visually_lossless(image, profile)
        # chroma can be copied from the original only if its pixels were not converted
        if clean is not None and in_srgb is image and container.components(clean) == 3:
            original = _Requantizer(clean, check_stop, info.orientation)
        image = in_srgb
    by_sample = source.options.effort == "fast" or image.width * image.height > _MAX_SCORED_PIXELS
    sample = Sample(image, TILES if by_sample else WHOLE, profile)
    if info.pixels >= search.LARGE_PIXELS:
        # decoded again while it is encoded, so that it is not held in memory meanwhile
        image, _ = _opened(source, fail_on)
    encoded = _smallest(image, sample, original, source, max_bytes)
    if encoded is None:
        return None
    encoded = source.finished(encoded, Format.JPEG, profile)
    return encoded if len(encoded) <= max_bytes else None


def _opened(source: Source, fail_on: str) -> tuple[pyvips.Image, bytes | None]:
    image = decode.open_upright(source.path, source.info, fail_on=fail_on)
    return (decode.to_srgb(image), None) if image.interpretation == "cmyk" else (image, source.record.icc)


def _repacked(clean: bytes, check_stop: CheckStop, *, is_trusted: bool = False) -> bytes | None:
    """The same pixels without unused tables and bytes after a scan's last block; None if that is not shorter.

    mozjpeg exits the process on invalid coefficients, which decoders accept: it only gets what `_requantize` checked.
    `is_trusted` is for files that were encoded here: `_requantize` refuses the grey and the very detailed ones.
    """
    try:
        checked = _requantize.requantized(clean)
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
    return bool(decode.evaluate(before != after, check_stop, "max") == 0)


def _check_complete(source: Source) -> None:
    """Decode the whole picture, so that an incomplete one is refused even if its data is only copied."""
    unrotated = structs.replace(source.info, orientation=1)
    shrink = 8 if min(unrotated.width_px, unrotated.height_px) >= 8 else 1

    def check(fail_on: str) -> None:
        image = decode.open_upright(source.path, unrotated, shrink=shrink, fail_on=fail_on)
        decode.evaluate(image, source.check_stop, "avg")

    decode.decode_complete(source.path, source.info, check)


def cleaned_gain_map(source: Source) -> bytes | None:
    """The gain map of an Ultra HDR picture with its colour profile and the metadata that says how to apply it, and no
    other. None if `source` is no such picture.
    """
    found = container.gain_map(source.data) if source.info.has_gain_map else None
    if found is None:
        return None
    blocks = container.read_blocks(found)
    described = blocks_for(read_record(blocks, Disclosure(KeepLocation.NONE)), Format.JPEG, gain_map_bytes=0)
    return _described(found, Blocks(xmp=described.xmp, icc=rewritten(blocks.icc)), found)


def _described(pixels: bytes, blocks: Blocks, gain_map: bytes) -> bytes:
    """The JPEG `pixels` with these blocks, and with what `gain_map` says of itself as in ISO 21496-1."""
    clean = container.with_blocks(pixels, blocks)
    return clean[:2] + container.iso_gain_map_segments(gain_map) + clean[2:]


def with_gain_map(
    source: Source, encoded: bytes, gain_map: bytes | None, orientation: int = 1, factor: float = 1.0
) -> bytes:
    """`encoded`, the picture of `source` stored with this orientation and scaled by `factor`, with its gain map.

    That is turned and scaled as the picture is. Without one, or if it can't be decoded, the same bytes.
    """
    if gain_map is None:
        return encoded
    if orientation != source.info.orientation or factor < 1:
        try:
            gain_map = _turned_and_scaled(gain_map, source.info.orientation, factor, source.check_stop)
        except pyvips.Error:
            source.notes.add(Note.GAIN_MAP_DROPPED)
            return encoded
    blocks = blocks_for(source.record, Format.JPEG, orientation=orientation, gain_map_bytes=len(gain_map))
    blocks = structs.replace(blocks, icc=container.read_blocks(encoded).icc)
    return with_score(container.with_blocks_and_gain_map(encoded, blocks, gain_map), score_of(encoded))


def _turned_and_scaled(gain_map: bytes, orientation: int, factor: float, check_stop: CheckStop) -> bytes:
    """A cleaned gain map, upright as a picture of this orientation, and scaled by `factor`."""
    image = upright(pyvips.Image.jpegload_buffer(gain_map, fail_on="error"), orientation)
    image = decode.scaled(image, factor) if factor < 1 else image
    options = {"Q": _GAIN_MAP_QUALITY, "keep": "none", "subsample_mode": "off", "optimize_coding": True}
    encoded = bytes(decode.evaluate(image, check_stop, "jpegsave_buffer", **options))
    return _described(encoded, container.read_blocks(gain_map), gain_map)


# ---- the encoders


class _Mozjpeg(Struct, frozen=True):
    """mozjpeg, with chroma in half or in full resolution (4:4:4). A large picture need not be in memory."""

    image: pyvips.Image
    check_stop: CheckStop
    full_chroma: bool = False
    scale: search.QualityScale = _SCALE

    def for_sample(self, sample: Sample) -> _Mozjpeg:
        return structs.replace(self, image=sample.image)

    def encode(self, quality: int, **extra: int) -> bytes:
        chroma = "off" if self.full_chroma else "on"
        options = _MOZJPEG | extra | {"Q": quality, "subsample_mode": chroma}
        return bytes(decode.evaluate(self.image, self.check_stop, "jpegsave_buffer", keep="none", **options))

    def decoded(self, encoded: bytes, _sample: Sample) -> pyvips.Image:
        return pyvips.Image.jpegload_buffer(encoded)

    def final(self, result: search.SearchResult) -> bytes:
        """The picture of a result in fewer bytes."""
        # optimize_scans holds the data of several candidate scan scripts in memory
        return self.encode(result.quality, optimize_scans=not _is_large(self.image), interlace=True)


class _Requantizer(Struct, frozen=True):
    """A JPEG's coefficients, turned upright and quantised anew, for chroma with `chroma_factor` times jpegli's steps.

    With a factor of 0, the coefficients of chroma are copied.
    """

    data: bytes
    check_stop: CheckStop
    orientation: int = 1
    chroma_factor: float = 0

    @property
    def scale(self) -> search.QualityScale:
        return _SCALE if self.chroma_factor else _COPIED_CHROMA_SCALE

    def for_sample(self, sample: Sample) -> _Requantizer:
        """The tiles of a sample have no coefficients: their pixels are quantised instead."""
        data = _finest(sample.image, self.check_stop, full_chroma=self.chroma_factor != 1)
        return structs.replace(self, data=data, orientation=1)

    def encode(self, quality: int) -> bytes:
        """Raises: ValueError if the JPEG is not of a kind that can be quantised again."""
        self.check_stop()
        luma, chroma = _steps(2 if pyjpegli else 0, quality)
        chroma = tuple(min(255, round(self.chroma_factor * step)) for step in chroma) if self.chroma_factor else ()
        return _requantize.requantized(self.data, bytes(luma), bytes(chroma), self.orientation)

    def decoded(self, encoded: bytes, sample: Sample) -> pyvips.Image:
        """The picture of `encoded`. In a sample, copied chroma is that of the picture."""
        image = pyvips.Image.jpegload_buffer(encoded)
        if self.chroma_factor or sample.is_whole:
            return image
        # with preserved chroma, a change of luma changes red, green and blue by the same amount
        change = (image - sample.image).recomb(_LUMA_WEIGHTS)
        return (sample.image + change).rint().cast("uchar").copy(interpretation="srgb")

    def may_be_last(self, result: search.SearchResult) -> bool:
        """Whether copied chroma takes so few bytes that other steps will not make a smaller file."""
        quantised = structs.replace(self, chroma_factor=_FULL_CHROMA_FACTOR).encode(result.quality)
        return not self.chroma_factor and len(result.encoded) <= _MAX_COPIED_CHROMA_RATIO * len(quantised)

    def final(self, result: search.SearchResult) -> bytes:
        return _with_optimized_scans(result.encoded)


_Encoder = _Mozjpeg | _Requantizer


def _finest(image: pyvips.Image, check_stop: CheckStop, *, full_chroma: bool) -> bytes:
    """The picture as a JPEG with quantisation steps of 1."""
    options = {"Q": 100, "subsample_mode": "off" if full_chroma else "on", "keep": "none"}
    return bytes(decode.evaluate(image, check_stop, "jpegsave_buffer", **options))


def _smallest(
    image: pyvips.Image, sample: Sample, original: _Requantizer | None, source: Source, max_bytes: int
) -> bytes | None:
    """The smallest JPEG of an 8-bit picture, grey or RGB; None if that takes more than `max_bytes`, or if no encoder
    meets the target.

    `original` encodes the JPEG that `image` was decoded from, None if its pixels were changed after decoding. A large
    picture need not be in memory. Raises: what `check_stop` raises.
    """
    best: tuple[_Encoder, search.SearchResult] | None = None
    for encoder in _encoders(image, original, source.check_stop):
        if best and (isinstance(encoder, _Mozjpeg) or (encoder is original and source.options.effort != "best")):
            break  # copied chroma in full resolution is rarely smaller
        try:
            result = _nearest(encoder, sample, source.options.target, best[1] if best else None)
        except ValueError as error:
            log.debug("The coefficients of a JPEG can't be quantised again: %s", error)
            continue
        if result is None:
            continue
        if best is None or len(result.encoded) < len(best[1].encoded):
            best = encoder, result
        if source.options.effort == "fast" or isinstance(encoder, _Mozjpeg) or encoder.may_be_last(result):
            break
    if best and not (sample.is_whole or source.options.effort == "fast" or _is_large(image)):
        best = best[0], _corrected(*best, image, sample, source.options.target)
    if best is None or not best[1].meets(source.options.target):
        return None
    encoded = with_score(best[0].final(best[1]), best[1].score)
    return encoded if len(encoded) <= max_bytes else None


def _corrected(
    encoder: _Encoder, found: search.SearchResult, image: pyvips.Image, sample: Sample, target: float
) -> search.SearchResult:
    """The result of a search on the sample, scored on the whole picture, and at another quality if it is far off."""

    def attempt(quality: int) -> search.SearchResult:
        encoded = found.encoded if quality == found.quality else b""
        encoded = encoded or encoder.encode(quality)
        decoded = pyvips.Image.jpegload_buffer(encoded)
        return search.SearchResult(quality, encoded, score(image, decoded, sample.profile))

    return search.refine(attempt, encoder.scale, target, found.quality, limits=_WHOLE_LIMITS)


def _nearest(
    encoder: _Encoder, sample: Sample, target: float, known: search.SearchResult | None
) -> search.SearchResult | None:
    """The encoding whose score is nearest to the target; None if it is not near enough, or likely larger than `known`.

    Only the sample is scored.
    """
    margin = 0 if sample.is_whole else _SAMPLE_MARGIN
    on_sample = encoder if sample.is_whole else encoder.for_sample(sample)

    @cache
    def attempt(quality: int) -> search.SearchResult:
        encoded = on_sample.encode(quality)
        return search.SearchResult(quality, encoded, sample.score(on_sample.decoded(encoded, sample)))

    start = known.quality if known else encoder.scale.initial_for(target)
    if known and sample.is_whole:
        first = attempt(start)
        if len(first.encoded) * (1 + _GROWTH_PER_POINT) ** (known.score - first.score) > len(known.encoded):
            return None
    result = search.refine(attempt, encoder.scale, target + margin, start, limits=_LIMITS)
    if not result.meets(target):
        return None
    if sample.is_whole:
        return result
    # mozjpeg encodes from the pixels in the end
    encoded = encoder.encode(result.quality) if isinstance(encoder, _Requantizer) else b""
    return search.SearchResult(result.quality, encoded, result.score - margin)


def _with_optimized_scans(encoded: bytes) -> bytes:
    """The same coefficients in other scans, which take fewer bytes; unchanged where the package is not installed.

    It is only safe for what jpegli wrote or `_requantize` checked: invalid coefficients make mozjpeg exit the process.
    """
    return bytes(mozjpeg_scans.optimize(encoded)) if mozjpeg_scans else encoded


def missing_packages() -> list[str]:
    """Names of the optional packages that would make files smaller but are not installed."""
    packages = {"pyjpegli": pyjpegli, "mozjpeg-lossless-optimization": mozjpeg_scans}
    return [name for name, package in packages.items() if package is None]


def _was_encoded_here(data: bytes) -> bool:
    """Whether a JPEG's luma was quantised with a table that this module uses.

    Steps never grow with the quality. So for each encoder, a bisection finds the quality at which they are as small.
    """
    table = container.quantization(data)
    qualities = range(_SCALE.lowest, _SCALE.highest)
    for encoder in range(3 if pyjpegli else 2):

        def negative_sum(quality: int, encoder: int = encoder) -> int:
            return -sum(_steps(encoder, quality)[0])

        index = bisect_left(qualities, -sum(table), key=negative_sum)
        if _steps(encoder, _SCALE.lowest + index)[0] == table:
            return True
    return False


@cache
def _steps(encoder: int, quality: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The steps for luma and chroma of mozjpeg (0), as in version 0.1.0 (1), or of jpegli (2)."""
    tiny = pyvips.Image.black(8, 8, bands=3).copy(interpretation="srgb")
    if encoder == 2:
        encoded = bytes(pyjpegli.encode(tiny.write_to_memory(), 8, 8, quality))
    else:
        # version 0.1.0 encoded pictures of little detail with mozjpeg's table 5
        encoded = _Mozjpeg(tiny, lambda: None).encode(quality, quant_table=5 if encoder else 2)
    return container.quantization(encoded), container.quantization(encoded, 1)


def _encoders(image: pyvips.Image, original: _Requantizer | None, check_stop: CheckStop) -> Iterator[_Encoder]:
    """The encoders to try in turn, mozjpeg only if no other succeeds.

    The others raise ValueError for very detailed pictures, and for an original that `_requantize` can't read.
    """
    if mozjpeg_scans and image.bands == 3 and not _is_large(image):
        yield from _requantizers(image, original, check_stop)
    yield _Mozjpeg(image, check_stop)
    yield _Mozjpeg(image, check_stop, full_chroma=True)


def _requantizers(image: pyvips.Image, original: _Requantizer | None, check_stop: CheckStop) -> Iterator[_Requantizer]:
    copies_first = original and container.luma_sampling(original.data) == (2, 2)
    if original and copies_first:
        yield original
    yield _Requantizer(_finest(image, check_stop, full_chroma=False), check_stop, chroma_factor=1)
    finest = original or _Requantizer(_finest(image, check_stop, full_chroma=True), check_stop)
    yield structs.replace(finest, chroma_factor=_FULL_CHROMA_FACTOR)
    if original and not copies_first:
        yield original


def _is_large(image: pyvips.Image) -> bool:
    return bool(image.width * image.height >= search.LARGE_PIXELS)
