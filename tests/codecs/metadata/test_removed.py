"""The kinds of private data that are reported as removed: one secret at a time, in each place that can hold it."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from imgproc_local.codecs.container import Blocks, avif_writer
from imgproc_local.codecs.embedded import private_kinds, read_embedded
from imgproc_local.codecs.metadata.bounds import MAX_IFD_ENTRIES, MAX_IPTC_DATASETS
from imgproc_local.codecs.optimize import optimize_file
from imgproc_local.codecs.picture.probe import probe
from imgproc_local.domain.image import KeepLocation
from imgproc_local.domain.privacy import Removed
from tests.codecs import pictures
from tests.codecs.metadata import planted
from tests.codecs.metadata.test_privacy import KINDS, plain
from tests.codecs.pictures import never_stop

MAX_PIXELS = 10**9
GPS, LOCATION, EMAIL, CONTACT = Removed.GPS, Removed.LOCATION, Removed.EMAIL, Removed.CONTACT
OWNER, SERIAL, IDENTIFIER, CAMERA = Removed.OWNER, Removed.SERIAL_NUMBER, Removed.IDENTIFIER, Removed.CAMERA
DATE, SOFTWARE, HISTORY, COMMENT = Removed.DATE, Removed.SOFTWARE, Removed.HISTORY, Removed.COMMENT
MAKER_NOTE, THUMBNAIL, DATA, OTHER = Removed.MAKER_NOTE, Removed.THUMBNAIL, Removed.DATA_TEXT, Removed.OTHER
CREDENTIALS, APPENDED, UNREADABLE = Removed.CONTENT_CREDENTIALS, Removed.APPENDED, Removed.UNREADABLE

EXIF_KINDS = {
    0x010D: OTHER, 0x0131: SOFTWARE, 0x013C: SOFTWARE, 0x02BC: OTHER, 0x83BB: OTHER, 0x8649: OTHER, 0xC4A5: OTHER,
    0xC614: CAMERA, 0xC62F: SERIAL, 0xC65D: IDENTIFIER, 0xC68B: IDENTIFIER, 0xFE99: OTHER, 0x927C: MAKER_NOTE,
    0x9286: COMMENT, 0xA420: IDENTIFIER, 0xA430: OWNER, 0xA431: SERIAL, 0xA434: CAMERA, 0xA435: SERIAL, 0xA436: COMMENT,
    0xA437: OWNER, 0xA438: OWNER, 0xA439: SOFTWARE, 0xA43A: SOFTWARE, 0x010F: CAMERA, 0x0110: CAMERA, 0x0132: DATE,
    0x9003: DATE, 0x829A: CAMERA,
}  # fmt: skip
IPTC_KINDS = {
    10: OTHER, 12: OTHER, 22: IDENTIFIER, 26: LOCATION, 27: LOCATION, 35: DATE, 37: DATE, 45: OTHER, 50: OTHER,
    55: DATE, 60: DATE, 62: DATE, 65: SOFTWARE, 70: SOFTWARE, 75: OTHER, 92: LOCATION, 103: IDENTIFIER, 118: CONTACT,
    130: OTHER, 184: IDENTIFIER, 187: IDENTIFIER, 221: SOFTWARE, 255: OTHER,
}  # fmt: skip
XMP_KINDS = {
    "exif:GPSLatitude": GPS, "exif:GPSLongitude": GPS, "exif:GPSAltitude": GPS, "exif:UserComment": COMMENT,
    "exif:ImageUniqueID": IDENTIFIER, "exifEX:BodySerialNumber": SERIAL, "exifEX:LensSerialNumber": SERIAL,
    "exifEX:CameraOwnerName": OWNER, "aux:SerialNumber": SERIAL, "aux:LensSerialNumber": SERIAL, "aux:OwnerName": OWNER,
    "xmp:CreatorTool": SOFTWARE, "xmp:Label": COMMENT, "tiff:Software": SOFTWARE, "tiff:Make": CAMERA,
    "xmpMM:DocumentID": IDENTIFIER, "xmpMM:InstanceID": IDENTIFIER, "xmpMM:OriginalDocumentID": IDENTIFIER,
    "crs:RawFileName": IDENTIFIER, "lr:hierarchicalSubject": OTHER, "photoshop:TransmissionReference": IDENTIFIER,
    "photoshop:History": HISTORY, "photoshop:LegacyIPTCDigest": IDENTIFIER, "dc:identifier": IDENTIFIER,
    "dc:source": OTHER, "dc:contributor": OWNER, "Iptc4xmpCore:Location": LOCATION,
    "Iptc4xmpExt:DigImageGUID": IDENTIFIER, "Iptc4xmpExt:AddlModelInfo": OTHER, "xmpNote:HasExtendedXMP": OTHER,
    "digiKam:CaptionsAuthorNames": OWNER, "MicrosoftPhoto:LensModel": CAMERA, "GPano:StitchingSoftware": SOFTWARE,
    "GPano:CaptureSoftware": SOFTWARE, "plus:FileNameAsDelivered": IDENTIFIER, "acme:Unknown": OTHER,
    "exif:DateTimeOriginal": DATE, "photoshop:DateCreated": DATE, "xmp:MetadataDate": DATE,
}  # fmt: skip
XMP_FIELD_KINDS = {
    "CiEmailWork": EMAIL, "CiTelWork": CONTACT, "CiAdrExtadr": LOCATION, "CiAdrPcode": LOCATION,
    "Sublocation": LOCATION, "LocationName": LOCATION, "LocationId": LOCATION, "LicensorEmail": EMAIL,
    "LicensorTelephone1": CONTACT, "LicensorStreetAddress": LOCATION, "LicensorPostalCode": LOCATION,
}  # fmt: skip
TEXT_KINDS = dict.fromkeys(planted.IN_WORDS, GPS) | {
    name: EMAIL if "mail" in name else SERIAL if "serial" in name else DATA
    for name in planted.IN_WORDS
    if "mail" in name or name.startswith(("serial", "hash", "identifier", "JSON"))
}
TEXT_KINDS |= {name: CONTACT for name in TEXT_KINDS if name.startswith("telephone")}
TEXT_KINDS |= dict.fromkeys(("bank account", "card", "identity number", "password"), IDENTIFIER)


def kinds(folder: Path, data: bytes, keep_location: KeepLocation = KeepLocation.CITY) -> set[Removed]:
    path = pictures.write(folder, data)
    return set(private_kinds(path, probe(path, MAX_PIXELS), keep_location))


def jpeg(*segments: tuple[int, bytes]) -> bytes:
    source = plain("jpeg")
    return source[:2] + b"".join(pictures.segment(marker, payload) for marker, payload in segments) + source[2:]


def with_exif(tag: int, value: bytes, pointer: int | None = None) -> bytes:
    out = bytearray(b"II*\0\x08\0\0\0")
    fields = {tag: (2, value)}
    positions, _ = pictures._ifd(out, {pointer: (4, b"\0" * 4)} if pointer else fields)
    if pointer:
        struct.pack_into("<I", out, positions[pointer], len(out))
        pictures._ifd(out, fields)
    return jpeg((0xE1, b"Exif\0\0" + bytes(out)))


def with_iptc(number: int, value: bytes, record: int = 2) -> bytes:
    run = struct.pack(">BBBH", 0x1C, record, number, len(value)) + value
    return with_resource(0x0404, run)


def with_resource(number: int, block: bytes) -> bytes:
    return jpeg((0xED, b"Photoshop 3.0\0" + b"8BIM" + struct.pack(">HHI", number, 0, len(block)) + block + b"\0" * 2))


def with_xmp(inner: str, attributes: str = "") -> bytes:
    spaces = "".join(f' xmlns:{prefix}="{name}"' for prefix, name in planted.NAMESPACES.items())
    packet = (
        f'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description rdf:about=""{spaces}'
        f"{attributes}>{inner}</rdf:Description></rdf:RDF>"
    )
    return jpeg((0xE1, b"http://ns.adobe.com/xap/1.0/\0" + packet.encode()))


@pytest.mark.parametrize("tag", EXIF_KINDS, ids=hex)
def test_a_secret_in_exif_is_reported_by_its_kind(tmp_path: Path, tag: int) -> None:
    for pointer in (None, 0x8769):
        assert kinds(tmp_path, with_exif(tag, b"Secret planted\0", pointer)) == {EXIF_KINDS[tag]}
        assert kinds(tmp_path, with_exif(tag, b"\0" * 12, pointer)) == set()


def test_the_tables_have_every_place_that_is_planted() -> None:
    assert {*planted.EXIF_MAIN, *planted.EXIF_SHOT} <= EXIF_KINDS.keys()
    assert set(planted.IPTC_DATASETS) == IPTC_KINDS.keys()
    assert set(planted.XMP_SIMPLE) <= XMP_KINDS.keys()
    assert {*planted.XMP_CONTACT, *planted.XMP_LOCATION, *planted.XMP_LICENSOR} == XMP_FIELD_KINDS.keys()
    assert TEXT_KINDS.keys() == planted.IN_WORDS.keys()


@pytest.mark.parametrize("tag", [*planted.EXIF_GPS, 1, 2, 3, 4, 6], ids=hex)
def test_each_field_of_a_position_in_exif_is_reported(tmp_path: Path, tag: int) -> None:
    assert kinds(tmp_path, with_exif(tag, b"Secret planted\0", 0x8825)) == {GPS}
    assert kinds(tmp_path, with_exif(0, b"\2\3\0\0", 0x8825)) == set()


@pytest.mark.parametrize("number", IPTC_KINDS)
def test_a_secret_in_iptc_is_reported_by_its_kind(tmp_path: Path, number: int) -> None:
    assert kinds(tmp_path, with_iptc(number, b"Secret planted")) == {IPTC_KINDS[number]}
    if number == 92:
        assert kinds(tmp_path, with_iptc(number, b"Secret planted"), KeepLocation.ALL) == set()


def test_exif_and_iptc_that_are_cut_off_or_exceed_a_bound_are_reported(tmp_path: Path) -> None:
    dataset = struct.pack(">BBBH", 0x1C, 2, 5, 5) + b"Title"
    assert kinds(tmp_path, with_resource(0x0404, dataset)) == set()
    assert kinds(tmp_path, with_resource(0x0404, dataset + dataset[:-1])) == {UNREADABLE}
    assert kinds(tmp_path, with_resource(0x0404, dataset * (MAX_IPTC_DATASETS + 1))) == {UNREADABLE}

    def with_entries(count: int, *entries: tuple[int, int, int, int]) -> bytes:
        ifd = struct.pack("<H", count) + b"".join(struct.pack("<HHII", *entry) for entry in entries) + bytes(4)
        return jpeg((0xE1, b"Exif\0\0II*\0\x08\0\0\0" + ifd))

    upright, position = (0x0112, 3, 1, 1), (0x8825, 4, 1, 999)
    assert kinds(tmp_path, with_entries(2, upright, upright)) == set()
    assert kinds(tmp_path, with_entries(3, upright, upright)) == {UNREADABLE}
    assert UNREADABLE in kinds(tmp_path, with_entries(MAX_IFD_ENTRIES + 1, *[upright] * (MAX_IFD_ENTRIES + 1)))
    assert kinds(tmp_path, with_entries(2, upright, position)) == {GPS, UNREADABLE}
    for pointer in ((0x8769, 4, 2, 999), (0x8769, 7, 4, 999)):
        assert kinds(tmp_path, with_entries(2, upright, pointer)) == {UNREADABLE}
    for text, expected in ((200, {UNREADABLE}), (0, set())):
        assert kinds(tmp_path, with_entries(2, (0x010E, 2, text, 26), upright)) == expected


def test_fields_of_a_tiff_that_can_not_be_read_are_reported(tmp_path: Path) -> None:
    whole = pictures.tiff_with_metadata()
    known = kinds(tmp_path, whole)
    assert UNREADABLE not in known
    for tag in (0x8769, 0x8825):
        at = whole.index(struct.pack("<HHI", tag, 4, 1)) + 8
        outside = whole[:at] + struct.pack("<I", len(whole) + 100) + whole[at + 4 :]
        assert {UNREADABLE, GPS} <= kinds(tmp_path, outside)
    at = whole.index(struct.pack("<HH", 0x010E, 2)) + 8
    outside = whole[:at] + struct.pack("<I", len(whole) + 100) + whole[at + 4 :]
    assert kinds(tmp_path, outside) == known | {UNREADABLE}


@pytest.mark.parametrize("name", XMP_KINDS)
def test_a_secret_in_xmp_is_reported_by_its_kind(tmp_path: Path, name: str) -> None:
    expected = {XMP_KINDS[name]}
    assert kinds(tmp_path, with_xmp(f"<{name}>Secret planted</{name}>")) == expected
    assert kinds(tmp_path, with_xmp("", f' {name}="Secret planted"')) == expected
    array = f"<{name}><rdf:Bag><rdf:li>Secret planted</rdf:li></rdf:Bag></{name}>"
    assert kinds(tmp_path, with_xmp(array)) == expected
    assert kinds(tmp_path, with_xmp(f"<{name}> </{name}>")) == set()


@pytest.mark.parametrize("name", XMP_FIELD_KINDS)
def test_a_secret_in_a_structure_of_xmp_is_reported_by_its_kind(tmp_path: Path, name: str) -> None:
    prefix, structure = "Iptc4xmpExt", "Iptc4xmpExt:LocationCreated"
    if name.startswith("Ci"):
        prefix, structure = "Iptc4xmpCore", "Iptc4xmpCore:CreatorContactInfo"
    elif name.startswith("Licensor"):
        prefix, structure = "plus", "plus:Licensor"
    field = f"<{prefix}:{name}>Secret</{prefix}:{name}>"
    found = kinds(tmp_path, with_xmp(f'<{structure} rdf:parseType="Resource">{field}</{structure}>'))
    assert found == {XMP_FIELD_KINDS[name]}


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ("<mwg-rs:Regions><rdf:Bag><rdf:li>Ada</rdf:li></rdf:Bag></mwg-rs:Regions>", {Removed.FACES}),
        ('<xmpMM:DerivedFrom acme:instanceID="1"/>', {HISTORY, IDENTIFIER}),
        ('<acme:Note acme:text="mail.one@private.example"/>', {OTHER, EMAIL}),
        ("<exif:UserComment>{&quot;lat&quot;: 52.51, &quot;lon&quot;: 13.41}</exif:UserComment>", {COMMENT, GPS}),
        (f"<acme:Note/><xmpNote:HasExtendedXMP>{'0123ABCD' * 4}</xmpNote:HasExtendedXMP>", set()),
        ('<dc:title><rdf:Alt><rdf:li xml:lang="de Secret">A</rdf:li></rdf:Alt></dc:title>', {OTHER}),
        ("<dc:format>image/jpeg</dc:format><tiff:Orientation>1</tiff:Orientation>", set()),
        ("<dc:rights>Example Press</dc:rights><photoshop:City>Musterstadt</photoshop:City>", set()),
        ("<dc:rights>", {UNREADABLE}),
    ],
)
def test_fields_of_several_kinds_and_of_none(tmp_path: Path, inner: str, expected: set[Removed]) -> None:
    assert kinds(tmp_path, with_xmp(inner)) == expected


@pytest.mark.parametrize("name", TEXT_KINDS)
def test_a_secret_in_a_caption_is_reported_by_its_kind(tmp_path: Path, name: str) -> None:
    caption = f"Seen {planted.IN_WORDS[name][0]} from the pier"
    assert TEXT_KINDS[name] in kinds(tmp_path, with_exif(0x010E, caption.encode() + b"\0"))
    path = pictures.write(tmp_path, with_iptc(120, caption.encode()))
    assert TEXT_KINDS[name] in read_embedded(path, probe(path, MAX_PIXELS)).removed


@pytest.mark.parametrize("name", planted.DATA_TEXTS)
def test_a_description_that_is_data_is_reported(tmp_path: Path, name: str) -> None:
    assert DATA in kinds(tmp_path, with_exif(0x010E, planted.DATA_TEXTS[name][0].encode() + b"\0"))


def webp(kind: bytes, payload: bytes) -> bytes:
    out = plain("webp") + kind + struct.pack("<I", len(payload)) + payload
    return b"RIFF" + struct.pack("<I", len(out) - 8) + out[8:]


def png(kind: bytes, payload: bytes) -> bytes:
    return pictures.with_png_chunks(plain("png"), pictures.chunk(kind, payload))


def gif(block: bytes) -> bytes:
    return plain("gif")[:-1] + block + b"\x3b"


def box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", 8 + len(body)) + kind + body


EMPTY_EXIF = b"Exif\0\0II*\0" + struct.pack("<IHHHIII", 8, 1, 0x0112, 3, 1, 1, 0)
PREVIEW = pictures.saved(pictures.graphic(16, 16), "JPEG")
PARTS = {
    "JPEG comment": (jpeg((0xFE, b"Secret")), COMMENT),
    "JPEG thumbnail in JFIF": (jpeg((0xE0, b"JFXX\0\x10Secret")), THUMBNAIL),
    "JPEG content credentials": (jpeg((0xEB, b"JP\0\1\0\0\0\1Secret")), CREDENTIALS),
    "JPEG unknown segment": (jpeg((0xE4, b"Secret")), OTHER),
    "JPEG unknown APP1": (jpeg((0xE1, b"Secret")), OTHER),
    "JPEG second EXIF": (jpeg((0xE1, EMPTY_EXIF), (0xE1, b"Exif\0\0Secret")), OTHER),
    "JPEG preview": (jpeg() + PREVIEW, THUMBNAIL),
    "JPEG video": (jpeg() + b"\0\0\0\x18ftypmp42", APPENDED),
    "JPEG thumbnail resource": (with_resource(0x040C, b"Secret"), THUMBNAIL),
    "JPEG program's resource": (with_resource(0x043A, b"Secret"), SOFTWARE),
    "JPEG resolution resource": (with_resource(0x03ED, b"\0" * 16), None),
    "JPEG preview in IPTC": (with_iptc(10, b"Secret", 8), THUMBNAIL),
    "PNG date": (png(b"tIME", b"\7\xea\1\1\0\0\0"), DATE),
    "PNG software": (png(b"tEXt", b"Software\0Secret"), SOFTWARE),
    "PNG position": (png(b"tEXt", b"exif:GPSLatitude\x0032/1"), GPS),
    "PNG camera": (png(b"tEXt", b"exif:FNumber\x00185/100"), CAMERA),
    "PNG profile's text": (png(b"tEXt", b"icc:copyright\0Public Domain"), None),
    "PNG unknown profile": (png(b"tEXt", b"Raw profile type other\0Secret"), OTHER),
    "PNG layout": (png(b"oFFs", b"\0" * 9), None),
    "PNG long layout": (png(b"oFFs", b"Secret" * 20), OTHER),
    "JPEG quality setting": (jpeg((0xEC, b"Ducky\0\1\0\4\0\0\0\x3c")), SOFTWARE),
    "PNG prompt": (png(b"tEXt", b"parameters\0Secret"), SOFTWARE),
    "PNG unknown text": (png(b"zTXt", b"Where\0\0" + zlib.compress(b"Secret")), OTHER),
    "PNG comment": (png(b"tEXt", b"Comment\0xK-21 / b"), COMMENT),
    "PNG content credentials": (png(b"caBX", b"Secret"), CREDENTIALS),
    "PNG unknown chunk": (png(b"prVt", b"Secret"), OTHER),
    "PNG trailer": (plain("png") + b"Secret", APPENDED),
    "GIF unknown extension": (gif(b"\x21\xff\x0bACMEMAPS1.0\6Secret\0"), OTHER),
    "GIF plain text": (gif(b"\x21\x01\x0c" + b"\0" * 12 + b"\6Secret\0"), COMMENT),
    "GIF comment": (gif(b"\x21\xfe\6xK-2/b\0"), COMMENT),
    "GIF trailer": (plain("gif") + b"Secret", APPENDED),
    "WebP unknown chunk": (webp(b"ACME", b"Secret"), OTHER),
    "WebP content credentials": (webp(b"C2PA", b"Secret"), CREDENTIALS),
    "WebP trailer": (plain("webp") + b"Secret", APPENDED),
    "AVIF free space": (plain("avif") + box(b"free", b"Secret"), OTHER),
    "AVIF zeros": (plain("avif") + box(b"free", b"\0" * 20), None),
    "AVIF content credentials": (
        plain("avif") + box(b"uuid", bytes.fromhex("d8fec3d61b0e483c92975828877ec481") + b"Secret"), CREDENTIALS,
    ),
    "AVIF unknown box": (plain("avif") + box(b"uuid", b"\1" * 16 + b"Secret"), OTHER),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_a_secret_beside_the_metadata_is_reported_by_its_kind(tmp_path: Path, name: str) -> None:
    data, expected = PARTS[name]
    assert kinds(tmp_path, data) == ({expected} if expected else set())


def test_nothing_is_reported_for_a_file_without_private_data(tmp_path: Path) -> None:
    assert {kind: kinds(tmp_path, plain(kind)) for kind in KINDS} == {kind: set() for kind in KINDS}


@pytest.mark.parametrize("name", planted.FORMATS)
def test_every_kind_that_a_format_can_hold_is_reported(tmp_path: Path, name: str) -> None:
    found = kinds(tmp_path, planted.source(name))
    assert found >= {GPS, LOCATION, EMAIL, CONTACT, OWNER, SERIAL, IDENTIFIER, CAMERA, SOFTWARE, HISTORY, DATA, OTHER}


@pytest.mark.parametrize("name", ["exif", "xmp"])
@pytest.mark.parametrize("content", [b"lat=5.1", b"lat=5.1".ljust(18), b"lat=5.1".ljust(37), b"lat=5.1".ljust(60)])
def test_a_damaged_block_of_an_avif_is_removed_however_short_it_is(tmp_path: Path, name: str, content: bytes) -> None:
    source = avif_writer.assemble([plain("avif")], [], 1, 64, 48, Blocks(**{name: content}))
    assert content in source
    path = pictures.write(tmp_path, source)
    out = optimize_file(path, probe(path, MAX_PIXELS), never_stop)
    assert out is not None
    assert b"lat=5.1" not in out
    assert kinds(tmp_path, source) == {UNREADABLE}


def test_unknown_texts_are_searched_for_private_data_too(tmp_path: Path) -> None:
    for kind, head in ((b"tEXt", b"Note\0"), (b"zTXt", b"Note\0\0"), (b"iTXt", b"Note\0\1\0\0\0")):
        text = b"See 61.0101, -1.0101"
        data = png(kind, head + (text if kind == b"tEXt" else zlib.compress(text)))
        assert kinds(tmp_path, data) == {OTHER, GPS}


def test_a_raw_profile_is_read_up_to_its_length(tmp_path: Path) -> None:
    """Some encoders write garbage after it."""
    exif = pictures.compact_tiff({}, 1, {"gps": pictures.GPS_RATIONAL})
    text = f"\nExif\n{len(exif):8}\n{exif.hex()}\n".encode() + b"$\x1d"
    assert kinds(tmp_path, png(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(text))) == {GPS}
