"""Reads HEIC with pillow-heif, where that is installed: libvips' packages have no HEVC decoder.

pillow-heif's wheels hold libheif with x265 and are licensed under the GPL, so it is an extra and never part of the
frozen program.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.domain.errors import BrokenImage, UnsupportedImage
from imgproc_local.domain.image import Format, ImageInfo

_P3_PRIMARIES = (11, 12)
"""The codes of DCI-P3 and Display P3. Source: ITU-T H.273, 8.1."""
_DAMAGED = "The HEIC can't be read: its data is damaged or incomplete."
_HDR_TRANSFERS = (16, 18)
"""PQ and HLG. Source: ITU-T H.273, 8.2."""


def read_info(path: Path) -> ImageInfo:
    """The properties of the primary picture, upright, whatever else the file holds.

    Raises: BrokenImage; UnsupportedImage if its colours are HDR, which a JPEG or PNG of 8 bits can't show.
    """
    picture = _primary(path)
    transfer = picture.info.get("nclx_profile", {}).get("transfer_characteristics")
    if transfer in _HDR_TRANSFERS and not picture.info.get("icc_profile"):
        raise UnsupportedImage(
            "Expected a HEIC of standard dynamic range, but got HDR (PQ or HLG). Export it as JPEG first."
        )
    width_px, height_px = picture.size
    return ImageInfo(
        Format.HEIC, width_px, height_px, has_alpha=picture.has_alpha, bits_per_sample=picture.info["bit_depth"]
    )


def open_upright(path: Path) -> pyvips.Image:
    """The primary picture, decoded in memory, of 8 or 16 bits, with its profile; libheif applies the orientation.

    P3 primaries that are given by their code instead of a profile are converted to sRGB. Raises: BrokenImage.
    """
    picture = _primary(path)
    try:
        rows, stride = bytes(picture.data), picture.stride
    except RuntimeError as error:
        raise BrokenImage(_DAMAGED) from error
    width, height = picture.size
    colours, _, depth = picture.mode.partition(";")
    bands, is_grey = len(colours), len(colours) < 3
    row_bytes = width * bands * (2 if depth else 1)
    if stride != row_bytes:
        rows = b"".join(rows[at : at + row_bytes] for at in range(0, stride * height, stride))
    image = pyvips.Image.new_from_memory(rows, width, height, bands, "ushort" if depth else "uchar")
    spaces = ("grey16", "rgb16") if depth else ("b-w", "srgb")
    image = image.copy(interpretation=spaces[0] if is_grey else spaces[1])
    if picture.premultiplied_alpha:
        image = image.unpremultiply().rint().cast(image.format)
    profile = picture.info.get("icc_profile")
    if profile:
        image.set_type(pyvips.GValue.blob_type, "icc-profile-data", profile)
    elif picture.info.get("nclx_profile", {}).get("color_primaries") in _P3_PRIMARIES and not is_grey:
        return image.icc_transform("srgb", input_profile="p3", embedded=False, depth=16 if depth else 8)
    return image


def _primary(path: Path) -> Any:
    """The file's primary picture, not decoded yet. Raises: BrokenImage."""
    import pillow_heif  # type: ignore[import-not-found, unused-ignore]

    pillow_heif.options.DECODE_THREADS = 1  # the engine decodes several pictures at once
    try:
        pictures = pillow_heif.open_heif(path.read_bytes(), convert_hdr_to_8bit=False)
        return pictures[pictures.primary_index]
    except (RuntimeError, ValueError) as error:
        raise BrokenImage(_DAMAGED) from error
