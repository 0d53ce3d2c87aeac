"""Pictures of every format with a secret in each field that can hold one, and with texts and rights to preserve."""

from __future__ import annotations

import base64
import struct
import zlib
from functools import cache

from tests.codecs import pictures

FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "AVIF")
COPYRIGHT, CREATOR, CITY = "© 2031 Example Press", "Ada Example", "Musterstadt"
TITLE, ALT_TEXT, CAPTION = "Evening boat", "A red boat on a quiet lake", "Two gulls above the harbour"

PHONE_JSON = (
    '{"MAPSettingsEmail":"json@private.example","MAPLatitude":"52.518918","MAPLongitude":"13.400295",'
    '"MAPDeviceName":"JsonOwner","MAPPhotoUUID":"JsonIdentifier"'
)
DATA_TEXTS = {
    "JSON": (PHONE_JSON + "}", "json@private.example", "52.518918", "13.400295", "JsonOwner", "JsonIdentifier"),
    "JSON that was cut off": ('{"a":{"CutOffOwner":"CutOffName","lat":53.111', "CutOffOwner", "CutOffName", "53.111"),
    "array": ('[{"place":"ArraySecret"}]', "ArraySecret"),
    "XML": ('<gpx><trkpt lat="54.22"><name>XmlSecret</name></trkpt></gpx>', "54.22", "XmlSecret"),
    "document": ('<?xml version="1.0"?><plist><string>PlistSecret</string></plist>', "PlistSecret"),
    "key=value": ("lat=55.33;lon=7.33;owner=PairSecret", "55.33", "7.33", "PairSecret"),
    "query": ("?lat=56.44&lon=8.44&user=QuerySecret", "56.44", "8.44", "QuerySecret"),
    "numbers": ("27.000123;12.500456;99", "27.000123", "12.500456"),
    "Base64": (base64.b64encode(b"latitude 57.55 and 0123456789").decode(), "bGF0aXR1ZGUg"),
    "settings": ("ISO: 100\nShutter: 1/731\nGain: 3", "1/731"),
}
IN_WORDS = {
    "decimal pair": ("61.0101, -1.0101", "61.0101", "1.0101"),
    "decimal degrees with letters": ("62.0202° N, 2.0202° W", "62.0202", "2.0202"),
    "one latitude": ("63.5 N", "63.5"),
    "degrees, minutes, seconds": ("64°31'26.4\"N 4°7'39.4\"W", "26.4", "39.4"),
    "seconds with blanks": ("65 31 26.5 N 5 7 39.5 W", "26.5", "39.5"),
    "decimal minutes": ("N 66° 31.606 W 006° 07.606", "31.606", "07.606"),
    "Exif's notation": ("67,31.7057N", "31.7057"),
    "geo URI": ("geo:68.08,-8.08;u=35", "68.08", "8.08"),
    "plus code": ("9C3XGV4C+9F", "GV4C"),
    "short plus code": ("HV5C+8Q", "HV5C"),
    "link with a position": ("https://www.google.com/maps/@69.09,-9.09,15z", "69.09", "9.09"),
    "short link to a map": ("https://maps.app.goo.gl/MapLinkSecret", "MapLinkSecret"),
    "link with parameters": ("https://example.org/?lat=70.10&lon=10.10", "70.10", "10.10"),
    "labels": ("Latitude: 71.11 Longitude: 11.11", "71.11", "11.11"),
    "ISO 6709": ("+72.1212-012.1212/", "72.1212", "012.1212"),
    "grid reference": ("30U XC 99316 10163", "99316", "10163"),
    "well-known text": ("POINT(13.13 73.13)", "13.13", "73.13"),
    "comma as decimal sign": ("74,1414° N; 14,1414° O", "74,1414", "14,1414"),
    "fractions": ("75/1 31/1 151515/10000", "151515"),
    "GPS without signs": ("GPS 76.16 16.16", "76.16", "16.16"),
    "JSON among words": ('{"lat": 77.17, "who": "EmbeddedJson"}', "77.17", "EmbeddedJson"),
    "e-mail": ("mail.one@private.example", "mail.one"),
    "e-mail with a label": ("E-mail: mail.two@sub.private.example", "mail.two"),
    "e-mail in brackets": ("<mail.three@private.example>", "mail.three"),
    "e-mail in words": ("mail.four (at) private (dot) example", "mail.four"),
    "e-mail escaped": ("mail.five%40private.example", "mail.five"),
    "mailto": ("mailto:mail.six@private.example", "mail.six"),
    "e-mail in full-width letters": ("mail.seven＠private．example", "mail.seven"),
    "e-mail with spaces": ("mail.eight @ private.info", "mail.eight"),
    "telephone": ("Tel. 0911 5559876", "5559876"),
    "telephone with a country code": ("+44 117 496 0357", "496 0357"),
    "bank account": ("IBAN DE02 1203 0000 0000 2020 51", "0000 2020"),
    "card": ("5105 1051 0510 5100", "0510 5100"),
    "identity number": ("passport no. K7654321", "K7654321"),
    "password": ("password: PlantedWord7", "PlantedWord7"),
    "axes": ("lat 78.1818 lon 18.1818", "78.1818", "18.1818"),
    "serial number": ("Serial number: AB-4711-XZ", "4711-XZ"),
    "serial number, short": ("S/N 5822-QW", "5822-QW"),
    "hash": ("d41d8cd98f00b204e9800998ecf8427e", "d41d8cd9"),
    "identifier": ("550e8400-e29b-41d4-a716-446655440000", "446655440000"),
}
FREE_TEXTS = [text for text, *_ in DATA_TEXTS.values()] + [
    f"Seen {text} from the pier" for text, *_ in IN_WORDS.values()
]
_FREE_NEEDLES = [needle for _, *needles in (*DATA_TEXTS.values(), *IN_WORDS.values()) for needle in needles]

EXIF_MAIN = (0x010D, 0x0131, 0x013C, 0x02BC, 0x83BB, 0x8649, 0xC4A5, 0xC614, 0xC62F, 0xC65D, 0xC68B, 0xFE99)
EXIF_SHOT = (0x927C, 0x9286, 0xA420, 0xA430, 0xA431, 0xA434, 0xA435, 0xA436, 0xA437, 0xA438, 0xA439, 0xA43A)
EXIF_GPS = (0x0008, 0x000A, 0x0012, 0x001B, 0x001C, 0x001D)
IPTC_DATASETS = (10, 12, 22, 26, 27, 35, 37, 45, 50, 55, 60, 62, 65, 70, 75, 92, 103, 118, 130, 184, 187, 221, 255)
PHOTOSHOP_RESOURCES = (0x03ED, 0x0409, 0x040C, 0x041C, 0x0422, 0x0424, 0x043A)
XMP_SIMPLE = (
    "exif:GPSLatitude", "exif:GPSLongitude", "exif:GPSAltitude", "exif:UserComment", "exif:ImageUniqueID",
    "exifEX:BodySerialNumber", "exifEX:LensSerialNumber", "exifEX:CameraOwnerName", "aux:SerialNumber",
    "aux:LensSerialNumber", "aux:OwnerName", "xmp:CreatorTool", "xmp:Label", "tiff:Software", "tiff:Make",
    "xmpMM:DocumentID", "xmpMM:InstanceID", "xmpMM:OriginalDocumentID", "crs:RawFileName", "lr:hierarchicalSubject",
    "photoshop:TransmissionReference", "photoshop:History", "photoshop:LegacyIPTCDigest", "dc:identifier", "dc:source",
    "dc:contributor", "Iptc4xmpCore:Location", "Iptc4xmpExt:DigImageGUID", "Iptc4xmpExt:AddlModelInfo",
    "xmpNote:HasExtendedXMP", "digiKam:CaptionsAuthorNames", "MicrosoftPhoto:LensModel", "GPano:StitchingSoftware",
    "GPano:CaptureSoftware", "plus:FileNameAsDelivered", "acme:Unknown",
)  # fmt: skip
XMP_CONTACT = ("CiEmailWork", "CiTelWork", "CiAdrExtadr", "CiAdrPcode")
XMP_LOCATION = ("Sublocation", "LocationName", "LocationId")
XMP_LICENSOR = ("LicensorEmail", "LicensorTelephone1", "LicensorStreetAddress", "LicensorPostalCode")
NAMESPACES = {
    "dc": "http://purl.org/dc/elements/1.1/", "exif": "http://ns.adobe.com/exif/1.0/",
    "exifEX": "http://cipa.jp/exif/1.0/", "aux": "http://ns.adobe.com/exif/1.0/aux/",
    "xmp": "http://ns.adobe.com/xap/1.0/", "tiff": "http://ns.adobe.com/tiff/1.0/",
    "xmpMM": "http://ns.adobe.com/xap/1.0/mm/", "crs": "http://ns.adobe.com/camera-raw-settings/1.0/",
    "lr": "http://ns.adobe.com/lightroom/1.0/", "photoshop": "http://ns.adobe.com/photoshop/1.0/",
    "Iptc4xmpCore": "http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/",
    "Iptc4xmpExt": "http://iptc.org/std/Iptc4xmpExt/2008-02-29/", "xmpNote": "http://ns.adobe.com/xmp/note/",
    "digiKam": "http://www.digikam.org/ns/1.0/", "MicrosoftPhoto": "http://ns.microsoft.com/photo/1.0/",
    "GPano": "http://ns.google.com/photos/1.0/panorama/", "plus": "http://ns.useplus.org/ldf/xmp/1.0/",
    "mwg-rs": "http://www.metadataworkinggroup.com/schemas/regions/", "acme": "http://acme.example/",
    "xmpRights": "http://ns.adobe.com/xap/1.0/rights/",
}  # fmt: skip


def secret(place: object) -> str:
    return f"Secret{place}Planted"


NEEDLES = [
    *_FREE_NEEDLES,
    *(secret(f"{tag:04X}") for tag in (*EXIF_MAIN, *EXIF_SHOT, *EXIF_GPS)),
    *(secret(f"Iptc{number}") for number in IPTC_DATASETS),
    *(secret(f"Resource{number:04X}") for number in PHOTOSHOP_RESOURCES),
    *(secret(name.replace(":", "")) for name in XMP_SIMPLE),
    *(secret(name) for name in (*XMP_CONTACT, *XMP_LOCATION, *XMP_LICENSOR)),
    *(secret(name) for name in ("Region", "History", "Thumbnail", "Language", "Container", "Trailer")),
]


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


@cache
def exif() -> bytes:
    def field(tag: int) -> tuple[int, bytes]:
        return 2, secret(f"{tag:04X}").encode() + b"\0"

    words = " ".join(f"Seen {text} from the pier." for text, *_ in IN_WORDS.values())
    main = {tag: field(tag) for tag in EXIF_MAIN} | {
        0x010E: (2, PHONE_JSON.encode() + b"\0"),
        0x013B: (2, f"{CREATOR} <mail.one@private.example>\0".encode()),
        0x8298: (2, f"{COPYRIGHT}, mail.two@sub.private.example, Tel. 0911 5559876\0".encode()),
        0x9C9B: (1, f"{TITLE}\0".encode("utf-16-le")),
        0x9C9C: (1, f"{words}\0".encode("utf-16-le")),
        0x9C9E: (1, f"{PHONE_JSON}}}\0".encode("utf-16-le")),
    }
    out = bytearray(b"II*\0\x08\0\0\0")
    position = struct.pack("<6I", 52, 1, 31, 1, 1234577, 10007)
    gps = {tag: field(tag) for tag in EXIF_GPS} | {1: (2, b"N\0"), 2: (5, position), 3: (2, b"E\0"), 4: (5, position)}
    shot = {tag: field(tag) for tag in EXIF_SHOT}
    main |= {0x8769: (4, b"\0" * 4), 0x8825: (4, b"\0" * 4)}
    positions, next_field = pictures._ifd(out, main)
    for tag, fields in ((0x8769, shot), (0x8825, gps)):
        struct.pack_into("<I", out, positions[tag], len(out))
        pictures._ifd(out, fields)
    thumbnail = secret("Thumbnail").encode()
    struct.pack_into("<I", out, next_field, len(out))
    positions, _ = pictures._ifd(out, {0x0201: (4, b"\0" * 4), 0x0202: (4, struct.pack("<I", len(thumbnail)))})
    struct.pack_into("<I", out, positions[0x0201], len(out))
    return bytes(out) + thumbnail


@cache
def iptc() -> bytes:
    values = [(number, secret(f"Iptc{number}")) for number in IPTC_DATASETS]
    values += [(80, CREATOR), (116, COPYRIGHT), (90, CITY), (120, CAPTION), (120, PHONE_JSON[:200])]
    values += [(25, text) for text in FREE_TEXTS]
    run = b"\x1c\x01\x5a\0\x03\x1b%G" + b"\x1c\x01\x1e\0\x06Serial"
    for number, value in values:
        run += struct.pack(">BBBH", 0x1C, 2, number, len(value.encode())) + value.encode()
    out = b""
    blocks = [(number, secret(f"Resource{number:04X}").encode()) for number in PHOTOSHOP_RESOURCES]
    for number, block in (*blocks, (0x0404, run)):
        out += b"8BIM" + struct.pack(">HHI", number, 0, len(block)) + block + b"\0" * (len(block) % 2)
    return out


@cache
def xmp() -> bytes:
    def fields(prefix: str, names: tuple[str, ...]) -> str:
        return "".join(f"<{prefix}:{name}>{secret(name)}</{prefix}:{name}>" for name in names)

    simple = "".join(f"<{name}>{secret(name.replace(':', ''))}</{name}>" for name in XMP_SIMPLE)
    keywords = "".join(f"<rdf:li>{escaped(text)}</rdf:li>" for text in FREE_TEXTS)
    tags = [f"x-{number}" for number in range(len(FREE_TEXTS))]
    captions = "".join(
        f'<rdf:li xml:lang="{tag}">{escaped(text)}</rdf:li>' for tag, text in zip(tags, FREE_TEXTS, strict=True)
    )
    place = f"<Iptc4xmpExt:City>{CITY}</Iptc4xmpExt:City>{fields('Iptc4xmpExt', XMP_LOCATION)}"
    spaces = "".join(f' xmlns:{prefix}="{name}"' for prefix, name in NAMESPACES.items())
    return f"""<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description rdf:about="" {spaces} photoshop:City="{CITY}">{simple}
<dc:title><rdf:Alt><rdf:li xml:lang="x-default">{TITLE}</rdf:li>
<rdf:li xml:lang="de {secret("Language")}">Abend</rdf:li></rdf:Alt></dc:title>
<dc:rights><rdf:Alt><rdf:li xml:lang="x-default">{COPYRIGHT}; mail.three@private.example</rdf:li></rdf:Alt></dc:rights>
<dc:creator><rdf:Seq><rdf:li>{CREATOR}</rdf:li></rdf:Seq></dc:creator>
<dc:subject><rdf:Bag>{keywords}</rdf:Bag></dc:subject>
<dc:description><rdf:Alt><rdf:li xml:lang="x-default">{CAPTION}</rdf:li>{captions}</rdf:Alt></dc:description>
<Iptc4xmpCore:AltTextAccessibility><rdf:Alt><rdf:li xml:lang="en">{ALT_TEXT}</rdf:li>
</rdf:Alt></Iptc4xmpCore:AltTextAccessibility>
<Iptc4xmpCore:ExtDescrAccessibility><rdf:Alt>{captions}</rdf:Alt></Iptc4xmpCore:ExtDescrAccessibility>
<Iptc4xmpCore:CreatorContactInfo rdf:parseType="Resource">{fields("Iptc4xmpCore", XMP_CONTACT)}
</Iptc4xmpCore:CreatorContactInfo>
<Iptc4xmpExt:LocationCreated rdf:parseType="Resource">{place}</Iptc4xmpExt:LocationCreated>
<Iptc4xmpExt:LocationShown><rdf:Bag><rdf:li rdf:parseType="Resource">{place}
<exif:GPSLatitude>{secret("exifGPSLatitude")}</exif:GPSLatitude></rdf:li></rdf:Bag></Iptc4xmpExt:LocationShown>
<plus:Licensor><rdf:Seq><rdf:li rdf:parseType="Resource"><plus:LicensorName>{CREATOR}</plus:LicensorName>
{fields("plus", XMP_LICENSOR)}</rdf:li></rdf:Seq></plus:Licensor>
<mwg-rs:Regions rdf:parseType="Resource"><mwg-rs:RegionList><rdf:Bag><rdf:li>{secret("Region")}</rdf:li></rdf:Bag>
</mwg-rs:RegionList></mwg-rs:Regions>
<xmpMM:History><rdf:Seq><rdf:li>{secret("History")}</rdf:li></rdf:Seq></xmpMM:History>
</rdf:Description></rdf:RDF></x:xmpmeta><?xpacket end="w"?>""".encode()


def jpeg_source() -> bytes:
    plain = pictures.saved(pictures.scene(), "JPEG", quality=95)
    planted = secret("Container").encode()
    out = pictures.segment(0xE1, b"Exif\0\0" + exif())
    out += pictures.segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + xmp())
    out += pictures.segment(0xED, b"Photoshop 3.0\0" + iptc())
    for marker in (0xE0, 0xE2, 0xE3, 0xE4, 0xEB, 0xEC, 0xEE, 0xEF, 0xFE):
        out += pictures.segment(marker, planted)
    return plain[:2] + out + plain[2:] + secret("Trailer").encode()


def png_source() -> bytes:
    planted = secret("Container").encode()
    raw = iptc()
    profile = b"\niptc\n" + str(len(raw)).encode().rjust(8) + b"\n" + raw.hex().encode() + b"\n"
    keywords = (b"Software", b"Source", b"Comment", b"parameters", b"Location", b"Raw profile type exif", b"Warning")
    chunks = [pictures.chunk(b"tEXt", keyword + b"\0" + planted) for keyword in keywords]
    chunks += [pictures.chunk(b"zTXt", keyword + b"\0\0" + zlib.compress(planted)) for keyword in keywords]
    chunks += [pictures.chunk(b"iTXt", keyword + b"\0\0\0\0\0" + planted) for keyword in keywords]
    chunks += [pictures.chunk(b"iTXt", b"Title\0\0\0en\0" + planted + b"\0" + TITLE.encode())]
    for number, text in enumerate(FREE_TEXTS):
        keyword = (b"Description", b"Comment", b"Title")[number % 3]
        body = zlib.compress(text.encode("latin-1", "replace"))
        chunks.append(pictures.chunk(b"zTXt", keyword + b"\0\0" + body))
    chunks += [pictures.chunk(kind, planted) for kind in (b"prVt", b"vpAg", b"tXMP")]
    chunks += [
        pictures.chunk(b"eXIf", exif()),
        pictures.chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp()),
        pictures.chunk(b"zTXt", b"Raw profile type iptc\0\0" + zlib.compress(profile)),
    ]
    return pictures.with_png_chunks(pictures.saved(pictures.scene(), "PNG"), *chunks) + secret("Trailer").encode()


def gif_source() -> bytes:
    def sub_blocks(raw: bytes) -> bytes:
        pieces = [raw[at : at + 255] for at in range(0, len(raw), 255)]
        return b"".join(bytes((len(piece),)) + piece for piece in pieces) + b"\0"

    plain = pictures.animated("GIF", [100, 200, 300])
    planted = secret("Container").encode()
    comments = [text.encode() for text in (*FREE_TEXTS, CAPTION)] + [planted]
    out = b"".join(b"\x21\xfe" + sub_blocks(comment) for comment in comments)
    out += b"\x21\xff\x0bACMEMAPS1.0" + sub_blocks(planted)
    out += b"\x21\x01\x0c" + b"\0" * 12 + sub_blocks(planted)
    magic = b"\x01" + bytes(range(255, -1, -1)) + b"\0"
    out += b"\x21\xff\x0bXMP DataXMP" + xmp() + magic
    return plain[:-1] + out + b"\x3b" + secret("Trailer").encode()


def webp_source() -> bytes:
    plain = pictures.saved(pictures.scene(), "WEBP", quality=97, exif=b"Exif\0\0" + pictures.tiff(), xmp=xmp())
    planted = secret("Container").encode()
    blocks = [(b"EXIF", b"Exif\0\0" + exif()), (b"ACME", planted), (b"IPTC", planted), (b"JUNK", planted)]
    start = plain.index(b"EXIF")
    size = 8 + int.from_bytes(plain[start + 4 : start + 8], "little")
    body = plain[8:start] + plain[start + size + size % 2 :]
    for kind, block in blocks:
        body += kind + struct.pack("<I", len(block)) + block + b"\0" * (len(block) % 2)
    return b"RIFF" + struct.pack("<I", len(body)) + body + secret("Trailer").encode()


def avif_source() -> bytes:
    # Pillow accepts only blocks that it can parse: one of the same length is replaced
    harmless = (b"II*\0" + struct.pack("<IHI", 8, 0, 0)).ljust(len(exif()), b"P")
    plain = pictures.saved(pictures.scene(), "AVIF", quality=97, exif=harmless, xmp=xmp())
    assert harmless in plain
    planted = secret("Container").encode()
    boxes = b"".join(
        struct.pack(">I", 8 + 16 + len(planted)) + kind + b"\1" * 16 + planted for kind in (b"free", b"skip", b"uuid")
    )
    return plain.replace(harmless, exif()) + boxes


SOURCES = {"JPEG": jpeg_source, "PNG": png_source, "GIF": gif_source, "WEBP": webp_source, "AVIF": avif_source}


@cache
def source(name: str) -> bytes:
    return SOURCES[name]()
