"""The kinds of private data in the parts of a file that are neither its picture nor a metadata block.

Comments, previews, content credentials, appended files and parts of unknown types: `with_blocks` writes none of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from imgproc_local.codecs.container import Data, avif, gif, jpeg, png, tiff, webp
from imgproc_local.codecs.metadata import iptc
from imgproc_local.codecs.metadata.bounds import MAX_TEXT_BYTES, MAX_TEXTS
from imgproc_local.codecs.metadata.removed import Kinds, kind_of_keyword
from imgproc_local.domain.errors import BrokenImage
from imgproc_local.domain.image import Format
from imgproc_local.domain.privacy import Removed

_ICC_IN_GIF = b"ICCRGBG1012"
_THUMBNAIL_RESOURCES, _RESOLUTION_RESOURCE, _DIGEST_RESOURCE = (0x0409, 0x040C), 0x03ED, 0x0425
_RESOLUTION_BYTES, _DIGEST_BYTES = 16, 16
_ADOBE_BYTES = 12
_NOT_BLANK = re.compile(rb"[^\0\t\n\r ]")
_PNG_RAW_PROFILE = "Raw profile type "
_PNG_BLOCK_KEYWORDS = frozenset(
    ("XML:com.adobe.xmp", *(_PNG_RAW_PROFILE + name for name in ("icc", "icm", *png.RAW_PROFILES)))
)
"""Keywords of the texts that hold a metadata block, or a colour profile, which is not private data."""
_PNG_BLOCKS = (b"eXIf", b"iCCP")
_PNG_TECHNICAL = frozenset((b"hIST", b"sPLT", b"sTER", b"oFFs", b"pCAL", b"sCAL", b"iDOT", b"vpAg", b"caNv"))
"""Chunks that describe only how pixels are stored or shown, if they are short."""
_MAX_TECHNICAL_BYTES = 64


def dropped_kinds(file_format: Format, data: Data) -> frozenset[Removed]:
    """The kinds of what the file holds besides its picture and its blocks. A damaged file is searched up to the damage,
    and reported as `UNREADABLE`.
    """
    found: set[Removed] = set()
    try:
        _FINDERS[file_format](data, found)
    except BrokenImage:
        found.add(Removed.UNREADABLE)
    return frozenset(found)


def _in_jpeg(data: Data, found: set[Removed]) -> None:
    exif_seen = xmp_seen = False
    for segment in jpeg.segments(data):
        head = data[segment.payload : min(segment.end, segment.payload + 40)]
        size = segment.end - segment.payload
        if segment.marker == jpeg.COM:
            found.add(Removed.COMMENT)
        elif segment.marker == jpeg.APP0:
            is_thumbnail = head.startswith(b"JFXX\0") or (head.startswith(b"JFIF\0") and size > jpeg.JFIF_BYTES)
            if not head.startswith(b"JFIF\0") or size != jpeg.JFIF_BYTES:
                found.add(Removed.THUMBNAIL if is_thumbnail else Removed.OTHER)
        elif segment.marker == jpeg.APP1 and head.startswith(jpeg.EXIF):
            found |= {Removed.OTHER} if exif_seen else set()
            exif_seen = True
        elif segment.marker == jpeg.APP1 and head.startswith(jpeg.XMP):
            found |= {Removed.OTHER} if xmp_seen else set()
            xmp_seen = True
        elif segment.marker == jpeg.APP13 and head.startswith(jpeg.PHOTOSHOP):
            found |= _in_resources(data[segment.payload + len(jpeg.PHOTOSHOP) : segment.end])
        elif segment.marker == jpeg.APP14 and head.startswith(b"Adobe") and size <= _ADOBE_BYTES:
            continue
        elif jpeg.APP0 <= segment.marker <= jpeg.APP15 and not _is_read(segment.marker, head):
            found.add(Removed.OTHER)
    end = jpeg.picture_end(data)
    gain_map = jpeg.gain_map(data)
    start = end if gain_map is None else data.find(gain_map, end)
    if start > end:
        found.add(Removed.THUMBNAIL)
    if _NOT_BLANK.search(data, start + len(gain_map or b"")):
        rest = data[start + len(gain_map or b"") :][:2]
        found.add(Removed.THUMBNAIL if rest == b"\xff\xd8" else Removed.OTHER)


def _is_read(marker: int, head: bytes) -> bool:
    if marker == jpeg.APP1:
        return head.startswith(jpeg.EXTENDED_XMP)
    return marker == jpeg.APP2 and head.startswith((jpeg.ICC, jpeg.MPF, *jpeg.GAIN_MAP_IDENTIFIERS))


def _in_resources(resources: bytes) -> set[Removed]:
    """The kinds of Photoshop's image resources, except IPTC."""
    found = set()
    for number, start, end in iptc.image_resources(resources):
        is_resolution = number == _RESOLUTION_RESOURCE and end - start == _RESOLUTION_BYTES
        is_digest = number == _DIGEST_RESOURCE and end - start == _DIGEST_BYTES
        if number in _THUMBNAIL_RESOURCES:
            found.add(Removed.THUMBNAIL)
        elif number != iptc.IPTC_RESOURCE and not is_resolution and not is_digest:
            found.add(Removed.SOFTWARE)
    return found


def _in_png(data: Data, found: set[Removed]) -> None:
    texts = Kinds()
    end, texts_left = 0, MAX_TEXTS
    for chunk in png.chunks(data):
        end = chunk.end + 4
        size = chunk.end - chunk.payload
        if chunk.kind in png.PICTURE_CHUNKS or chunk.kind in _PNG_BLOCKS:
            found |= {Removed.OTHER} if size > png.PICTURE_CHUNKS.get(chunk.kind, size) else set()
            continue
        if chunk.kind == b"tIME":
            found.add(Removed.DATE)
        elif chunk.kind in (b"tEXt", b"zTXt", b"iTXt"):
            raw, _, rest = data[chunk.payload : min(chunk.end, chunk.payload + MAX_TEXT_BYTES)].partition(b"\0")
            keyword = raw[:79].decode("latin-1")
            kind = kind_of_keyword(keyword)
            if keyword in _PNG_BLOCK_KEYWORDS or keyword.lower() in png.TEXT_KEYWORDS or kind is None:
                continue
            texts_left -= 1
            texts.add(kind, png.text_of_chunk(chunk.kind, rest) if texts_left >= 0 else "")
        elif chunk.kind[0] & 0x20 and (chunk.kind not in _PNG_TECHNICAL or size > _MAX_TECHNICAL_BYTES):
            found.add(Removed.OTHER)
    found |= texts.kinds
    if _NOT_BLANK.search(data, end):
        found.add(Removed.OTHER)


def _in_gif(data: Data, found: set[Removed]) -> None:
    end = 0
    for block in gif.blocks(data):
        end = block.end
        is_known = block.name in (*gif.LOOPS, gif.XMP, _ICC_IN_GIF) or block.label in (gif.CONTROL, gif.COMMENT)
        if block.kind == gif.EXTENSION and not is_known:
            found.add(Removed.OTHER if block.label == gif.APPLICATION else Removed.COMMENT)
    # some programs write bytes before the trailer
    if _NOT_BLANK.search(data, data.find(b"\x3b", end) + 1 or len(data)):
        found.add(Removed.OTHER)


def _in_webp(data: Data, found: set[Removed]) -> None:
    end = 12
    for chunk in webp.chunks(data):
        end = chunk.end + (chunk.end - chunk.payload) % 2
        if chunk.kind == b"ANMF":
            inner = {part.kind for part in webp.chunks(data, chunk.payload + 16, chunk.end)}
            found |= {Removed.OTHER} if inner - set(webp.PICTURE_DATA) else set()
        elif chunk.kind not in webp.KNOWN_CHUNKS:
            found.add(Removed.OTHER)
    if _NOT_BLANK.search(data, end):
        found.add(Removed.OTHER)


def _in_avif(data: Data, found: set[Removed]) -> None:
    if avif.thumbnails(data):
        found.add(Removed.THUMBNAIL)
    packet, known = avif.xmp_box(data), bytearray(avif.blanked(data))
    if packet:  # which is a block
        known[packet.start : packet.end] = data[packet.start : packet.end]
    if known != data[:]:
        found.add(Removed.OTHER)


def _in_tiff(data: Data, found: set[Removed]) -> None:
    resources = tiff.photoshop_resources(data)
    if resources is not None:
        found |= _in_resources(resources)
    if tiff.has_unknown_fields(data):
        found.add(Removed.OTHER)


_FINDERS: dict[Format, Callable[[Data, set[Removed]], None]] = {
    Format.JPEG: _in_jpeg,
    Format.PNG: _in_png,
    Format.GIF: _in_gif,
    Format.WEBP: _in_webp,
    Format.AVIF: _in_avif,
    Format.TIFF: _in_tiff,
    Format.HEIC: _in_avif,
}
