"""The image formats: one row per format, read by everything that asks what a format is or can do.

A new format needs a module in `container`, a row here and, unless it is read only, a module that encodes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from imgproc_local.codecs.container import Data, avif, gif, heic, jpeg, jpeg_xmp, png, tiff, webp
from imgproc_local.codecs.metadata.blocks import Blocks
from imgproc_local.domain.errors import StageFailed
from imgproc_local.domain.image import Format, ImageInfo


class Container(Protocol):
    """A module of `container`: the bytes of one format. Its functions raise `BrokenImage` and import no image library.

    `matches` decides by the first 512 bytes. `with_blocks` returns the same picture with these metadata blocks and no
    others.
    """

    def matches(self, head: bytes, /) -> bool: ...

    def read_header(self, data: Data, /) -> ImageInfo: ...

    def read_blocks(self, data: Data, /) -> Blocks: ...

    def with_blocks(self, data: Data, blocks: Blocks, /) -> bytes: ...


class FormatRow(Struct, frozen=True):
    """What a format is called and can do.

    `name` is for people, `article` stands before it. `extensions[0]` is the one that the service writes. `loader` is
    libvips' operation, "" for HEIC, which it can't decode. `with_xmp` replaces a file's XMP packet and nothing else;
    None for formats that are read only. `read_timing`
    gives the frames' delays in milliseconds and the number of plays (0 is endless); None for formats without animations
    and for AVIF, whose animations can't be converted. `max_side_px` is the largest width or height that is written.
    """

    name: str
    article: str
    mime: str
    extensions: tuple[str, ...]
    container: Container
    loader: str
    with_xmp: Callable[[Data, bytes], bytes] | None
    read_timing: Callable[[Data], tuple[list[int], int]] | None = None
    max_side_px: int | None = None


FORMATS: dict[Format, FormatRow] = {
    Format.JPEG: FormatRow(
        "JPEG",
        "a",
        "image/jpeg",
        ("jpg", "jpeg", "jpe", "jfif"),
        jpeg,
        "jpegload",
        jpeg_xmp.with_xmp,
        max_side_px=jpeg.MAX_SIDE_PX,
    ),
    Format.PNG: FormatRow("PNG", "a", "image/png", ("png",), png, "pngload", png.with_xmp, png.read_timing),
    Format.GIF: FormatRow("GIF", "a", "image/gif", ("gif",), gif, "gifload", gif.with_xmp, gif.read_timing),
    Format.WEBP: FormatRow(
        "WebP", "a", "image/webp", ("webp",), webp, "webpload", webp.with_xmp, webp.read_timing, webp.MAX_SIDE_PX
    ),
    Format.AVIF: FormatRow(
        "AVIF", "an", "image/avif", ("avif",), avif, "heifload", avif.with_xmp, max_side_px=avif.MAX_SIDE_PX
    ),
    Format.TIFF: FormatRow("TIFF", "a", "image/tiff", ("tif", "tiff"), tiff, "tiffload", None),
    Format.HEIC: FormatRow("HEIC", "a", "image/heic", ("heic", "heif"), heic, "", None),
}


def require_writable(file_format: Format, width_px: int, height_px: int) -> None:
    """Raises: StageFailed, where a picture of this size is larger than the format can store or its encoder writes."""
    row = FORMATS[file_format]
    if row.max_side_px and max(width_px, height_px) > row.max_side_px:
        raise StageFailed(
            f"{row.name} is written with at most {row.max_side_px:,} pixels on a side, but the picture has"
            f" {width_px:,} × {height_px:,}."
        )
