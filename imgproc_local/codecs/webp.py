"""WebP: still and animated pictures converted to it, and WebP files made smaller."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from imgproc_local.codecs import animation
from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import webp as container
from imgproc_local.codecs.decode import (
    CheckStop,
    decode_complete,
    finish,
    for_display,
    open_upright,
    to_srgb_if_it_looks_the_same,
)
from imgproc_local.codecs.errors import at_border
from imgproc_local.codecs.formats import FORMATS
from imgproc_local.codecs.libvips import pyvips
from imgproc_local.codecs.metadata import strip as metadata
from imgproc_local.codecs.metadata.icc import kept_profile
from imgproc_local.codecs.probe import opened
from imgproc_local.codecs.quality.sample import TARGET_SCORE, Sample
from imgproc_local.codecs.quality.search import SearchResult, encode_by_sample, reencode_smaller, refine
from imgproc_local.codecs.webp_still import (
    DRAFT_EFFORT,
    EFFORTS,
    LOSSLESS_EFFORT,
    MAX_LOSSLESS_RATIO,
    SCALE,
    encode_graphic,
    encode_lossless,
    encode_photograph,
    fast_encoder,
    lossy_encoder,
    save,
)
from imgproc_local.domain.errors import StageFailed
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.privacy import KeepLocation
from imgproc_local.domain.quality import Effort

GRAPHIC_BYTES_PER_PIXEL = 1.0
"""A PNG below this counts as a graphic: lossless WebP often stores its sharp edges in fewer bytes than lossy."""

LARGE_FROM_PIXELS = 24_000_000
"""Pictures and animations of more pixels, all frames counted, are encoded at `DRAFT_EFFORT`: that takes a third of the
time and a tenth more bytes.
"""


@at_border("The WebP can't be optimised")
def optimize(
    path: Path,
    info: ImageInfo,
    check_stop: CheckStop,
    target: float = TARGET_SCORE,
    keep_location: KeepLocation = KeepLocation.CITY,
    effort: Effort = "balanced",
) -> bytes | None:
    """A smaller WebP, None where nothing smaller was found. Lossless stays lossless, animated stays animated.

    A lossy still is encoded anew only where it is finer than the target asks and that saves much, because each encoding
    costs quality. Frames of lossy animations are preserved bit for bit.
    Raises: BrokenImage, StageFailed, and what `check_stop` raises.
    """
    check_stop()
    with opened(path) as data:
        blocks = container.read_blocks(data)
        profile = kept_profile(blocks.icc)
        clean = metadata.cleaned(
            data,
            blocks,
            Format.WEBP,
            lambda new, _: container.with_blocks(data, new),
            keep_location,
            orientation=info.orientation,
        )
        image = open_upright(path, info, all_frames=info.frames > 1)
        encoded: bytes | None = None
        if container.is_lossless(data):
            encoded = save(_with_timing(image, path, info), check_stop, **_animation_options(info, None))
            if info.frames > 1:
                encoded = container.with_all_frames(encoded, animation.delays_ms(path, info), has_alpha=info.has_alpha)
        elif info.frames > 1:
            finish(image, check_stop, "avg")
        else:
            image = finish(image, check_stop, "copy_memory")
            sample = Sample(image, profile=profile)
            size_bytes = len(container.with_blocks(data, Blocks()))
            encoder = lossy_encoder(sample, target, EFFORTS[effort], check_stop)
            encoded = reencode_smaller(image, profile, encoder, size_bytes, target, sample)
        best = clean
        if encoded:
            # libvips does not apply the orientation of an animation
            orientation = info.orientation if info.frames > 1 else 1
            kept = metadata.kept(blocks, Format.WEBP, Format.WEBP, keep_location, orientation=orientation)
            best = min(clean, container.with_blocks(encoded, Blocks(kept.exif, kept.xmp, None, profile)), key=len)
        return best if len(best) < len(data) else None


@at_border("The picture can't be converted to WebP")
def convert(
    path: Path,
    info: ImageInfo,
    check_stop: CheckStop,
    target: float = TARGET_SCORE,
    keep_location: KeepLocation = KeepLocation.CITY,
    effort: Effort = "balanced",
) -> bytes:
    """The picture as WebP of 8 bits per sample; an animation keeps its frames, delays and loop count.

    `target` is the SSIMULACRA 2.1 score that the picture, or the frames of the animation, shall have.
    Raises: BrokenImage, StageFailed, and what `check_stop` raises.
    """
    check_stop()
    require_side(info)
    with opened(path) as data:
        blocks = FORMATS[info.format].container.read_blocks(data)
        size_bytes = len(data)
    if info.frames > 1 and info.format is Format.AVIF:
        raise StageFailed("An animated AVIF can't be converted to WebP: expected a still picture, a GIF, WebP or APNG.")
    if info.frames > 1:
        info = animation.with_actual_alpha(path, info, check_stop)
    if info.frames > 1 and info.format is Format.PNG:
        profile = kept_profile(blocks.icc)

        def encode_frames(quality: int | None) -> bytes:
            return animation.encode_webp(path, info, quality, check_stop)

        encoded = _animated(path, info, encode_frames, profile, target, check_stop)
    else:
        graphic = info.format is Format.PNG and size_bytes < GRAPHIC_BYTES_PER_PIXEL * info.pixels

        def encode(fail_on: str) -> tuple[bytes, bytes | None]:
            def decoded() -> tuple[pyvips.Image, bytes | None]:
                source = open_upright(path, info, all_frames=info.frames > 1, fail_on=fail_on)
                picture, icc = for_display(source, blocks.icc, eight_bit=True)
                return _with_timing(picture, path, info), icc

            image, profile = decoded()
            if info.frames > 1:

                def encode_strip(quality: int | None) -> bytes:
                    return save(decoded()[0], check_stop, **_animation_options(info, quality))

                return _animated(path, info, encode_strip, profile, target, check_stop), profile
            image = finish(image, check_stop, "copy_memory")
            if info.pixels >= LARGE_FROM_PIXELS:
                sample = Sample(image, profile=profile)
                encoder = fast_encoder(check_stop)
                quality = encode_by_sample(sample, encoder, target).quality
                # frees the decoded picture before the encoder takes its share of memory
                del image, sample
                return encoder.encode(decoded()[0], quality), profile
            image, profile = to_srgb_if_it_looks_the_same(image, profile)
            if graphic:
                return encode_graphic(image, profile, size_bytes, target, EFFORTS[effort], check_stop), profile
            return encode_photograph(image, profile, size_bytes, target, EFFORTS[effort], check_stop), profile

        encoded, profile = decode_complete(path, info, encode)
    # libvips does not apply the orientation of an animated WebP
    orientation = info.orientation if info.frames > 1 and info.format is Format.WEBP else 1
    kept = metadata.kept(blocks, info.format, Format.WEBP, keep_location, orientation=orientation)
    return container.with_blocks(encoded, Blocks(kept.exif, kept.xmp, None, profile))


def _with_timing(image: pyvips.Image, path: Path, info: ImageInfo) -> pyvips.Image:
    """An animation's frames with the delays and plays that browsers give them; a still picture unchanged."""
    if info.frames == 1:
        return image
    image = image.copy()
    image.set_type(pyvips.GValue.array_int_type, "delay", animation.delays_ms(path, info))
    image.set_type(pyvips.GValue.gint_type, "loop", animation.plays(path, info))
    return image


def _animated(
    path: Path,
    info: ImageInfo,
    encode: Callable[[int | None], bytes],
    profile: bytes | None,
    target: float,
    check_stop: CheckStop,
) -> bytes:
    """The smaller of a lossless animation and a lossy one whose frames meet the target.

    `encode` writes the animation at a quality, or lossless for None. Each is written only where the sampled frames do
    not already show that the other is smaller.
    """
    delays_ms = animation.delays_ms(path, info)

    def write(quality: int | None) -> bytes:
        return container.with_all_frames(encode(quality), delays_ms, has_alpha=info.has_alpha)

    sample = Sample(animation.sample_frames(path, info, check_stop), profile=profile)
    frames = encode_by_sample(sample, fast_encoder(check_stop), target)
    ratio = len(encode_lossless(sample.image, check_stop, DRAFT_EFFORT)) / len(frames.encoded)
    lossless = write(None) if ratio < MAX_LOSSLESS_RATIO or not frames.meets(target) else None
    if lossless and ratio < 1 / MAX_LOSSLESS_RATIO:
        return lossless

    def attempt(quality: int) -> SearchResult:
        encoded = write(quality)
        decoded = sample.part_of(animation.sample_frames_of_result(encoded, info, check_stop))
        return SearchResult(quality, encoded, sample.score(decoded))

    # an animation scores less than its frames as stills: small changes from one frame to the next are not stored
    lossy = refine(attempt, SCALE, target, frames.quality)
    if lossless is None and not lossy.meets(target):
        lossless = write(None)
    return lossless if lossless and (len(lossless) < len(lossy.encoded) or not lossy.meets(target)) else lossy.encoded


def _animation_options(info: ImageInfo, quality: int | None) -> dict[str, Any]:
    """libvips' options for animations at a quality, and for lossless files without one."""
    effort = DRAFT_EFFORT if info.pixels >= LARGE_FROM_PIXELS else LOSSLESS_EFFORT
    if quality is None:
        return {"lossless": True, "effort": effort}
    return {"Q": quality, "mixed": True, "smart_subsample": True, "effort": effort}


def require_side(info: ImageInfo) -> None:
    """Raises: StageFailed where the picture is larger than WebP can be."""
    if max(info.width_px, info.height_px) > container.MAX_SIDE_PX:
        raise StageFailed(
            f"WebP can be at most {container.MAX_SIDE_PX:,} pixels on a side, but the picture has"
            f" {info.width_px:,} × {info.height_px:,}."
        )
