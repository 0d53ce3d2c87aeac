"""Optimizes picture files, and converts pictures and animations to other formats.

Optimizing makes a smaller file of the same format, with the same frames and appearance. The steps are the same for
every format: the metadata is cleaned, the format's module supplies candidates, and the smallest one is the result.

Some results are made from a working copy: the picture upright, scaled, and in a format that every encoder here reads.
It is made where nothing of a file's picture data can be copied: results that are scaled down have other pixels, no
encoder here writes TIFF and HEIC, and none reads them or JPEG XL. The pixels are stored without loss in a temporary
file, which the encoders then read as they read originals: the quality of results is measured against the scaled
picture, and memory does not hold the original picture.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, structs

from imgproc_local.codecs import animation, avif, gif, jpeg, jxl, png, webp
from imgproc_local.codecs.container import png as png_container
from imgproc_local.codecs.container import webp as webp_container
from imgproc_local.codecs.picture import decode
from imgproc_local.codecs.picture.formats import FORMATS, require_writable
from imgproc_local.codecs.picture.libvips import pyvips, translate_errors
from imgproc_local.codecs.picture.source import (
    DEFAULT_OPTIONS,
    Picture,
    ResultOptions,
    Source,
    open_source,
    opened,
    score_of,
)
from imgproc_local.codecs.quality import search
from imgproc_local.domain.errors import CheckStop, StageFailed
from imgproc_local.domain.image import READ_ONLY_FORMATS, Format, ImageInfo, ScaledSize
from imgproc_local.domain.result import Note

CANDIDATES: dict[Format, Callable[[Source], Iterator[bytes]]] = {
    Format.JPEG: jpeg.candidates,
    Format.PNG: png.candidates,
    Format.GIF: gif.candidates,
    Format.WEBP: webp.candidates,
    Format.AVIF: avif.candidates,
}
"""For each format a function that supplies complete files: a clean copy, and encodings that meet the target."""
_CONVERTERS: dict[Format, Callable[[Source], bytes]] = {
    Format.JPEG: jpeg.converted,
    Format.PNG: png.converted,
    Format.WEBP: webp.converted,
    Format.AVIF: avif.converted,
    Format.JXL: jxl.converted,
}
"""The functions that encode a picture in a format; JPEG and PNG that of a working copy only."""


class Encoded(Struct, frozen=True):
    """A complete file, and what it could not carry of the picture. `variants` are the same file at other sizes."""

    data: bytes
    format: Format
    notes: tuple[Note, ...] = ()
    variants: tuple[bytes, ...] = ()

    @property
    def score(self) -> float | None:
        """The score that the search for this encoding measured, None if it was not measured."""
        return score_of(self.data)


def optimize_file(
    path: Path, picture: Picture, check_stop: CheckStop, options: ResultOptions = DEFAULT_OPTIONS
) -> Encoded | None:
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
        is_cleaned = picture.record.removed and best != source.data[:]
        return _encoded(best, source, picture.info.format) if is_cleaned or len(best) < len(source.data) else None


def convert_file(
    path: Path,
    picture: Picture,
    new_format: Format,
    check_stop: CheckStop,
    options: ResultOptions = DEFAULT_OPTIONS,
    size: ScaledSize | None = None,
    variant_sizes: Sequence[ScaledSize] = (),
) -> Encoded:
    """The picture in `new_format`. The frames, delays and number of plays of an animation are preserved.

    With `size` (as displayed) the picture is scaled to that size, and the score is measured against the scaled picture.
    Of an animation, some frames are scored together. So are the variants, at these sizes.
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
            may_hold_jpeg = new_format is Format.JXL and source.info.format is Format.JPEG and size is None
            if info.has_gain_map and not may_hold_jpeg:
                source.notes.add(Note.GAIN_MAP_DROPPED)
            encode, sizes = _CONVERTERS[new_format], [size, *variant_sizes]
            made: dict[ScaledSize | None, Encoded] = {}
            # a JPEG XL has 8 bits, and so has the JPEG that it is made of
            is_deep = new_format is Format.JXL and source.info.bits_per_sample > 8
            needs_copy = source.info.format in READ_ONLY_FORMATS or info.colours is not None or is_deep
            decoded = _decoded(source) if len(sizes) > (1 if needs_copy or size else 2) else None
            source.found.largest_pixels = width_px * height_px if variant_sizes else 0
            # the smallest first: what its trials show saves trials of the larger ones, which take most of the time
            for each in sorted(sizes, key=lambda each: each.factor if each else 1):
                own = structs.replace(source, notes=set(source.notes))
                if each is None and not needs_copy:
                    decoded = None  # frees it before the encoder takes its share of memory
                    made[each] = _encoded(encode(own), own, new_format)
                    continue
                with working_copy(own, each, new_format, decoded) as copy:
                    made[each] = _encoded(encode(copy), copy, new_format)
            return structs.replace(made[size], variants=tuple(made[each].data for each in variant_sizes))


def encode_file(
    path: Path,
    picture: Picture,
    check_stop: CheckStop,
    options: ResultOptions = DEFAULT_OPTIONS,
    size: ScaledSize | None = None,
) -> Encoded:
    """The picture encoded anew, scaled to `size` if that is given.

    The format is that of the file. A TIFF, JPEG XL or HEIC becomes a PNG if a pixel is transparent, otherwise a JPEG,
    both with 8 bits per sample; one that was made of a JPEG becomes that JPEG, optimized. The other formats need a
    `size`. The score is measured against the scaled picture. Lossless WebP remains lossless; the gain map of a JPEG is
    scaled with it, that of other formats is dropped.
    Raises: BrokenImage; StageFailed, also for a picture that can't be scaled; and what `check_stop` raises.
    """
    name = FORMATS[picture.info.format].name
    with (
        translate_errors(f"The {name} can't be {'scaled' if size else 'converted'}"),
        open_source(path, picture, check_stop, options) as source,
    ):
        info = source.info
        if size is None and info.format not in READ_ONLY_FORMATS:
            return _encoded(min(CANDIDATES[info.format](source), key=len), source, info.format)
        if info.format is Format.GIF and size is not None:
            return _encoded(gif.scaled(source, size), source, Format.GIF)
        if info.format is Format.AVIF and info.frames > 1:
            raise StageFailed("An AVIF that is animated can't be scaled. Send it without a maximum size.")
        if info.has_gain_map and info.format is not Format.JPEG:
            source.notes.add(Note.GAIN_MAP_DROPPED)
        # the copy of what becomes a JPEG or PNG is as a JPEG needs it
        new_format = Format.JPEG if info.format in READ_ONLY_FORMATS else info.format
        with working_copy(source, size, new_format) as copy:
            if info.format in READ_ONLY_FORMATS:
                new_format = Format.PNG if _has_transparency(copy) else Format.JPEG
                require_writable(new_format, copy.info.width_px, copy.info.height_px)
            encode = _CONVERTERS[new_format]
            if info.format is Format.PNG and info.frames > 1:
                encode = _animated_png
            elif info.format is Format.WEBP and webp_container.is_lossless(source.data):
                encode = webp.lossless
            encoded = encode(copy)
            if info.format is Format.JPEG and size is not None:
                encoded = jpeg.with_gain_map(source, encoded, jpeg.cleaned_gain_map(source), factor=size.factor)
            return _encoded(encoded, copy, new_format)


def _encoded(data: bytes, source: Source, new_format: Format) -> Encoded:
    return Encoded(data, new_format, tuple(sorted(source.notes)))


def _animated_png(source: Source) -> bytes:
    """The animation of a working copy as an APNG of 8 bits per sample, with the same frames, delays and plays."""
    encoded = animation.encode(source, "PNG", compress_level=1)
    packed = png.deflated_again(encoded, source.info, source.check_stop)
    return source.finished(packed, Format.PNG, source.record.icc)


# ---- working copies

_PNG_OPTIONS = {"compression": 1, "filter": "sub", "keep": "icc"}
"""Fast, but small enough to tell graphics from photographs by the size of the file."""

_DEEP_FORMATS = (Format.PNG, Format.AVIF)
"""The formats whose files can have more than 8 bits per sample, and colours that numbers define."""


@contextmanager
def working_copy(
    source: Source, size: ScaledSize | None, target: Format, decoded: pyvips.Image | None = None
) -> Iterator[Source]:
    """`source` with its picture as a PNG or, if an animation is scaled, a lossless WebP; scaled if `size` is given.

    CMYK is converted to sRGB, and has no profile then. Samples have 8 bits, and colours that numbers define are
    converted, HDR as browsers show it, unless files of the format `target` can have them. `decoded` is the picture if
    it is in memory already.
    Raises: BrokenImage, StageFailed, and what `check_stop` raises.
    """
    if source.info.frames > 1 and source.info.colours:
        raise StageFailed("An animation whose colours are HDR or a wide gamut without a profile can't be converted.")
    with tempfile.TemporaryDirectory(prefix="imgproc-") as folder:
        file = Path(folder) / "picture"
        if source.info.frames > 1 and size is not None:
            info, profile = _write_animation(source, size, file), source.record.icc
        else:
            info, profile = _write_still(source, size, file, target, decoded)
        record = structs.replace(source.record, icc=profile)
        with opened(file) as data:
            yield structs.replace(source, path=file, info=info, data=data, record=record, is_copy=True)


def _decoded(source: Source) -> pyvips.Image | None:
    """The picture in memory, for several working copies; None if it is animated, or too large to be kept meanwhile."""
    info, check_stop = source.info, source.check_stop
    if info.frames > 1 or info.pixels >= search.LARGE_PIXELS:
        return None

    def in_memory(fail_on: str) -> pyvips.Image:
        return decode.evaluate(decode.open_upright(source.path, info, fail_on=fail_on), check_stop, "copy_memory")

    return decode.decode_complete(source.path, info, in_memory)


def _has_transparency(copy: Source) -> bool:
    """Whether a pixel of a working copy, which is a PNG, is not opaque."""
    if not copy.info.has_alpha:
        return False
    image = decode.open_upright(copy.path, copy.info)
    opaque = 65535 if image.format == "ushort" else 255
    return bool(decode.evaluate(image[image.bands - 1], copy.check_stop, "min") < opaque)


def _write_still(
    source: Source, size: ScaledSize | None, file: Path, target: Format, decoded: pyvips.Image | None
) -> tuple[ImageInfo, bytes | None]:
    """Writes the picture as PNG. Returns its properties, and the profile of its colours."""
    info, is_deep = source.info, target in _DEEP_FORMATS
    kept_colours = info.colours if is_deep else None

    def write(fail_on: str) -> tuple[ImageInfo, bytes | None]:
        image = decoded or decode.open_upright(source.path, info, fail_on=fail_on)
        profile = source.record.icc
        if image.interpretation == "cmyk":
            image, profile = decode.to_srgb(image), None
        elif info.format is Format.TIFF and not image.get_typeof("icc-profile-data"):
            # Lab and floating-point numbers are converted while they are decoded, and have no profile afterwards
            profile = None
        if size is not None:
            image = decode.scaled(image, size.factor)
        if info.colours and not is_deep:
            image, profile = decode.as_browsers_show(image, info.colours)
            source.notes.update({Note.TONE_MAPPED} if info.colours.is_hdr else ())
        if not is_deep:
            image = decode.in_eight_bits(image)
        decode.evaluate(image, source.check_stop, "pngsave", os.fspath(file), **_PNG_OPTIONS)
        bits = max(info.bits_per_sample, 10) if image.format == "ushort" else 8
        written = ImageInfo(Format.PNG, image.width, image.height, has_alpha=image.hasalpha(), bits_per_sample=bits)
        return structs.replace(written, colours=kept_colours), profile

    written = decode.decode_complete(source.path, info, write)
    if info.format is Format.PNG and png_container.has_own_colours(source.data) and kept_colours == info.colours:
        file.write_bytes(png_container.with_colours_of(file.read_bytes(), source.data))
    return written


def _write_animation(source: Source, size: ScaledSize, file: Path) -> ImageInfo:
    """Writes the scaled frames as lossless WebP. Returns its properties."""
    frames = animation.scaled_frames(source, size)
    encoded = decode.evaluate(frames, source.check_stop, "webpsave_buffer", lossless=True, effort=1, keep="none")
    delays, has_alpha = frames.get("delay"), frames.hasalpha()
    file.write_bytes(webp_container.with_merged_frames_restored(encoded, delays, has_alpha=has_alpha))
    return ImageInfo(Format.WEBP, size.width_px, size.height_px, source.info.frames, has_alpha=has_alpha)
