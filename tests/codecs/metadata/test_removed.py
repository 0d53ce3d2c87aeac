"""The kinds of private data that are reported as removed: one secret at a time, in each place that can hold it."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import msgspec
import pytest

from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container.png import with_blocks
from imgproc_local.codecs.metadata.exif import MAX_IFD_ENTRIES
from imgproc_local.domain.image import Disclosure, KeepLocation
from imgproc_local.domain.privacy import Removed
from tests.codecs import avif_writer, pictures
from tests.codecs.metadata import planted
from tests.codecs.metadata.test_privacy import KINDS, plain
from tests.codecs.pictures import never_stop
from tests.support.reading import BY_DEFAULT, optimize_file, private_kinds, probe, read_embedded

MAX_PIXELS = 10**9
GPS, LOCATION, CONTACT, PERSON = Removed.GPS, Removed.LOCATION, Removed.CONTACT, Removed.PERSON
IDENTIFIER, CAMERA, DATE, SOFTWARE = Removed.IDENTIFIER, Removed.CAMERA, Removed.DATE, Removed.SOFTWARE
THUMBNAIL, COMMENT, OTHER, UNREADABLE = Removed.THUMBNAIL, Removed.COMMENT, Removed.OTHER, Removed.UNREADABLE

EXIF_KINDS = {
    0x0131: SOFTWARE, 0x0110: CAMERA, 0x0132: DATE, 0xC62F: IDENTIFIER, 0xFE99: OTHER, 0x927C: CAMERA, 0x9286: COMMENT,
    0xA430: PERSON, 0xA431: IDENTIFIER, 0xA434: CAMERA, 0x9003: DATE, 0x8649: OTHER,
}  # fmt: skip
IPTC_KINDS = {10: OTHER, 22: IDENTIFIER, 27: LOCATION, 55: DATE, 65: SOFTWARE, 92: LOCATION, 118: CONTACT}
XMP_KINDS = {
    "exif:GPSLatitude": GPS, "exif:UserComment": COMMENT, "exifEX:LensSerialNumber": IDENTIFIER,
    "aux:OwnerName": PERSON, "xmp:CreatorTool": SOFTWARE, "tiff:Make": CAMERA, "xmpMM:InstanceID": IDENTIFIER,
    "crs:RawFileName": IDENTIFIER, "lr:hierarchicalSubject": OTHER, "photoshop:History": SOFTWARE,
    "photoshop:LegacyIPTCDigest": IDENTIFIER, "dc:source": OTHER, "Iptc4xmpCore:Location": LOCATION,
    "xmpNote:HasExtendedXMP": OTHER, "digiKam:CaptionsAuthorNames": PERSON, "MicrosoftPhoto:LensModel": CAMERA,
    "GPano:StitchingSoftware": SOFTWARE, "acme:Unknown": OTHER, "photoshop:DateCreated": DATE,
}  # fmt: skip
XMP_FIELD_KINDS = {
    "CiEmailWork": CONTACT, "CiAdrPcode": LOCATION, "Sublocation": LOCATION, "LicensorTelephone1": CONTACT,
}  # fmt: skip
TEXT_KINDS = dict.fromkeys(planted.IN_WORDS, GPS) | {
    name: CONTACT if "mail" in name or "telephone" in name else IDENTIFIER if "serial" in name else COMMENT
    for name in planted.IN_WORDS
    if "mail" in name or name.startswith(("serial", "hash", "identifier", "JSON", "telephone"))
}
TEXT_KINDS |= dict.fromkeys(("bank account", "card", "identity number", "password"), IDENTIFIER)


def kinds(folder: Path, data: bytes, disclosure: Disclosure = BY_DEFAULT) -> set[Removed]:
    path = pictures.write(folder, data)
    return set(private_kinds(path, probe(path, MAX_PIXELS), disclosure))


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


def test_a_secret_in_any_planted_place_of_a_block_is_reported(tmp_path: Path) -> None:
    for tag in (*planted.EXIF_MAIN, *planted.EXIF_SHOT):
        for pointer in (None, 0x8769):
            assert kinds(tmp_path, with_exif(tag, b"Secret planted\0", pointer)), hex(tag)
            assert kinds(tmp_path, with_exif(tag, b"\0" * 12, pointer)) == set()
    for number in planted.IPTC_DATASETS:
        assert kinds(tmp_path, with_iptc(number, b"Secret planted")), number
    assert kinds(tmp_path, with_iptc(92, b"Secret planted"), Disclosure(KeepLocation.ALL)) == set()
    assert kinds(tmp_path, with_iptc(90, b"Secret planted"), Disclosure(KeepLocation.NONE)) == {Removed.LOCATION}
    for name in planted.XMP_SIMPLE:
        assert kinds(tmp_path, with_xmp(f"<{name}>Secret planted</{name}>")), name
        assert kinds(tmp_path, with_xmp("", f' {name}="Secret planted"')), name
        assert kinds(tmp_path, with_xmp(f"<{name}> </{name}>")) == set()
    for name in (*planted.XMP_CONTACT, *planted.XMP_LOCATION, *planted.XMP_LICENSOR):
        assert kinds(tmp_path, with_xmp(in_structure(name))), name


def test_a_secret_in_a_field_is_reported_by_its_kind(tmp_path: Path) -> None:
    for tag, kind in EXIF_KINDS.items():
        assert kinds(tmp_path, with_exif(tag, b"Secret planted\0")) == {kind}, hex(tag)
    for number, kind in IPTC_KINDS.items():
        assert kinds(tmp_path, with_iptc(number, b"Secret planted")) == {kind}, number
    for name, kind in XMP_KINDS.items():
        array = f"<{name}><rdf:Bag><rdf:li>Secret planted</rdf:li></rdf:Bag></{name}>"
        assert kinds(tmp_path, with_xmp(array)) == {kind}, name
    for name, kind in XMP_FIELD_KINDS.items():
        assert kinds(tmp_path, with_xmp(in_structure(name))) == {kind}, name


@pytest.mark.parametrize("tag", [*planted.EXIF_GPS, 1, 2, 3, 4, 6], ids=hex)
def test_each_field_of_a_position_in_exif_is_reported(tmp_path: Path, tag: int) -> None:
    assert kinds(tmp_path, with_exif(tag, b"Secret planted\0", 0x8825)) == {GPS}
    assert kinds(tmp_path, with_exif(0, b"\2\3\0\0", 0x8825)) == set()


def test_exif_and_iptc_that_are_cut_off_or_exceed_a_bound_are_reported(tmp_path: Path) -> None:
    dataset = struct.pack(">BBBH", 0x1C, 2, 5, 5) + b"Title"
    assert kinds(tmp_path, with_resource(0x0404, dataset)) == set()
    assert kinds(tmp_path, with_resource(0x0404, dataset + dataset[:-1])) == {UNREADABLE}

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


def in_structure(name: str) -> str:
    """A field in the structure of XMP that may hold it."""
    prefix, structure = "Iptc4xmpExt", "Iptc4xmpExt:LocationCreated"
    if name.startswith("Ci"):
        prefix, structure = "Iptc4xmpCore", "Iptc4xmpCore:CreatorContactInfo"
    elif name.startswith("Licensor"):
        prefix, structure = "plus", "plus:Licensor"
    field = f"<{prefix}:{name}>Secret</{prefix}:{name}>"
    return f'<{structure} rdf:parseType="Resource">{field}</{structure}>'


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ("<mwg-rs:Regions><rdf:Bag><rdf:li>Ada</rdf:li></rdf:Bag></mwg-rs:Regions>", {PERSON}),
        ('<xmpMM:DerivedFrom acme:instanceID="1"/>', {SOFTWARE, IDENTIFIER}),
        ('<acme:Note acme:text="mail.one@private.example"/>', {OTHER, CONTACT}),
        ("<exif:UserComment>{&quot;lat&quot;: 52.51, &quot;lon&quot;: 13.41}</exif:UserComment>", {COMMENT, GPS}),
        (f"<acme:Note/><xmpNote:HasExtendedXMP>{'0123ABCD' * 4}</xmpNote:HasExtendedXMP>", set()),
        ('<dc:title><rdf:Alt><rdf:li xml:lang="de Secret">A</rdf:li></rdf:Alt></dc:title>', {OTHER}),
        ("<dc:format>image/jpeg</dc:format><tiff:Orientation>1</tiff:Orientation>", set()),
        ("<dc:rights>Example Press</dc:rights><photoshop:City>Musterstadt</photoshop:City>", set()),
        ("<dc:rights>", {UNREADABLE}),
        (f"<acme:Note>a</acme:Note>{'<dc:rights>' * 300}{'</dc:rights>' * 300}", {UNREADABLE}),
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


@pytest.mark.parametrize(("keep_location", "is_preserved"), [("none", False), ("city", False), ("all", True)])
def test_a_street_in_a_caption_is_a_place_name(tmp_path: Path, keep_location: str, is_preserved: bool) -> None:
    setting = Disclosure(KeepLocation(keep_location))
    path = pictures.write(tmp_path, with_iptc(120, b"A red house. It stands in Lindenallee 7, 10115 Berlin"))
    info = probe(path, MAX_PIXELS)
    embedded = read_embedded(path, info, setting)
    assert (LOCATION not in embedded.removed, LOCATION not in private_kinds(path, info, setting)) == (is_preserved,) * 2
    assert ("Lindenallee" in str(embedded)) is is_preserved
    optimized = optimize_file(path, info, never_stop, disclosure=setting)
    assert optimized is not None
    assert (b"A red house" in optimized, b"Lindenallee" in optimized) == (True, is_preserved)


@pytest.mark.parametrize("name", planted.DATA_TEXTS)
def test_a_description_that_is_data_is_reported(tmp_path: Path, name: str) -> None:
    assert COMMENT in kinds(tmp_path, with_exif(0x010E, planted.DATA_TEXTS[name][0].encode() + b"\0"))


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
    "JPEG unknown segment": (jpeg((0xE4, b"Secret")), OTHER),
    "JPEG second EXIF": (jpeg((0xE1, EMPTY_EXIF), (0xE1, b"Exif\0\0Secret")), OTHER),
    "JPEG preview": (jpeg() + PREVIEW, THUMBNAIL),
    "JPEG video": (jpeg() + b"\0\0\0\x18ftypmp42", OTHER),
    "JPEG thumbnail resource": (with_resource(0x040C, b"Secret"), THUMBNAIL),
    "JPEG program's resource": (with_resource(0x043A, b"Secret"), SOFTWARE),
    "JPEG resolution resource": (with_resource(0x03ED, b"\0" * 16), None),
    "JPEG preview in IPTC": (with_iptc(10, b"Secret", 8), OTHER),
    "PNG date": (png(b"tIME", b"\7\xea\1\1\0\0\0"), DATE),
    "PNG software": (png(b"tEXt", b"Software\0Secret"), SOFTWARE),
    "PNG position": (png(b"tEXt", b"exif:GPSLatitude\x0032/1"), GPS),
    "PNG profile's text": (png(b"tEXt", b"icc:copyright\0Public Domain"), None),
    "PNG layout": (png(b"oFFs", b"\0" * 9), None),
    "PNG long layout": (png(b"oFFs", b"Secret" * 20), OTHER),
    "PNG prompt": (png(b"tEXt", b"parameters\0Secret"), SOFTWARE),
    "PNG comment": (png(b"tEXt", b"Comment\0xK-21 / b"), COMMENT),
    "PNG unknown chunk": (png(b"prVt", b"Secret"), OTHER),
    "PNG end chunk": (plain("png")[:-12] + pictures.chunk(b"IEND", b"Secret"), OTHER),
    "PNG trailer": (plain("png") + b"Secret", OTHER),
    "GIF plain text": (gif(b"\x21\x01\x0c" + b"\0" * 12 + b"\6Secret\0"), COMMENT),
    "GIF comment": (gif(b"\x21\xfe\6xK-2/b\0"), COMMENT),
    "GIF trailer": (plain("gif") + b"Secret", OTHER),
    "WebP unknown chunk": (webp(b"ACME", b"Secret"), OTHER),
    "WebP trailer": (plain("webp") + b"Secret", OTHER),
    "AVIF free space": (plain("avif") + box(b"free", b"Secret"), OTHER),
    "AVIF zeros": (plain("avif") + box(b"free", b"\0" * 20), None),
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
    assert found >= {GPS, LOCATION, CONTACT, PERSON, IDENTIFIER, CAMERA, SOFTWARE, COMMENT, OTHER}


@pytest.mark.parametrize("name", ["exif", "xmp"])
@pytest.mark.parametrize("content", [b"lat=5.1", b"lat=5.1".ljust(18), b"lat=5.1".ljust(37), b"lat=5.1".ljust(60)])
def test_a_damaged_block_of_an_avif_is_removed_however_short_it_is(tmp_path: Path, name: str, content: bytes) -> None:
    source = avif_writer.assemble(plain("avif"), Blocks(**{name: content}))
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


def test_the_kinds_that_earlier_versions_stored_are_read() -> None:
    stored = b'["email", "maker_note", "appended", "gps"]'
    assert msgspec.json.decode(stored, type=list[Removed]) == [CONTACT, CAMERA, OTHER, GPS]


@pytest.mark.parametrize("kind", [b"PRIV", b"CgBI"])
def test_an_unknown_critical_chunk_that_the_decoder_ignores_is_removed(tmp_path: Path, kind: bytes) -> None:
    plain = pictures.saved(pictures.graphic(64, 48), "PNG")
    data = plain[:-12] + pictures.chunk(kind, b"Secret planted") + plain[-12:]
    assert kinds(tmp_path, data) == {Removed.OTHER}
    assert with_blocks(data, Blocks()) == plain
