"""Malformed and malicious image files, most of them written byte by byte."""

from __future__ import annotations

import struct
import zlib

from PIL import Image

from imgproc_local.codecs.container.avif import box_bytes
from tests.codecs.pictures import chunk
from tests.support import pictures

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
MIB = 1024 * 1024


def hostile_files() -> dict[str, bytes]:
    """The files by name. The service must refuse each of them, except those in `READABLE`."""
    makers = (pictures.jpeg, pictures.png, pictures.gif, pictures.webp, pictures.avif)
    intact = {maker.__name__: maker() for maker in makers}
    jpeg, png, gif, webp, avif = intact.values()
    packed_zeros = b"name\0\0" + zlib.compress(bytes(96 * MIB), 9)
    return {
        "empty.jpg": b"",
        "entities.svg": b'<!DOCTYPE svg [<!ENTITY a SYSTEM "file:///etc/hostname">]><svg>&a;</svg>',
        "document.jpg": b"%PDF-1.7\n1 0 obj<</Type/Catalog>>endobj\n%%EOF\n",
        "archive.png": b"PK\x03\x04\x14\x00\x00\x00\x08\x00" + bytes(60),
        "bitmap.png": pictures.encoded(pictures.photo(32, 32), "BMP"),
        **{f"signature-only.{name}": data[:24] for name, data in intact.items()},
        **{f"truncated.{name}": data[: len(data) // 2] for name, data in intact.items()},
        **{f"garbage-after-header.{name}": data[:33] + bytes(range(256)) * 16 for name, data in intact.items()},
        "garbage-after-tables.jpg": jpeg[:640] + b"\xff\x00\xaa\x55" * 4000,
        "wrong-checksum.png": _wrong_checksum(png),
        "zero-size.png": _png(0, 0, b"\0"),
        "zero-size.gif": b"GIF89a" + struct.pack("<HHBBB", 0, 0, 0, 0, 0) + b";",
        "bomb-60000.png": _png(60000, 60000, b"\0" * (60000 // 8 + 1) * 100, bits=1, colour=0),
        "bomb-65535.gif": _gif_of_size(65535, 65535),
        "bomb-65500.jpg": _jpeg_of_size(jpeg, 65500, 65500),
        "bomb-16383.webp": _webp_of_size(16383, 16383),
        "bomb-frames.gif": _many_frames(3000, 3000, 40),
        "bomb-iccp.png": _png(64, 64, _rows(64, 64), extra=chunk(b"iCCP", packed_zeros)),
        "bomb-ztxt.png": _png(64, 64, _rows(64, 64), extra=chunk(b"zTXt", packed_zeros)),
        "bomb-idat.png": _png(64, 64, bytes(96 * MIB)),
        "chunk-length.png": PNG_SIGNATURE + struct.pack(">I", 0x7FFFFFFF) + b"IHDR" + bytes(40),
        "box-length.avif": b"\x00\x00\x00\x18ftypavif\x00\x00\x00\x00avifmif1" + b"\xff\xff\xff\xffmeta" + bytes(64),
        "chunk-length.webp": b"RIFF\xff\xff\xff\xffWEBPVP8X\xff\xff\xff\xff" + bytes(32),
        "endless-segments.jpg": b"\xff\xd8" + b"\xff\xe1\x00\x02" * 50_000,
        "restart-flood.jpg": jpeg[:2] + b"\xff\xd0" * 2 * MIB + jpeg[2:],
        "scan-flood.jpg": jpeg[:-2] + b"\xff\xfe\x00\x02" * MIB + jpeg[-2:],
        "fill-flood.jpg": b"\xff\xd8" + b"\xff" * 4 * MIB + b"\x00",
        "chunk-flood.webp": _webp_with(webp, b"JUNK\0\0\0\0" * 512 * 1024),
        "block-flood.gif": gif[:-1] + b"\x21\xfe\x00" * MIB + gif[-1:],
        "box-flood.avif": avif + b"\x00\x00\x00\x08free" * 512 * 1024,
        "nested-boxes.avif": _nested_boxes(avif, 3000),
        "property-flood.avif": with_box(avif, (b"meta", b"iprp"), _many_properties(8000)),
        "bomb-extents.avif": with_box(avif, (b"meta",), _many_extents(500)),
        "bomb-exif.jpg": jpeg[:2] + b"\xff\xe1\xff\xff" + b"Exif\0\0" + exif_bomb(65527, 512) + jpeg[2:],
        "bomb-exif.webp": _webp_with(webp, b"EXIF" + struct.pack("<I", 2 * MIB) + exif_bomb(2 * MIB, 50)),
        "flood-ztxt.png": _png(64, 64, _rows(64, 64), extra=raw_profile_flood(200)),
    }


READABLE = frozenset(
    (
        "bomb-frames.gif",
        "bomb-iccp.png",
        "bomb-ztxt.png",
        "bomb-idat.png",
        "bomb-exif.jpg",
        "bomb-exif.webp",
        "nested-boxes.avif",
        "scan-flood.jpg",
        "restart-flood.jpg",
    )
)
"""Files with valid pixels. A decoder may accept them if it ignores the other data or limits how much it unpacks."""


def exif_bomb(size_bytes: int, entries: int) -> bytes:
    """Exif data in which all IFD entries, including those that readers use, refer to the same large array."""
    start = 8 + 2 + 12 * entries + 4
    fields = b"".join(
        struct.pack("<HHII", 0x0100 + number, 3, (size_bytes - start) // 2, start) for number in range(entries)
    )
    head = b"II*\0" + struct.pack("<IH", 8, entries) + fields + bytes(4)
    return (head + b"\xf1\xf2" * (size_bytes // 2))[:size_bytes]


def raw_profile_flood(chunks: int) -> bytes:
    """PNG text chunks for an Exif profile, each of which decompresses to nearly 8 MiB of spaces."""
    return chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(b" " * (8 * MIB - 4), 9)) * chunks


def _webp_with(webp: bytes, chunks: bytes) -> bytes:
    """The picture with `chunks` appended, and its RIFF size updated."""
    return b"RIFF" + struct.pack("<I", len(webp) - 8 + len(chunks)) + webp[8:] + chunks


def _nested_boxes(avif: bytes, depth: int) -> bytes:
    """The picture with moov boxes appended, each nested in the one before."""
    return avif + b"".join(struct.pack(">I4s", 8 * (depth - level), b"moov") for level in range(depth))


def with_box(avif: bytes, parents: tuple[bytes, ...], box: bytes) -> bytes:
    """The AVIF with its box of the same type replaced by `box`, and the sizes of the `parents` boxes updated.

    Offsets of the data are not updated: what is read of it is not of interest.
    """
    at = avif.index(box[4:8]) - 4
    (size,) = struct.unpack(">I", avif[at : at + 4])
    out = bytearray(avif[:at] + box + avif[at + size :])
    for kind in parents:
        start = avif.index(kind) - 4
        (parent_size,) = struct.unpack(">I", avif[start : start + 4])
        out[start : start + 4] = struct.pack(">I", parent_size + len(box) - size)
    return bytes(out)


def _many_properties(items: int) -> bytes:
    """An ipma box that associates every item 255 times with the same property. Source: ISO/IEC 23008-12, 9.3."""
    entries = (struct.pack(">HB", 1, 255) + b"\x01" * 255) * items
    return box_bytes(b"ipma", bytes(4) + struct.pack(">I", items) + entries)


def _many_extents(items: int) -> bytes:
    """An iloc box of items with 65,535 extents each; with fields of 0 bytes, an extent takes no space in it.

    Source: ISO/IEC 14496-12, 8.11.3.
    """
    entries = b"".join(struct.pack(">HHH", 1 + number, 0, 65_535) for number in range(items))
    return box_bytes(b"iloc", bytes(4) + struct.pack(">BBH", 0, 0, items) + entries)


def _png(width: int, height: int, rows: bytes, bits: int = 8, colour: int = 2, extra: bytes = b"") -> bytes:
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    parts = (chunk(b"IHDR", header), extra, chunk(b"IDAT", zlib.compress(rows, 9)), chunk(b"IEND", b""))
    return PNG_SIGNATURE + b"".join(parts)


def _rows(width: int, height: int) -> bytes:
    """Grey rows of unfiltered RGB."""
    return (b"\0" + b"\x7f" * 3 * width) * height


def _wrong_checksum(png: bytes) -> bytes:
    at = png.index(b"IDAT") + 20
    return png[:at] + bytes([png[at] ^ 0xFF]) + png[at + 1 :]


def _gif_of_size(width: int, height: int) -> bytes:
    """One frame that covers the canvas, and hardly any data for it. Source: GIF89a Specification, 18 and 20."""
    screen = struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6)
    frame = b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x02L\x01\0"
    return b"GIF89a" + screen + frame + b";"


def _jpeg_of_size(jpeg: bytes, width: int, height: int) -> bytes:
    """The picture with another size in its frame header. Source: ITU-T T.81, B.2.2."""
    at = jpeg.index(b"\xff\xc0") + 5
    return jpeg[:at] + struct.pack(">HH", height, width) + jpeg[at + 4 :]


def _webp_of_size(width: int, height: int) -> bytes:
    """The header of a lossless stream, and no pixel data. Source: WebP Lossless Bitstream Specification, 3."""
    header = b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14) + bytes(32)
    body = b"WEBPVP8L" + struct.pack("<I", len(header)) + header + b"\0" * (len(header) % 2)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _many_frames(width: int, height: int, frames: int) -> bytes:
    """A GIF with a large canvas, in which one small frame is repeated many times."""
    still = pictures.encoded(Image.new("P", (8, 8)), "GIF")
    frame = still[still.index(b",", 13) : -1]
    return still[:6] + struct.pack("<HH", width, height) + still[10 : still.index(b",", 13)] + frame * frames + b";"
