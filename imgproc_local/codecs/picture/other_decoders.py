"""Reads what libvips' packages can't decode, where the decoder is installed: HEIC and JPEG XL.

HEIC is decoded by pillow-heif. Its wheels hold libheif with x265 and are licensed under the GPL, so it is an extra and
never part of the frozen program. JPEG XL is decoded by libjxl in pylibjxl, of which only the compiled module is loaded:
the package's `__init__` would load NumPy, which the frozen program lacks.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from importlib.machinery import PathFinder
from math import prod
from pathlib import Path
from typing import Any

from imgproc_local.codecs.container import Data, jxl
from imgproc_local.codecs.metadata.icc import kept_profile
from imgproc_local.codecs.picture.formats import HOW_TO_INSTALL_JXL
from imgproc_local.codecs.picture.libvips import of_samples, pyvips, with_profile
from imgproc_local.domain.errors import BrokenImage, UnsupportedImage
from imgproc_local.domain.image import HDR_TRANSFERS, Format, ImageInfo

_DAMAGED_HEIC = "The HEIC can't be read: its data is damaged or incomplete."
_DAMAGED_JXL = "The JPEG XL can't be read: its data is damaged or incomplete."
_CHANGED_JXL = (
    "The JPEG that this JPEG XL was made of can't be rebuilt: the file is damaged or was changed since, or there is not"
    " enough memory. Save it again as another picture."
)


def read_heic_info(path: Path) -> ImageInfo:
    """The properties of the primary picture, upright, whatever else the file holds. Raises: BrokenImage."""
    picture = _primary(path)
    width_px, height_px = picture.size
    return ImageInfo(
        Format.HEIC, width_px, height_px, has_alpha=picture.has_alpha, bits_per_sample=picture.info["bit_depth"]
    )


def open_heic(path: Path) -> pyvips.Image:
    """The primary picture, decoded in memory, of 8 or 16 bits, with its profile; libheif applies the orientation.

    Raises: BrokenImage.
    """
    picture = _primary(path)
    try:
        rows, stride = bytes(picture.data), picture.stride
    except RuntimeError as error:
        raise BrokenImage(_DAMAGED_HEIC) from error
    width, height = picture.size
    colours, _, depth = picture.mode.partition(";")
    bands = len(colours)
    row_bytes = width * bands * (2 if depth else 1)
    if stride != row_bytes:
        rows = b"".join(rows[at : at + row_bytes] for at in range(0, stride * height, stride))
    image = of_samples(rows, width, height, bands, is_deep=bool(depth))
    image = with_profile(image, picture.info.get("icc_profile"))
    if picture.premultiplied_alpha:
        image = image.unpremultiply().rint().cast(image.format)
    return image


def _primary(path: Path) -> Any:
    """The file's primary picture, not decoded yet. Raises: BrokenImage."""
    import pillow_heif  # type: ignore[import-not-found, unused-ignore]

    pillow_heif.options.DECODE_THREADS = 1  # the engine decodes several pictures at once
    try:
        pictures = pillow_heif.open_heif(path.read_bytes(), convert_hdr_to_8bit=False)
        return pictures[pictures.primary_index]
    except (RuntimeError, ValueError) as error:
        raise BrokenImage(_DAMAGED_HEIC) from error


# ---- JPEG XL ----


@cache
def libjxl() -> Any:
    """libjxl with one thread, because the engine decodes several pictures at once.

    Raises: UnsupportedImage if pylibjxl is not installed.
    """
    package = importlib.util.find_spec("pylibjxl")
    spec = PathFinder.find_spec("_pylibjxl", package.submodule_search_locations) if package else None
    if spec is None or spec.loader is None:
        raise UnsupportedImage(HOW_TO_INSTALL_JXL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.JXL(threads=1)


def rows_of(samples: bytearray, width: int, height: int, bands: int) -> memoryview:
    """Samples in memory as pylibjxl takes them instead of an array of NumPy."""
    return memoryview(samples).cast("B", (height, width, bands))


def read_jxl_info(data: Data) -> ImageInfo:
    """The properties of a still picture, upright. Raises: BrokenImage; UnsupportedImage for an animation, and
    for colours that nothing here converts."""
    encoded = jxl.codestream(data)
    header = _header(encoded)
    if header["have_animation"]:
        raise UnsupportedImage("Expected a still JPEG XL, but got an animation.")
    if not jxl.has_jpeg(data) and jxl.colours(encoded) not in (jxl.SRGB, jxl.P3, None):
        raise UnsupportedImage(
            "Expected a JPEG XL in sRGB, in Display P3 or with an ICC profile, but it has other colours, such as HDR or"
            " BT.2020. Save it again with a profile, or as another picture."
        )
    return ImageInfo(Format.JXL, header["width"], header["height"], has_alpha=header["has_alpha"])


def open_jxl(path: Path) -> pyvips.Image:
    """The picture, decoded in memory, in sRGB of 8 bits; libjxl applies the orientation.

    Raises: BrokenImage; UnsupportedImage for HDR, which would lose its highlights.
    """
    encoded = jxl.codestream(path.read_bytes())
    header = _header(encoded)
    size = header["width"], header["height"], header["channels"]
    samples = bytearray(prod(size))
    try:
        _, metadata = libjxl().decode(encoded, out=rows_of(samples, *size), metadata=True)
    except RuntimeError as error:
        raise BrokenImage(_DAMAGED_JXL) from error
    is_p3 = jxl.colours(encoded) == jxl.P3
    profile = kept_profile(pyvips.Image.profile_load("p3") if is_p3 else metadata.get("icc"))
    if profile and cicp_transfer(profile) in HDR_TRANSFERS:
        raise UnsupportedImage("Expected a JPEG XL of standard dynamic range, but got HDR (PQ or HLG).")
    image = with_profile(of_samples(bytes(samples), *size), profile)
    return image.icc_transform("srgb", embedded=True, intent="perceptual", depth=8) if profile else image


def cicp_transfer(profile: bytes) -> int | None:
    """The transfer function that a profile names by its code; None if it names none. Source: ICC.1:2022, 9.2.17."""
    entry = profile.find(b"cicp", 132, 132 + 12 * 100)
    start = int.from_bytes(profile[entry + 4 : entry + 8], "big")
    return profile[start + 9] if entry > 0 and start + 9 < len(profile) else None


def jpeg_of(data: Data) -> bytes | None:
    """The JPEG that a JPEG XL was made of without loss, bit for bit; None if it was made otherwise.

    Raises: BrokenImage, also if the JPEG can't be rebuilt: the profile and the private data that it holds are unknown.
    """
    if not jxl.has_jpeg(data):
        return None
    try:
        return bytes(libjxl().jxl_to_jpeg(data[:]))
    except RuntimeError as error:  # libjxl does not tell a lack of memory from damage
        raise BrokenImage(_CHANGED_JXL) from error


def _header(encoded: bytes) -> Any:
    """What libjxl says of a picture without decoding it. Raises: BrokenImage."""
    try:
        return libjxl().probe(encoded)
    except RuntimeError as error:
        raise BrokenImage(_DAMAGED_JXL) from error
