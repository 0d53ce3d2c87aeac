"""Alt texts are written into files in the form that other programs read, and nothing else that the files say changes.

The packets are found by Pillow (in GIFs and animated AVIFs by the project's own reader) and parsed by the standard
library. Where exiftool is installed, it reads them as well.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import zlib
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from PIL import Image
from PIL.MpoImagePlugin import MpoImageFile

from imgproc_local.codecs.alt_texts import FileText, FileTexts, sidecar, texts_to_write, write_alt_texts
from imgproc_local.codecs.container import avif_writer
from imgproc_local.codecs.container import jpeg as jpeg_container
from imgproc_local.codecs.metadata import xmp
from imgproc_local.codecs.metadata.text_sources import MARKS, Author
from imgproc_local.domain.errors import StageFailed
from imgproc_local.domain.image import Format
from imgproc_local.domain.result import TextSource, Translation
from tests.codecs import pictures
from tests.codecs.metadata.test_odd_places import ultra_hdr
from tests.codecs.metadata.test_privacy import KINDS, plain
from tests.codecs.operations import read_blocks
from tests.codecs.pictures import never_stop
from tests.support.reading import optimize_file, probe

MAX_PIXELS = 10**9
RDF, CORE = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}", "{http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/}"
LANG = "{http://www.w3.org/XML/1998/namespace}lang"
ALT_TEXTS = {
    "fr": 'Une e\u0301toile & <deux> "barques" à l\'eau ]]>',
    "de": "Ein rotes Boot – größer als „blau“",
    "ar": "قارب أحمر في البحر",
    "he": "סירה \u200fאדומה",
    "hi": "हिंदी तस्वीर",
    "ja": "赤い船と\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "zh": "红船",
    "th": "เรือสีแดง",
    "ko": "빨간 배",
    "en": "A red boat &amp; &#65; %41 \\n",
}


def embedded_texts(alt_texts: dict[str, str], descriptions: dict[str, str] | None = None) -> FileTexts:
    author = Author(TextSource.EMBEDDED)
    by_code = (
        {code: FileText(text, author) for code, text in texts.items()} for texts in (alt_texts, descriptions or {})
    )
    return FileTexts(*by_code)


TEXTS = embedded_texts(ALT_TEXTS, {"en": "A long description.", "ar": "وصف طويل"})
EXTENSIONS = {"jpeg": "jpg", "png": "png", "apng": "png", "webp": "webp", "avif": "avif", "gif": "gif"}


def others_in(packet: bytes) -> dict[str, list[tuple[str, str, dict[str, str]]]]:
    """The elements, texts and attributes of each property that holds no texts of this program."""
    own = (*MARKS, *MARKS.values())
    found = xmp.parse(packet).properties.items()
    return {
        name: [(part.tag, part.text or "", dict(part.attrib)) for part in element.iter()]
        for name, element in found
        if name not in own
    }


def packet(inner: str, attributes: str = "", *, head: str = "") -> bytes:
    core, dc = CORE[1:-1], "http://purl.org/dc/elements/1.1/"
    return (
        f'{head}<rdf:RDF xmlns:rdf="{RDF[1:-1]}"><rdf:Description rdf:about="" xmlns:Iptc4xmpCore="{core}"'
        f' xmlns:dc="{dc}" xmlns:acme="http://acme.example/"{attributes}>{inner}</rdf:Description></rdf:RDF>'
    ).encode()


def with_packet(stored: bytes) -> bytes:
    source = plain("jpeg")
    return source[:2] + pictures.segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + stored) + source[2:]


def written(folder: Path, data: bytes, texts: FileTexts = TEXTS, *, overwrite: bool = False) -> bytes:
    """The file with the texts, after checking that writing them again changes nothing."""
    path = pictures.write(folder, data)
    info = probe(path, MAX_PIXELS)
    out = write_alt_texts(path, info, texts, never_stop, overwrite=overwrite)
    path = pictures.write(folder, out)
    assert probe(path, MAX_PIXELS) == info
    assert write_alt_texts(path, info, texts, never_stop, overwrite=overwrite) == out
    return out


def stored_packet(data: bytes) -> bytes:
    """The packet that Pillow finds. In GIFs and animated AVIFs, where Pillow looks for none, `read_blocks` finds it."""
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        if image.format == "GIF" or (image.format == "AVIF" and getattr(image, "n_frames", 1) > 1):
            return read_blocks(data, Format[image.format]).xmp or b""
        raw = image.info.get("xmp") or image.info.get("XML:com.adobe.xmp") or b""
    return raw.encode() if isinstance(raw, str) else raw


def texts_in(packet: bytes, name: str = "AltTextAccessibility") -> dict[str, str]:
    """The texts of a language alternative by language. There must be at most one such property."""
    properties = list(ET.fromstring(packet.strip(b"\0")).iter(CORE + name))
    assert len(properties) <= 1
    items = properties[0].findall(f"{RDF}Alt/{RDF}li") if properties else []
    assert len({item.get(LANG) for item in items}) == len(items)
    return {item.get(LANG, ""): item.text or "" for item in items}


def pixels(data: bytes) -> list[np.ndarray]:
    with Image.open(io.BytesIO(data)) as image:
        found = []
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            found.append(np.asarray(image.convert("RGBA")).copy())
        return found


@cache
def sources() -> dict[str, bytes]:
    """Stills and animations of every format without metadata; a lossless WebP; AVIFs with a profile and in tiles."""
    found = {kind: plain(kind) for kind in KINDS}
    found["lossless webp"] = pictures.saved(pictures.graphic(64, 48), "WEBP", lossless=True)
    found["avif with a profile"] = pictures.saved(
        pictures.graphic(64, 48), "AVIF", quality=5, icc_profile=pictures.wide_profile()
    )
    tiles = [pictures.saved(pictures.graphic(64, 64), "AVIF", quality=5)] * 2
    found["tiled avif"] = avif_writer.joined(tiles, 2, 120, 64)
    return found


@pytest.mark.parametrize("kind", [*KINDS, "lossless webp", "avif with a profile", "tiled avif"])
def test_the_texts_of_all_languages_are_read_back_and_the_picture_is_the_same(tmp_path: Path, kind: str) -> None:
    source = sources()[kind]
    out = written(tmp_path, source)
    assert list(texts_in(stored_packet(out)).items()) == [("x-default", ALT_TEXTS["fr"]), *ALT_TEXTS.items()]
    assert texts_in(stored_packet(out), "ExtDescrAccessibility")["ar"] == "وصف طويل"
    assert all(np.array_equal(one, other) for one, other in zip(pixels(source), pixels(out), strict=True))
    with Image.open(io.BytesIO(source)) as before, Image.open(io.BytesIO(out)) as after:
        assert before.info.get("icc_profile") == after.info.get("icc_profile")
        assert before.info.get("duration") == after.info.get("duration")
        assert before.info.get("loop") == after.info.get("loop")


@pytest.mark.skipif(shutil.which("exiftool") is None, reason="exiftool is not installed")
def test_exiftool_reads_every_language_from_every_format(tmp_path: Path) -> None:
    names = []
    for kind, source in sources().items():
        names.append(tmp_path / f"{kind}.{EXTENSIONS.get(kind.split()[-1], kind.split()[0])}")
        names[-1].write_bytes(written(tmp_path, source))
    (tmp_path / "sidecar.xmp").write_bytes(sidecar(TEXTS))
    command = ["exiftool", "-j", "-validate", "-warning", "-error", "-XMP-iptcCore:all", *map(str, names)]
    answer = subprocess.run([*command, str(tmp_path / "sidecar.xmp")], capture_output=True, check=True, timeout=60)
    found = json.loads(answer.stdout)
    assert len(found) == len(sources()) + 1
    for entry in found:
        assert entry["AltTextAccessibility"] == ALT_TEXTS["fr"], entry
        assert {code: entry[f"AltTextAccessibility-{code}"] for code in ALT_TEXTS} == ALT_TEXTS
        assert entry["ExtDescrAccessibility-ar"] == "وصف طويل"
        assert (entry["Validate"], entry.get("Warning"), entry.get("Error")) == ("OK", None, None), entry


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param('<rdf:Alt><rdf:li xml:lang="{}">{}</rdf:li></rdf:Alt>', id="alternative"),
        pytest.param('<rdf:Bag>\n <rdf:li xml:lang="{}">{}</rdf:li>\n</rdf:Bag>', id="other array"),
    ],
)
@pytest.mark.parametrize("tag", ["x-default", "DE"])
def test_a_text_in_the_file_is_replaced_only_on_request(tmp_path: Path, stored: str, tag: str) -> None:
    inner = stored.format(tag, "Own words")
    source = with_packet(packet(f"<Iptc4xmpCore:AltTextAccessibility>{inner}</Iptc4xmpCore:AltTextAccessibility>"))
    texts = embedded_texts({"en": "A boat", "de": "Ein Boot"})
    added = {"x-default": "Own words", "en": "A boat", "de": "Ein Boot"}
    if tag == "DE":
        added = {"x-default": "A boat", "DE": "Own words", "en": "A boat"}
    assert texts_in(stored_packet(written(tmp_path, source, texts))) == added
    replaced = {"x-default": "A boat", "en": "A boat", "de": "Ein Boot"}
    assert texts_in(stored_packet(written(tmp_path, source, texts, overwrite=True))) == replaced
    assert written(tmp_path, source, embedded_texts({})) == source


TITLE = "<dc:title><rdf:Alt><rdf:li xml:lang='x-default'>Harbour &amp;amp; <!-- a > b --></rdf:li></rdf:Alt></dc:title>"
UNKNOWN = "<acme:Thing acme:note=' Iptc4xmpCore:AltTextAccessibility=\"x\" '/><?pi <rdf:RDF>?><![CDATA[ </rdf:RDF> ]]>"
PACKETS = {
    "attribute": packet(TITLE, ' acme:a="1>2" Iptc4xmpCore:AltTextAccessibility = "Own &quot;words&quot;"'),
    "unknown properties": packet(TITLE + UNKNOWN),
    "no properties": packet(""),
    "other prefixes": packet(TITLE).replace(b"rdf:", b"r:").replace(b"xmlns:rdf", b"xmlns:r"),
    "no prefix for RDF": packet(TITLE.replace("rdf:", "r:"), f' xmlns:r="{RDF[1:-1]}"')
    .replace(b"<rdf:", b"<").replace(b"</rdf:", b"</").replace(b"xmlns:rdf", b'xmlns:rdf="u:v" xmlns')
    .replace(b"rdf:about", b"r:about"),
    "UTF-16": packet(TITLE).decode().encode("utf-16"),
    "without RDF": b'<x:xmpmeta xmlns:x="adobe:ns:meta/"/>',
    "empty RDF": f'<rdf:RDF xmlns:rdf="{RDF[1:-1]}"/>'.encode(),
}  # fmt: skip


@pytest.mark.parametrize("own", ["attribute", "element"])
def test_a_node_of_another_type_is_read_and_edited_like_a_description(own: str) -> None:
    name = "Iptc4xmpCore:AltTextAccessibility"
    stored = packet(TITLE, f' {name}="Own"') if own == "attribute" else packet(f"{TITLE}<{name}>Own</{name}>")
    typed = stored.replace(b"rdf:Description", b"acme:Photo").replace(b"<acme:Photo", b'<acme:Photo xmlns:acme="u:v"')
    typed = typed.replace(b' xmlns:acme="http://acme.example/"', b"")
    text = xmp.from_language_items(xmp.ALT_TEXT, [("x-default", "A boat")])
    for data in (typed, b'<x:xmpmeta xmlns:x="adobe:ns:meta/">' + typed + b"</x:xmpmeta>"):
        assert xmp.texts(xmp.parse(data).properties, xmp.ALT_TEXT) == ["Own"]
        edited = xmp.with_properties(data, {xmp.ALT_TEXT: text})
        assert edited is not None
        assert b"Own" not in edited
        properties = xmp.parse(edited).properties
        assert xmp.texts(properties, xmp.ALT_TEXT) == ["A boat"]
        assert properties.keys() == {xmp.DC + "title", xmp.ALT_TEXT}


@pytest.mark.parametrize("name", PACKETS)
def test_texts_are_added_to_every_notation_of_a_packet_and_other_properties_are_preserved(
    tmp_path: Path, name: str
) -> None:
    stored = PACKETS[name]
    out = stored_packet(written(tmp_path, with_packet(stored), embedded_texts({"en": "A boat"})))
    own = "own" in stored.decode("utf-16" if name == "UTF-16" else "utf-8").lower()
    assert texts_in(out) == {"x-default": 'Own "words"' if own else "A boat", "en": "A boat"}
    assert others_in(out) == others_in(stored)
    assert (b":Thing" in out) == (name == "unknown properties")
    assert len(out) < 1200


def test_texts_fit_into_a_packet_of_a_jpeg_that_indentation_fills(tmp_path: Path) -> None:
    steps = "".join(f"\n{' ' * 17}<rdf:li>step {number}</rdf:li>" for number in range(1_500))
    stored = packet(f"<dc:subject>{' ' * 9}<rdf:Bag>{steps}</rdf:Bag></dc:subject>")
    assert 65_504 - 400 < len(stored) < 65_504
    out = stored_packet(written(tmp_path, with_packet(stored), embedded_texts({"en": "A boat on a lake. " * 13})))
    assert len(out) < len(stored) - 1_500 * 18 + 2_000


def test_texts_are_added_to_those_in_the_extended_xmp_of_a_jpeg(tmp_path: Path) -> None:
    own = '<Iptc4xmpCore:AltTextAccessibility><rdf:Alt><rdf:li xml:lang="de">Eigenes</rdf:li></rdf:Alt>'
    long = "<acme:Long>" + "abcdefghi " * 9000 + "</acme:Long>"
    extension = packet(f"{own}</Iptc4xmpCore:AltTextAccessibility>{long}")
    guid = b"0123456789ABCDEF0123456789ABCDEF"
    note = f' xmlns:xmpNote="http://ns.adobe.com/xmp/note/" xmpNote:HasExtendedXMP="{guid.decode()}"'
    pieces = b""
    for at in range(0, len(extension), 60_000):
        head = guid + len(extension).to_bytes(4, "big") + at.to_bytes(4, "big")
        piece = head + extension[at : at + 60_000]
        pieces += pictures.segment(0xE1, b"http://ns.adobe.com/xmp/extension/\0" + piece)
    source = with_packet(packet(TITLE, note))
    at = source.index(b"\xff\xe0")
    source = source[:at] + pieces + source[at:]
    for overwrite, text in ((False, "Eigenes"), (True, "Ein Boot")):
        texts = embedded_texts({"de": "Ein Boot", "en": "A boat"})
        blocks = jpeg_container.read_blocks(written(tmp_path, source, texts, overwrite=overwrite))
        assert blocks.xmp is not None
        assert texts_in(blocks.xmp) == {"x-default": text, "de": text, "en": "A boat"}
        assert blocks.more_xmp == extension
        assert others_in(packet(TITLE)).items() <= others_in(blocks.xmp).items()


@pytest.mark.parametrize(
    "chunk",
    [
        pictures.chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(packet(TITLE))),
        pictures.chunk(
            b"zTXt",
            b"Raw profile type xmp\0\0"
            + zlib.compress(f"\nxmp\n{len(packet(TITLE)):8}\n{packet(TITLE).hex()}\n".encode()),
        ),
    ],
    ids=["compressed", "raw profile"],
)
def test_texts_are_added_to_the_compressed_xmp_of_a_png(tmp_path: Path, chunk: bytes) -> None:
    other = pictures.chunk(b"tEXt", b"Comment\0by hand") + pictures.chunk(b"prVt", b"private")
    out = written(tmp_path, pictures.with_png_chunks(plain("png"), other, chunk))
    assert others_in(stored_packet(out)) == others_in(packet(TITLE))
    assert texts_in(stored_packet(out))["ko"] == ALT_TEXTS["ko"]
    assert other in out
    assert chunk not in out


def test_a_gain_map_is_found_after_texts_were_written(tmp_path: Path) -> None:
    path = pictures.write(tmp_path, ultra_hdr("attributes"))
    source = optimize_file(path, probe(path, MAX_PIXELS), never_stop)
    assert source is not None
    out = written(tmp_path, source)
    assert jpeg_container.gain_map(out) == jpeg_container.gain_map(source) is not None
    for data in (source, out):
        with MpoImageFile(io.BytesIO(data)) as several:
            assert several.n_frames == 2
            assert [entry["Size"] for entry in several.mpinfo[0xB002]] == [
                len(data) - len(jpeg_container.gain_map(data) or b""), len(jpeg_container.gain_map(data) or b"")
            ]  # fmt: skip
            several.seek(1)
            assert several.size == (80, 60)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (b"<x:xmpmeta", "expected well-formed XML"),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "without a DOCTYPE"),
        (packet("<a>" * 300 + "</a>" * 300), "256 deep"),
        (packet("<acme:Long>" + "x" * 64_900 + "</acme:Long>"), "sidecar"),
    ],
)
def test_texts_that_can_not_be_written_are_an_error(tmp_path: Path, stored: bytes, message: str) -> None:
    chunk = pictures.chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + stored)
    source = with_packet(stored) if len(stored) < 65_500 else pictures.with_png_chunks(plain("png"), chunk)
    path = pictures.write(tmp_path, source)
    with pytest.raises(StageFailed, match=message):
        write_alt_texts(path, probe(path, MAX_PIXELS), TEXTS, never_stop)


@pytest.mark.parametrize("tag", ["en", "x-default"])
def test_a_text_in_the_file_is_not_replaced_by_its_own_beginning(tmp_path: Path, tag: str) -> None:
    own = f'<rdf:Alt><rdf:li xml:lang="{tag}">A ship in the harbour. It has two masts.</rdf:li></rdf:Alt>'
    source = with_packet(packet(f"<Iptc4xmpCore:AltTextAccessibility>{own}</Iptc4xmpCore:AltTextAccessibility>"))
    edited = [Translation("en", "ship", "A ship in the harbour.", TextSource.PERSON)]
    texts = texts_in(stored_packet(written(tmp_path, source, texts_to_write(edited))))
    assert texts[tag] == "A ship in the harbour. It has two masts."


def test_texts_that_nobody_wrote_and_blank_ones_are_not_written() -> None:
    texts = [Translation(code, code, text, source) for code, text, source in (
        ("en", "A boat", TextSource.VISION), ("de", "Ein Bild", TextSource.PIXELS), ("fr", "", TextSource.VISION),
        ("it", "Una barca", TextSource.PERSON), ("es", "«Boot»: imagen.", TextSource.FACTS),
    )]  # fmt: skip
    written = texts_to_write(texts).alt_texts
    assert {code: entry.text for code, entry in written.items()} == {"en": "A boat", "it": "Una barca"}


def test_a_sidecar_holds_the_texts_of_all_languages() -> None:
    packet = sidecar(TEXTS)
    assert texts_in(packet) == {"x-default": ALT_TEXTS["fr"], **ALT_TEXTS}
    assert texts_in(packet, "ExtDescrAccessibility")["en"] == "A long description."
    assert sidecar(TEXTS) == packet


def test_the_other_metadata_of_every_format_is_preserved(tmp_path: Path) -> None:
    for name, make in (
        ("JPEG", pictures.jpeg_with_metadata), ("PNG", pictures.png_with_metadata),
        ("WEBP", pictures.webp_with_metadata), ("AVIF", pictures.avif_with_metadata),
        ("GIF", pictures.gif_with_metadata),
    ):  # fmt: skip
        source = make()
        info = probe(pictures.write(tmp_path, source), MAX_PIXELS)
        out = written(tmp_path, source)
        before, after = (read_blocks(data, info.format) for data in (source, out))
        assert (before.exif, before.iptc, before.icc, before.texts) == (after.exif, after.iptc, after.icc, after.texts)
        assert texts_in(stored_packet(out)) == {
            **ALT_TEXTS,
            **pictures.ALT_TEXT,
            "x-default": pictures.ALT_TEXT["en"],
        }, name
