"""The kinds of private data in the parts of a file that are neither its picture nor a metadata block.

Comments, previews, content credentials, appended files and parts of unknown types: `with_blocks` writes none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from imgproc_local.codecs.container import Data, avif, gif, jpeg, png, tiff, webp
from imgproc_local.codecs.metadata import iptc
from imgproc_local.codecs.metadata.bounds import MAX_TEXT_BYTES, MAX_TEXTS
from imgproc_local.codecs.metadata.removed import Kinds, kind_of
from imgproc_local.domain.errors import BrokenImage
from imgproc_local.domain.image import Format
from imgproc_local.domain.privacy import Removed

_NOT_BLANK = re.compile(rb"[^\0\t\n\r ]")

_JPEG_NAMES = {
    jpeg.APP1: (jpeg.EXIF, jpeg.XMP, jpeg.EXTENDED_XMP),
    jpeg.APP2: (jpeg.ICC, jpeg.MPF, *jpeg.GAIN_MAP_IDENTIFIERS),
    jpeg.APP13: (jpeg.PHOTOSHOP,),
    jpeg.APP14: (b"Adobe",),
}
"""How the segments begin that are read, by their marker."""
_ADOBE_BYTES = 12
_RESOURCES = {
    0x0409: Removed.THUMBNAIL,
    0x040C: Removed.THUMBNAIL,
    iptc.IPTC_RESOURCE: None,
    0x03ED: None,
    0x0425: None,
}
"""The kinds of Photoshop's image resources: its thumbnails, IPTC, resolution and a checksum. All others are its own."""
_PNG_TEXTS = (b"tEXt", b"zTXt", b"iTXt")
_PNG_BLOCKS = frozenset((
    *png.PICTURE_CHUNKS, b"eXIf", b"iCCP", b"hIST", b"sPLT", b"sTER", b"oFFs", b"pCAL", b"sCAL", b"iDOT", b"vpAg",
    b"caNv",
))  # fmt: skip
"""Chunks of pictures and metadata blocks, and those that describe only how pixels are stored or shown."""
_PNG_RAW_PROFILE, _MAX_TECHNICAL_BYTES = "raw profile type ", 64
_ICC_IN_GIF = b"ICCRGBG1012"


def dropped_kinds(file_format: Format, data: Data) -> frozenset[Removed]:
    """The kinds of what the file holds besides its picture and its blocks. A damaged file is searched up to the damage,
    and reported as `UNREADABLE`.
    """
    found: set[Removed | None] = set()
    try:
        found.update(_FINDERS[file_format](data))
    except BrokenImage:
        found.add(Removed.UNREADABLE)
    return frozenset(kind for kind in found if kind)


def _in_jpeg(data: Data) -> Iterator[Removed | None]:
    seen = set()
    for segment in jpeg.segments(data):
        content = data[segment.payload : segment.end]
        name = next((each for each in _JPEG_NAMES.get(segment.marker, ()) if content.startswith(each)), None)
        if segment.marker == jpeg.COM:
            yield Removed.COMMENT
        elif segment.marker == jpeg.APP0:
            is_jfif = content.startswith(b"JFIF\0") and len(content) == jpeg.JFIF_BYTES
            is_thumbnail = content.startswith(b"JFXX\0") or len(content) > jpeg.JFIF_BYTES
            yield None if is_jfif else Removed.THUMBNAIL if is_thumbnail else Removed.OTHER
        elif name == jpeg.PHOTOSHOP:
            yield from _in_resources(content[len(name) :])
        elif jpeg.APP0 <= segment.marker <= jpeg.APP15:
            is_second = name in (jpeg.EXIF, jpeg.XMP) and name in seen
            is_long = name == b"Adobe" and len(content) > _ADOBE_BYTES
            yield Removed.OTHER if name is None or is_second or is_long else None
            seen.add(name)
    end = jpeg.picture_end(data)
    gain_map = jpeg.gain_map(data) or b""
    start = data.find(gain_map, end)
    if start > end:
        yield Removed.THUMBNAIL
    rest = data[start + len(gain_map) :]
    if _NOT_BLANK.search(rest):
        yield Removed.THUMBNAIL if rest.startswith(b"\xff\xd8") else Removed.OTHER


def _in_resources(resources: bytes) -> Iterator[Removed | None]:
    for number, _, _ in iptc.image_resources(resources):
        yield _RESOURCES.get(number, Removed.SOFTWARE)


def _in_png(data: Data) -> Iterator[Removed | None]:
    texts, texts_left, end = Kinds(), MAX_TEXTS, 0
    for chunk in png.chunks(data):
        size, end = chunk.end - chunk.payload, chunk.end + 4
        if chunk.kind == b"tIME":
            yield Removed.DATE
        elif chunk.kind in _PNG_TEXTS:
            raw, _, rest = data[chunk.payload : min(chunk.end, chunk.payload + MAX_TEXT_BYTES)].partition(b"\0")
            keyword = raw[:79].decode("latin-1").lower()
            kind = kind_of(keyword)
            is_block = keyword == "xml:com.adobe.xmp" or keyword.startswith(_PNG_RAW_PROFILE)
            if kind and not is_block and keyword not in png.TEXT_KEYWORDS:
                texts_left -= 1
                texts.add(kind, png.text_of_chunk(chunk.kind, rest) if texts_left >= 0 else "")
        elif chunk.kind not in _PNG_BLOCKS:
            yield Removed.OTHER if chunk.kind[0] & 0x20 else None
        elif chunk.kind not in (b"eXIf", b"iCCP"):
            limit = png.PICTURE_CHUNKS.get(
                chunk.kind, size if chunk.kind in png.PICTURE_CHUNKS else _MAX_TECHNICAL_BYTES
            )
            yield Removed.OTHER if size > limit else None
    yield from texts.kinds
    yield Removed.OTHER if _NOT_BLANK.search(data, end) else None


def _in_gif(data: Data) -> Iterator[Removed | None]:
    end = 0
    for block in gif.blocks(data):
        end = block.end
        is_known = block.name in (*gif.LOOPS, gif.XMP, _ICC_IN_GIF) or block.label in (gif.CONTROL, gif.COMMENT)
        if block.kind == gif.EXTENSION and not is_known:
            yield Removed.OTHER if block.label == gif.APPLICATION else Removed.COMMENT
    # some programs write bytes before the trailer
    yield Removed.OTHER if _NOT_BLANK.search(data, data.find(b"\x3b", end) + 1 or len(data)) else None


def _in_webp(data: Data) -> Iterator[Removed | None]:
    end = 12
    for chunk in webp.chunks(data):
        end = chunk.end + (chunk.end - chunk.payload) % 2
        inner = webp.chunks(data, chunk.payload + 16, chunk.end) if chunk.kind == b"ANMF" else ()
        if chunk.kind not in webp.KNOWN_CHUNKS or {part.kind for part in inner} - set(webp.PICTURE_DATA):
            yield Removed.OTHER
    yield Removed.OTHER if _NOT_BLANK.search(data, end) else None


def _in_avif(data: Data) -> Iterator[Removed | None]:
    if avif.thumbnails(data):
        yield Removed.THUMBNAIL
    packet, known = avif.xmp_box(data), bytearray(avif.blanked(data))
    if packet:  # which is a block
        known[packet.start : packet.end] = data[packet.start : packet.end]
    yield Removed.OTHER if known != data[:] else None


def _in_tiff(data: Data) -> Iterator[Removed | None]:
    yield from _in_resources(tiff.photoshop_resources(data) or b"")
    yield Removed.OTHER if tiff.has_unknown_fields(data) else None


_FINDERS = {
    Format.JPEG: _in_jpeg,
    Format.PNG: _in_png,
    Format.GIF: _in_gif,
    Format.WEBP: _in_webp,
    Format.AVIF: _in_avif,
    Format.TIFF: _in_tiff,
    Format.HEIC: _in_avif,
}
