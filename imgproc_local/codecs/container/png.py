"""PNG and APNG as chunks. Source: W3C PNG specification, third edition."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from msgspec import Struct

from imgproc_local.codecs import exif, iptc
from imgproc_local.codecs.container import MAX_BLOCK_BYTES, Blocks, Data, inflate, unpack
from imgproc_local.domain.errors import BrokenImage
from imgproc_local.domain.image import Format, ImageInfo

SIGNATURE = b"\x89PNG\r\n\x1a\n"
PICTURE_CHUNKS = frozenset(
    b"IHDR PLTE IDAT IEND tRNS acTL fcTL fdAT gAMA cHRM sRGB cICP mDCV cLLI sBIT bKGD pHYs".split()
)
"""What the picture looks like depends on these; all other chunks are metadata."""

_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_MAX_CHUNKS = 500_000


class Chunk(Struct, frozen=True):
    """The data is `data[payload:end]`; the check sum follows."""

    kind: bytes
    payload: int
    end: int


def chunks(data: Data) -> Iterator[Chunk]:
    """The chunks in order, up to IEND inclusive. Raises: BrokenImage where the file ends before."""
    if data[:8] != SIGNATURE:
        raise BrokenImage("The PNG does not begin with its signature.")
    at = 8
    for _ in range(_MAX_CHUNKS):
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
    raise BrokenImage(f"The PNG has more than {_MAX_CHUNKS} chunks.")


def read_header(data: Data) -> ImageInfo:
    """What IHDR, the animation chunks and EXIF say. Raises: BrokenImage."""
    width, height, bits, colour = 0, 0, 0, -1
    frames, duration_ms, orientation, alpha = 1, 0, 1, False
    for number, chunk in enumerate(chunks(data)):
        if number == 0:
            if chunk.kind != b"IHDR":
                raise BrokenImage("The PNG does not begin with its header chunk.")
            width, height, bits, colour = unpack(">IIBB", data, chunk.payload, "header")
            alpha = colour in (4, 6)
        elif chunk.kind == b"tRNS":
            alpha = True
        elif chunk.kind == b"acTL":
            frames = max(1, unpack(">I", data, chunk.payload, "animation header")[0])
        elif chunk.kind == b"fcTL":
            delay, per_second = unpack(">HH", data, chunk.payload + 20, "frame header")
            duration_ms += round(1000 * delay / (per_second or 100))
        elif chunk.kind == b"eXIf":
            orientation = exif.orientation(data[chunk.payload : min(chunk.end, chunk.payload + MAX_BLOCK_BYTES)])
    if not 0 < width < 2**31 or not 0 < height < 2**31 or colour not in _SAMPLES or bits not in (1, 2, 4, 8, 16):
        raise BrokenImage(
            f"The PNG's header makes no sense: {width}×{height} pixels, {bits} bits, colour type {colour}."
        )
    return ImageInfo(Format.PNG, width, height, frames, orientation, alpha, bits, duration_ms if frames > 1 else 0)


def read_timing(data: Data) -> tuple[list[int], int]:
    """The delay of each frame in milliseconds, and how often the animation plays; 0 is for ever."""
    delays, plays = [], 0
    for chunk in chunks(data):
        if chunk.kind == b"acTL":
            (plays,) = unpack(">I", data, chunk.payload + 4, "animation header")
        elif chunk.kind == b"fcTL":
            delay, per_second = unpack(">HH", data, chunk.payload + 20, "frame header")
            delays.append(round(1000 * delay / (per_second or 100)))
    return delays, plays


def colour_type(data: Data) -> int:
    """IHDR's colour type: 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGBA."""
    return data[25]


def has_chunk(data: Data, *kinds: bytes) -> bool:
    return any(chunk.kind in kinds for chunk in chunks(data))


def read_blocks(data: Data) -> Blocks:
    """The metadata blocks, ImageMagick's and ExifTool's hexadecimal "raw profiles" included."""
    found: dict[str, bytes] = {}
    for chunk in chunks(data):
        if (
            chunk.kind not in (b"eXIf", b"iCCP", b"tEXt", b"zTXt", b"iTXt")
            or chunk.end - chunk.payload > MAX_BLOCK_BYTES
        ):
            continue
        payload = data[chunk.payload : chunk.end]
        keyword, _, rest = payload.partition(b"\0")
        if chunk.kind == b"eXIf":
            found.setdefault("exif", payload.removeprefix(b"Exif\0\0"))
        elif chunk.kind == b"iCCP":
            profile = inflate(rest[1:])
            if profile is not None:
                found.setdefault("icc", profile)
        elif keyword == b"XML:com.adobe.xmp" or keyword.startswith(b"Raw profile type "):
            text = _text(chunk.kind, rest)
            if text is None:
                continue
            if keyword == b"XML:com.adobe.xmp":
                found.setdefault("xmp", text)
            else:
                for name, block in _raw_profile(keyword.removeprefix(b"Raw profile type "), text).items():
                    found.setdefault(name, block)
    return Blocks(found.get("exif"), found.get("xmp"), found.get("iptc"), found.get("icc"))


def _text(kind: bytes, rest: bytes) -> bytes | None:
    if kind == b"tEXt":
        return rest
    if kind == b"zTXt":
        return inflate(rest[1:])
    compressed = rest[:1] == b"\1"
    parts = rest[2:].split(b"\0", 2)
    if len(parts) != 3:
        return None
    return inflate(parts[2]) if compressed else parts[2]


def _raw_profile(name: bytes, text: bytes) -> dict[str, bytes]:
    """The block in a text of the form `\\nname\\n   length\\nhexadecimal digits`."""
    parts = text.split(None, 2)
    if len(parts) != 3:
        return {}
    try:
        block = bytes.fromhex(parts[2].decode("ascii"))
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
    """One whole chunk with its length and check sum."""
    return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(payload, zlib.crc32(kind)))


def with_blocks(data: Data, blocks: Blocks) -> bytes:
    """The file with these metadata blocks and no others; the picture's own chunks stay as they are, bit for bit.

    PNG has no place for IPTC-IIM: `blocks.iptc` is not written.
    """
    out = [SIGNATURE]
    for chunk in chunks(data):
        if chunk.kind in PICTURE_CHUNKS or (not chunk.kind[0] & 0x20 and chunk.kind.isalpha()):
            out.append(data[chunk.payload - 8 : chunk.end + 4])
        if chunk.kind == b"IHDR":
            out += _block_chunks(blocks)
    return b"".join(out)


def _block_chunks(blocks: Blocks) -> list[bytes]:
    out = []
    if blocks.icc:
        out.append(chunk_bytes(b"iCCP", b"icc\0\0" + zlib.compress(blocks.icc, 9)))
    if blocks.exif:
        out.append(chunk_bytes(b"eXIf", blocks.exif))
    if blocks.xmp:
        # compression flag 0: readers that scan for the packet find it
        out.append(chunk_bytes(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + blocks.xmp))
    return out
