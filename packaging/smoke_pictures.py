"""Pictures for the smoke test, without an imaging library: writes a scene as PNG and GIF, and reads headers.

The tiny model was trained on such scenes and writes known texts for them.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

WIDTH_PX, HEIGHT_PX = 640, 480
GREY, RED, BLUE = (150, 150, 150), (220, 40, 40), (40, 70, 220)
PALETTE = (GREY, RED, BLUE, GREY)
SCENE_TEXTS = {
    "en": ("red-circle-left-of-blue-square", "A red circle to the left of a blue square on a grey background."),
    "de": (
        "roter-kreis-links-von-blauem-quadrat",
        "Ein roter Kreis links von einem blauen Quadrat auf grauem Hintergrund.",
    ),
    "fr": ("cercle-rouge-a-gauche-d-un-carre-bleu", "Un cercle rouge à gauche d’un carré bleu sur fond gris."),
    "ja": ("akai-maru-ga-aoi-shikaku-no-hidari", "赤い丸が青い四角の左にある。背景は灰色。"),
}
"""File name and alt text of the scene per language, as the tiny model writes them."""
PADDING_BYTES = 20_000


class Header(NamedTuple):
    """Format and size of a picture."""

    kind: str
    width_px: int
    height_px: int


def scene_png() -> bytes:
    """The scene as an 8-bit RGB PNG, stored without compression."""
    rows = b"".join(b"\0" + b"".join(bytes(PALETTE[index]) for index in row) for row in _scene_rows())
    head = struct.pack(">IIBBBBB", WIDTH_PX, HEIGHT_PX, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 0)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(name, content) for name, content in chunks)


def scene_gif(frames: int = 2) -> bytes:
    """The scene as an uncompressed GIF of `frames` equal frames. Source: GIF89a, sections 18 to 27."""
    palette = b"".join(bytes(colour) for colour in PALETTE)
    pixels = b"".join(_scene_rows())
    image = b"\x2c" + struct.pack("<HHHHB", 0, 0, WIDTH_PX, HEIGHT_PX, 0) + b"\x02" + _gif_blocks(_gif_codes(pixels))
    frame = b"\x21\xf9\x04" + struct.pack("<BHBB", 4, 20, 0, 0) + image
    head = b"GIF89a" + struct.pack("<HHBBB", WIDTH_PX, HEIGHT_PX, 0x91, 0, 0) + palette
    return head + b"\x21\xff\x0bNETSCAPE2.0\x03\x01\0\0\0" + frame * frames + b"\x3b"


def padded_webp(webp: bytes) -> bytes:
    """`webp` with an EXIF block of padding, so that it can be made smaller. Source: RFC 9649, sections 2.6 and 2.7."""
    header = read_header(webp)
    exif = b"II*\0\x08\0\0\0\0\0\0\0\0\0" + bytes(PADDING_BYTES)
    size = (header.width_px - 1).to_bytes(3, "little") + (header.height_px - 1).to_bytes(3, "little")
    chunks = _riff_chunk(b"VP8X", b"\x08\0\0\0" + size) + webp[12:] + _riff_chunk(b"EXIF", exif)
    if webp[12:16] == b"VP8X":
        raise ValueError("expected a WebP without an extended header")
    return b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WEBP" + chunks


def read_header(data: bytes) -> Header:
    """Format and size of a JPEG, PNG, GIF, WebP or AVIF. Raises `ValueError` for any other or truncated data."""
    try:
        if data[:8] == b"\x89PNG\r\n\x1a\n":
            return Header("png", *struct.unpack(">II", data[16:24]))
        if data[:6] in (b"GIF87a", b"GIF89a"):
            return Header("gif", *struct.unpack("<HH", data[6:10]))
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp_header(data)
        if data[4:8] == b"ftyp" and data[8:12] in (b"avif", b"avis"):
            at = data.index(b"ispe")
            return Header("avif", *struct.unpack(">II", data[at + 8 : at + 16]))
        if data[:3] == b"\xff\xd8\xff":
            return _jpeg_header(data)
    except (struct.error, IndexError) as error:
        raise ValueError(f"expected a complete picture, received {len(data)} truncated bytes") from error
    raise ValueError(f"expected a JPEG, PNG, GIF, WebP or AVIF, received {data[:12]!r}")


def check_complete(data: bytes) -> None:
    """Raises `ValueError` if a PNG has wrong checksums or no pixels, or a JPEG, GIF or WebP is truncated."""
    kind = read_header(data).kind
    if kind == "png":
        _check_png(data)
    elif kind == "jpeg" and b"\xff\xd9" not in data[-2:]:
        raise ValueError("expected a JPEG that ends with its end marker")
    elif kind == "gif" and data[-1:] != b"\x3b":
        raise ValueError("expected a GIF that ends with its trailer")
    elif kind == "webp" and int.from_bytes(data[4:8], "little") + 8 != len(data):
        raise ValueError(f"expected a WebP of the length in its header, received {len(data)} bytes")


def _scene_rows() -> list[bytes]:
    """One byte per pixel, an index into `PALETTE`: the circle in the left half, the square in the right."""
    radius = 90
    rows = []
    for y in range(HEIGHT_PX):
        row = bytearray(WIDTH_PX)
        across = radius**2 - (y - HEIGHT_PX // 2) ** 2
        if across > 0:
            half = int(across**0.5)
            row[160 - half : 160 + half] = b"\1" * (2 * half)
            row[480 - radius : 480 + radius] = b"\2" * (2 * radius)
        rows.append(bytes(row))
    return rows


def _png_chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def _riff_chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def _gif_codes(pixels: bytes) -> bytes:
    """LZW codes of 3 bits. A clear code (4) before every second pixel keeps them from growing; 5 is the end code."""
    codes = [code for at in range(0, len(pixels), 2) for code in (4, *pixels[at : at + 2])]
    bits = "".join(format(code, "03b")[::-1] for code in (*codes, 5))
    bits += "0" * (-len(bits) % 8)
    return int(bits[::-1], 2).to_bytes(len(bits) // 8, "little")


def _gif_blocks(data: bytes) -> bytes:
    parts = (data[at : at + 255] for at in range(0, len(data), 255))
    return b"".join(bytes([len(part)]) + part for part in parts) + b"\0"


def _webp_header(data: bytes) -> Header:
    name = data[12:16]
    if name == b"VP8X":
        width_px, height_px = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
    elif name == b"VP8L":
        packed = int.from_bytes(data[21:25], "little")
        width_px, height_px = (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
    else:
        width_px, height_px = (int.from_bytes(data[at : at + 2], "little") & 0x3FFF for at in (26, 28))
    return Header("webp", width_px, height_px)


def _jpeg_header(data: bytes) -> Header:
    """The size from the first start-of-frame segment. Source: ITU-T T.81, B.2.2."""
    at = 2
    while True:
        while data[at + 1] == 0xFF:
            at += 1
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height_px, width_px = struct.unpack(">HH", data[at + 5 : at + 9])
            return Header("jpeg", width_px, height_px)
        at += 2 + length


def _check_png(data: bytes) -> None:
    at, packed = 8, b""
    while at < len(data):
        length, name = struct.unpack(">I4s", data[at : at + 8])
        content = data[at + 8 : at + 8 + length]
        if data[at + 8 + length : at + 12 + length] != struct.pack(">I", zlib.crc32(name + content)):
            raise ValueError(f"expected a PNG whose {name.decode('latin-1')} chunk has the checksum of its bytes")
        packed += content if name == b"IDAT" else b""
        at += 12 + length
    if name != b"IEND" or not zlib.decompress(packed):
        raise ValueError("expected a PNG with pixels and an end")
