"""Metadata that is preserved and metadata that is removed, searched for in the bytes of every kind of output."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from msgspec import structs

from imgproc_local.codecs.metadata import exif, iptc, xmp, xmp_fields
from imgproc_local.codecs.metadata.blocks import Blocks
from imgproc_local.codecs.metadata.record import blocks_for, read_record
from imgproc_local.domain.image import Disclosure, EmbeddedMetadata, EmbeddedText, Format, KeepLocation, NamePeople
from tests.codecs import pictures
from tests.codecs.operations import read_blocks, to_avif, to_webp
from tests.codecs.pictures import never_stop
from tests.faults.floods import packet
from tests.support.reading import optimize_file, probe, read_embedded

MAX_PIXELS = 10**9
TIGHT_JPEG = pictures.jpeg_with_metadata(quality=60)
IPTC_ALONE = pictures.segment(0xED, b"Photoshop 3.0\0" + pictures.photoshop(pictures.iptc_datasets()))
PLAIN_JPEG = pictures.saved(pictures.scene(), "JPEG", quality=95)
MAKERS = {
    "JPEG with EXIF alone to WebP": (
        to_webp,
        lambda: pictures.saved(pictures.scene(), "JPEG", exif=b"Exif\0\0" + pictures.tiff()),
    ),
    "JPEG with IPTC alone to WebP": (to_webp, lambda: PLAIN_JPEG[:2] + IPTC_ALONE + PLAIN_JPEG[2:]),
    "JPEG optimized": (optimize_file, pictures.jpeg_with_metadata),
    "JPEG with untouched pixels": (optimize_file, lambda: TIGHT_JPEG),
    "JPEG to WebP": (to_webp, pictures.jpeg_with_metadata),
    "PNG optimized": (optimize_file, pictures.png_with_metadata),
    "PNG to AVIF": (to_avif, pictures.png_with_metadata),
    "WebP with untouched pixels": (optimize_file, lambda: pictures.webp_with_metadata(quality=70)),
    "AVIF optimized": (optimize_file, pictures.avif_with_metadata),
    "GIF optimized": (optimize_file, pictures.gif_with_metadata),
    "GIF to WebP": (to_webp, pictures.gif_with_metadata),
}


def _read(folder: Path, data: bytes) -> EmbeddedMetadata:
    path = pictures.write(folder, data, "read")
    return read_embedded(path, probe(path, MAX_PIXELS))


@pytest.mark.parametrize("name", MAKERS)
def test_the_words_of_a_source_are_in_the_output_and_no_private_data_is(tmp_path: Path, name: str) -> None:
    make, made = MAKERS[name]
    source = made()
    path = pictures.write(tmp_path, source)
    out = make(path, probe(path, MAX_PIXELS), never_stop)
    assert out is not None
    assert [what for what, secret in pictures.SECRETS.items() if secret in out] == []
    words = [text.encode() for text in pictures.PRESERVED.values()]
    assert [text for text in words if text in source and text not in out] == []
    before = structs.replace(_read(tmp_path, source), camera=None, created=None, removed=())
    assert _read(tmp_path, out) == before
    assert before.copyright == pictures.COPYRIGHT


def test_the_sources_contain_what_is_searched_for() -> None:
    source = pictures.jpeg_with_metadata()
    assert [what for what, secret in pictures.SECRETS.items() if secret not in source] == []
    assert [what for what, text in pictures.PRESERVED.items() if text.encode() not in source] == []


def test_everything_embedded_is_read_from_a_jpeg_with_metadata(tmp_path: Path) -> None:
    path = pictures.write(tmp_path, pictures.jpeg_with_metadata())
    embedded = read_embedded(path, probe(path, MAX_PIXELS))
    assert embedded.alt_text == tuple(EmbeddedText(text, tag) for tag, text in pictures.ALT_TEXT.items())
    assert embedded.extended_description == (EmbeddedText(pictures.EXTENDED),)
    # XMP tags the caption as English; IPTC and EXIF repeat it, and x-default too
    assert embedded.description == (EmbeddedText(pictures.PRESERVED["caption"], "en"),)
    assert embedded.headline == (EmbeddedText(pictures.PRESERVED["headline"]),)
    assert embedded.title == (EmbeddedText(pictures.PRESERVED["title"]),)
    assert embedded.keywords == (EmbeddedText(pictures.PRESERVED["keyword"]),)
    assert embedded.event == (EmbeddedText(pictures.PRESERVED["event"]),)
    assert embedded.persons == ()
    assert (embedded.sublocation, embedded.city) == (None, pictures.PRESERVED["city"])
    assert embedded.country == pictures.PRESERVED["country"]
    assert embedded.creator == (pictures.PRESERVED["creator"],)
    assert embedded.copyright == pictures.COPYRIGHT
    assert embedded.created == "2031-05-06"
    assert embedded.camera == "Examplecam One"


@pytest.mark.parametrize(
    ("mark", "raw"),
    [(b"\x1c\x01\x5a\0\x03\x1b%G", "Küste".encode()), (b"", "Küste".encode()), (b"", "Küste".encode("cp1252"))],
)
def test_iptc_is_read_as_utf8_or_else_as_windows_1252(tmp_path: Path, mark: bytes, raw: bytes) -> None:
    datasets = mark + b"\x1c\x02\x78" + len(raw).to_bytes(2, "big") + raw
    plain = pictures.saved(pictures.scene(), "JPEG")
    path = pictures.write(
        tmp_path, plain[:2] + pictures.segment(0xED, b"Photoshop 3.0\0" + pictures.photoshop(datasets)) + plain[2:]
    )
    assert read_embedded(path, probe(path, MAX_PIXELS)).description == (EmbeddedText("Küste"),)


def _jpeg_with_xmp(folder: Path, packet: bytes) -> Path:
    plain = pictures.saved(pictures.scene(), "JPEG")
    return pictures.write(
        folder, plain[:2] + pictures.segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + packet) + plain[2:]
    )


def test_no_list_of_persons_is_made_where_none_are_named() -> None:
    assert read_record(Blocks(), Disclosure(name_people=NamePeople.ALL)).properties == {}


DATES = "{http://ns.adobe.com/exif/1.0/}DateTimeOriginal", "{http://ns.adobe.com/photoshop/1.0/}DateCreated"


@pytest.mark.parametrize(
    ("in_xmp", "in_iptc", "expected"),
    [
        (["2026-05-17T14:03:09.5+02:00", "2020"], [], "2026-05-17T14:03:09"),
        (["0000-00-00T00:00:00", "2026-05-17T14:03Z"], [], "2026-05-17T14:03:00"),
        (["2026:05:17 24:03:09"], [(55, b"20200101")], "2026-05-17T00:00:00"),
        (["2026-05"], [(55, b"20260517"), (60, b"140309+0200")], "2026-05-17T14:03:09"),
        ([], [(55, b"20260517")], "2026-05-17T00:00:00"),
        (["soon"], [(55, b"00000000"), (60, b"140309")], None),
    ],
)
def test_when_a_picture_was_taken_is_read_from_xmp_or_iptc(
    in_xmp: list[str], in_iptc: list[tuple[int, bytes]], expected: str | None
) -> None:
    properties = [xmp.simple_property(name, text) for name, text in zip(DATES, in_xmp, strict=False)]
    datasets = b"".join(struct.pack(">BBBH", 0x1C, 2, number, len(text)) + text for number, text in in_iptc)
    read = read_record(Blocks(xmp=xmp.write(properties), iptc=datasets), Disclosure())
    assert (read.taken_at, read.created, read.properties) == (expected, None, {})


def test_when_a_picture_was_taken_is_in_its_header_and_not_in_a_result(tmp_path: Path) -> None:
    path = pictures.write(tmp_path, pictures.jpeg_with_metadata())
    info = probe(path, MAX_PIXELS)
    assert info.taken_at == "2031-05-06T07:08:09"
    optimized = optimize_file(path, info, never_stop)
    assert optimized is not None
    assert probe(pictures.write(tmp_path, optimized, "result"), MAX_PIXELS).taken_at is None


BOMB = (
    b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    b'<rdf:Description xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>&b;</dc:title>'
    b"</rdf:Description></rdf:RDF></x:xmpmeta>"
)


@pytest.mark.parametrize(
    "packet",
    [
        BOMB,
        BOMB.decode().encode("utf-16"),
        b"no xml at all",
        b"\xff\xfe\x00",
        b"<a>" * 9000,
        b"<a>" * 9000 + b"</a>" * 9000,
        pictures.xmp_packet()[:900],
        pictures.xmp_packet().replace(b"rdf:RDF", b"rdf:Nonsense"),
        b"",
    ],
)
def test_a_hostile_or_broken_xmp_packet_is_skipped(tmp_path: Path, packet: bytes) -> None:
    path = _jpeg_with_xmp(tmp_path, packet)
    info = probe(path, MAX_PIXELS)
    embedded = read_embedded(path, info)
    assert (embedded.alt_text, embedded.title) == ((), ())
    assert to_webp(path, info, never_stop)


def test_an_x_default_text_that_no_language_repeats_has_no_known_language() -> None:
    packet = pictures.xmp_packet().replace(f'<rdf:li xml:lang="en">{pictures.ALT_TEXT["en"]}</rdf:li>'.encode(), b"")
    found = xmp.alternatives(xmp.parse(packet).properties, xmp.ALT_TEXT)
    assert found == [EmbeddedText(pictures.ALT_TEXT["en"]), EmbeddedText(pictures.ALT_TEXT["de"], "de")]


def test_rights_and_alt_text_are_removed_last_if_a_block_is_too_large() -> None:
    stored = xmp.parse(pictures.xmp_packet()).properties
    published = xmp_fields.published(stored, lambda name: str, Disclosure(KeepLocation.ALL))[0]
    elements = xmp_fields.ordered({element.tag: element for element in published})
    packet = xmp.write(xmp.fitting(elements, 1600))
    assert packet is not None
    assert len(packet) <= 1600
    for word in (pictures.COPYRIGHT, pictures.PRESERVED["creator"], *pictures.ALT_TEXT.values()):
        assert word.encode() in packet
    assert pictures.PRESERVED["place shown"].encode() not in packet
    assert xmp.write(xmp.fitting(elements, 100)) is None


def _result(folder: Path, *segments: bytes) -> bytes:
    """The optimized file of a JPEG with these segments. Its record is written alike in every format."""
    path = pictures.write(folder, PLAIN_JPEG[:2] + b"".join(segments) + PLAIN_JPEG[2:])
    out = optimize_file(path, probe(path, MAX_PIXELS), never_stop)
    assert out is not None
    return out


def _exif(fields: dict[int, tuple[int, bytes]]) -> bytes:
    """An EXIF segment with these types and values, each longer than four bytes."""
    head, tail = b"II*\0" + struct.pack("<IH", 8, len(fields)), b""
    start = len(head) + 12 * len(fields) + 4
    for tag, (kind, raw) in sorted(fields.items()):
        head += struct.pack("<HHII", tag, kind, len(raw), start + len(tail))
        tail += raw
    return pictures.segment(0xE1, b"Exif\0\0" + head + b"\0" * 4 + tail)


def _xmp(*properties: str, attributes: str = "") -> str:
    spaces = "".join(
        f' xmlns:{prefix}="{space[1:-1]}"'
        for prefix, space in (
            ("dc", xmp.DC),
            ("photoshop", xmp.PHOTOSHOP),
            ("core", xmp.CORE),
            ("old", xmp.TIFF),
            ("note", "{http://ns.adobe.com/xmp/note/}"),
            ("exif", "{http://ns.adobe.com/exif/1.0/}"),
        )
    )
    inner = f'<rdf:Description rdf:about=""{spaces}{attributes}>{"".join(properties)}</rdf:Description>'
    rdf = f'<rdf:RDF xmlns:rdf="{xmp.RDF[1:-1]}">{inner}</rdf:RDF>'
    return f'<?xpacket begin="\ufeff" id="x"?><x:xmpmeta xmlns:x="adobe:ns:meta/">{rdf}</x:xmpmeta><?xpacket end="w"?>'


def _xmp_segment(packet: bytes) -> bytes:
    return pictures.segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + packet)


def _alternatives(name: str, *texts: str) -> str:
    items = "".join(
        f'<rdf:li xml:lang="{tag}">{text}</rdf:li>' for tag, text in zip(("x-default", "de"), texts, strict=False)
    )
    return f"<{name}><rdf:Alt>{items}</rdf:Alt></{name}>"


def _iptc_segment(datasets: dict[int, str]) -> bytes:
    run = b"".join(
        b"\x1c\x02" + struct.pack(">BH", number, len(text)) + text.encode() for number, text in datasets.items()
    )
    return pictures.segment(0xED, b"Photoshop 3.0\0" + pictures.photoshop(run))


def test_exif_texts_of_type_utf8_are_preserved(tmp_path: Path) -> None:
    utf8 = 129
    out = _result(tmp_path, _exif({0x8298: (utf8, "© Jürgen\0".encode()), 0x013B: (utf8, "Jürgen 写真\0".encode())}))
    embedded = _read(tmp_path, out)
    assert (embedded.copyright, embedded.creator) == ("© Jürgen", ("Jürgen 写真",))


@pytest.mark.parametrize(
    ("raw", "shown"),
    [(b"Ada Example\0Example Press\0SECRET\0", "Ada Example; Example Press"), (b" \0Example Press\0", "Example Press")],
)
def test_the_editors_copyright_is_preserved_after_the_photographers(tmp_path: Path, raw: bytes, shown: str) -> None:
    out = _result(tmp_path, _exif({0x8298: (2, raw)}))
    assert _read(tmp_path, out).copyright == shown
    assert b"SECRET" not in out


def test_a_blank_property_is_filled_from_iptc(tmp_path: Path) -> None:
    blank = _xmp(_alternatives("dc:rights", ""), "<dc:creator><rdf:Seq><rdf:li/></rdf:Seq></dc:creator>")
    words = {80: "Ada Example", 110: "Example Press", 116: "(c) Example"}
    embedded = _read(tmp_path, _result(tmp_path, _xmp_segment(blank.encode()), _iptc_segment(words)))
    assert (embedded.creator, embedded.copyright) == (("Ada Example",), "(c) Example")


def test_creators_and_rights_that_only_iptc_has_are_added_to_those_of_xmp(tmp_path: Path) -> None:
    packet = _xmp(
        _alternatives("dc:rights", "© 2031 Ada Example, all rights reserved", "© 2031 Ada Example, alle Rechte"),
        "<dc:creator><rdf:Seq><rdf:li>Ada Example</rdf:li><rdf:li>José Example</rdf:li></rdf:Seq></dc:creator>",
        attributes=' photoshop:Credit="Example Press"',
    )
    same = {80: "Jos? Exam", 110: "Example Press", 116: "© 2031 Ada Example, all"}
    out = _result(tmp_path, _xmp_segment(packet.encode()), _iptc_segment(same))
    written = xmp.parse(read_blocks(out, Format.JPEG).xmp)
    assert written.properties.keys() == xmp.parse(packet.encode()).properties.keys()
    assert _read(tmp_path, out).creator == ("Ada Example", "José Example")
    assert b"Example Press;" not in out
    other = {80: "Bo Example", 110: "Other Press", 116: "Rights managed by Bo"}
    out = _result(tmp_path, _xmp_segment(packet.encode()), _iptc_segment(other))
    assert _read(tmp_path, out).creator == ("Ada Example", "José Example", "Bo Example")
    words = xmp.parse(read_blocks(out, Format.JPEG).xmp).properties
    assert xmp.texts(words, xmp.PHOTOSHOP + "Credit") == ["Example Press; Other Press"]
    assert xmp.texts(words, xmp.DC + "rights") == [
        "© 2031 Ada Example, all rights reserved; Rights managed by Bo",
        "© 2031 Ada Example, alle Rechte",
    ]


def test_extended_xmp_is_read(tmp_path: Path) -> None:
    more = _xmp(
        _alternatives("core:AltTextAccessibility", "A red boat", "Ein rotes Boot"),
        "<exif:GPSLatitude>SECRET-GPS</exif:GPSLatitude>",
        f"<exif:UserComment>{'A' * 150_000}</exif:UserComment>",
    ).encode()
    name = b"0123456789ABCDEF" * 2
    pieces = [
        pictures.segment(
            0xE1,
            b"http://ns.adobe.com/xmp/extension/\0" + name + struct.pack(">II", len(more), at) + more[at : at + 60_000],
        )
        for at in range(0, len(more), 60_000)
    ]
    stranger = pieces[0].replace(name, b"F" * 32).replace(b"A red boat", b"A red lies")
    packet = _xmp(_alternatives("dc:rights", "© Example"), attributes=f' note:HasExtendedXMP="{name.decode()}"')
    # the segments of extended XMP may be in any order
    out = _result(tmp_path, _xmp_segment(packet.encode()), stranger, *reversed(pieces))
    embedded = _read(tmp_path, out)
    assert [text.text for text in embedded.alt_text] == ["A red boat", "Ein rotes Boot"]
    assert embedded.copyright == "© Example"
    assert b"SECRET" not in out
    assert len(out) < 60_000


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_a_packet_in_any_encoding_of_unicode_is_read(tmp_path: Path, encoding: str) -> None:
    packet = _xmp(_alternatives("dc:rights", "© Exämple")).encode(encoding)
    assert _read(tmp_path, _result(tmp_path, _xmp_segment(packet))).copyright == "© Exämple"


def test_tiff_properties_of_copyright_and_creator_are_preserved(tmp_path: Path) -> None:
    packet = _xmp(_alternatives("old:Copyright", "© Example"), attributes=' old:Artist="Ada Example" old:Make="SECRET"')
    out = _result(tmp_path, _xmp_segment(packet.encode()))
    words = xmp.parse(read_blocks(out, Format.JPEG).xmp).properties
    assert xmp.texts(words, xmp.TIFF + "Copyright") == ["© Example"]
    assert xmp.texts(words, xmp.TIFF + "Artist") == ["Ada Example"]
    assert b"SECRET" not in out


def test_the_resource_after_an_unpadded_one_is_read(tmp_path: Path) -> None:
    odd = b"8BIM\x04\x0b\0\0" + struct.pack(">I", 5) + b"hello"
    run = b"\x1c\x02\x74\0\x09(c) Owner"
    block = pictures.segment(0xED, b"Photoshop 3.0\0" + odd) + pictures.segment(
        0xED, b"Photoshop 3.0\0" + pictures.photoshop(run)
    )
    assert _read(tmp_path, _result(tmp_path, block)).copyright == "(c) Owner"


def test_words_of_xmp_are_written_into_exif_and_in_a_jpeg_into_iptc(tmp_path: Path) -> None:
    packet = _xmp(
        _alternatives("dc:rights", "© Example"),
        _alternatives("dc:description", "A boat", "Ein Boot"),
        "<dc:creator><rdf:Seq><rdf:li>Ada</rdf:li><rdf:li>Bo</rdf:li></rdf:Seq></dc:creator>",
    )
    source = PLAIN_JPEG[:2] + _xmp_segment(packet.encode()) + PLAIN_JPEG[2:]
    path = pictures.write(tmp_path, source)
    info = probe(path, MAX_PIXELS)
    for file_format, make in ((Format.JPEG, optimize_file), (Format.WEBP, to_webp)):
        out = make(path, info, never_stop)
        assert out is not None
        blocks = read_blocks(out, file_format)
        main = exif.read_ifd(blocks.exif)
        found = [main.text(tag) for tag in (exif.COPYRIGHT, exif.ARTIST, exif.IMAGE_DESCRIPTION)]
        assert found == ["© Example", "Ada; Bo", "A boat"]
        expected = {116: ["© Example"], 80: ["Ada", "Bo"], 120: ["A boat"]} if file_format is Format.JPEG else {}
        texts = iptc.read(blocks.iptc).texts
        assert {number: texts[number] for number in texts if number in xmp_fields.IPTC_DATASETS} == expected


@pytest.mark.parametrize(
    ("name", "texts", "is_only_exif"),
    [
        ("description", ["A boat"], True),
        ("creator", ["Ada Example"], True),
        ("creator", ["Ada; Example"], False),
        ("creator", ["Ada", "Example"], False),
        ("subject", ["boat"], False),
    ],
)
def test_exif_alone_is_written_where_it_says_all(name: str, texts: list[str], *, is_only_exif: bool) -> None:
    entries = "".join(f'<rdf:li xml:lang="x-default">{text}</rdf:li>' for text in texts)
    kind = {"description": "Alt", "creator": "Seq", "subject": "Bag"}[name]
    xmp_block = packet(f"<dc:{name}><rdf:{kind}>{entries}</rdf:{kind}></dc:{name}>")
    record = read_record(Blocks(xmp=xmp_block), Disclosure())
    written = blocks_for(record, Format.JPEG)
    assert (written.xmp is None) == is_only_exif
    assert read_record(written, Disclosure()).texts(xmp.DC + name) == record.texts(xmp.DC + name)
    assert record.texts(xmp.DC + name) == texts
