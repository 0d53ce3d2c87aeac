"""Converts still pictures to JPEG XL: a JPEG without loss, so that it can be rebuilt bit for bit; others by pixels.

Of a JPEG the coefficients are stored in fewer bytes, and all else in the box `jbrd`. It is cleaned before, and is the
original itself where nothing private was in it. PNG and lossless WebP remain lossless where that takes fewer bytes than
the optimized file. All else becomes a JPEG at the target score first, whose coefficients are stored: pylibjxl does not
offer libjxl's own lossy encoding, in XYB, only one in RGB that takes four times the bytes. A picture with alpha,
which JPEG can't store, is lossless, or has a palette that meets the target. Samples have 8 bits.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from imgproc_local.codecs import jpeg, png
from imgproc_local.codecs.container import jpeg as jpeg_container
from imgproc_local.codecs.container import jxl as container
from imgproc_local.codecs.container import png as png_container
from imgproc_local.codecs.container import webp as webp_container
from imgproc_local.codecs.picture import decode
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.codecs.picture.other_decoders import jpeg_of, libjxl, rows_of
from imgproc_local.codecs.picture.source import Source, score_of, with_score
from imgproc_local.codecs.quality import search
from imgproc_local.domain.errors import BrokenImage, StageFailed
from imgproc_local.domain.image import Format
from imgproc_local.domain.plan import Effort
from imgproc_local.domain.result import Note

_EFFORTS: dict[Effort, int] = {"fast": 7, "balanced": 7, "best": 8}
"""libjxl's effort for lossless files."""
_LARGE_EFFORT = 4
"""For large pictures: half the time of 7, and 3 % more bytes of a photograph."""


def converted(source: Source) -> bytes:
    """The picture as JPEG XL. Raises: StageFailed for an animation, and what `check_stop` raises."""
    if source.info.frames > 1:
        raise StageFailed("An animation can't be converted to JPEG XL: expected a still picture. Convert it to WebP.")
    if source.info.format is Format.JPEG:
        transcoded = _of_jpeg(source)
        if transcoded is not None:
            return transcoded
    if source.info.has_gain_map:
        source.notes.add(Note.GAIN_MAP_DROPPED)
    return decode.decode_complete(source.path, source.info, partial(_of_pixels, source))


# ---- JPEG


def without_loss(original: bytes) -> bytes | None:
    """A JPEG as JPEG XL, None if libjxl refuses it or it can't be rebuilt bit for bit.

    EXIF and XMP, which libjxl compresses, become plain boxes, because few programs read compressed ones.
    """
    try:
        encoded = bytes(libjxl().jpeg_to_jxl(original))
        readable = container.with_plain_boxes(encoded, jpeg_container.read_blocks(original))
        return readable if jpeg_of(readable) == original else None
    except (RuntimeError, BrokenImage):
        return None


def _of_jpeg(source: Source) -> bytes | None:
    """The JPEG without loss: the original or, where that has private data or libjxl refuses it, the clean copy."""
    originals = [] if source.record.removed else [source.data[:]]
    for original in (*originals, source.clean_copy()):
        source.check_stop()
        encoded = without_loss(original)
        if encoded is not None:
            if jpeg_container.gain_map(source.data) and not jpeg_container.gain_map(original):
                source.notes.add(Note.GAIN_MAP_DROPPED)
            return with_score(encoded, 100.0)
    source.notes.add(Note.NOT_LOSSLESS)
    return None


# ---- pixels


def _of_pixels(source: Source, fail_on: str) -> bytes:
    """Lossless where that is smaller than the optimized file of a lossless original, else the smallest of what meets
    the target, with the record's metadata."""
    stored = decode.open_upright(source.path, source.info, fail_on=fail_on)
    image, profile = decode.for_display(stored, source.record.icc, eight_bit=True)
    image = decode.evaluate(image, source.check_stop, "copy_memory")
    found: list[bytes] = []
    if image.hasalpha() or _is_lossless(source):
        found.append(_losslessly(source, image, profile, 100.0 if stored.format == "uchar" else None))
    if _is_lossless(source) and stored.format == "uchar":
        optimized = min(png.candidates(source), key=len) if source.info.format is Format.PNG else source.data[:]
        if len(found[0]) < len(optimized):
            return found[0]
        if score_of(optimized) is not None:  # a palette that meets the target
            reduced, own = pyvips.Image.pngload_buffer(optimized).autorot(), png_container.read_blocks(optimized).icc
            found.append(_losslessly(source, reduced, own, score_of(optimized)))
    if not image.hasalpha():
        by_jpeg = jpeg.converted(source)
        encoded = with_score(_called("jpeg_to_jxl", by_jpeg), score_of(by_jpeg))
        found.append(source.finished(encoded, Format.JXL, None))
    return min(found, key=len)


def _is_lossless(source: Source) -> bool:
    """Whether the original is stored losslessly; that of a working copy, which is a PNG, may be lossy."""
    if source.info.format is Format.WEBP:
        return webp_container.is_lossless(source.data)
    return source.info.format is Format.PNG and not source.is_copy


def _losslessly(source: Source, image: pyvips.Image, profile: bytes | None, known_score: float | None) -> bytes:
    """A file of exactly these 8-bit pixels, whose score is known, with the profile and the record's metadata."""
    if image.bands == 2:  # pylibjxl takes grey without alpha only
        image = image.colourspace("srgb")
    samples = bytearray(decode.evaluate(image, source.check_stop, "write_to_memory"))
    is_large = source.info.pixels >= search.LARGE_PIXELS
    options = {
        "lossless": True,
        "effort": _LARGE_EFFORT if is_large else _EFFORTS[source.options.effort],
        "icc": profile,
    }
    encoded = _called("encode", rows_of(samples, image.width, image.height, image.bands), **options)
    return source.finished(with_score(encoded, known_score), Format.JXL, None)


def _called(function: str, picture: bytes | memoryview, **options: Any) -> bytes:
    """The result of one of libjxl's functions. Raises: StageFailed."""
    try:
        return bytes(getattr(libjxl(), function)(picture, **options))
    except RuntimeError as error:
        raise StageFailed("The picture can't be stored as JPEG XL. Convert it to another format.") from error
