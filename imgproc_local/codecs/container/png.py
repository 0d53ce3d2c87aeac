"""PNG and APNG as chunks. Source: W3C PNG specification, third edition."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator

from msgspec import Struct

from imgproc_local.codecs.container import Blocks, Chunk, bounded, colours_of_numbers, inflate, kind_of_rest, unpack
from imgproc_local.codecs.container.gif import played_delay_ms
from imgproc_local.codecs.metadata import iptc
from imgproc_local.codecs.metadata.blocks import MAX_BLOCK_BYTES, MAX_TEXT_BYTES, MAX_TEXTS, Data, TextBlock, text_of
from imgproc_local.codecs.metadata.removed import Kinds, kind_of
from imgproc_local.domain.errors import BrokenImage
from imgproc_local.domain.image import CodedColours
from imgproc_local.domain.privacy import Removed

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PICTURE_CHUNKS = {
    b"IHDR": 13, b"PLTE": 768, b"IDAT": 2**31, b"IEND": 0, b"tRNS": 256, b"acTL": 8, b"fcTL": 26, b"fdAT": 2**31,
    b"gAMA": 4, b"cHRM": 32, b"sRGB": 1, b"cICP": 4, b"mDCV": 24, b"cLLI": 8, b"sBIT": 4, b"bKGD": 6, b"pHYs": 9,
}  # fmt: skip
"""The chunks that affect how the picture looks, with their greatest length; all others are metadata.

Source: PNG (Third Edition), 11."""

_TECHNICAL = frozenset((b"hIST", b"sPLT", b"sTER", b"oFFs", b"pCAL", b"sCAL", b"iDOT", b"vpAg", b"caNv"))
_MAX_TECHNICAL_BYTES = 64
"""Chunks that describe only how pixels are stored or shown, and how long they may be to count as this."""

_TEXT_KEYWORDS = frozenset(("title", "author", "description", "copyright", "disclaimer", "comment"))
"""The specification's keywords for captions and rights; those for software, source device and dates are not read."""

_LANGUAGE = re.compile(rb"[A-Za-z0-9]{1,8}(-[A-Za-z0-9]{1,8}){0,6}")

_RAW_PROFILE = b"Raw profile type "
_RAW_PROFILES = tuple(_RAW_PROFILE + name for name in (b"exif", b"APP1", b"iptc", b"8bim", b"xmp"))
_TEXT_CHUNKS = (b"tEXt", b"zTXt", b"iTXt")
_XMP_KEYWORDS, _MAX_KEYWORD_BYTES = (b"XML:com.adobe.xmp", _RAW_PROFILE + b"xmp"), 80
_COLOUR_CHUNKS = frozenset((b"cICP", b"mDCV", b"cLLI", b"gAMA", b"cHRM"))
_SRGB_GAMMA = 45455
"""The value of the chunk gAMA that corresponds to sRGB. Source: PNG, third edition, 11.3.2.5."""

_HEADER_END = 33
"""The signature and IHDR have this many bytes."""


@bounded
def chunks(data: Data) -> Iterator[Chunk]:
    """The chunks in order, up to and including IEND. Raises: BrokenImage if the file ends before it."""
    if data[:8] != SIGNATURE:
        raise BrokenImage("The PNG does not begin with its signature.")
    at = 8
    while True:
        if at + 12 > len(data):
            raise BrokenImage("The PNG is cut off: its end chunk is missing.")
        (length,) = unpack(">I", data, at, "chunk header")
        kind = data[at + 4 : at + 8]
        if at + 12 + length > len(data):
            raise BrokenImage(f"The PNG is cut off: it ends at byte {len(data)}, inside a chunk of {length} bytes.")
        yield Chunk(kind, at + 8, at + 8 + length)
        if kind == b"IEND":
            return
        at += 12 + length


def frame_count(data: Data) -> int:
    """The number of frames of an APNG; 1 for a still picture. Raises: BrokenImage."""
    for chunk in chunks(data):
        if chunk.kind == b"acTL":
            return max(1, unpack(">I", data, chunk.payload, "animation header", chunk.end)[0])
    return 1


def read_timing(data: Data) -> tuple[list[int], int]:
    """The delay of each frame in milliseconds, as browsers play it, and the number of plays; 0 is endless."""
    delays, plays = [], 0
    for chunk in chunks(data):
        if chunk.kind == b"acTL":
            (plays,) = unpack(">I", data, chunk.payload + 4, "animation header", chunk.end)
        elif chunk.kind == b"fcTL":
            delay, per_second = unpack(">HH", data, chunk.payload + 20, "frame header", chunk.end)
            delays.append(played_delay_ms(round(1000 * delay / (per_second or 100))))
    return delays, plays


def colour_type(data: Data) -> int:
    """IHDR's colour type: 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGBA."""
    return data[25]


def has_chunk(data: Data, *kinds: bytes) -> bool:
    return any(chunk.kind in kinds for chunk in chunks(data))


def has_own_colours(data: Data) -> bool:
    """Whether the colours are defined by chunks other than a profile, and are not sRGB."""
    payloads = _colour_payloads(data)
    if b"cICP" in payloads or b"mDCV" in payloads or b"cLLI" in payloads:
        return True
    if b"sRGB" in payloads or b"iCCP" in payloads:
        return False
    gamma = int.from_bytes(payloads.get(b"gAMA", b""), "big")
    return bool(gamma) and abs(gamma - _SRGB_GAMMA) > 500


def coded_colours(data: Data) -> CodedColours | None:
    """The colours that the chunk cICP, which precedes a profile, declares; None for sRGB, and without the chunk."""
    payloads = _colour_payloads(data)
    if len(payloads.get(b"cICP", b"")) < 2:
        return None
    primaries, transfer = payloads[b"cICP"][:2]
    brightest_nits = int.from_bytes(payloads.get(b"cLLI", b"")[:4], "big") / 10_000
    return colours_of_numbers(primaries, transfer, brightest_nits, payloads.get(b"mDCV", b""))


def _colour_payloads(data: Data) -> dict[bytes, bytes]:
    kinds = _COLOUR_CHUNKS | {b"sRGB", b"iCCP"}
    return {chunk.kind: data[chunk.payload : chunk.end] for chunk in chunks(data) if chunk.kind in kinds}


def with_colours_of(data: bytes, original: Data) -> bytes:
    """The PNG with the chunks that define the colours of `original`, except its profile."""
    found = {chunk.kind: whole_chunk(original, chunk) for chunk in chunks(original) if chunk.kind in _COLOUR_CHUNKS}
    return with_chunks(data, *found.values())


def with_chunks(data: bytes, *added: bytes) -> bytes:
    """The PNG with these chunks after its header."""
    return b"".join((data[:_HEADER_END], *added, data[_HEADER_END:]))


def whole_chunk(data: Data, chunk: Chunk) -> bytes:
    """A chunk with its length, kind and checksum."""
    return data[chunk.payload - 8 : chunk.end + 4]


def read_blocks(data: Data) -> Blocks:
    """The metadata blocks, including the hexadecimal "raw profiles" of ImageMagick and ExifTool.

    Of chunks of one kind and texts of one keyword the first is read, except of `_TEXT_KEYWORDS`.
    """
    found: dict[str, bytes] = {}
    texts: list[TextBlock] = []
    seen: set[bytes] = set()
    for chunk in chunks(data):
        if chunk.kind not in (b"eXIf", b"iCCP", *_TEXT_CHUNKS) or chunk.end - chunk.payload > MAX_BLOCK_BYTES:
            continue
        payload = data[chunk.payload : chunk.end]
        keyword, _, rest = payload.partition(b"\0")
        if chunk.kind in _TEXT_CHUNKS and keyword.decode("latin-1").lower() in _TEXT_KEYWORDS:
            if len(texts) < MAX_TEXTS:
                texts.append(_text_block(chunk.kind, keyword, rest))
            continue
        name = keyword if chunk.kind in _TEXT_CHUNKS else chunk.kind
        if name in seen:  # so that many large texts are not decompressed
            continue
        seen.add(name)
        if chunk.kind == b"eXIf":
            found.setdefault("exif", payload.removeprefix(b"Exif\0\0"))
        elif chunk.kind == b"iCCP":
            found["icc"] = inflate(rest[1:]) or b""
        elif keyword == _XMP_KEYWORDS[0] or keyword in _RAW_PROFILES:
            text = _text(chunk.kind, rest) or b""
            blocks = {"xmp": text} if keyword == _XMP_KEYWORDS[0] else _raw_profile(keyword[len(_RAW_PROFILE) :], text)
            for block_name, block in blocks.items():
                if block:
                    found.setdefault(block_name, block)
    read = tuple(text for text in texts if text.text)
    exif, xmp, datasets, icc = (found.get(name) or None for name in ("exif", "xmp", "iptc", "icc"))
    return Blocks(exif, xmp, datasets, icc, read)


def _text_block(kind: bytes, keyword: bytes, rest: bytes) -> TextBlock:
    """The text of a chunk with one of the `_TEXT_KEYWORDS`; empty if it is damaged or too long."""
    tag = rest[2:].partition(b"\0")[0] if kind == b"iTXt" else b""
    language = tag.decode() if _LANGUAGE.fullmatch(tag) else None
    text = _text_of_chunk(kind, rest)
    return TextBlock(keyword.decode().lower(), text if len(text) <= MAX_TEXT_BYTES else "", language)


def _text_of_chunk(kind: bytes, rest: bytes) -> str:
    """The text after the keyword of a text chunk of this kind; "" if it is damaged or too long."""
    return text_of(_text(kind, rest, MAX_TEXT_BYTES) or b"")


def _text(kind: bytes, rest: bytes, max_bytes: int = MAX_BLOCK_BYTES) -> bytes | None:
    """The text after the keyword of a text chunk; None if it is damaged, or compressed and longer than `max_bytes`."""
    if kind == b"tEXt":
        return rest
    if kind == b"zTXt":
        return inflate(rest[1:], max_bytes)
    parts = rest[2:].split(b"\0", 2)
    if len(parts) < 3:
        return None
    return inflate(parts[2], max_bytes) if rest[:1] == b"\1" else parts[2]


def _raw_profile(name: bytes, text: bytes) -> dict[str, bytes]:
    """The block, by its kind, in a text `\\nname\\n   length\\nhexadecimal digits`; empty if there is none."""
    parts = text.split(None, 2)
    if len(parts) != 3:
        return {}
    try:
        digits = b"".join(parts[2].split())[: 2 * int(parts[1])]
        block = bytes.fromhex(digits.decode("ascii"))
    except ValueError:
        return {}
    if name == b"xmp":
        return {"xmp": block}
    if name in (b"exif", b"APP1"):
        xmp = b"http://ns.adobe.com/xap/1.0/\0"
        return {"xmp": block.removeprefix(xmp)} if block.startswith(xmp) else {"exif": block.removeprefix(b"Exif\0\0")}
    if name in (b"iptc", b"8bim"):
        resources = block.removeprefix(b"Photoshop 3.0\0")
        datasets = iptc.from_photoshop(resources) if resources.startswith(b"8BIM") else resources
        return {"iptc": datasets} if datasets else {}
    return {}


def chunk_bytes(kind: bytes, payload: bytes) -> bytes:
    """A chunk with its length and checksum."""
    return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(payload, zlib.crc32(kind)))


def as_file(*chunks: bytes) -> bytes:
    """A file of these chunks and the one that ends it."""
    return b"".join((SIGNATURE, *chunks, chunk_bytes(b"IEND", b"")))


def with_blocks(data: Data, blocks: Blocks) -> bytes:
    """The file with these metadata blocks and no others; the picture's chunks are copied bit for bit.

    The XMP packet is not compressed, so that readers that scan for it find it.
    """
    out = []
    packed_profile = _packed_profile(data, blocks.icc) if blocks.icc else b""
    for chunk in chunks(data):
        if _is_kept(chunk) and chunk.kind != b"IEND":
            out.append(whole_chunk(data, chunk))
        if chunk.kind == b"IHDR":
            out += [chunk_bytes(b"iCCP", b"icc\0\0" + packed_profile)] if packed_profile else []
            out += [chunk_bytes(b"eXIf", blocks.exif)] if blocks.exif else []
            out += [_xmp_chunk(blocks.xmp)] if blocks.xmp else []
    return as_file(*out)


def _is_kept(chunk: Chunk) -> bool:
    """Whether `with_blocks` keeps a chunk. Decoders ignore others, or refuse the picture before it is cleaned."""
    return chunk.end - chunk.payload <= _PICTURE_CHUNKS.get(chunk.kind, -1)


def dropped(data: Data) -> Iterator[Removed | None]:
    """The kinds of private data in what `with_blocks` does not keep, apart from the blocks and texts that are read."""
    texts, texts_left, end = Kinds(), MAX_TEXTS, 0
    for chunk in chunks(data):
        size, end = chunk.end - chunk.payload, chunk.end + 4
        if chunk.kind in _TEXT_CHUNKS:
            raw, _, rest = data[chunk.payload : min(chunk.end, chunk.payload + MAX_TEXT_BYTES)].partition(b"\0")
            keyword = raw[:79].decode("latin-1").lower()
            is_block = raw == _XMP_KEYWORDS[0] or raw.startswith(_RAW_PROFILE)
            if (kind := kind_of(keyword)) and not is_block and keyword not in _TEXT_KEYWORDS:
                texts_left -= 1
                texts.add(kind, _text_of_chunk(chunk.kind, rest) if texts_left >= 0 else "")
        elif chunk.kind == b"tIME":
            yield Removed.DATE
        elif chunk.kind not in (b"eXIf", b"iCCP") and not _is_kept(chunk):
            yield None if chunk.kind in _TECHNICAL and size <= _MAX_TECHNICAL_BYTES else Removed.OTHER
    yield from texts.kinds
    yield kind_of_rest(data, end)


def _xmp_chunk(packet: bytes) -> bytes:
    return chunk_bytes(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + packet)


def with_xmp(data: Data, xmp: bytes) -> bytes:
    """The file with this XMP packet after its header, and no other; everything else is copied bit for bit."""
    out, end = [SIGNATURE], 0
    for chunk in chunks(data):
        keyword = data[chunk.payload : min(chunk.end, chunk.payload + _MAX_KEYWORD_BYTES)].partition(b"\0")[0]
        if chunk.kind not in _TEXT_CHUNKS or keyword not in _XMP_KEYWORDS:
            out.append(whole_chunk(data, chunk))
        if chunk.kind == b"IHDR":
            out.append(_xmp_chunk(xmp))
        end = chunk.end + 4
    return b"".join([*out, data[end:]])


def _packed_profile(data: Data, profile: bytes) -> bytes:
    """The compressed ICC profile: a new one, or the file's own if that is shorter."""
    packed = zlib.compress(profile, 9)
    for chunk in chunks(data):
        if chunk.kind == b"iCCP" and chunk.end - chunk.payload <= MAX_BLOCK_BYTES:
            stored = data[chunk.payload : chunk.end].partition(b"\0")[2][1:]
            return min(packed, stored, key=len) if inflate(stored) == profile else packed
    return packed


# ---- the frames of an APNG, each as a separate PNG. Source: 11.3.6 and 4.9 ----

DISPOSE_BACKGROUND, DISPOSE_PREVIOUS = 1, 2
"""Values of `dispose_op`: clear the frame's area to transparent black, or restore what it covered."""

_BLEND_OVER = 1


class _Frame(Struct):
    """A frame: its area in pixels, `dispose_op` as `disposal`, and the byte ranges of its compressed data.

    If `blend_over`, the frame is blended over the canvas; otherwise it replaces its area.
    """

    left: int
    top: int
    width: int
    height: int
    disposal: int
    blend_over: bool
    data_ranges: list[tuple[int, int]] = []


def frames(data: Data) -> list[_Frame]:
    """The frames in order. Raises: BrokenImage if a frame has no data or lies outside the picture."""
    width, height = unpack(">II", data, 16, "header")
    found: list[_Frame] = []
    for chunk in chunks(data):
        if chunk.kind == b"fcTL":
            control = unpack(">IIIIHHBB", data, chunk.payload + 4, "frame header", chunk.end)
            frame_width, frame_height, left, top, _, _, disposal, blend = control
            found.append(_Frame(left, top, frame_width, frame_height, disposal, blend == _BLEND_OVER))
        elif found and chunk.kind in (b"IDAT", b"fdAT"):
            # fdAT begins with a sequence number; an IDAT before the first fcTL is no frame
            found[-1].data_ranges.append((chunk.payload + (4 if chunk.kind == b"fdAT" else 0), chunk.end))
    for each in found:
        is_outside = each.left + each.width > width or each.top + each.height > height
        if not (each.width and each.height and each.data_ranges) or is_outside:
            raise BrokenImage("The APNG is damaged: a frame has no data, or lies outside the picture.")
    return found


def palette_chunks(data: Data) -> bytes:
    """The chunks with the palette and the transparency of all frames."""
    found: dict[bytes, bytes] = {}
    for chunk in chunks(data):
        if chunk.kind in (b"PLTE", b"tRNS"):
            found.setdefault(chunk.kind, whole_chunk(data, chunk))
    return b"".join(found.values())


def as_png(data: Data, frame: _Frame, palette: bytes) -> bytes:
    """The frame as a PNG, with the animation's `palette_chunks`."""
    header = data[16:29]
    size = frame.width.to_bytes(4, "big") + frame.height.to_bytes(4, "big")
    compressed = b"".join(data[start:end] for start, end in frame.data_ranges)
    return as_file(chunk_bytes(b"IHDR", size + header[8:]), palette, chunk_bytes(b"IDAT", compressed))
