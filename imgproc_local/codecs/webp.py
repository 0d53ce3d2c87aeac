"""Converts still and animated pictures to WebP, and makes WebP files smaller.

A photograph becomes lossy WebP; a graphic becomes the smallest of lossy, lossless, and lossless with a palette.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

from msgspec import Struct, structs

from imgproc_local.codecs import _webp_chroma, animation
from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import webp as container
from imgproc_local.codecs.picture import decode
from imgproc_local.codecs.picture.libvips import of_samples, pyvips
from imgproc_local.codecs.picture.source import Source, with_score
from imgproc_local.codecs.png import palette
from imgproc_local.codecs.quality import search
from imgproc_local.codecs.quality.score import Sample, score
from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.image import Format
from imgproc_local.domain.plan import Effort

_SCALE = search.QualityScale(lowest=20, initial=88, highest=98, slope=0.7, min_slope_ratio_down=0.75)


class _Settings(Struct, frozen=True):
    """libwebp's effort for lossy stills, for small photographs, and for drafts.

    At the same quality a draft scores `draft_deficit` points less than the final encoding. Photographs of at least
    `photo_preset_from_pixels` are encoded with the better of two presets.
    """

    lossy: int
    small: int
    draft: int
    draft_deficit: float
    photo_preset_from_pixels: float


_SMALL_PIXELS = 1_000_000

_EFFORTS: dict[Effort, _Settings] = {
    "fast": _Settings(lossy=4, small=4, draft=2, draft_deficit=0.75, photo_preset_from_pixels=math.inf),
    "balanced": _Settings(lossy=5, small=6, draft=2, draft_deficit=0.75, photo_preset_from_pixels=_SMALL_PIXELS),
    "best": _Settings(lossy=6, small=6, draft=4, draft_deficit=0.0, photo_preset_from_pixels=0),
}
"""Lossy effort 6 takes 1.5 to 1.8 times as long as 5 and saves 1 to 3 %."""

_LOSSLESS_EFFORT = 4
"""For lossless files, lossy ones with alpha, where 6 takes fifty times as long, and animations."""
_LARGE_EFFORT = 2
"""For large pictures and animations, and for frames of animations: a third of the time, and a tenth more bytes."""

_LOG_BYTES_PER_POINT = 0.07
"""Natural logarithm of the ratio of file sizes that one point of score is worth."""

_MAX_SAMPLE_RATIO = 1.4
"""Lossless and palette files are tried if they take less than this many times the bytes of lossy on the sample.
Samples show more detail than the whole graphic, whose repeated parts lossless WebP stores best.
"""

_LOSSLESS_WINS_RATIO = 0.8
"""Lossy is not tried where a lossless file takes less than this part of the bytes estimated for lossy."""

_PALETTE_LIMITS = search.Limits(search.Tolerance(0.0, 2.0), max_trials=2)
_PALETTE_SEARCH = palette.PaletteSearch(palette.QUICK_EFFORT, tiles=6, limits=_PALETTE_LIMITS)

_MAX_FAILED_LOSSY_SHARE = 0.6
"""Lossy that misses the target and takes less than this share of the source's bytes is replaced by lossless or
near-lossless.
"""

_NEAR_LOSSLESS = (40, 60)
"""libwebp's near-lossless levels, the strongest first. At 20, what lossy WebP can't store misses the target, too."""


def candidates(source: Source) -> Iterator[bytes]:
    """The clean copy, and an encoding. Lossless remains lossless, animated remains animated.

    A lossy still is encoded again only if its quality is above the target and the new file is much smaller: each
    encoding loses quality. Frames of lossy animations are copied bit for bit.
    """
    info, data, check_stop = source.info, source.data, source.check_stop
    yield source.clean_copy()
    profile = source.record.icc
    image = decode.open_upright(source.path, info, all_frames=info.frames > 1)
    encoded: bytes | None = None
    if container.is_lossless(data):
        encoded = _losslessly(image, source)
    elif info.frames > 1:
        # decodes every frame, so that damage is reported
        decode.evaluate(image, check_stop, "avg")
    else:
        image = decode.evaluate(image, check_stop, "copy_memory")
        sample = Sample(image, profile=profile)
        size_bytes = len(container.with_blocks(data, Blocks()))
        encoder = _lossy_encoder(image, sample, source)
        encoded = search.reencode_smaller(image, encoder, size_bytes, source.options.target, sample)
    if encoded:
        # libvips does not apply the orientation of an animation
        orientation = info.orientation if info.frames > 1 else 1
        yield source.finished(encoded, Format.WEBP, profile, orientation=orientation)


def converted(source: Source) -> bytes:
    """The picture as WebP of 8 bits per sample; an animation keeps its frames, delays and number of plays."""
    encode = _still
    if source.info.frames > 1:
        source, encode = animation.with_actual_alpha(source), _animated
    info = source.info
    encoded, profile = decode.decode_complete(source.path, info, partial(encode, source))
    # libvips does not apply the orientation of an animated WebP
    orientation = info.orientation if info.frames > 1 and info.format is Format.WEBP else 1
    return source.finished(encoded, Format.WEBP, profile, orientation=orientation)


def lossless(source: Source) -> bytes:
    """The picture or animation of a working copy as lossless WebP."""
    image, profile = _decoded(source, "error")
    return source.finished(_losslessly(image, source), Format.WEBP, profile)


def _decoded(source: Source, fail_on: str) -> tuple[pyvips.Image, bytes | None]:
    """The picture, or all frames, as WebP stores them, and the profile to store with them."""
    image = decode.open_upright(source.path, source.info, all_frames=source.info.frames > 1, fail_on=fail_on)
    return decode.for_display(image, source.record.icc, eight_bit=True)


def _losslessly(image: pyvips.Image, source: Source) -> bytes:
    """`image`, the decoded picture or animation of `source`, as lossless WebP."""
    return _save_timed(image, source, lossless=True, effort=_effort_of(source))


def _effort_of(source: Source) -> int:
    return _LARGE_EFFORT if source.info.pixels >= search.LARGE_PIXELS else _LOSSLESS_EFFORT


def _save_timed(image: pyvips.Image, source: Source, **options: Any) -> bytes:
    if source.info.frames == 1:
        return _save(image, source.check_stop, **options)
    encoded = _save(animation.with_timing(image, source), source.check_stop, **options)
    return _with_every_frame(encoded, source)


def _with_every_frame(encoded: bytes, source: Source) -> bytes:
    delays_ms, _ = animation.timing(source)
    return container.with_merged_frames_restored(encoded, delays_ms, has_alpha=source.info.has_alpha)


def _still(source: Source, fail_on: str) -> tuple[bytes, bytes | None]:
    """A still picture as WebP, without metadata, and its profile."""
    image, profile = _decoded(source, fail_on)
    image = decode.evaluate(image, source.check_stop, "copy_memory")
    if source.info.pixels < search.LARGE_PIXELS:
        image, profile = decode.to_srgb_if_visually_lossless(image, profile)
        return _smallest(image, profile, source), profile
    sample = Sample(image, profile=profile)
    encoder = _fast_encoder(source.check_stop)
    quality, expected = search.quality_by_sample(sample, encoder, source.options.target)
    # frees the decoded picture before the encoder allocates memory
    del image, sample
    return with_score(encoder.encode(_decoded(source, fail_on)[0], quality), expected), profile


def _smallest(image: pyvips.Image, profile: bytes | None, source: Source) -> bytes:
    """A still picture in memory as the smallest WebP that meets the target, or as lossy WebP where none does."""
    target, check_stop, size_bytes = source.options.target, source.check_stop, len(source.data)
    sample = Sample(image, profile=profile)
    encoder = _lossy_encoder(image, sample, source, is_graphic=source.is_graphic)
    if source.options.effort == "fast" and not source.is_graphic and not sample.is_whole:
        quality, expected = search.quality_by_sample(sample, encoder, target)
        return with_score(encoder.encode(image, quality), expected)
    estimated, found = None, list[bytes]()
    if source.is_graphic:
        estimated = search.estimate(sample, encoder, target)
        # lossless WebP often stores sharp edges in fewer bytes
        missing_points = target - estimated.sample_result.score
        sample_bytes = len(estimated.sample_result.encoded) * math.exp(_LOG_BYTES_PER_POINT * missing_points)
        found = list(_lossless_candidates(image, sample, sample_bytes, source))
        smallest = min(found, key=len, default=None)
        if smallest and len(smallest) < _LOSSLESS_WINS_RATIO * sample_bytes / sample.share:
            return smallest
    lossy = search.encode_to_score(image, encoder, target, sample, estimated)
    if lossy.meets(target):
        found.append(lossy.encoded)
    elif len(lossy.encoded) < _MAX_FAILED_LOSSY_SHARE * size_bytes:
        # lossy WebP stores chroma at half the resolution: coloured detail may miss the target at every quality
        found.append(_near_lossless(image, profile, target, check_stop))
    return min(found or [lossy.encoded], key=len)


def _lossless_candidates(image: pyvips.Image, sample: Sample, sample_bytes: float, source: Source) -> Iterator[bytes]:
    """A graphic as lossless WebP, and with a palette; each where its sample takes little more than `sample_bytes`."""
    target, check_stop = source.options.target, source.check_stop
    if len(_lossless(sample.image, check_stop, effort=2)) < _MAX_SAMPLE_RATIO * sample_bytes:
        yield _lossless(image, check_stop)
    options = {"palette": True, "Q": 100, "dither": 0.5, "effort": 1, "compression": 1, "keep": "none"}
    indexed = decode.evaluate(sample.image, check_stop, "pngsave_buffer", **options)
    decoded = pyvips.Image.pngload_buffer(indexed).copy_memory()
    ratio = len(_lossless(decoded, check_stop, effort=2)) / sample_bytes
    surplus = sample.score(decoded) - target
    # this palette is chosen quickly: a searched one scores more
    if ratio < _MAX_SAMPLE_RATIO and surplus > -3 and ratio * math.exp(-_LOG_BYTES_PER_POINT * surplus) < 1:
        result = palette.smallest_palette(image, sample.profile, target, check_stop, _PALETTE_SEARCH)
        if result:
            yield with_score(_lossless(result.picture.shown(), check_stop), result.score)


def _near_lossless(image: pyvips.Image, profile: bytes | None, target: float, check_stop: CheckStop) -> bytes:
    """The picture at the strongest near-lossless level that meets the target, lossless where none does."""
    for level in _NEAR_LOSSLESS:
        encoded = _save(image, check_stop, lossless=True, near_lossless=True, Q=level, effort=_LOSSLESS_EFFORT)
        reached = score(image, pyvips.Image.webpload_buffer(encoded).copy_memory(), profile)
        if reached >= target:
            return with_score(encoded, reached)
    return _lossless(image, check_stop)


def _animated(source: Source, fail_on: str) -> tuple[bytes, bytes | None]:
    """The smaller of a lossless animation and a lossy one whose frames meet the target, and its profile.

    If the sampled frames show clearly which of the two is smaller, only that one is written.
    """
    info, target, check_stop = source.info, source.options.target, source.check_stop
    is_apng = info.format is Format.PNG
    profile = source.record.icc if is_apng else _decoded(source, fail_on)[1]

    def write(quality: int | None) -> bytes:
        """The animation at a quality, or lossless for None. libvips reads only the first frame of an APNG."""
        if is_apng:
            lossy = {} if quality is None else {"quality": quality, "allow_mixed": True}
            encoded = animation.encode(source, "WEBP", method=3, lossless=quality is None, **lossy)
            return _with_every_frame(encoded, source)
        lossy = {} if quality is None else {"Q": quality, "mixed": True, "smart_subsample": True}
        options = {"effort": _effort_of(source), "lossless": quality is None} | lossy
        return _save_timed(_decoded(source, fail_on)[0], source, **options)

    def attempt(quality: int) -> search.SearchResult:
        encoded = write(quality)
        decoded = sample.part_of(animation.sample_frames_of_result(encoded, info, check_stop))
        return search.SearchResult(quality, encoded, sample.score(decoded))

    sample = Sample(animation.sample_frames(source), profile=profile)
    stills = search.encode_by_sample(sample, _fast_encoder(check_stop), target)
    ratio = len(_lossless(sample.image, check_stop, effort=2)) / len(stills.encoded)
    lossless = write(None) if ratio < 2 or not stills.meets(target) else None
    if lossless and ratio < 1 / 2:
        return lossless, profile
    # an animation scores less than its frames as stills: small changes from one frame to the next are not stored
    lossy = search.refine(attempt, _SCALE, target, stills.quality)
    if lossless is None and not lossy.meets(target):
        lossless = write(None)
    if lossless and (len(lossless) < len(lossy.encoded) or not lossy.meets(target)):
        return lossless, profile
    return lossy.encoded, profile


def _fast_encoder(check_stop: CheckStop) -> search.EncoderProfile:
    """Lossy WebP for large pictures and for frames of animations."""

    def encode(part: pyvips.Image, quality: int) -> bytes:
        return _save(part, check_stop, Q=quality, effort=_LARGE_EFFORT)

    return search.EncoderProfile(encode, None, pyvips.Image.webpload_buffer, _SCALE)


_FINAL_LIMITS = structs.replace(search.FINAL_LIMITS, close=search.Tolerance(1.35, 0.8))
"""A score above the target costs bytes: one trial more from 0.8 points above the aim makes files up to 2 % smaller."""


def _lossy_encoder(
    image: pyvips.Image, sample: Sample, source: Source, *, is_graphic: bool = False
) -> search.EncoderProfile:
    """Encodes `image` and its sample, and nothing else."""
    settings, check_stop = _EFFORTS[source.options.effort], source.check_stop
    is_small = image.width * image.height <= _SMALL_PIXELS
    prepared = _with_sharp_chroma(image)
    tiles = sample.part_of(prepared)
    final = settings.small if is_small and not is_graphic else settings.lossy
    final = _LOSSLESS_EFFORT if image.hasalpha() else final

    def encode(part: pyvips.Image, quality: int, **options: Any) -> bytes:
        return _save(prepared if part is image else tiles, check_stop, Q=quality, **options)

    @cache
    def draft_of_sample(quality: int, preset: str) -> bytes:
        return encode(sample.image, quality, effort=settings.draft, preset=preset)

    def log_bytes_at_equal_score(preset: str) -> float:
        draft = draft_of_sample(_SCALE.initial_for(source.options.target), preset)
        return math.log(len(draft)) - _LOG_BYTES_PER_POINT * sample.score(pyvips.Image.webpload_buffer(draft))

    preset, pixels = "default", max(image.width * image.height, source.found.largest_pixels)
    if not is_graphic and pixels >= settings.photo_preset_from_pixels:
        # libwebp's preset takes up to 7 % fewer bytes for noise and soft backgrounds, and more for other photographs
        preset = source.found.preset or min((preset, "photo"), key=log_bytes_at_equal_score)
        source.found.preset = preset

    def draft(part: pyvips.Image, quality: int) -> bytes:
        if part is sample.image:
            return draft_of_sample(quality, preset)
        return encode(part, quality, effort=settings.draft, preset=preset)

    return search.EncoderProfile(
        partial(encode, effort=final, preset=preset),
        draft,
        pyvips.Image.webpload_buffer,
        _SCALE,
        draft_deficit=settings.draft_deficit,
        final_limits=_FINAL_LIMITS,
        found=source.found,
        # libwebp's spatial noise shaping takes bits from detailed areas, rarely so many that they are blurred; the
        # preset "text" does without
        without_noise_shaping=partial(encode, effort=final, preset="text"),
    )


def _with_sharp_chroma(image: pyvips.Image) -> pyvips.Image:
    """The picture prepared for chroma of half the resolution; libwebp's own way takes as long as the encoding."""
    if image.bands < 3:
        return image
    pixels = _webp_chroma.adjusted(image.write_to_memory(), image.width, image.height, image.bands)
    return of_samples(pixels, image.width, image.height, image.bands)


def _lossless(image: pyvips.Image, check_stop: CheckStop, effort: int = _LOSSLESS_EFFORT) -> bytes:
    return _save(image, check_stop, lossless=True, effort=effort)


def _save(image: pyvips.Image, check_stop: CheckStop, **options: Any) -> bytes:
    return bytes(decode.evaluate(image, check_stop, "webpsave_buffer", keep="none", **options))
