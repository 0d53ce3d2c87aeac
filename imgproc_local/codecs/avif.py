"""AVIF: written from any still or animated picture, and made smaller where it is one already.

Stills are encoded by libvips, in 4:4:4 where memory allows; animations by Pillow's libavif.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyvips

from imgproc_local.codecs import animation, metadata
from imgproc_local.codecs.border import at_border
from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import avif as container
from imgproc_local.codecs.conversion import Form, smallest
from imgproc_local.codecs.decode import CheckStop, finish, for_display, open_upright, srgb_where_it_fits, whole_or_error
from imgproc_local.codecs.icc import kept_profile
from imgproc_local.codecs.probe import opened
from imgproc_local.codecs.search import TARGET_SCORE, Sample
from imgproc_local.domain.errors import StageFailed
from imgproc_local.domain.image import Format, ImageInfo

QUALITY = 60
"""Of pictures whose quality is not searched: large and deep ones."""

LOWEST, HIGHEST = 20, 95
USUAL = 76
EFFORT = 3
_DRAFT = {"effort": 0, "bitdepth": 8}
GAIN = 2.2
"""So much more than a draft scores the same quality with the usual effort."""

WORTH_IT = 0.85
LARGE_FROM_PIXELS = 24_000_000
"""Larger pictures are stored in 4:2:0: the encoder holds all planes, 1.6 GB for 50 megapixels in 4:4:4, 1.05 GB so."""

MAX_SIDE_PX = 16384
"""libvips writes no larger HEIF."""

_HDR_TRANSFERS = (16, 18)


@at_border("The AVIF can't be optimised")
def optimize(path: Path, info: ImageInfo, check_stop: CheckStop) -> bytes | None:
    """A smaller AVIF, None where nothing smaller came out.

    Animations and HDR pictures (PQ, HLG) keep their picture data bit for bit and lose only metadata that must go.
    Raises: BrokenImage, StageFailed, and what `check_stop` raises.
    """
    check_stop()
    with opened(path) as data:
        blocks = metadata.read_blocks(data, Format.AVIF)
        clean = metadata.cleaned(data, blocks, Format.AVIF, lambda new, _: container.with_blocks(data, new))
        best = clean
        hdr = container.transfer_characteristics(data) in _HDR_TRANSFERS
        if hdr or info.frames > 1:
            finish(open_upright(path, info), check_stop, "avg")
        elif max(info.width_px, info.height_px) <= MAX_SIDE_PX:
            image = open_upright(path, info)
            encoded = _encode(image, info, kept_profile(blocks.icc), blocks, QUALITY, check_stop)
            best = encoded if len(encoded) <= WORTH_IT * len(clean) else clean
        return best if len(best) < len(data) else None


@at_border("The picture can't be converted to AVIF")
def convert(path: Path, info: ImageInfo, check_stop: CheckStop, target: float = TARGET_SCORE) -> bytes:
    """The picture as AVIF, 16-bit sources in 10 bits; an animation becomes an AVIF sequence.

    `target` is the score that a still 8-bit picture is aimed at.
    Raises: BrokenImage, StageFailed, and what `check_stop` raises.
    """
    check_stop()
    if max(info.width_px, info.height_px) > MAX_SIDE_PX:
        raise StageFailed(
            f"AVIF is written with at most {MAX_SIDE_PX:,} pixels on a side, but the picture has"
            f" {info.width_px:,} × {info.height_px:,}."
        )
    with opened(path) as data:
        blocks = metadata.read_blocks(data, info.format)
        size_bytes = len(data)
    if info.frames > 1:
        if info.format is Format.AVIF:
            raise StageFailed("An animated AVIF is one already: expected another format to convert from.")
        kept = metadata.kept(blocks, info.format, Format.AVIF)
        return container.with_blocks(animation.encode_avif(path, info, kept, check_stop), kept)

    def encode(fail_on: str) -> bytes:
        image, profile = for_display(open_upright(path, info, fail_on=fail_on), blocks.icc, eight_bit=False)
        if info.pixels >= LARGE_FROM_PIXELS or image.format != "uchar":
            return _encode(image, info, profile, blocks, QUALITY, check_stop)
        image, profile = srgb_where_it_fits(finish(image, check_stop, "copy_memory"), profile)
        kept = metadata.kept(blocks, info.format, Format.AVIF)
        image = _with_blocks(image, kept, profile)
        sample = Sample(image, profile=profile)
        found = smallest(image, profile, _form(info, check_stop), size_bytes, target, sample)
        return container.with_blocks(found.encoded, kept)

    return whole_or_error(path, info, encode)


def _encode(
    image: pyvips.Image, info: ImageInfo, profile: bytes | None, blocks: Blocks, quality: int, check_stop: CheckStop
) -> bytes:
    kept = metadata.kept(blocks, info.format, Format.AVIF)
    image = _with_blocks(image, kept, profile)
    encoded = finish(image, check_stop, "heifsave_buffer", keep="all", **_options(info, quality))
    # libvips adds fields of its own to EXIF: the block is exchanged for exactly what is kept
    return container.with_blocks(encoded, kept)


def _form(info: ImageInfo, check_stop: CheckStop) -> Form:
    def encode(part: pyvips.Image, **options: Any) -> bytes:
        return bytes(finish(part, check_stop, "heifsave_buffer", **options))

    return Form(
        lambda part, quality: encode(part, keep="none", **_options(info, quality) | _DRAFT),
        lambda part, quality: encode(part, keep="all", **_options(info, quality)),
        _decoded,
        LOWEST,
        USUAL,
        HIGHEST,
        GAIN,
    )


def _decoded(data: bytes) -> pyvips.Image:
    """In 8 bits."""
    image = pyvips.Image.heifload_buffer(data)
    return image.colourspace("srgb", source_space="rgb16") if image.format == "ushort" else image


def _with_blocks(image: pyvips.Image, kept: Blocks, profile: bytes | None) -> pyvips.Image:
    image = image.copy()
    for name in image.get_fields():
        if name.endswith("-data") or name.startswith("exif-"):
            image.remove(name)
    for name, block in (("exif-data", kept.exif), ("xmp-data", kept.xmp), ("icc-profile-data", profile)):
        if block:
            image.set_type(pyvips.GValue.blob_type, name, b"Exif\0\0" + block if name == "exif-data" else block)
    return image


def _options(info: ImageInfo, quality: int) -> dict[str, Any]:
    large = info.pixels >= LARGE_FROM_PIXELS
    return {
        "Q": quality,
        "effort": EFFORT,
        "compression": "av1",
        "subsample_mode": "on" if large else "off",
        "bitdepth": 12 if info.bits_per_sample == 12 else 8 if info.bits_per_sample <= 8 and large else 10,
    }
