"""WebP: written from any still or animated picture, and made smaller where it is one already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyvips

from imgproc_local.codecs import animation, metadata
from imgproc_local.codecs.border import at_border
from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import webp as container
from imgproc_local.codecs.decode import CheckStop, finish, for_display, open_upright, whole_or_error
from imgproc_local.codecs.icc import kept_profile
from imgproc_local.codecs.probe import opened
from imgproc_local.codecs.search import TARGET_SCORE, quality_for_conversion
from imgproc_local.domain.errors import StageFailed
from imgproc_local.domain.image import Format, ImageInfo

QUALITY = 80
"""Of pictures whose quality is not searched: large ones."""

LOWEST, HIGHEST = 20, 98
EFFORT = 4
ANIMATION_QUALITY = 75
WORTH_IT = 0.85
GRAPHIC_BYTES_PER_PIXEL = 1.0
"""A PNG below this is taken for a graphic, whose sharp edges lossless WebP often stores smaller than lossy."""

CLEAN_EDGES_WORTH = 1.3
"""So many times the bytes of lossy may a lossless graphic have: lossy softens its edges."""

LARGE_FROM_PIXELS = 24_000_000
"""With more pixels, all frames counted, less effort is made: a third of the time, a tenth more bytes."""


@at_border("The WebP can't be optimised")
def optimize(path: Path, info: ImageInfo, check_stop: CheckStop) -> bytes | None:
    """A smaller WebP, None where nothing smaller came out. Lossless stays lossless, animated stays animated.

    A lossy file is encoded anew only where that saves much: each time costs quality.
    Raises: BrokenImage, StageFailed, and what `check_stop` raises.
    """
    check_stop()
    with opened(path) as data:
        blocks = metadata.read_blocks(data, Format.WEBP)
        profile = kept_profile(blocks.icc)
        clean = metadata.cleaned(
            data,
            blocks,
            Format.WEBP,
            lambda new, _: container.with_blocks(data, new),
            orientation=info.orientation,
        )
        lossless = container.is_lossless(data)
        image = open_upright(path, info, all_frames=info.frames > 1)
        encoded = finish(image, check_stop, "webpsave_buffer", keep="none", **_options(info, lossless=lossless))
        # the frames of an animation are not turned
        orientation = info.orientation if info.frames > 1 else 1
        kept = metadata.kept(blocks, Format.WEBP, Format.WEBP, orientation=orientation)
        best = container.with_blocks(encoded, Blocks(kept.exif, kept.xmp, None, profile))
        if len(best) > (1 if lossless else WORTH_IT) * len(clean):
            best = clean
        return best if len(best) < len(data) else None


@at_border("The picture can't be converted to WebP")
def convert(path: Path, info: ImageInfo, check_stop: CheckStop, target: float = TARGET_SCORE) -> bytes:
    """The picture as WebP; an animation keeps its frames, delays and loop count.

    `target` is the score that a still picture is aimed at.
    WebP has 8 bits per sample: deeper pictures are rounded.
    Raises: BrokenImage, StageFailed, and what `check_stop` raises.
    """
    check_stop()
    require_side(info)
    with opened(path) as data:
        blocks = metadata.read_blocks(data, info.format)
        size_bytes = len(data)
    if info.frames > 1 and info.format is Format.AVIF:
        raise StageFailed("An animated AVIF can't be converted to WebP: expected a still picture, a GIF, WebP or APNG.")
    if info.frames > 1 and info.format is Format.PNG:
        encoded, profile = animation.encode_webp(path, info, check_stop), kept_profile(blocks.icc)
    else:
        graphic = info.format is Format.PNG and size_bytes < GRAPHIC_BYTES_PER_PIXEL * info.pixels

        def encode(fail_on: str) -> tuple[bytes, bytes | None]:
            source = open_upright(path, info, all_frames=info.frames > 1, fail_on=fail_on)
            image, profile = for_display(source, blocks.icc, eight_bit=True)
            return _smallest(info, image, graphic, size_bytes, target, check_stop), profile

        encoded, profile = whole_or_error(path, info, encode)
    kept = metadata.kept(blocks, info.format, Format.WEBP)
    return container.with_blocks(encoded, Blocks(kept.exif, kept.xmp, None, profile))


def _smallest(
    info: ImageInfo, image: Any, graphic: bool, size_bytes: int, target: float, check_stop: CheckStop
) -> bytes:
    if info.frames > 1 or info.pixels >= LARGE_FROM_PIXELS:
        return bytes(finish(image, check_stop, "webpsave_buffer", keep="none", **_options(info)))
    image = finish(image, check_stop, "copy_memory")
    quality = quality_for_conversion(
        image,
        size_bytes,
        lambda part, quality: finish(part, check_stop, "webpsave_buffer", keep="none", **_options(info, quality)),
        pyvips.Image.webpload_buffer,
        target,
        lowest=LOWEST,
        highest=HIGHEST,
        start=QUALITY,
    )
    lossy = finish(image, check_stop, "webpsave_buffer", keep="none", **_options(info, quality))
    if not graphic:
        return bytes(lossy)
    lossless = finish(image, check_stop, "webpsave_buffer", keep="none", **_options(info, lossless=True))
    return bytes(lossless if len(lossless) <= CLEAN_EDGES_WORTH * len(lossy) else lossy)


def _options(info: ImageInfo, quality: int = QUALITY, *, lossless: bool = False) -> dict[str, Any]:
    if lossless:
        return {"lossless": True, "effort": EFFORT if info.pixels < LARGE_FROM_PIXELS else 2}
    if info.frames > 1:
        return {"Q": ANIMATION_QUALITY, "mixed": True, "effort": EFFORT if info.pixels < LARGE_FROM_PIXELS else 2}
    large = info.pixels >= LARGE_FROM_PIXELS
    return {"Q": quality, "effort": 2 if large else EFFORT, "smart_subsample": not large}


def require_side(info: ImageInfo) -> None:
    """Raises: StageFailed where the picture is larger than WebP can be."""
    if max(info.width_px, info.height_px) > container.MAX_SIDE_PX:
        raise StageFailed(
            f"WebP can be at most {container.MAX_SIDE_PX:,} pixels on a side, but the picture has"
            f" {info.width_px:,} × {info.height_px:,}."
        )
