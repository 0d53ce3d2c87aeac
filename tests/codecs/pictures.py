"""Pictures for the codec tests, with metadata in every field that must be preserved or removed.

Fields that must be removed contain one of `SECRETS`, and fields that must be preserved one of `PRESERVED`. Tests search
for both in the bytes of the results. It is one long file because its pictures share their metadata.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyvips
from PIL import Image, ImageCms

from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import jxl as jxl_container
from imgproc_local.codecs.picture.other_decoders import libjxl

GPS_RATIONAL = struct.pack("<II", 1234577, 10007)
SECRETS = {
    "GPS position in EXIF": GPS_RATIONAL,
    "GPS position in XMP": b"52,31.2057N",
    "GPS position inside an IPTC location": b"48,11.9999N",
    "camera serial number in EXIF": b"SERIAL-EXIF-4711",
    "camera serial number in XMP": b"SERIAL-XMP-4712",
    "sublocation": b"SUBLOCATION-PRIVATE",
    "person shown": b"Shown Person-Private",
    "maker note": b"MAKERNOTE-PRIVATE",
    "thumbnail in EXIF": b"THUMBNAIL-EXIF-PRIVATE",
    "thumbnail in a Photoshop resource": b"THUMBNAIL-PHOTOSHOP-PRIVATE",
    "software in EXIF": b"SoftwareNameExif",
    "software in IPTC": b"SoftwareNameIptc",
    "software history in XMP": b"HISTORY-PRIVATE",
    "comment": b"COMMENT-PRIVATE",
    "appended data": b"TRAILER-PRIVATE",
}
COPYRIGHT = "© 2031 Example Press"
ALT_TEXT = {"en": "A red boat on a quiet lake", "de": "Ein rotes Boot auf einem stillen See"}
EXTENDED = "A red wooden boat lies on a lake; behind it stand fir trees."
PRESERVED = {
    "copyright": COPYRIGHT,
    "creator": "Example Photographer",
    "credit": "Example Press Agency",
    "usage terms": "Editorial use only",
    "alt text": ALT_TEXT["en"],
    "alt text in a second language": ALT_TEXT["de"],
    "extended description": EXTENDED,
    "caption": "A boat in the evening",
    "title": "Evening boat",
    "headline": "Quiet lake",
    "keyword": "Bootsverleih",
    "city": "Musterstadt",
    "country": "Musterland",
    "place shown": "Mustersee",
    "event": "Example Regatta",
    "source type": "digitalcapture",
}


def scene(width: int = 320, height: int = 240, seed: int = 1) -> np.ndarray:
    """An H×W×3 uint8 picture with gradients, edges and noise, which compresses as photographs do."""
    return _scene(width, height, seed).copy()


@lru_cache(maxsize=20)
def _scene(width: int, height: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    picture = np.stack([60 + 120 * y / height, 90 + 60 * x / width, 200 - 120 * y / height], axis=-1)
    for _ in range(12):
        centre_x, centre_y, radius = random.integers(0, width), random.integers(0, height), random.integers(8, 50)
        inside = (x - centre_x) ** 2 + (y - centre_y) ** 2 < radius**2
        picture[inside] = random.integers(30, 226, 3)
    picture += random.normal(0, 6, picture.shape)
    return np.clip(picture, 0, 255).astype(np.uint8)


def photo(width: int = 320, height: int = 240) -> np.ndarray:
    """A scene without noise in its chroma, as cameras write it: lossy formats would remove that."""
    image = pyvips.Image.new_from_array(scene(width, height), interpretation="srgb")
    return np.asarray(image.gaussblur(1.2).cast("uchar").numpy())


def graphic(width: int = 320, height: int = 240, colours: int = 400, *, alpha: bool = False) -> np.ndarray:
    """Flat areas with soft edges: more than 256 colours, but a palette of 256 is close enough to all of them."""
    y, x = np.mgrid[0:height, 0:width].astype(float)
    picture = np.full((height, width, 4), 255, np.float64)
    for number in range(6):
        distance = np.hypot(x - width * (number + 1) / 7, y - height / 2) - height / 5
        cover = np.clip(0.5 - distance / 4, 0, 1)[..., None]
        colour = np.array([(number * 53) % 256, (number * 97 + 40) % 256, (number * 151 + 90) % 256, 255])
        picture = picture * (1 - cover) + colour * cover
    if alpha:
        picture[..., 3] = np.clip(255 * x / (width / 3), 0, 255)
    return picture.astype(np.uint8) if alpha else picture[..., :3].astype(np.uint8)


def saved(picture: np.ndarray | Image.Image, file_format: str, **options: object) -> bytes:
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    out = io.BytesIO()
    image.save(out, file_format, **options)
    return out.getvalue()


def opened(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def write(folder: Path, data: bytes, name: str = "picture") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def tiff(orientation: int = 1, *, full: bool = True) -> bytes:
    """An EXIF block with GPS, serial number, maker note, thumbnail, software, copyright and artist."""
    text = lambda value: (2, value.encode() + b"\0")  # noqa: E731
    ascii_fields = {
        0x010E: text(PRESERVED["caption"]),
        0x010F: text("Examplecam"),
        0x0110: text("Examplecam One"),
        0x0131: text("SoftwareNameExif"),
        0x013B: text(PRESERVED["creator"]),
        0x8298: text(COPYRIGHT),
    }
    main: dict[int, tuple[int, bytes]] = {0x0112: (3, struct.pack("<HH", orientation, 0)[:2])}
    shot: dict[int, tuple[int, bytes]] = {}
    gps: dict[int, tuple[int, bytes]] = {}
    thumbnail = b""
    if full:
        main |= ascii_fields
        shot = {
            0x9003: text("2031:05:06 07:08:09"),
            0x927C: (7, b"MAKERNOTE-PRIVATE" * 3),
            0xA431: text("SERIAL-EXIF-4711"),
        }
        position = struct.pack("<IIII", 52, 1, 31, 1) + GPS_RATIONAL
        gps = {1: text("N"), 2: (5, position), 3: text("W"), 4: (5, position)}
        thumbnail = saved(scene(64, 48), "JPEG", comment=b"THUMBNAIL-EXIF-PRIVATE")
    return _tiff_of(main, {0x8769: shot, 0x8825: gps}, thumbnail)


def compact_tiff(texts: dict[int, bytes], orientation: int, secrets: dict[str, bytes]) -> bytes:
    """A small EXIF block with these texts and, of the secrets, `gps`, `serial number`, `maker note` and `thumbnail`."""
    main: dict[int, tuple[int, bytes]] = {tag: (2, text + b"\0") for tag, text in texts.items()}
    if orientation != 1:
        main[0x0112] = (3, struct.pack("<H", orientation))
    places = {"gps": (0x8825, 2, 5), "serial number": (0x8769, 0xA431, 2), "maker note": (0x8769, 0x927C, 7)}
    below: dict[int, dict[int, tuple[int, bytes]]] = {0x8769: {}, 0x8825: {}}
    for name, (ifd, tag, kind) in places.items():
        if name in secrets:
            below[ifd][tag] = (kind, secrets[name])
    return _tiff_of(main, below, secrets.get("thumbnail", b""))


def _tiff_of(
    main: dict[int, tuple[int, bytes]], below: dict[int, dict[int, tuple[int, bytes]]], thumbnail: bytes
) -> bytes:
    """An EXIF block: the main IFD, those that its fields point to unless they are empty, and the thumbnail's."""
    main = main | {tag: (4, b"\0" * 4) for tag, fields in below.items() if fields}
    out = bytearray(b"II*\0\x08\0\0\0")
    positions, next_field = _ifd(out, main)
    for tag, fields in below.items():
        if fields:
            struct.pack_into("<I", out, positions[tag], len(out))
            _ifd(out, fields)
    if thumbnail:
        struct.pack_into("<I", out, next_field, len(out))
        positions, _ = _ifd(out, {0x0201: (4, b"\0" * 4), 0x0202: (4, struct.pack("<I", len(thumbnail)))})
        struct.pack_into("<I", out, positions[0x0201], len(out))
        out += thumbnail
    return bytes(out)


def _ifd(out: bytearray, fields: dict[int, tuple[int, bytes]], order: str = "<") -> tuple[dict[int, int], int]:
    """Appends an IFD; returns the position of each inline value, and that of the offset of the next IFD."""
    sizes = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 7: 1}
    start = len(out)
    values_at = start + 2 + 12 * len(fields) + 4
    out += struct.pack(order + "H", len(fields))
    values = b""
    positions = {}
    for tag, (kind, raw) in sorted(fields.items()):
        out += struct.pack(order + "HHI", tag, kind, len(raw) // sizes[kind])
        positions[tag] = len(out)
        if len(raw) <= 4:
            out += raw.ljust(4, b"\0")
        else:
            out += struct.pack(order + "I", values_at + len(values))
            values += raw + b"\0" * (len(raw) % 2)
    next_field = len(out)
    out += b"\0" * 4 + values
    return positions, next_field


def iptc_datasets() -> bytes:
    """IPTC IIM datasets in UTF-8, with the character set declared."""
    record = {
        5: PRESERVED["title"], 25: PRESERVED["keyword"], 65: "SoftwareNameIptc", 80: PRESERVED["creator"],
        90: PRESERVED["city"], 101: PRESERVED["country"], 105: PRESERVED["headline"], 110: PRESERVED["credit"],
        116: COPYRIGHT, 120: PRESERVED["caption"],
    }  # fmt: skip
    out = b"\x1c\x01\x5a\0\x03\x1b%G"
    for number, value in record.items():
        out += struct.pack(">BBBH", 0x1C, 2, number, len(value.encode())) + value.encode()
    return out


def photoshop(datasets: bytes) -> bytes:
    """Photoshop resources: a thumbnail, then the IIM datasets."""
    out = b""
    for number, block in ((1036, b"THUMBNAIL-PHOTOSHOP-PRIVATE"), (0x0404, datasets)):
        out += b"8BIM" + struct.pack(">HHI", number, 0, len(block)) + block + b"\0" * (len(block) % 2)
    return out


def xmp_packet() -> bytes:
    def alternative(name: str, texts: dict[str, str]) -> str:
        entries = "".join(f'<rdf:li xml:lang="{tag}">{text}</rdf:li>' for tag, text in texts.items())
        return f"<{name}><rdf:Alt>{entries}</rdf:Alt></{name}>"

    return f"""<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/"
 xmlns:photoshop="http://ns.adobe.com/photoshop/1.0/" xmlns:exif="http://ns.adobe.com/exif/1.0/"
 xmlns:aux="http://ns.adobe.com/exif/1.0/aux/" xmlns:xmpMM="http://ns.adobe.com/xap/1.0/mm/"
 xmlns:xmpRights="http://ns.adobe.com/xap/1.0/rights/"
 xmlns:Iptc4xmpCore="http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/"
 xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/"
 exif:GPSLatitude="52,31.2057N" aux:SerialNumber="SERIAL-XMP-4712" photoshop:Credit="{PRESERVED["credit"]}"
 photoshop:City="{PRESERVED["city"]}" photoshop:Country="{PRESERVED["country"]}"
 photoshop:Headline="{PRESERVED["headline"]}">
{alternative("dc:title", {"x-default": PRESERVED["title"]})}
{alternative("dc:description", {"x-default": PRESERVED["caption"], "en": PRESERVED["caption"]})}
{alternative("dc:rights", {"x-default": COPYRIGHT})}
{alternative("xmpRights:UsageTerms", {"x-default": PRESERVED["usage terms"]})}
{alternative("Iptc4xmpCore:AltTextAccessibility", {"x-default": ALT_TEXT["en"], **ALT_TEXT})}
{alternative("Iptc4xmpCore:ExtDescrAccessibility", {"x-default": EXTENDED})}
{alternative("Iptc4xmpExt:Event", {"x-default": PRESERVED["event"]})}
<dc:creator><rdf:Seq><rdf:li>{PRESERVED["creator"]}</rdf:li></rdf:Seq></dc:creator>
<dc:subject><rdf:Bag><rdf:li>{PRESERVED["keyword"]}</rdf:li></rdf:Bag></dc:subject>
<Iptc4xmpExt:PersonInImage><rdf:Bag><rdf:li>Shown Person-Private</rdf:li></rdf:Bag></Iptc4xmpExt:PersonInImage>
<Iptc4xmpExt:DigitalSourceType>
http://cv.iptc.org/newscodes/digitalsourcetype/{PRESERVED["source type"]}
</Iptc4xmpExt:DigitalSourceType>
<Iptc4xmpExt:LocationShown><rdf:Bag><rdf:li rdf:parseType="Resource">
<Iptc4xmpExt:City>{PRESERVED["place shown"]}</Iptc4xmpExt:City>
<Iptc4xmpExt:Sublocation>SUBLOCATION-PRIVATE</Iptc4xmpExt:Sublocation><exif:GPSLatitude>48,11.9999N</exif:GPSLatitude>
</rdf:li></rdf:Bag></Iptc4xmpExt:LocationShown>
<xmpMM:History><rdf:Seq><rdf:li>HISTORY-PRIVATE</rdf:li></rdf:Seq></xmpMM:History>
</rdf:Description></rdf:RDF></x:xmpmeta><?xpacket end="w"?>""".encode()


def segment(marker: int, payload: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload


def jpeg_with_metadata(picture: np.ndarray | None = None, orientation: int = 1, quality: int = 95) -> bytes:
    """A JPEG with every metadata field set, a comment and appended data."""
    plain = saved(scene() if picture is None else picture, "JPEG", quality=quality)
    blocks = segment(0xE1, b"Exif\0\0" + tiff(orientation))
    blocks += segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + xmp_packet())
    blocks += segment(0xED, b"Photoshop 3.0\0" + photoshop(iptc_datasets())) + segment(0xFE, b"COMMENT-PRIVATE")
    return plain[:2] + blocks + plain[2:] + b"TRAILER-PRIVATE"


def chunk(kind: bytes, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(kind + payload))


def with_png_chunks(plain: bytes, *chunks: bytes) -> bytes:
    """The PNG with these chunks after its header."""
    return plain[:33] + b"".join(chunks) + plain[33:]


def png_with_metadata(picture: np.ndarray | None = None, orientation: int = 1) -> bytes:
    """A PNG with every metadata field set, IPTC as a raw profile and a comment, too."""
    raw = photoshop(iptc_datasets())
    profile = b"\niptc\n" + str(len(raw)).encode().rjust(8) + b"\n" + raw.hex().encode() + b"\n"
    return with_png_chunks(
        saved(scene() if picture is None else picture, "PNG"),
        chunk(b"eXIf", tiff(orientation)),
        chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp_packet()),
        chunk(b"zTXt", b"Raw profile type iptc\0\0" + zlib.compress(profile)),
        chunk(b"tEXt", b"Comment\0COMMENT-PRIVATE"),
    )


def webp_with_metadata(picture: np.ndarray | None = None, orientation: int = 1, **options: object) -> bytes:
    """A WebP with EXIF and an XMP packet."""
    options = {"quality": 97, **options}
    picture = scene() if picture is None else picture
    return saved(picture, "WEBP", exif=b"Exif\0\0" + tiff(orientation), xmp=xmp_packet(), **options)


def avif_with_metadata(picture: np.ndarray | None = None) -> bytes:
    """An AVIF with EXIF and an XMP packet."""
    picture = scene() if picture is None else picture
    return saved(picture, "AVIF", quality=97, exif=tiff(), xmp=xmp_packet())


def small_jxl(width: int = 16, height: int = 16) -> bytes:
    return bytes(libjxl().encode(photo(width, height), lossless=True))


def jxl_with_metadata() -> bytes:
    return jxl_container.with_blocks(small_jxl(96, 64), Blocks(tiff(), xmp_packet()))


def jxl_of(jpeg: bytes) -> bytes:
    """A JPEG as JPEG XL without loss, with compressed metadata."""
    return bytes(libjxl().jpeg_to_jxl(jpeg))


def as_heic(avif: bytes) -> bytes:
    """An AVIF that calls itself HEIC: the same boxes, but no decoder of HEVC can decode its picture."""
    return avif.replace(b"avif", b"heic").replace(b"avis", b"hevc")


def tiff_with_metadata(picture: np.ndarray | None = None, orientation: int = 1, order: str = "<") -> bytes:
    """An uncompressed TIFF with every metadata field set, and a second page."""
    picture = scene() if picture is None else picture
    height, width, _ = picture.shape
    integer = lambda number: (4, struct.pack(order + "I", number))  # noqa: E731
    text = lambda value: (2, value.encode() + b"\0")  # noqa: E731
    main: dict[int, tuple[int, bytes]] = {
        256: integer(width), 257: integer(height), 258: (3, struct.pack(order + "3H", 8, 8, 8)), 259: integer(1),
        262: integer(2), 270: text(PRESERVED["caption"]), 271: text("Examplecam"), 273: integer(0),
        274: (3, struct.pack(order + "H", orientation)), 277: integer(3), 278: integer(height),
        279: integer(width * height * 3), 305: text("SoftwareNameExif"), 315: text(PRESERVED["creator"]),
        700: (1, xmp_packet()), 0x8298: text(COPYRIGHT), 33723: (7, iptc_datasets()),
        34377: (7, photoshop(iptc_datasets())), 0x8769: integer(0), 0x8825: integer(0),
    }  # fmt: skip
    shot = {
        0x9003: text("2031:05:06 07:08:09"),
        0x927C: (7, b"MAKERNOTE-PRIVATE" * 3),
        0xA431: text("SERIAL-EXIF-4711"),
    }
    position = struct.pack(order + "6I", 52, 1, 31, 1, *struct.unpack("<2I", GPS_RATIONAL))
    gps = {1: text("N"), 2: (5, position), 3: text("W"), 4: (5, position)}
    out = bytearray((b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8))
    positions, next_field = _ifd(out, main, order)
    for tag, fields in ((0x8769, shot), (0x8825, gps)):
        struct.pack_into(order + "I", out, positions[tag], len(out))
        _ifd(out, fields, order)
    struct.pack_into(order + "I", out, next_field, len(out))
    second, _ = _ifd(out, {tag: main[tag] for tag in (256, 257, 258, 259, 262, 273, 277, 278, 279)}, order)
    for offsets in (positions, second):
        struct.pack_into(order + "I", out, offsets[273], len(out))
    return bytes(out) + picture.tobytes()


def frames(count: int = 5, width: int = 96, height: int = 64) -> list[Image.Image]:
    """A square that moves over a background of one colour."""
    made = []
    for number in range(count):
        picture = np.full((height, width, 3), (240, 240, 220), np.uint8)
        left = number * (width - 20) // count
        picture[20:40, left : left + 20] = (200, (30 + 20 * number) % 256, 40)
        made.append(Image.fromarray(picture))
    return made


def animated(file_format: str, delays_ms: list[int], *, loop: int = 0, **options: object) -> bytes:
    made = frames(len(delays_ms))
    return saved(made[0], file_format, save_all=True, append_images=made[1:], duration=delays_ms, loop=loop, **options)


def gif_with_metadata(delays_ms: list[int] | None = None, loop: int = 0) -> bytes:
    """An animated GIF with an XMP packet and a comment."""
    plain = animated("GIF", delays_ms or [100, 200, 300, 400, 500], loop=loop)
    trailer = b"\x01" + bytes(range(255, -1, -1)) + b"\0"
    blocks = b"\x21\xff\x0bXMP DataXMP" + xmp_packet() + trailer + b"\x21\xfe\x0fCOMMENT-PRIVATE\0"
    return plain[:-1] + blocks + b"\x3b" + b"TRAILER-PRIVATE"


WITH_METADATA: dict[str, Callable[[], bytes]] = {
    "JPEG": jpeg_with_metadata,
    "PNG": png_with_metadata,
    "GIF": gif_with_metadata,
    "WebP": webp_with_metadata,
    "AVIF": avif_with_metadata,
    "TIFF": tiff_with_metadata,
}


def srgb_profile() -> bytes:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def lifted_srgb_profile() -> bytes:
    """A profile with sRGB's primaries whose parametric curves have sRGB's numbers and an offset of 0.1."""
    profile = bytearray(srgb_profile())
    at = profile.index(b"para\0\0\0\0\0\3")
    offset = struct.pack(">i", round(0.1 * 65536))
    curve = b"para\0\0\0\0\0\4\0\0" + profile[at + 12 : at + 32] + 2 * offset
    (count,) = struct.unpack_from(">I", profile, 128)
    for entry in range(132, 132 + 12 * count, 12):
        if profile[entry : entry + 4] in (b"rTRC", b"gTRC", b"bTRC"):
            struct.pack_into(">II", profile, entry + 4, len(profile), len(curve))
    struct.pack_into(">I", profile, 0, len(profile) + len(curve))
    return bytes(profile + curve)


DISPLAY_P3 = ((0.5151, 0.2412, -0.0011), (0.2920, 0.6922, 0.0419), (0.1571, 0.0666, 0.7841))
SMALLER_THAN_SRGB = ((0.4243, 0.2344, 0.0272), (0.3766, 0.6728, 0.1042), (0.1633, 0.0928, 0.6936))


def narrow_profile() -> bytes:
    """A profile of gamma 1.8 with a gamut smaller than sRGB's, as of old monitors."""
    return wide_profile(primaries=SMALLER_THAN_SRGB, gamma=1.8)


def wide_profile(
    space: bytes = b"RGB ", primaries: tuple[tuple[float, float, float], ...] = DISPLAY_P3, gamma: float = 2.2
) -> bytes:
    """A small matrix profile with the primaries of Display P3; for the space `GRAY`, a grey profile of gamma 2.2.

    It has nothing but what results have of a profile.
    """

    def number(value: float) -> bytes:
        return struct.pack(">i", round(value * 65536))

    def xyz(x: float, y: float, z: float) -> bytes:
        return b"XYZ \0\0\0\0" + number(x) + number(y) + number(z)

    curve = b"curv\0\0\0\0" + struct.pack(">IH", 1, round(gamma * 256))
    tags = {b"wtpt": xyz(0.9642, 1.0, 0.8249)}
    if space == b"RGB ":
        tags |= {tag: xyz(*each) for tag, each in zip((b"rXYZ", b"gXYZ", b"bXYZ"), primaries, strict=True)}
        tags |= {b"rTRC": curve, b"gTRC": curve, b"bTRC": curve}
    else:
        tags[b"kTRC"] = curve
    tags[b"desc"] = b"desc\0\0\0\0" + struct.pack(">I", 4) + b"ICC\0" + b"\0" * 78
    tags[b"cprt"] = b"text\0\0\0\0ICC\0"
    table, body = struct.pack(">I", len(tags)), b""
    start = 128 + 4 + 12 * len(tags)
    places: dict[bytes, int] = {}
    for tag, raw in tags.items():
        if raw not in places:
            places[raw] = start + len(body)
            body += raw + b"\0" * (-len(raw) % 4)
        table += struct.pack(">4sII", tag, places[raw], len(raw))
    size = start + len(body)
    head = struct.pack(">I4xI4s4s4s", size, 0x02400000, b"mntr", space, b"XYZ ")
    head += struct.pack(">6H", 2000, 1, 1, 0, 0, 0) + b"acsp" + b"\0" * 28
    head += number(0.9642) + number(1.0) + number(0.8249)
    return head.ljust(128, b"\0") + table + body


def oriented(picture: np.ndarray, orientation: int) -> np.ndarray:
    """The picture as it must be stored so that this EXIF orientation shows it upright."""
    inverse = {
        1: lambda p: p, 2: lambda p: p[:, ::-1], 3: lambda p: p[::-1, ::-1], 4: lambda p: p[::-1],
        5: lambda p: p.swapaxes(0, 1), 6: lambda p: np.rot90(p, 1), 7: lambda p: np.rot90(p.swapaxes(0, 1), 2),
        8: lambda p: np.rot90(p, -1),
    }  # fmt: skip
    return np.ascontiguousarray(inverse[orientation](picture))


def distance(one: np.ndarray | Image.Image, other: np.ndarray | Image.Image) -> float:
    """The mean difference per channel, from 0 to 255, of two pictures averaged over 4 × 4 pixels."""
    pair = []
    for each in (one, other):
        image = each if isinstance(each, Image.Image) else Image.fromarray(each)
        image = image.convert("RGB")
        pair.append(np.asarray(image.resize((image.width // 4, image.height // 4), Image.Resampling.BOX), float))
    return float(np.abs(pair[0] - pair[1]).mean())


def never_stop() -> None:
    """A `check_stop` that never stops."""
