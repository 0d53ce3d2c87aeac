"""Floods: pictures with harmless pixels, and with headers or metadata of deep, long, numerous or repeating parts.

Each is small and valid enough to get past the signature, and aims at one loop, recursion or search of a reader.
This is one long file because every format builds on the same few metadata blocks.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

from PIL import Image

from imgproc_local.codecs.container.avif import box_bytes
from tests.codecs.pictures import chunk, segment
from tests.faults.hostile import with_box
from tests.support import pictures

MIB = 1024 * 1024
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
DC = "http://purl.org/dc/elements/1.1/"
PLUS = "http://ns.useplus.org/ldf/xmp/1.0/"

# ---- XMP packets ----


def packet(properties: str, attributes: str = "") -> bytes:
    return (
        f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="{RDF}" xmlns:dc="{DC}" xmlns:plus="{PLUS}">'
        f'<rdf:Description rdf:about=""{attributes}>{properties}</rdf:Description></rdf:RDF></x:xmpmeta>'
    ).encode()


def language_alternative(name: str, text: str) -> str:
    return f'<{name}><rdf:Alt><rdf:li xml:lang="x-default">{text}</rdf:li></rdf:Alt></{name}>'


def nested_xmp(depth: int) -> bytes:
    """A creator in `depth` nested elements, beside ordinary rights."""
    inside = "<rdf:li>" * depth + "A" + "</rdf:li>" * depth
    return packet(f"<dc:creator><rdf:Seq>{inside}</rdf:Seq></dc:creator>{language_alternative('dc:rights', 'Example')}")


def xmp_properties(count: int) -> bytes:
    """Simple properties, together as long as a packet may be."""
    value = "b" * max(1, 2_000_000 // count - 25)
    return packet("".join(f"<plus:a{number}>{value}</plus:a{number}>" for number in range(count)))


def xmp_texts_of_data(count: int, length: int) -> bytes:
    """Texts that are near to coordinates, addresses and numbers everywhere."""
    text = ("1.5 N 2+2 a@b (at) 12° " * length)[:length]
    return packet("".join(language_alternative(f"plus:a{number}", text) for number in range(count)))


def xmp_entities(levels: int) -> bytes:
    declared = '<!ENTITY e0 "ha">' + "".join(
        f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' for level in range(1, levels)
    )
    return f"<!DOCTYPE x [{declared}]>".encode() + packet(language_alternative("dc:rights", f"&e{levels - 1};"))


# ---- EXIF, IPTC, ICC ----


def exif_loop() -> bytes:
    """IFD0 that points to itself as Exif IFD, as GPS IFD and as the next IFD."""
    fields = struct.pack("<HHII", 0x8769, 4, 1, 8) + struct.pack("<HHII", 0x8825, 4, 1, 8)
    return b"II*\0" + struct.pack("<IH", 8, 2) + fields + struct.pack("<I", 8)


def exif_overlap() -> bytes:
    """Every text field of IFD0 is the same long run of bytes."""
    tags = (0x010E, 0x010F, 0x0110, 0x013B, 0x8298, *range(0x9C9B, 0x9CA0))
    start, text = 8 + 2 + 12 * len(tags) + 4, b"N 1.5 a@b " * 6_000
    fields = b"".join(struct.pack("<HHII", tag, 2 if tag < 0x9000 else 1, len(text), start) for tag in tags)
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + fields + bytes(4) + text


EMPTY_RESOURCE = b"8BIM\4\4\0\0\0\0\0\0"


def icc_profile(tags: int, size_bytes: int) -> bytes:
    """An RGB profile of `tags` tags that all refer to the whole profile, and a tone curve of millions of points."""
    table = b"".join(struct.pack(">4sII", b"t%03d" % (number % 1000), 0, size_bytes) for number in range(tags - 4))
    colours = b"XYZ \0\0\0\0" + struct.pack(">3i", 28578, 14581, 911)
    start = 132 + 12 * tags
    curve = b"curv\0\0\0\0" + struct.pack(">I", (size_bytes - start - 40) // 2)
    for name in (b"rXYZ", b"gXYZ", b"bXYZ"):
        table += struct.pack(">4sII", name, start, 20)
    table += struct.pack(">4sII", b"rTRC", start + 20, size_bytes - start - 20)
    head = struct.pack(">I", size_bytes) + bytes(12) + b"RGB XYZ " + bytes(12) + b"acsp" + bytes(88)
    return (head + struct.pack(">I", tags) + table + colours + curve).ljust(size_bytes, b"\0")


# ---- files around metadata blocks ----


def jpeg_with(*segments: bytes) -> bytes:
    jpeg = pictures.jpeg(64, 64)
    return jpeg[:2] + b"".join(segments) + jpeg[2:]


def pieces(data: bytes, size: int = 65_000) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def jpeg_with_extended_xmp(xmp: bytes, size: int = 65_000) -> bytes:
    """The packet as extended XMP, in segments of this size."""
    guid = b"0123456789ABCDEF0123456789ABCDEF"
    extension = b"http://ns.adobe.com/xmp/extension/\0" + guid + struct.pack(">I", len(xmp))
    segments = [
        segment(0xE1, extension + struct.pack(">I", size * number) + piece)
        for number, piece in enumerate(pieces(xmp, size))
    ]
    note = packet("", f' xmlns:xmpNote="http://ns.adobe.com/xmp/note/" xmpNote:HasExtendedXMP="{guid.decode()}"')
    return jpeg_with(segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + note), *segments)


def progressive_jpeg(scans: int, width: int = 160, height: int = 120) -> bytes:
    """A progressive picture whose last scan, a refinement, is repeated."""
    whole = pictures.encoded(pictures.photo(width, height), "JPEG", quality=80, progressive=True)
    return whole[:-2] + whole[whole.rindex(b"\xff\xda") : -2] * scans + whole[-2:]


def png_with(*chunks: bytes, before_data: bool = True) -> bytes:
    png = pictures.png(64, 64)
    at = png.index(b"IDAT") - 4 if before_data else len(png) - 12
    return png[:at] + b"".join(chunks) + png[at:]


def international_text(keyword: bytes, text: bytes, *, packed: bool = False) -> bytes:
    stored = zlib.compress(text, 9) if packed else text
    return chunk(b"iTXt", keyword + (b"\0\1\0\0\0" if packed else b"\0\0\0\0\0") + stored)


def png_with_xmp(xmp: bytes, *more: bytes) -> bytes:
    return png_with(international_text(b"XML:com.adobe.xmp", xmp, packed=True), *more)


def raw_profile(name: bytes, block: bytes) -> bytes:
    text = b"\n" + name + b"\n%8d\n" % len(block) + block.hex().encode() + b"\n"
    return chunk(b"zTXt", b"Raw profile type " + name + b"\0\0" + zlib.compress(text, 9))


def apng(frames: int, declared: int) -> bytes:
    """An animation of one pixel per frame."""
    pixel = zlib.compress(b"\0\x80\x80\x80")

    def control(number: int) -> bytes:
        return chunk(b"fcTL", struct.pack(">IIIIIHHBB", number, 1, 1, 0, 0, 1, 100, 0, 0))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)) + chunk(
        b"acTL", struct.pack(">II", declared, 0)
    )
    out = [b"\x89PNG\r\n\x1a\n", header, control(0), chunk(b"IDAT", pixel)]
    for number in range(1, 2 * frames - 1, 2):
        out += [control(number), chunk(b"fdAT", struct.pack(">I", number + 1) + pixel)]
    return b"".join([*out, chunk(b"IEND", b"")])


def gif_frames(count: int) -> bytes:
    """A GIF of one pixel, repeated."""
    still = pictures.encoded(Image.new("P", (1, 1)), "GIF")
    start = still.index(b",", 13)
    return still[:start] + (b"!\xf9\x04\0\1\0\0\0" + still[start:-1]) * count + b";"


def gif_with(extensions: bytes) -> bytes:
    return pictures.gif(2)[:-1] + extensions + b";"


def webp_chunk(kind: bytes, payload: bytes) -> bytes:
    return kind + struct.pack("<I", len(payload)) + payload + b"\0" * (len(payload) % 2)


def webp_with(*chunks: bytes) -> bytes:
    """An extended file with these chunks after the picture."""
    body = b"WEBP" + webp_chunk(b"VP8X", bytes((0x2C, 0, 0, 0)) + bytes((63, 0, 0, 63, 0, 0)))
    body += pictures.webp(64, 64)[12:] + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def webp_frames(count: int) -> bytes:
    """An animation of one lossless pixel, repeated."""
    pixel = pictures.encoded(Image.new("RGB", (1, 1)), "WEBP", lossless=True)[12:]
    frame = webp_chunk(b"ANMF", bytes(12) + b"\x64\0\0\0" + pixel)
    body = b"WEBP" + webp_chunk(b"VP8X", bytes((2, 0, 0, 0)) + bytes(6)) + webp_chunk(b"ANIM", bytes(6))
    body += frame * count
    return b"RIFF" + struct.pack("<I", len(body)) + body


# ---- AVIF ----


def full_box(kind: bytes, content: bytes, version: int = 0) -> bytes:
    return box_bytes(kind, struct.pack(">I", version << 24) + content)


def avif_with(kind: bytes, new: Callable[[bytes], bytes], parents: tuple[bytes, ...] = (b"meta",)) -> bytes:
    """A small AVIF in which `new` replaced the content of the box `kind`."""
    avif = pictures.avif(64, 64)
    at = avif.index(kind) - 4
    (size,) = struct.unpack(">I", avif[at : at + 4])
    return with_box(avif, parents, box_bytes(kind, new(avif[at + 8 : at + size])))


def avif_items(count: int) -> bytes:
    """`count` items of one byte each; the first is the picture's."""

    def locations(_: bytes) -> bytes:
        entries = b"".join(
            struct.pack(">HHH", number, 0, 1) + struct.pack(">II", 40 + number % 100, 1)
            for number in range(1, count + 1)
        )
        return bytes(4) + struct.pack(">BBH", 0x44, 0, count) + entries

    names = b"".join(
        full_box(
            b"infe",
            struct.pack(">HH4s", number, 0, b"av01" if number == 1 else b"mime") + b"\0application/rdf+xml\0",
            2,
        )
        for number in range(1, count + 1)
    )
    return with_box(
        avif_with(b"iloc", locations), (b"meta",), box_bytes(b"iinf", bytes(4) + struct.pack(">H", count) + names)
    )


def avif_metadata_extents(extents: int) -> bytes:
    """One item of XMP in `extents` extents of one byte, each of which has to be emptied on its own."""

    locations = (
        bytes(4)
        + struct.pack(">BBH", 0x44, 0, 2)
        + (struct.pack(">HHH", 1, 0, 1) + struct.pack(">II", 400, 100))
        + struct.pack(">HHH", 2, 0, extents)
        + b"".join(struct.pack(">II", 5_000 + 2 * number, 1) for number in range(extents))
    )
    return with_box(avif_items(2), (b"meta",), box_bytes(b"iloc", locations)) + box_bytes(b"mdat", bytes(8 * MIB))


def avif_tracks() -> bytes:
    """Tracks with many boxes and with tables of the offsets of frames."""
    offsets = full_box(b"stco", struct.pack(">I", 6_000) + struct.pack(">I", 50) * 6_000)
    table = box_bytes(b"stbl", full_box(b"stsz", struct.pack(">II", 1, 1)) + offsets)
    free = box_bytes(b"free", b"") * 900
    media = box_bytes(b"mdia", full_box(b"mdhd", bytes(20)) + box_bytes(b"minf", table + free))
    return pictures.avif(64, 64) + box_bytes(b"moov", box_bytes(b"trak", media + free) * 16)


def extents_of_4_gib() -> bytes:
    def locations(_: bytes) -> bytes:
        entries = b"".join(
            struct.pack(">HHH", number, 0, 4) + struct.pack(">II", 0, 0xFFFFFFFF) * 4 for number in (1, 2)
        )
        return bytes(4) + struct.pack(">BBH", 0x44, 0, 2) + entries

    return avif_with(b"iloc", locations)


FLOODS: dict[str, Callable[[], bytes]] = {
    # XMP
    "xmp-nested-100000.png": lambda: png_with_xmp(nested_xmp(100_000), chunk(b"tEXt", b"Copyright\0Another Example")),
    "xmp-nested-200.png": lambda: png_with_xmp(nested_xmp(200), chunk(b"tEXt", b"Copyright\0Another Example")),
    "xmp-properties-46000.jpg": lambda: jpeg_with_extended_xmp(xmp_properties(46_000)),
    "xmp-list-60000.png": lambda: png_with_xmp(
        packet(f"<dc:subject><rdf:Bag>{'<rdf:li>12 Ab</rdf:li>' * 60_000}</rdf:Bag></dc:subject>")
    ),
    "xmp-texts-of-data.png": lambda: png_with_xmp(xmp_texts_of_data(60, 32_000)),
    "xmp-long-namespace.png": lambda: png_with_xmp(
        packet("<a:b/>" * 1_500, f' xmlns:a="{"n" * 500_000}"'), chunk(b"tEXt", b"Copyright\0Another Example")
    ),
    "xmp-entities.png": lambda: png_with_xmp(xmp_entities(12)),
    "xmp-in-pieces.jpg": lambda: jpeg_with_extended_xmp(b" " * 7_960_000, 4_000),
    # EXIF, IPTC, ICC
    "exif-loop.jpg": lambda: jpeg_with(segment(0xE1, b"Exif\0\0" + exif_loop())),
    "exif-overlap.jpg": lambda: jpeg_with(segment(0xE1, b"Exif\0\0" + exif_overlap())),
    "iptc-datasets-2-kib.png": lambda: png_with(
        raw_profile(b"iptc", (struct.pack(">BBBH", 0x1C, 2, 120, 2_000) + b"Ab c " * 400) * 1_900)
    ),
    "photoshop-resources-100000.jpg": lambda: jpeg_with(
        *(segment(0xED, b"Photoshop 3.0\0" + piece) for piece in pieces(EMPTY_RESOURCE * 100_000))
    ),
    "icc-tags-4000000.png": lambda: png_with(
        chunk(b"iCCP", b"icc\0\0" + zlib.compress(icc_profile(600_000, 7 * MIB + 999_999), 9))
    ),
    # JPEG
    "scans-20000.jpg": lambda: progressive_jpeg(20_000),
    "segments-100000.jpg": lambda: jpeg_with(segment(0xEB, b"JP") * 100_000),
    "pictures-after-the-first.jpg": lambda: (
        jpeg_with(segment(0xE2, b"urn:iso:std:iso:ts:21496:-1\0")) + pictures.jpeg(32, 32) * 4_000
    ),
    # PNG
    "texts-45000.png": lambda: png_with(chunk(b"tEXt", b"Comment\0N 1.5 a@b") * 45_000),
    "packed-texts-900.png": lambda: png_with(international_text(b"Comment", b" " * 18_000, packed=True) * 900),
    "empty-data-45000.png": lambda: png_with(chunk(b"IDAT", b"") * 45_000, before_data=False),
    "chunks-1000000.png": lambda: png_with(chunk(b"prVt", b"") * 1_000_000),
    "frames-24000.png": lambda: apng(24_000, 24_000),
    "frames-declared.png": lambda: apng(3, 2**32 - 1),
    # GIF
    "frames-24000.gif": lambda: gif_frames(24_000),
    "one-colour-9000.gif": lambda: pictures.encoded(Image.new("P", (9_000, 9_000)), "GIF"),
    "comments-45000.gif": lambda: gif_with(b"!\xfe\x09N 1.5 a@b\0" * 45_000),
    # WebP
    "frames-24000.webp": lambda: webp_frames(24_000),
    "frames-2000.webp": lambda: webp_frames(2_000),
    "exif-chunks-45000.webp": lambda: webp_with(webp_chunk(b"EXIF", exif_loop()) * 45_000),
    # AVIF
    "items-8000.avif": lambda: avif_items(8_000),
    "extents-of-4-gib.avif": extents_of_4_gib,
    "xmp-in-16000-extents.avif": lambda: avif_metadata_extents(16_000),
    "references-60000.avif": lambda: avif_with(
        b"meta", lambda old: old + full_box(b"iref", box_bytes(b"thmb", struct.pack(">HHH", 1, 1, 1)) * 60_000), ()
    ),
    "tracks.avif": avif_tracks,
}
"""The file of each name, made when it is called."""

SLOW_TO_ENCODE = frozenset(("one-colour-9000.gif", "frames-2000.webp"))
"""Files whose pixels and frames cost time when they are encoded, as those of honest files do."""
