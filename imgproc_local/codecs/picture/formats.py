"""The image formats: one row per format, read by everything that asks what a format is or can do, and how the first
bytes of a file tell them apart.

A new format needs a module in `container`, a row here, a case in `_announced` and, unless it is read only, a module
that encodes it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from imgproc_local.codecs.container import Data, avif, gif, jpeg, jxl, png, tiff, webp
from imgproc_local.codecs.metadata.blocks import Blocks
from imgproc_local.domain.errors import StageFailed, UnsupportedImage, how_to_install
from imgproc_local.domain.image import Format
from imgproc_local.domain.plan import TIFF_SIZE_FACTOR
from imgproc_local.domain.privacy import Removed


class Container(Protocol):
    """A module of `container`: the bytes of one format. Its functions raise `BrokenImage` and import no image library.

    `with_blocks` returns the same picture with these metadata blocks and no others; that of TIFF, which is read only,
    raises NotImplementedError.
    `dropped` yields the kinds of private data in all else that it leaves out: comments, previews, content credentials,
    appended files and parts of unknown types.
    """

    def read_blocks(self, data: Data, /) -> Blocks: ...

    def with_blocks(self, data: Data, blocks: Blocks, /) -> bytes: ...

    def dropped(self, data: Data, /) -> Iterator[Removed | None]: ...


class _FormatRow(Struct, frozen=True):
    """What a format is called and can do.

    `name` is for people. `extensions[0]` is the one that the service writes. `loader` is
    libvips' operation, "" for HEIC and JPEG XL, which it can't decode. `with_xmp` replaces a file's XMP packet and
    nothing else; None for formats that are not written. `read_timing` gives the frames' delays in milliseconds and the
    number of plays (0 is endless); None for formats without animations and for AVIF and JPEG XL, whose animations can't
    be converted.
    `max_side_px` is the largest width or height that is written.
    """

    name: str
    mime: str
    extensions: tuple[str, ...]
    container: Container
    loader: str
    with_xmp: Callable[[Data, bytes], bytes] | None
    read_timing: Callable[[Data], tuple[list[int], int]] | None = None
    max_side_px: int | None = None


FORMATS: dict[Format, _FormatRow] = {
    Format.JPEG: _FormatRow(
        "JPEG", "image/jpeg", ("jpg", "jpeg", "jpe", "jfif"), jpeg, "jpegload", jpeg.with_xmp, None, jpeg.MAX_SIDE_PX
    ),
    Format.PNG: _FormatRow("PNG", "image/png", ("png",), png, "pngload", png.with_xmp, png.read_timing),
    Format.GIF: _FormatRow("GIF", "image/gif", ("gif",), gif, "gifload", gif.with_xmp, gif.read_timing),
    Format.WEBP: _FormatRow(
        "WebP", "image/webp", ("webp",), webp, "webpload", webp.with_xmp, webp.read_timing, webp.MAX_SIDE_PX
    ),
    Format.AVIF: _FormatRow("AVIF", "image/avif", ("avif",), avif, "heifload", avif.with_xmp, None, avif.MAX_SIDE_PX),
    Format.TIFF: _FormatRow("TIFF", "image/tiff", ("tif", "tiff"), tiff, "tiffload", None),
    Format.JXL: _FormatRow("JPEG XL", "image/jxl", ("jxl",), jxl, "", jxl.with_xmp),
    Format.HEIC: _FormatRow("HEIC", "image/heic", ("heic", "heif"), avif, "", None),
}


def require_writable(file_format: Format, width_px: int, height_px: int) -> None:
    """Raises: StageFailed, where a picture of this size is larger than the format can store or its encoder writes."""
    row = FORMATS[file_format]
    if row.max_side_px and max(width_px, height_px) > row.max_side_px:
        raise StageFailed(
            f"{row.name} is written with at most {row.max_side_px:,} pixels on a side, but the picture has"
            f" {width_px:,} × {height_px:,}."
        )


# ---- the first bytes of a file ----

HEAD_BYTES = 512
"""How many bytes at the beginning of a file announce its type."""
EVERY_FORMAT = tuple(Format)
_IS_FROZEN = bool(getattr(sys, "frozen", False))
HOW_TO_INSTALL_HEIC = (
    "HEIC can't be read by this edition of imgproc-local, because its decoder has another licence. Install"
    " imgproc-local[heic] with pip, uv or pipx instead, or export the picture as JPEG first."
    if _IS_FROZEN
    else f"HEIC can't be read, because its decoder is not installed. {how_to_install('heic')} Then start imgproc-local"
    " again; or export the picture as JPEG first."
)
HOW_TO_INSTALL_JXL = (
    "JPEG XL can't be read or written, because pylibjxl is not installed. It has wheels for Linux with glibc and for"
    " Windows, both x86-64, and for macOS 14 and newer; elsewhere pip compiles it, with a C++ compiler and CMake. Or"
    " use another format."
)
_HEIC_BRANDS = frozenset((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"))
_CAMERA_RAW = "a camera raw file: export it as JPEG first"
_OTHER_TYPES: tuple[tuple[int, bytes | tuple[bytes, ...], str], ...] = (
    (0, (b"FUJIFILMCCD-RAW", b"IIRO", b"IIRS", b"MMOR", b"IIU\0", b"FOVb", b"\0MRM"), _CAMERA_RAW),
    (4, b"ftypcrx ", _CAMERA_RAW),
    (6, b"HEAPCCDR", _CAMERA_RAW),
    (8, b"CR\x02", _CAMERA_RAW),  # Canon's CR2, which begins like a TIFF
    (4, b"ftyp", "a video or another ISO media file"),
    (0, b"%PDF", "a PDF"),
    (0, b"BM", "a BMP"),
    (0, b"8BPS", "a Photoshop file"),
    (0, b"\0\0\1\0", "an icon file"),
    (0, b"\0\0\0\x0cjP  ", "a JPEG 2000"),
    (0, b"PK\3\4", "a ZIP archive"),
    (0, b"\x1f\x8b", "a gzip file"),
    (0, b"qoif", "a QOI"),
    (0, b"RIFF", "a RIFF file other than WebP"),
)
"""Offset and bytes of types that are not accepted, several where they have one name, and their names."""


def detect(head: bytes, accepted: Sequence[Format] = EVERY_FORMAT) -> Format:
    """The format that the first `HEAD_BYTES` of a file announce.

    Raises: UnsupportedImage if it is none of those `accepted`; the message names the file's type if it is known.
    """
    if not head:
        raise UnsupportedImage("The file is empty.")
    found = _announced(head)
    if found is not None and found in accepted:
        if (advice := install_advice(found)) is not None:
            raise UnsupportedImage(advice)
        return found
    *others, last = (FORMATS[each].name for each in accepted)
    expected = f"{', '.join(others)} or {last}" if others else last
    received = f"{'an' if found is Format.AVIF else 'a'} {FORMATS[found].name}" if found else _described(head)
    raise UnsupportedImage(f"Expected a picture as {expected}, but got {received}.")


def head_of(path: Path) -> bytes:
    """The first `HEAD_BYTES` of a file. Raises: OSError."""
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)


def max_local_bytes(head: bytes, max_upload_bytes: int) -> int:
    """The largest size of a file that starts with `head` and comes from the command line or the local page."""
    return max_upload_bytes * TIFF_SIZE_FACTOR if _announced(head) is Format.TIFF else max_upload_bytes


def can_decode_heic() -> bool:
    """Whether the extra `heic` is installed."""
    return not _IS_FROZEN and importlib.util.find_spec("pillow_heif") is not None


def can_use_jxl() -> bool:
    """Whether pylibjxl is installed, which is a dependency where it has packages."""
    return importlib.util.find_spec("pylibjxl") is not None


def install_advice(file_format: Format) -> str | None:
    """How to install what reads and writes the format; None if this machine has it."""
    if file_format is Format.HEIC and not can_decode_heic():
        return HOW_TO_INSTALL_HEIC
    return HOW_TO_INSTALL_JXL if file_format is Format.JXL and not can_use_jxl() else None


def _announced(head: bytes) -> Format | None:
    if head[:3] == b"\xff\xd8\xff":
        return Format.JPEG
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        return Format.PNG
    if head[:6] in (b"GIF87a", b"GIF89a"):
        return Format.GIF
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return Format.WEBP
    if head[:2] == b"\xff\x0a" or head[:8] == b"\0\0\0\x0cJXL ":
        return Format.JXL
    if head[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        return None if head[8:11] == b"CR\x02" else Format.TIFF
    if head[4:8] == b"ftyp":
        size = min(int.from_bytes(head[:4], "big"), len(head))
        brands = {head[8:12], *(head[at : at + 4] for at in range(16, size, 4))}
        if brands & {b"avif", b"avis"}:
            return Format.AVIF
        return Format.HEIC if brands & _HEIC_BRANDS else None
    return None


def _described(head: bytes) -> str:
    for offset, signatures, name in _OTHER_TYPES:
        if head.startswith(signatures, offset):
            return name
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"<svg") or (start.startswith((b"<?xml", b"<!--", b"<!doctype svg")) and b"<svg" in start):
        return "an SVG"
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "a web page"
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        # the head may end inside a character, which has up to four bytes
        text = "" if error.start < len(head) - 3 else head[: error.start].decode("utf-8")
    if text and all(character.isprintable() or character in "\t\r\n\f" for character in text):
        return "text"
    return "a file of no known picture type"
