"""A still picture in memory as WebP: lossy, near-lossless, lossless, or reduced to a palette."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from msgspec import Struct, structs

from imgproc_local.codecs import _webp_chroma
from imgproc_local.codecs.picture.decode import evaluate
from imgproc_local.codecs.picture.libvips import of_samples, pyvips
from imgproc_local.codecs.png import palette
from imgproc_local.codecs.quality.sample import TILE_PX, TILES, Sample, score
from imgproc_local.codecs.quality.search import (
    EncoderProfile,
    Estimate,
    Limits,
    QualityScale,
    SearchResult,
    Tolerance,
    encode_by_sample,
    encode_to_score,
    estimate,
)
from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.plan import Effort

SCALE = QualityScale(lowest=20, initial=88, highest=98, slope=0.7, min_slope_ratio_down=0.75)

DRAFT_EFFORT, LOSSLESS_EFFORT, ALPHA_EFFORT = 2, 4, 4
"""libwebp's effort for drafts, for lossless files, and for lossy ones with alpha, where 6 takes fifty times as long."""

LOG_BYTES_PER_POINT = 0.07
"""Natural logarithm of the ratio of file sizes that one point of score is worth."""

MAX_SMALL_PIXELS = 1_000_000
"""Up to this size photographs are encoded with effort 6 by default, larger ones with 5. On photographs of 2 megapixels
5 takes as long as 4 and saves 1 to 2 % of the bytes. On small ones 6 takes 1.5 to 1.8 times as long as 5 and saves
1 to 3 %.
"""

MAX_LOSSLESS_RATIO, MAX_PALETTE_RATIO = 1.3, 1.4
"""Lossless and palette files are tried if they take less than this many times the bytes of lossy on the sample.
Samples show more detail than the whole graphic, whose repeated parts lossless WebP stores best.
"""

MIN_LOSSLESS_SHARE, MIN_PALETTE_SHARE = 0.5, 0.3
MIN_DETAILED_BYTES_PER_PIXEL = 0.25
"""Of a source of more than `MIN_DETAILED_BYTES_PER_PIXEL`, lossless rarely takes less than `MIN_LOSSLESS_SHARE` of the
bytes, and a palette less than `MIN_PALETTE_SHARE`. Where even that is too large, the sample is not tried.
"""

MIN_PALETTE_BYTES = 2_000
"""Where a lossless file takes less than this, a palette is not tried."""

PALETTE_SEARCH = palette.PaletteSearch(palette.QUICK_EFFORT, tiles=6, limits=Limits(Tolerance(0.0, 2.0), max_trials=2))

LOSSLESS_WINS_RATIO = 0.8
"""Lossy is not tried where a lossless file takes less than this part of the bytes estimated for lossy."""

MAX_PALETTE_SHORTFALL = 3.0
"""A quick palette may score this much below the target: a searched one scores more."""

LOG_BYTES_PER_PALETTE_POINT = 0.06
"""The same as `LOG_BYTES_PER_POINT` for a point that is traded for fewer colours."""

NEAR_LOSSLESS = (20, 40, 60)
"""libwebp's near-lossless levels, the strongest first."""

MAX_FAILED_LOSSY_SHARE = 0.6
"""Lossy that misses the target and takes less than this share of the source's bytes is replaced: by lossless or
near-lossless.
"""

NEVER = sys.maxsize
"""As a number of pixels: more than any picture has."""


class EncoderEffort(Struct, frozen=True):
    """How much CPU time lossy WebP takes. `small` and `other` are libwebp's effort for small and for other pictures."""

    small: int
    other: int
    photo_preset_from_pixels: int = NEVER
    """Photographs of at least this size are drafted with libwebp's preset "photo", too. The preset takes 1 to 7 % fewer
    bytes for pictures with noise or soft backgrounds, and more for others; a draft of the sample shows which.
    """

    draft: int = DRAFT_EFFORT
    draft_deficit: float = 0.75
    """Points that a draft scores below the final encoding at the same quality."""

    sample_share: float = 1.0
    """Largest share of a photograph's pixels in its sample, which has at least four tiles."""

    scores_whole: bool = True
    """Whether photographs are scored whole after the sample; otherwise the sample alone determines the quality."""


EFFORTS: dict[Effort, EncoderEffort] = {
    "fast": EncoderEffort(small=4, other=4, sample_share=0.25, scores_whole=False),
    "balanced": EncoderEffort(small=6, other=5, photo_preset_from_pixels=MAX_SMALL_PIXELS, sample_share=0.4),
    "best": EncoderEffort(small=6, other=6, photo_preset_from_pixels=0, draft=4, draft_deficit=0.0),
}


class Still(Struct, frozen=True):
    """A picture in memory, its ICC profile (None for sRGB), the size of its source file, and what its WebP must be."""

    image: pyvips.Image
    profile: bytes | None
    size_bytes: int
    target: float
    effort: EncoderEffort
    check_stop: CheckStop


def encode_photograph(still: Still) -> bytes:
    """Lossy WebP, or lossless or near-lossless where lossy can't meet the target."""
    image, target, effort = still.image, still.target, still.effort
    most_tiles = max(4, effort.sample_share * image.width * image.height / TILE_PX**2)
    sample = Sample(image, max(count for count in (4, 6, 9, TILES) if count <= most_tiles), still.profile)
    encoder = lossy_encoder(image, sample, target, effort, still.check_stop)
    if not effort.scores_whole and not sample.is_whole:
        return encoder.encode(image, encode_by_sample(sample, encoder, target).quality)
    return min(_meeting(still, encode_to_score(image, still.profile, encoder, target, sample), []), key=len)


def encode_graphic(still: Still) -> bytes:
    """The smallest of lossless, palette and lossy WebP that meets the target."""
    image, target = still.image, still.target
    sample = Sample(image, profile=still.profile)
    effort = structs.replace(still.effort, small=still.effort.other, photo_preset_from_pixels=NEVER)
    encoder = lossy_encoder(image, sample, target, effort, still.check_stop)
    estimated = estimate(sample, encoder, target)
    lossy_bytes = _expected_bytes(estimated, sample, target)
    candidates = list(_lossless_candidates(still, sample, lossy_bytes))
    if candidates and len(min(candidates, key=len)) < LOSSLESS_WINS_RATIO * lossy_bytes:
        return min(candidates, key=len)
    lossy = encode_to_score(image, still.profile, encoder, target, sample, estimated)
    return min(_meeting(still, lossy, candidates), key=len)


def _meeting(still: Still, lossy: SearchResult, others: list[bytes]) -> list[bytes]:
    """The candidates that meet the target; the lossy one alone where none does.

    Lossy WebP stores chroma at half the resolution, so that pictures with fine coloured detail may miss the target at
    every quality. Lossless and near-lossless replace it unless its size shows that they would be too large.
    """
    if lossy.meets(still.target):
        return [*others, lossy.encoded]
    if len(lossy.encoded) < MAX_FAILED_LOSSY_SHARE * still.size_bytes:
        others = [*others, encode_lossless(still.image, still.check_stop), *_near_lossless(still)]
    return others or [lossy.encoded]


def _expected_bytes(estimated: Estimate, sample: Sample, target: float) -> float:
    """Size of the whole picture as lossy WebP at the target, extrapolated from its sample."""
    missing_points = target - estimated.sample_result.score
    return float(len(estimated.sample_result.encoded) * math.exp(LOG_BYTES_PER_POINT * missing_points) / sample.share)


def _lossless_candidates(still: Still, sample: Sample, lossy_bytes: float) -> Iterator[bytes]:
    """A graphic stored lossless, and reduced to a palette; each where the sample shows that it may beat lossy."""
    image, target, check_stop = still.image, still.target, still.check_stop
    max_bytes = MAX_LOSSLESS_RATIO * lossy_bytes
    is_detailed = still.size_bytes > MIN_DETAILED_BYTES_PER_PIXEL * image.width * image.height
    detailed_bytes = still.size_bytes if is_detailed else 0
    if MIN_LOSSLESS_SHARE * detailed_bytes < max_bytes and (
        len(encode_lossless(sample.image, check_stop, DRAFT_EFFORT)) < sample.share * max_bytes
    ):
        encoded = encode_lossless(image, check_stop)
        yield encoded
        if len(encoded) < MIN_PALETTE_BYTES:
            return
    if MIN_PALETTE_SHARE * detailed_bytes < MAX_PALETTE_RATIO * lossy_bytes and _palette_may_win(
        sample, lossy_bytes, target, check_stop
    ):
        result = palette.smallest_palette(image, still.profile, target, check_stop, PALETTE_SEARCH)
        if result:
            yield encode_lossless(result.picture.shown(), check_stop)


def encode_lossless(image: pyvips.Image, check_stop: CheckStop, effort: int = LOSSLESS_EFFORT) -> bytes:
    return save(image, check_stop, lossless=True, effort=effort)


def _near_lossless(still: Still) -> Iterator[bytes]:
    """The picture at the strongest near-lossless level that meets the target, if one does."""
    options = {"lossless": True, "near_lossless": True, "effort": LOSSLESS_EFFORT}
    for level in NEAR_LOSSLESS:
        encoded = save(still.image, still.check_stop, Q=level, **options)
        if score(still.image, pyvips.Image.webpload_buffer(encoded).copy_memory(), still.profile) >= still.target:
            yield encoded
            break


def _palette_may_win(sample: Sample, lossy_bytes: float, target: float, check_stop: CheckStop) -> bool:
    """Whether a quick palette of the sample, stored lossless, comes near the size and the score of lossy."""
    options = {"palette": True, "Q": 100, "dither": 0.5, "effort": 1, "compression": 1, "keep": "none"}
    indexed = evaluate(sample.image, check_stop, "pngsave_buffer", **options)
    decoded = pyvips.Image.pngload_buffer(indexed).copy_memory()
    ratio = len(encode_lossless(decoded, check_stop, DRAFT_EFFORT)) / (sample.share * lossy_bytes)
    if ratio > MAX_PALETTE_RATIO:
        return False
    surplus = sample.score(decoded) - target
    return surplus > -MAX_PALETTE_SHORTFALL and ratio * math.exp(-LOG_BYTES_PER_PALETTE_POINT * surplus) < 1


def fast_encoder(check_stop: CheckStop) -> EncoderProfile:
    """Lossy WebP at the effort of drafts, for large pictures and for frames of animations."""

    def encode(part: pyvips.Image, quality: int) -> bytes:
        return save(part, check_stop, Q=quality, effort=DRAFT_EFFORT)

    return EncoderProfile(encode, encode, pyvips.Image.webpload_buffer, SCALE)


def lossy_encoder(
    image: pyvips.Image, sample: Sample, target: float, effort: EncoderEffort, check_stop: CheckStop
) -> EncoderProfile:
    """Encodes `image` and its sample, and nothing else, with the preset that takes the fewest bytes at equal score."""
    quality = SCALE.initial_for(target)
    decode = pyvips.Image.webpload_buffer

    prepared = with_sharp_chroma(image)
    tiles = sample.part_of(prepared)
    final = effort.small if image.width * image.height <= MAX_SMALL_PIXELS else effort.other
    if image.hasalpha():
        final = ALPHA_EFFORT

    def encode(part: pyvips.Image, quality: int, **options: Any) -> bytes:
        picture = prepared if part is image else tiles
        return save(picture, check_stop, Q=quality, **options)

    def with_preset(preset: str) -> EncoderProfile:
        draft = partial(encode, effort=effort.draft, preset=preset)
        encoded = draft(sample.image, quality)
        return EncoderProfile(
            partial(encode, effort=final, preset=preset),
            draft,
            decode,
            SCALE,
            draft_deficit=effort.draft_deficit,
            drafts_suffice=True,
            known_drafts={quality: SearchResult(quality, encoded, sample.score(decode(encoded)))},
            # libwebp's spatial noise shaping takes bits from detailed areas, rarely so many that they are blurred; the
            # preset "text" does without
            without_noise_shaping=partial(encode, effort=final, preset="text"),
        )

    presets = ("default", "photo") if image.width * image.height >= effort.photo_preset_from_pixels else ("default",)
    return min(map(with_preset, presets), key=lambda each: _log_bytes_at_equal_score(each.known_drafts[quality]))


def _log_bytes_at_equal_score(result: SearchResult) -> float:
    """Compares results of one picture: the natural logarithm of the size, extrapolated to a score of 0."""
    return math.log(len(result.encoded)) - LOG_BYTES_PER_POINT * result.score


def with_sharp_chroma(image: pyvips.Image) -> pyvips.Image:
    """The picture prepared for chroma of half the resolution; libwebp's own way takes as long as the encoding."""
    if image.bands < 3:
        return image
    pixels = _webp_chroma.adjusted(image.write_to_memory(), image.width, image.height, image.bands)
    return of_samples(pixels, image.width, image.height, image.bands)


def save(image: pyvips.Image, check_stop: CheckStop, **options: Any) -> bytes:
    return bytes(evaluate(image, check_stop, "webpsave_buffer", keep="none", **options))
