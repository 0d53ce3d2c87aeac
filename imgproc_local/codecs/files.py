"""Optimizes picture files, and converts pictures and animations to WebP and AVIF.

Optimizing makes a smaller file of the same format, with the same frames and appearance. The steps are the same for
every format: the metadata is cleaned, the format's module supplies candidates, and the smallest one is the result.

Some results are made from a working copy: the picture upright, scaled, and in a format that every encoder here reads.
It is made where nothing of a file's picture data can be copied: results that are scaled down have other pixels, and no
encoder here writes TIFF and HEIC. The pixels are stored without loss in a temporary file, which the encoders then read
as they read originals: the quality of results is measured against the scaled picture, and memory does not hold the
original picture.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import structs

from imgproc_local.codecs import animation, avif, gif, jpeg, png, webp
from imgproc_local.codecs.container import avif as avif_container
from imgproc_local.codecs.container import png as png_container
from imgproc_local.codecs.container import webp as webp_container
from imgproc_local.codecs.picture.decode import decode_complete, evaluate, in_eight_bits, open_upright, scaled, to_srgb
from imgproc_local.codecs.picture.formats import FORMATS, require_writable
from imgproc_local.codecs.picture.libvips import translate_errors
from imgproc_local.codecs.picture.source import DEFAULT_OPTIONS, Picture, ResultOptions, Source, open_source, opened
from imgproc_local.domain.errors import CheckStop, StageFailed
from imgproc_local.domain.image import READ_ONLY_FORMATS, Format, ImageInfo, ScaledSize

CANDIDATES: dict[Format, Callable[[Source], Iterator[bytes]]] = {
    Format.JPEG: jpeg.candidates,
    Format.PNG: png.candidates,
    Format.GIF: gif.candidates,
    Format.WEBP: webp.candidates,
    Format.AVIF: avif.candidates,
}
"""For each format a function that supplies complete files: a clean copy, and encodings that meet the target."""
_CONVERTERS: dict[Format, Callable[[Source], bytes]] = {Format.WEBP: webp.converted, Format.AVIF: avif.converted}


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


def convert_file(
    path: Path,
    picture: Picture,
    new_format: Format,
    check_stop: CheckStop,
    options: ResultOptions = DEFAULT_OPTIONS,
    size: ScaledSize | None = None,
) -> bytes:
    """The picture in `new_format`. The frames, delays and number of plays of an animation are preserved.

    With `size` (as displayed) the picture is scaled to that size, and the score is measured against the scaled picture.
    Of an animation, some frames are scored together.
    Raises: BrokenImage; StageFailed, also for a picture that the format can't hold; and what `check_stop` raises.
    """
    info, name = picture.info, FORMATS[new_format].name
    with translate_errors(f"The picture can't be converted to {name}"):
        width_px, height_px = (size.width_px, size.height_px) if size else info.display_size_px
        require_writable(new_format, width_px, height_px)
        if info.frames > 1 and FORMATS[info.format].read_timing is None:
            raise StageFailed(
                f"An animated {FORMATS[info.format].name} can't be converted to {name}: expected a still picture,"
                " or an animated GIF, WebP or PNG."
            )
        with open_source(path, picture, check_stop, options) as source:
            if size is None and info.format not in READ_ONLY_FORMATS:
                return _CONVERTERS[new_format](source)
            with working_copy(source, size, eight_bit=new_format is Format.WEBP) as copy:
                return _CONVERTERS[new_format](copy)


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
                new_format = Format.PNG if _has_transparency(copy) else Format.JPEG
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
        case Format.AVIF:
            return avif.converted
        case other:  # a GIF is scaled frame by frame, and read-only formats become JPEG or PNG
            raise AssertionError(f"No encoder is chosen here for a scaled {other}.")


def _animated_png(source: Source) -> bytes:
    """The animation of a working copy as an APNG of 8 bits per sample, with the same frames, delays and plays."""
    encoded = animation.encode(source, "PNG", compress_level=1)
    packed = png.deflated_again(encoded, source.info, source.check_stop)
    return png_container.with_blocks(packed, source.blocks_for(Format.PNG))


# ---- working copies

_PNG_OPTIONS = {"compression": 1, "filter": "sub", "keep": "icc"}
"""Fast, but small enough to tell graphics from photographs by the size of the file."""


@contextmanager
def working_copy(source: Source, size: ScaledSize | None, *, eight_bit: bool = False) -> Iterator[Source]:
    """`source` with its picture as a PNG or, if an animation is scaled, a lossless WebP; scaled if `size` is given.

    CMYK is converted to sRGB, and has no profile then. With `eight_bit` samples have at most 8 bits.
    Raises: BrokenImage, StageFailed, and what `check_stop` raises.
    """
    with tempfile.TemporaryDirectory(prefix="imgproc-") as folder:
        file = Path(folder) / "picture"
        if source.info.frames > 1 and size is not None:
            info, has_profile = _write_animation(source, size, file), True
        else:
            info, has_profile = _write_still(source, size, file, eight_bit=eight_bit)
        record = structs.replace(source.record, icc=source.record.icc if has_profile else None)
        with opened(file) as data:
            yield structs.replace(source, path=file, info=info, data=data, record=record)


def _has_transparency(copy: Source) -> bool:
    """Whether a pixel of a working copy, which is a PNG, is not opaque."""
    if not copy.info.has_alpha:
        return False
    image = open_upright(copy.path, copy.info)
    opaque = 65535 if image.format == "ushort" else 255
    return bool(evaluate(image[image.bands - 1], copy.check_stop, "min") < opaque)


def _write_still(source: Source, size: ScaledSize | None, file: Path, *, eight_bit: bool) -> tuple[ImageInfo, bool]:
    """Writes the picture as PNG. Returns its properties, and whether the original's profile applies to its colours."""
    info = source.info

    def write(fail_on: str) -> tuple[ImageInfo, bool]:
        image = open_upright(source.path, info, fail_on=fail_on)
        has_profile = True
        if image.interpretation == "cmyk":
            image, has_profile = to_srgb(image), False
        elif info.format is Format.TIFF:
            # Lab and floating-point numbers are converted while they are decoded, and have no profile afterwards
            has_profile = image.get_typeof("icc-profile-data") != 0
        if size is not None:
            image = scaled(image, size.factor)
        if eight_bit:
            image = in_eight_bits(image)
        evaluate(image, source.check_stop, "pngsave", os.fspath(file), **_PNG_OPTIONS)
        bits = max(info.bits_per_sample, 10) if image.format == "ushort" else 8
        written = ImageInfo(Format.PNG, image.width, image.height, has_alpha=image.hasalpha(), bits_per_sample=bits)
        return written, has_profile

    written = decode_complete(source.path, info, write)
    if info.format is Format.PNG and png_container.has_own_colours(source.data):
        file.write_bytes(png_container.with_colours_of(file.read_bytes(), source.data))
    return written


def _write_animation(source: Source, size: ScaledSize, file: Path) -> ImageInfo:
    """Writes the scaled frames as lossless WebP. Returns its properties."""
    frames = animation.scaled_frames(source, size)
    encoded = evaluate(frames, source.check_stop, "webpsave_buffer", lossless=True, effort=1, keep="none")
    delays, has_alpha = frames.get("delay"), frames.hasalpha()
    file.write_bytes(webp_container.with_merged_frames_restored(encoded, delays, has_alpha=has_alpha))
    return structs.replace(
        source.info,
        format=Format.WEBP,
        width_px=size.width_px,
        height_px=size.height_px,
        orientation=1,
        has_alpha=has_alpha,
        bits_per_sample=8,
    )
