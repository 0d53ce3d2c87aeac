"""Optimizes files: the result is a smaller file of the same format, with the same frames and appearance.

The steps are the same for every format: the metadata is cleaned, the format's module supplies candidates, and the
smallest candidate is the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from imgproc_local.codecs import animation, avif, gif, png, webp
from imgproc_local.codecs.container import avif as avif_container
from imgproc_local.codecs.container import png as png_container
from imgproc_local.codecs.container import webp as webp_container
from imgproc_local.codecs.convert import has_transparency, working_copy
from imgproc_local.codecs.jpeg import optimize as jpeg
from imgproc_local.codecs.picture.errors import translate_errors
from imgproc_local.codecs.picture.formats import FORMATS, require_writable
from imgproc_local.codecs.picture.source import DEFAULT_OPTIONS, Picture, ResultOptions, Source, open_source
from imgproc_local.domain.errors import CheckStop, StageFailed
from imgproc_local.domain.image import READ_ONLY_FORMATS, Format, ScaledSize

CANDIDATES: dict[Format, Callable[[Source], Iterator[bytes]]] = {
    Format.JPEG: jpeg.candidates,
    Format.PNG: png.candidates,
    Format.GIF: gif.candidates,
    Format.WEBP: webp.candidates,
    Format.AVIF: avif.candidates,
}
"""For each format a function that supplies complete files: a clean copy, and encodings that meet the target."""


def optimize_file(
    path: Path, picture: Picture, check_stop: CheckStop, options: ResultOptions = DEFAULT_OPTIONS
) -> bytes | None:
    """A smaller file of the same format, None if none was found. For a file that this function returned, None.

    A file with private data is never left as it is: if no smaller file was found, the cleaned one is returned although
    it is not smaller.
    Raises: BrokenImage, StageFailed, and what `check_stop` raises.
    """
    with (
        translate_errors(f"The {FORMATS[picture.info.format].name} can't be optimized"),
        open_source(path, picture, check_stop, options) as source,
    ):
        best = min(CANDIDATES[picture.info.format](source), key=len)
        if len(best) < len(source.data):
            return best
        return best if picture.record.removed and best != source.data[:] else None


def encode_file(
    path: Path,
    picture: Picture,
    check_stop: CheckStop,
    options: ResultOptions = DEFAULT_OPTIONS,
    size: ScaledSize | None = None,
) -> tuple[bytes, Format]:
    """The picture encoded anew, scaled to `size` if that is given, and its format.

    The format is that of the file. A TIFF or HEIC becomes a PNG if a pixel is transparent, otherwise a JPEG, both with
    8 bits per sample; the other formats need a `size`. The score is measured against the scaled picture. Lossless WebP
    remains lossless; a gain map is dropped.
    Raises: BrokenImage; StageFailed, also for a picture that can't be scaled; and what `check_stop` raises.
    """
    info = picture.info
    name = FORMATS[info.format].name
    with (
        translate_errors(f"The {name} can't be {'scaled' if size else 'converted'}"),
        open_source(path, picture, check_stop, options) as source,
    ):
        if info.format is Format.GIF and size is not None:
            return gif.scaled(source, size), Format.GIF
        if info.format is Format.AVIF and (info.frames > 1 or avif_container.has_own_colours(source.data)):
            raise StageFailed(
                "An AVIF that is animated, or whose colours are HDR or a wide gamut without a profile, can't be scaled."
                " Send it without a maximum size."
            )
        with working_copy(source, size, eight_bit=info.format in READ_ONLY_FORMATS) as copy:
            if info.format in READ_ONLY_FORMATS:
                new_format = Format.PNG if has_transparency(copy) else Format.JPEG
                require_writable(new_format, copy.info.width_px, copy.info.height_px)
                return (png.converted if new_format is Format.PNG else jpeg.converted)(copy), new_format
            return _encoder_of_scaled(source)(copy), info.format


def _encoder_of_scaled(source: Source) -> Callable[[Source], bytes]:
    """The function that encodes a working copy in the format of `source`."""
    match source.info.format:
        case Format.JPEG:
            return jpeg.converted
        case Format.PNG:
            return png.converted if source.info.frames == 1 else _animated_png
        case Format.WEBP:
            return webp.lossless if webp_container.is_lossless(source.data) else webp.converted
        case _:
            return avif.converted


def _animated_png(source: Source) -> bytes:
    """The animation of a working copy as an APNG of 8 bits per sample, with the same frames, delays and plays."""
    encoded = animation.encode(source, "PNG", compress_level=1)
    packed = png.deflated_again(encoded, source.info, source.check_stop)
    return png_container.with_blocks(packed, source.blocks_for(Format.PNG))
