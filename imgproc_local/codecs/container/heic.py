"""HEIC: the boxes of AVIF around pictures that are coded with HEVC. Read only. Source: ISO/IEC 23008-12, annex B.

`can_decode` is here, because the service, which refuses what can't be decoded, does not load the decoder.
"""

from __future__ import annotations

import importlib.util
import sys

from msgspec import structs

from imgproc_local.codecs.container import Blocks, Data, avif, unpack
from imgproc_local.domain.errors import UnsupportedImage, how_to_install
from imgproc_local.domain.image import Format, ImageInfo

_HDR_TRANSFERS = (16, 18)
"""PQ and HLG. Source: ITU-T H.273, 8.2."""
_BRANDS = frozenset((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"))

_PACKAGE = "pillow_heif"
IS_FROZEN = bool(getattr(sys, "frozen", False))
HOW_TO_INSTALL = (
    "HEIC can't be read by this edition of imgproc-local, because its decoder has another licence. Install"
    " imgproc-local[heic] with pip, uv or pipx instead, or export the picture as JPEG first."
    if IS_FROZEN
    else f"HEIC can't be read, because its decoder is not installed. {how_to_install('heic')} Then start imgproc-local"
    " again; or export the picture as JPEG first."
)


def can_decode() -> bool:
    """Whether the extra `heic` is installed."""
    return not IS_FROZEN and importlib.util.find_spec(_PACKAGE) is not None


def matches(head: bytes) -> bool:
    """Whether a file that begins like this names HEVC pictures, but not AVIF, among its brands."""
    return head[4:8] == b"ftyp" and not avif.matches(head) and bool(_BRANDS & set(avif.brands(head)))


def read_header(data: Data) -> ImageInfo:
    """The properties of the primary picture, whatever else the file holds.

    Raises: BrokenImage; UnsupportedImage if its colours are HDR, which a JPEG or PNG of 8 bits can't show.
    """
    info = structs.replace(avif.read_header(data), format=Format.HEIC, frames=1, duration_ms=0)
    colours = avif.colour_description(data)
    if colours is not None and colours[1] in _HDR_TRANSFERS and avif.read_blocks(data).icc is None:
        raise UnsupportedImage(
            "Expected a HEIC of standard dynamic range, but got HDR (PQ or HLG). Export it as JPEG first."
        )
    for box in avif.primary_properties(data, avif.meta_box(data)):
        if box.kind == b"clap":
            width_n, width_d, height_n, height_d = unpack(">4I", data, box.body, "clean aperture", box.end)
            if (
                0 < width_d <= width_n <= info.width_px * width_d
                and 0 < height_d <= height_n <= info.height_px * height_d
            ):
                # the coded size is even; what lies beyond the clean aperture is padding
                return structs.replace(info, width_px=width_n // width_d, height_px=height_n // height_d)
    return info


read_blocks = avif.read_blocks


def with_blocks(_data: Data, _blocks: Blocks) -> bytes:
    """HEIC files are read only: results are JPEG, PNG, WebP or AVIF."""
    raise NotImplementedError("HEIC files are not written")
