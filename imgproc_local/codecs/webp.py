"""Converts still and animated pictures to WebP, and makes WebP files smaller."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from imgproc_local.codecs import animation
from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import webp as container
from imgproc_local.codecs.picture.decode import (
    decode_complete,
    evaluate,
    for_display,
    open_upright,
    to_srgb_if_visually_lossless,
)
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.codecs.picture.source import Source
from imgproc_local.codecs.quality.sample import Sample
from imgproc_local.codecs.quality.search import SearchResult, encode_by_sample, reencode_smaller, refine
from imgproc_local.codecs.webp_still import (
    DRAFT_EFFORT,
    EFFORTS,
    LOSSLESS_EFFORT,
    SCALE,
    Still,
    encode_graphic,
    encode_lossless,
    encode_photograph,
    fast_encoder,
    lossy_encoder,
    save,
)
from imgproc_local.domain.image import Format, ImageInfo

GRAPHIC_BYTES_PER_PIXEL = 1.0
"""A PNG below this counts as a graphic: lossless WebP often stores its sharp edges in fewer bytes than lossy."""

MIN_LARGE_PIXELS = 24_000_000
"""Conversions and lossless files of at least this many pixels, all frames together, are encoded at `DRAFT_EFFORT`: that
takes a third of the time and a tenth more bytes. APNGs are encoded at `animation.WEBP_EFFORT`.
"""

MAX_ANIMATION_RATIO = 2.0
"""Lossless and lossy are both written unless one takes this many times the bytes of the other in the sample."""


def candidates(source: Source) -> Iterator[bytes]:
    """The clean copy, and an encoding. Lossless remains lossless, animated remains animated.

    A lossy still is encoded again only if its quality is above the target and the new file is much smaller: each
    encoding loses quality. Frames of lossy animations are copied bit for bit.
    """
    path, info, data, check_stop = source.path, source.info, source.data, source.check_stop
    yield source.clean_copy()
    profile = source.record.icc
    image = open_upright(path, info, all_frames=info.frames > 1)
    encoded: bytes | None = None
    if container.is_lossless(data):
        encoded = _encoded_losslessly(image, source)
    elif info.frames > 1:
        # decodes every frame, so that damage is reported
        evaluate(image, check_stop, "avg")
    else:
        image = evaluate(image, check_stop, "copy_memory")
        sample = Sample(image, profile=profile)
        size_bytes = len(container.with_blocks(data, Blocks()))
        encoder = lossy_encoder(image, sample, source.options.target, EFFORTS[source.options.effort], check_stop)
        encoded = reencode_smaller(image, profile, encoder, size_bytes, source.options.target, sample)
    if encoded:
        # libvips does not apply the orientation of an animation
        orientation = info.orientation if info.frames > 1 else 1
        yield container.with_blocks(encoded, source.blocks_for(Format.WEBP, orientation=orientation))


def converted(source: Source) -> bytes:
    """The picture as WebP of 8 bits per sample; an animation keeps its frames, delays and number of plays."""
    info, encode = source.info, _still
    if info.frames > 1:
        info, encode = animation.with_actual_alpha(source.path, info, source.check_stop), _animated
        source = structs.replace(source, info=info)
    encoded, profile = decode_complete(source.path, info, partial(encode, source))
    # libvips does not apply the orientation of an animated WebP
    orientation = info.orientation if info.frames > 1 and info.format is Format.WEBP else 1
    published = source.blocks_for(Format.WEBP, orientation=orientation)
    return container.with_blocks(encoded, structs.replace(published, icc=profile))


def _decoded(source: Source, fail_on: str) -> tuple[pyvips.Image, bytes | None]:
    """The picture, or all frames with their timing, as WebP stores them, and the profile to store with them."""
    image = open_upright(source.path, source.info, all_frames=source.info.frames > 1, fail_on=fail_on)
    image, profile = for_display(image, source.record.icc, eight_bit=True)
    return _with_timing(image, source.path, source.info), profile


def _still(source: Source, fail_on: str) -> tuple[bytes, bytes | None]:
    """A still picture as WebP, without metadata, and its profile."""
    info, options, check_stop = source.info, source.options, source.check_stop
    image, profile = _decoded(source, fail_on)
    image = evaluate(image, check_stop, "copy_memory")
    if info.pixels >= MIN_LARGE_PIXELS:
        sample = Sample(image, profile=profile)
        encoder = fast_encoder(check_stop)
        quality = encode_by_sample(sample, encoder, options.target).quality
        # frees the decoded picture before the encoder allocates memory
        del image, sample
        return encoder.encode(_decoded(source, fail_on)[0], quality), profile
    image, profile = to_srgb_if_visually_lossless(image, profile)
    size_bytes = len(source.data)
    still = Still(image, profile, size_bytes, options.target, EFFORTS[options.effort], check_stop)
    is_graphic = info.format is Format.PNG and size_bytes < GRAPHIC_BYTES_PER_PIXEL * info.pixels
    return encode_graphic(still) if is_graphic else encode_photograph(still), profile


def _animated(source: Source, fail_on: str) -> tuple[bytes, bytes | None]:
    """The smaller of a lossless animation and a lossy one whose frames meet the target, and its profile.

    If the sampled frames show clearly which of the two is smaller, only that one is written.
    """
    path, info, target, check_stop = source.path, source.info, source.options.target, source.check_stop
    is_apng = info.format is Format.PNG
    profile = source.record.icc if is_apng else _decoded(source, fail_on)[1]
    delays_ms = animation.delays_ms(path, info)

    def write(quality: int | None) -> bytes:
        """The animation at a quality, or lossless for None. libvips reads only the first frame of an APNG."""
        if is_apng:
            encoded = animation.encode_webp(path, info, quality, check_stop)
        else:
            encoded = save(_decoded(source, fail_on)[0], check_stop, **_options(info, quality))
        return container.with_merged_frames_restored(encoded, delays_ms, has_alpha=info.has_alpha)

    sample = Sample(animation.sample_frames(path, info, check_stop), profile=profile)
    stills = encode_by_sample(sample, fast_encoder(check_stop), target)
    ratio = len(encode_lossless(sample.image, check_stop, DRAFT_EFFORT)) / len(stills.encoded)
    lossless = write(None) if ratio < MAX_ANIMATION_RATIO or not stills.meets(target) else None
    if lossless and ratio < 1 / MAX_ANIMATION_RATIO:
        return lossless, profile

    def attempt(quality: int) -> SearchResult:
        encoded = write(quality)
        decoded = sample.part_of(animation.sample_frames_of_result(encoded, info, check_stop))
        return SearchResult(quality, encoded, sample.score(decoded))

    # an animation scores less than its frames as stills: small changes from one frame to the next are not stored
    lossy = refine(attempt, SCALE, target, stills.quality)
    if lossless is None and not lossy.meets(target):
        lossless = write(None)
    if lossless and (len(lossless) < len(lossy.encoded) or not lossy.meets(target)):
        return lossless, profile
    return lossy.encoded, profile


def lossless(source: Source) -> bytes:
    """The picture or animation of a working copy as lossless WebP."""
    image = open_upright(source.path, source.info, all_frames=source.info.frames > 1)
    image, profile = for_display(image, source.record.icc, eight_bit=True)
    encoded = _encoded_losslessly(image, source)
    return container.with_blocks(encoded, structs.replace(source.blocks_for(Format.WEBP), icc=profile))


def _encoded_losslessly(image: pyvips.Image, source: Source) -> bytes:
    """`image`, the decoded picture or animation of `source`, as lossless WebP."""
    path, info = source.path, source.info
    encoded = save(_with_timing(image, path, info), source.check_stop, **_options(info, None))
    if info.frames == 1:
        return encoded
    return container.with_merged_frames_restored(encoded, animation.delays_ms(path, info), has_alpha=info.has_alpha)


def _with_timing(image: pyvips.Image, path: Path, info: ImageInfo) -> pyvips.Image:
    """An animation's frames with delays and number of plays as in browsers; a still picture unchanged."""
    if info.frames == 1:
        return image
    image = image.copy()
    image.set_type(pyvips.GValue.array_int_type, "delay", animation.delays_ms(path, info))
    image.set_type(pyvips.GValue.gint_type, "loop", animation.plays(path, info))
    return image


def _options(info: ImageInfo, quality: int | None) -> dict[str, Any]:
    """libvips' options for a lossy animation at `quality`, or for a lossless still or animation if it is None."""
    effort = DRAFT_EFFORT if info.pixels >= MIN_LARGE_PIXELS else LOSSLESS_EFFORT
    if quality is None:
        return {"lossless": True, "effort": effort}
    return {"Q": quality, "mixed": True, "smart_subsample": True, "effort": effort}
