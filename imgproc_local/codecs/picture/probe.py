"""A picture's format, size, frames and orientation, read from its header without decoding.

The format is decided by the bytes alone. `probe` enforces the limits: a picture that passes it may be decoded.
No image library is loaded.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path

from imgproc_local.codecs.container import Data, heic, tiff
from imgproc_local.codecs.container.bounds import MAX_FRAMES
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.domain.errors import StageFailed, TooManyPixels, UnsupportedImage
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.plan import TIFF_SIZE_FACTOR

EVERY_FORMAT = tuple(Format)

_OTHER_TYPES: tuple[tuple[bytes, str], ...] = (
    (b"%PDF", "a PDF"),
    (b"BM", "a BMP"),
    (b"8BPS", "a Photoshop file"),
    (b"\0\0\1\0", "an icon file"),
    (b"\xff\x0a", "a JPEG XL"),
    (b"\0\0\0\x0cJXL ", "a JPEG XL"),
    (b"\0\0\0\x0cjP  ", "a JPEG 2000"),
    (b"PK\3\4", "a ZIP archive"),
    (b"\x1f\x8b", "a gzip file"),
    (b"qoif", "a QOI"),
    (b"RIFF", "a RIFF file other than WebP"),
)


def probe(path: Path, max_pixels: int, accepted: Sequence[Format] = EVERY_FORMAT) -> ImageInfo:
    """The picture's properties; `max_pixels` limits width × height × frames, and `MAX_FRAMES` the frames.

    Raises: UnsupportedImage, also for a known format that is not `accepted`; BrokenImage; TooManyPixels; StageFailed if
    the file can't be read.
    """
    with opened(path) as data:
        info = FORMATS[detect(data, accepted)].container.read_header(data)
    if info.frames > MAX_FRAMES:
        raise TooManyPixels(f"The animation may have at most {MAX_FRAMES:,} frames, but has {info.frames:,}.")
    if info.pixels > max_pixels:
        frames = f" × {info.frames} frames" if info.frames > 1 else ""
        raise TooManyPixels(
            f"The picture may have at most {max_pixels:,} pixels, but has {info.width_px:,} × {info.height_px:,}"
            f"{frames} = {info.pixels:,}."
        )
    return info


def unsupported(received: str, accepted: Sequence[Format]) -> UnsupportedImage:
    """The refusal that names the accepted formats and what was received, such as "a BMP"."""
    *others, last = (FORMATS[each].name for each in accepted)
    expected = f"{', '.join(others)} or {last}" if others else last
    return UnsupportedImage(f"Expected a picture as {expected}, but got {received}.")


def opened(path: Path) -> mmap.mmap:
    """The file mapped into memory for reading, to be used in a `with` block.

    Raises: UnsupportedImage if it is empty, StageFailed if it can't be read.
    """
    try:
        with path.open("rb") as file:
            if file.seek(0, 2) == 0:
                raise UnsupportedImage("The file is empty.")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise StageFailed(f"The picture can't be read from storage: {error.strerror}.") from error


def max_local_bytes(head: bytes, max_upload_bytes: int) -> int:
    """The largest size of a file that starts with `head` and comes from the command line or the local page."""
    return max_upload_bytes * TIFF_SIZE_FACTOR if FORMATS[Format.TIFF].container.matches(head) else max_upload_bytes


def detect(data: Data, accepted: Sequence[Format] = EVERY_FORMAT) -> Format:
    """The format that the first bytes announce.

    Raises: UnsupportedImage if it is none of those `accepted`; the message names the file's type if it is known.
    """
    head = data[:512]
    if tiff.is_camera_raw(data):
        developed = "JPEG or TIFF" if Format.TIFF in accepted else "JPEG"
        raise unsupported(f"a camera raw file: export it as {developed} first", accepted)
    found = next((each for each, row in FORMATS.items() if row.container.matches(head)), None)
    if found is None:
        raise unsupported(_described(head), accepted)
    if found not in accepted:
        raise unsupported(f"{FORMATS[found].article} {FORMATS[found].name}", accepted)
    if found is Format.HEIC and not heic.can_decode():
        raise UnsupportedImage(heic.HOW_TO_INSTALL)
    return found


def _described(head: bytes) -> str:
    if head[4:8] == b"ftyp":
        return "a video or another ISO media file"
    for signature, name in _OTHER_TYPES:
        if head.startswith(signature):
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
