"""Converts pictures and animations to WebP and AVIF, and makes the working copies that other results are made from.

A working copy is the picture upright, scaled, and in a format that every encoder here reads. It is made where nothing
of a file's picture data can be copied: results that are scaled down have other pixels, and no encoder here writes TIFF
and HEIC. The pixels are stored without loss in a temporary file, which the encoders then read as they read originals:
the quality of results is measured against the scaled picture, and memory does not hold the original picture.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import structs

from imgproc_local.codecs import animation, avif, webp
from imgproc_local.codecs.container import png
from imgproc_local.codecs.container import webp as webp_container
from imgproc_local.codecs.picture.decode import decode_complete, evaluate, in_eight_bits, open_upright, scaled, to_srgb
from imgproc_local.codecs.picture.errors import translate_errors
from imgproc_local.codecs.picture.formats import FORMATS, require_writable
from imgproc_local.codecs.picture.source import DEFAULT_OPTIONS, Picture, ResultOptions, Source, open_source, opened
from imgproc_local.domain.errors import CheckStop, StageFailed
from imgproc_local.domain.image import READ_ONLY_FORMATS, Format, ImageInfo, ScaledSize

_CONVERTERS: dict[Format, Callable[[Source], bytes]] = {Format.WEBP: webp.converted, Format.AVIF: avif.converted}

_PNG_OPTIONS = {"compression": 1, "filter": "sub", "keep": "icc"}
"""Fast, but small enough to tell graphics from photographs by the size of the file."""


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


def has_transparency(copy: Source) -> bool:
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
    if info.format is Format.PNG and png.has_own_colours(source.data):
        file.write_bytes(png.with_colours_of(file.read_bytes(), source.data))
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
