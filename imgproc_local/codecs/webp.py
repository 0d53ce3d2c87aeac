"""WebP: written from any still or animated picture, and made smaller where it is one already."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from imgproc_local.codecs import animation
from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import webp as container
from imgproc_local.codecs.decode import CheckStop, finish, for_display, open_upright, srgb_where_it_fits, whole_or_error
from imgproc_local.codecs.errors import at_border
from imgproc_local.codecs.formats import FORMATS
from imgproc_local.codecs.libvips import pyvips
from imgproc_local.codecs.metadata import strip as metadata
from imgproc_local.codecs.metadata.icc import kept_profile
from imgproc_local.codecs.png import palette
from imgproc_local.codecs.probe import opened
from imgproc_local.codecs.quality.sample import TARGET_SCORE, Sample, score
from imgproc_local.codecs.quality.search import Converted, Form, Found, glimpse, quality_for, settled, smaller, smallest
from imgproc_local.domain.errors import StageFailed
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.privacy import KeepLocation

LOWEST, HIGHEST = 20, 98
USUAL = 88
DRAFT_EFFORT, EFFORT, BEST_EFFORT = 2, 4, 6
GAIN = 1.1
"""So much more than a draft scores the same quality with the best effort."""

CALMLY_PIXELS = 4_000_000
"""Up to here the best effort is made, which takes twice as long as the next for 2 % of the bytes."""

BYTES_PER_POINT = 0.045
"""The logarithm of the bytes that a point of score is worth."""

GRAPHIC_BYTES_PER_PIXEL = 1.0
"""A PNG below this is taken for a graphic, whose sharp edges lossless WebP often stores smaller than lossy."""

LOSSLESS_FROM, PALETTE_FROM = 2.0, 1.4
"""A form without loss that takes so many times the bytes of lossy on the sample is not tried. Samples are busier than
graphics, of whose repeated parts lossless WebP makes most.
"""

CLEARLY = 0.8
"""What a lossless form takes against lossy, by the sample, up to which lossy is not tried."""

PALETTE_SCORE = 3.0
"""So much less than asked the first 256 colours at hand may score: well chosen ones score more."""

POINT_IN_COLOURS = 0.06
"""The logarithm of the bytes saved by fewer colours for each point they score above the target."""

NEAR_LOSSLESS = (20, 40, 60)
NEAR_LOSSLESS_FROM = 0.6
"""Where the best that lossy can do takes less than this part of the bytes there are, near-lossless is tried."""

LARGE_FROM_PIXELS = 24_000_000
"""With more pixels, all frames counted, less effort is made: a third of the time, a tenth more bytes."""


@at_border("The WebP can't be optimised")
def optimize(
    path: Path,
    info: ImageInfo,
    check_stop: CheckStop,
    target: float = TARGET_SCORE,
    keep_location: KeepLocation = KeepLocation.CITY,
) -> bytes | None:
    """A smaller WebP, None where nothing smaller came out. Lossless stays lossless, animated stays animated.

    A lossy file is encoded anew only where it is finer than what is written here and that saves much: each time costs
    quality. Lossy animations keep their frames bit for bit.
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
            encoded = _saved(_timed(image, path, info), check_stop, **_options(info, None))
            if info.frames > 1:
                encoded = container.with_all_frames(encoded, animation.delays_ms(path, info), has_alpha=info.has_alpha)
        elif info.frames > 1:
            finish(image, check_stop, "avg")
        else:
            image = finish(image, check_stop, "copy_memory")
            sample = Sample(image, profile=profile)
            bare = len(container.with_blocks(data, Blocks()))
            encoded = smaller(image, profile, _form(sample, check_stop), bare, target, sample)
        best = clean
        if encoded:
            # the frames of an animation are not turned
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
) -> bytes:
    """The picture as WebP; an animation keeps its frames, delays and loop count.

    `target` is the score that the picture, or its frames, are aimed at.
    WebP has 8 bits per sample: deeper pictures are rounded.
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
        info = animation.as_shown(path, info, check_stop)
    if info.frames > 1 and info.format is Format.PNG:
        profile = kept_profile(blocks.icc)

        def encode_frames(quality: int | None) -> bytes:
            return animation.encode_webp(path, info, quality, check_stop)

        encoded = _animated(path, info, encode_frames, profile, target, check_stop)
    else:
        graphic = info.format is Format.PNG and size_bytes < GRAPHIC_BYTES_PER_PIXEL * info.pixels

        def encode(fail_on: str) -> tuple[bytes, bytes | None]:
            def shown() -> tuple[pyvips.Image, bytes | None]:
                source = open_upright(path, info, all_frames=info.frames > 1, fail_on=fail_on)
                picture, kept_icc = for_display(source, blocks.icc, eight_bit=True)
                return _timed(picture, path, info), kept_icc

            image, profile = shown()
            if info.frames > 1:

                def encode_strip(quality: int | None) -> bytes:
                    return _saved(shown()[0], check_stop, **_options(info, quality))

                return _animated(path, info, encode_strip, profile, target, check_stop), profile
            image = finish(image, check_stop, "copy_memory")
            if info.pixels >= LARGE_FROM_PIXELS:
                sample = Sample(image, profile=profile)
                form = _form(sample, check_stop, large=True)
                quality = quality_for(sample, form, target).quality
                # what was decoded is given back before the encoder takes its share
                del image, sample
                return form.final(shown()[0], quality), profile
            image, profile = srgb_where_it_fits(image, profile)
            return _smallest(image, profile, graphic, size_bytes, target, check_stop), profile

        encoded, profile = whole_or_error(path, info, encode)
    # an animated WebP's frames are not turned here
    orientation = info.orientation if info.frames > 1 and info.format is Format.WEBP else 1
    kept = metadata.kept(blocks, info.format, Format.WEBP, keep_location, orientation=orientation)
    return container.with_blocks(encoded, Blocks(kept.exif, kept.xmp, None, profile))


def _timed(strip: pyvips.Image, path: Path, info: ImageInfo) -> pyvips.Image:
    """An animation's frames with the delays that browsers give them: a still picture as it is."""
    if info.frames == 1:
        return strip
    strip = strip.copy()
    strip.set_type(pyvips.GValue.array_int_type, "delay", animation.delays_ms(path, info))
    strip.set_type(pyvips.GValue.gint_type, "loop", animation.plays(path, info))
    return strip


def _animated(
    path: Path,
    info: ImageInfo,
    encode: Callable[[int | None], bytes],
    profile: bytes | None,
    target: float,
    check_stop: CheckStop,
) -> bytes:
    """The smaller of an animation without loss and one whose frames look as asked, where a glimpse doesn't tell which.

    `encode` gives it at a quality, or lossless without one.
    """
    delays_ms = animation.delays_ms(path, info)

    def write(quality: int | None) -> bytes:
        return container.with_all_frames(encode(quality), delays_ms, has_alpha=info.has_alpha)

    sample = Sample(animation.strip(path, info, check_stop), profile=profile)
    found = quality_for(sample, _form(sample, check_stop, large=True), target)
    times = len(_lossless(sample.image, check_stop, DRAFT_EFFORT)) / len(found.on_sample.encoded)
    lossless = write(None) if times < LOSSLESS_FROM or not found.on_sample.reaches(target) else None
    if lossless and times < 1 / LOSSLESS_FROM:
        return lossless

    def whole(_: pyvips.Image, quality: int) -> bytes:
        return write(quality)

    def seen(encoded: bytes) -> pyvips.Image:
        return sample.part_of(animation.strip_of_result(encoded, info, check_stop))

    # frames lose more than stills: what has changed little is left as it was in the frame before
    form = Form(whole, whole, seen, LOWEST, USUAL, HIGHEST, 0.0)
    lossy = settled(sample, form, target, found.quality).on_sample
    if lossless is None and not lossy.reaches(target):
        lossless = write(None)
    return lossless if lossless and (len(lossless) < len(lossy.encoded) or not lossy.reaches(target)) else lossy.encoded


def _smallest(
    image: pyvips.Image, profile: bytes | None, graphic: bool, size_bytes: int, target: float, check_stop: CheckStop
) -> bytes:
    """The smallest file of a still picture in memory that looks as asked."""
    sample = Sample(image, profile=profile)
    form = _form(sample, check_stop)
    found = glimpse(sample, form, target)
    lossy_bytes = _expected_bytes(found, sample, target)
    exact = list(_exact(image, profile, sample, lossy_bytes, target, check_stop)) if graphic else []
    if exact and len(min(exact, key=len)) < CLEARLY * lossy_bytes:
        return min(exact, key=len)
    lossy = smallest(image, profile, form, target, sample, found)
    # lossy WebP has half the colours' resolution: what lives by them it may not reach at any quality
    if not lossy.reaches(target) and len(lossy.encoded) < NEAR_LOSSLESS_FROM * size_bytes:
        exact += [_lossless(image, check_stop), *_near_lossless(image, profile, target, check_stop)]
    looks_as_asked = [*exact, lossy.encoded] if lossy.reaches(target) else exact
    return min(looks_as_asked, key=len, default=lossy.encoded)


def _expected_bytes(found: Found, sample: Sample, target: float) -> float:
    """What the whole picture takes, by its sample."""
    missing = target - found.on_sample.score
    return float(len(found.on_sample.encoded) * math.exp(BYTES_PER_POINT * missing) / sample.share)


def _exact(
    image: pyvips.Image,
    profile: bytes | None,
    sample: Sample,
    lossy_bytes: float,
    target: float,
    check_stop: CheckStop,
) -> Iterator[bytes]:
    """A graphic lossless and in few colours, each where a glimpse says that it may take less than lossy."""
    if len(_lossless(sample.image, check_stop, DRAFT_EFFORT)) < LOSSLESS_FROM * sample.share * lossy_bytes:
        yield _lossless(image, check_stop)
    if _few_colours_may_do(sample, lossy_bytes, target, check_stop):
        found = palette.reduced(image, profile, target, check_stop)
        if found:
            yield _lossless(found.picture.shown(), check_stop)


def _lossless(image: pyvips.Image, check_stop: CheckStop, effort: int = EFFORT) -> bytes:
    return _saved(image, check_stop, lossless=True, effort=effort)


def _near_lossless(image: pyvips.Image, profile: bytes | None, target: float, check_stop: CheckStop) -> Iterator[bytes]:
    """The smallest of the few forms between lossy and lossless that looks as asked, if one does."""
    for level in NEAR_LOSSLESS:
        encoded = _saved(image, check_stop, lossless=True, near_lossless=True, Q=level, effort=EFFORT)
        if score(image, pyvips.Image.webpload_buffer(encoded).copy_memory(), profile) >= target:
            yield encoded
            break


def _few_colours_may_do(sample: Sample, lossy_bytes: float, target: float, check_stop: CheckStop) -> bool:
    """A glimpse at whether a palette, stored lossless, may take less than lossy."""
    few = finish(
        sample.image,
        check_stop,
        "pngsave_buffer",
        Q=100,
        palette=True,
        dither=0.5,
        effort=1,
        compression=1,
        keep="none",
    )
    shown = pyvips.Image.pngload_buffer(few).copy_memory()
    stored = len(_lossless(shown, check_stop, DRAFT_EFFORT)) / (sample.share * lossy_bytes)
    if stored > PALETTE_FROM:
        return False
    above = sample.score(shown) - target
    return above > -PALETTE_SCORE and stored * math.exp(-POINT_IN_COLOURS * above) < 1


def _form(sample: Sample, check_stop: CheckStop, *, large: bool = False) -> Form:
    """Lossy WebP, its colours sampled as pays: sharply they score more and take more. Large pictures stay drafts."""

    def draft(part: pyvips.Image, quality: int, *, sharp: bool = False) -> bytes:
        return _saved(part, check_stop, Q=quality, effort=DRAFT_EFFORT, smart_subsample=sharp)

    pixels = sample.image.width * sample.image.height / sample.share
    # the slowest effort takes fifty times as long for an alpha channel; the second slowest is nearly as good
    effort = EFFORT if sample.image.hasalpha() else BEST_EFFORT if pixels <= CALMLY_PIXELS else BEST_EFFORT - 1
    decoded = pyvips.Image.webpload_buffer
    if large:
        return Form(draft, draft, decoded, LOWEST, USUAL, HIGHEST, 0.0)
    drafts = [draft(sample.image, USUAL, sharp=each) for each in (False, True)]
    plain, sharp = (Converted(encoded, sample.score(decoded(encoded))) for encoded in drafts)
    more = sharp.score - plain.score
    is_sharp = math.log(len(sharp.encoded) / len(plain.encoded)) < BYTES_PER_POINT * more
    usual = {"effort": effort, "smart_subsample": is_sharp}
    return Form(
        draft,
        lambda part, quality: _saved(part, check_stop, Q=quality, **usual),
        decoded,
        LOWEST,
        USUAL,
        HIGHEST,
        GAIN + (more if is_sharp else 0.0),
        drafted=plain,
        # libwebp gives busy parts fewer bits than calm ones, rarely so few that they fall apart: "text" does not
        even=lambda part, quality: _saved(part, check_stop, Q=quality, preset="text", **usual),
    )


def _saved(image: pyvips.Image, check_stop: CheckStop, **options: Any) -> bytes:
    return bytes(finish(image, check_stop, "webpsave_buffer", keep="none", **options))


def _options(info: ImageInfo, quality: int | None) -> dict[str, Any]:
    """Those of animations and of lossless pictures, which have no quality."""
    effort = DRAFT_EFFORT if info.pixels >= LARGE_FROM_PIXELS else EFFORT
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
