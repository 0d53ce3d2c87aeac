"""PNG text chunks, GIF comments and the EXIF fields of Windows are read, and written as XMP."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from imgproc_local.codecs.metadata import iptc, xmp
from imgproc_local.codecs.metadata.blocks import MAX_TEXT_BYTES
from imgproc_local.domain.alt_text import reads_as_a_caption
from imgproc_local.domain.image import EmbeddedMetadata, EmbeddedText
from tests.codecs import pictures
from tests.codecs.operations import read_blocks, to_avif, to_webp
from tests.codecs.pictures import never_stop
from tests.support.reading import optimize_file, probe, read_embedded

MAX_PIXELS = 10**9
Make = Callable[..., bytes | None]
CAPTION = "Zwei Möwen über dem Hafen"


def embedded(folder: Path, data: bytes) -> EmbeddedMetadata:
    path = pictures.write(folder, data, "read")
    return read_embedded(path, probe(path, MAX_PIXELS))


def described_png() -> bytes:
    return pictures.with_png_chunks(
        pictures.saved(pictures.scene(), "PNG"),
        pictures.chunk(b"tEXt", b"Title\0Harbour"),
        pictures.chunk(b"zTXt", b"Author\0\0" + zlib.compress("José Example".encode("latin-1")) + b"HIDDEN-BEHIND"),
        pictures.chunk(b"iTXt", b"Description\0\0\0de\0HIDDEN-KEYWORD\0" + CAPTION.encode()),
        pictures.chunk(b"iTXt", b"Copyright\0\1\0\0\0" + zlib.compress("© 2031 Example".encode())),
        pictures.chunk(b"tEXt", b"Disclaimer\0Editorial use only"),
        pictures.chunk(b"tEXt", b"Software\0SECRET Draw 4.1"),
        pictures.chunk(b"tEXt", b"Source\0SECRET scanner"),
        pictures.chunk(b"tEXt", b"Creation Time\0SECRET 2031"),
        pictures.chunk(b"tEXt", b"parameters\0SECRET steps"),
        pictures.chunk(b"tEXt", b"Comment\0Created with GIMP SECRET"),
    )


def commented_gif(*comments: bytes) -> bytes:
    plain = pictures.animated("GIF", [100, 200, 300])
    blocks = b"".join(b"\x21\xfe" + bytes((len(comment),)) + comment + b"\0" for comment in comments)
    return plain[:-1] + blocks + b"\x3b"


def test_png_texts_are_read_with_their_languages(tmp_path: Path) -> None:
    found = embedded(tmp_path, described_png())
    assert found.title == (EmbeddedText("Harbour"),)
    assert found.creator == ("José Example",)
    assert found.description == (EmbeddedText(CAPTION, "de"),)
    assert found.copyright == "© 2031 Example"


@pytest.mark.parametrize("make", [optimize_file, to_webp, to_avif])
def test_png_texts_that_people_wrote_become_xmp_and_others_are_removed(tmp_path: Path, make: Make) -> None:
    path = pictures.write(tmp_path, described_png())
    out = make(path, probe(path, MAX_PIXELS), never_stop)
    assert out is not None
    assert embedded(tmp_path, out) == embedded(tmp_path, described_png())
    for gone in (b"SECRET", b"HIDDEN", b"Software", b"Creation Time"):
        assert gone not in out
    packet = read_blocks(out, probe(pictures.write(tmp_path, out), MAX_PIXELS).format).xmp
    terms = xmp.alternatives(xmp.parse(packet).properties, xmp.RIGHTS + "UsageTerms")
    assert terms == [EmbeddedText("Editorial use only")]


@pytest.mark.parametrize("make", [optimize_file, to_webp, to_avif])
def test_the_fields_of_windows_are_read_and_become_xmp(tmp_path: Path, make: Make) -> None:
    fields = Image.Exif()
    for tag, text in {0x9C9B: "Harbour", 0x9C9F: "Two boats at the quay", 0x9C9E: "boat;quay"}.items():
        fields[tag] = f"{text}\0".encode("utf-16-le")
    source = pictures.saved(pictures.scene(), "JPEG", quality=95, exif=fields)
    path = pictures.write(tmp_path, source)
    made = make(path, probe(path, MAX_PIXELS), never_stop)
    assert made is not None
    for found in (embedded(tmp_path, source), embedded(tmp_path, made)):
        assert [entry.text for entry in found.title] == ["Harbour"]
        assert [entry.text for entry in found.headline] == ["Two boats at the quay"]
        assert [entry.text for entry in found.keywords] == ["boat", "quay"]


def test_a_caption_that_is_too_long_for_iptc_is_cut_between_two_characters() -> None:
    text = "ü" * 20_000
    (stored,) = iptc.read(iptc.write([(120, text)])).texts[120]
    assert text.startswith(stored)
    assert len(stored.encode()) in (0x7FFE, 0x7FFF)


def test_characters_that_xml_forbids_are_removed_from_the_packet(tmp_path: Path) -> None:
    source = pictures.with_png_chunks(
        pictures.saved(pictures.scene(), "PNG"), pictures.chunk(b"tEXt", b"Title\0One\x01 <two> & three")
    )
    path = pictures.write(tmp_path, source)
    out = to_webp(path, probe(path, MAX_PIXELS), never_stop)
    assert embedded(tmp_path, out).title == (EmbeddedText("One <two> & three"),)


def test_texts_add_to_the_xmp_and_its_title_takes_precedence(tmp_path: Path) -> None:
    packet = pictures.chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + pictures.xmp_packet())
    found = embedded(tmp_path, described_png()[:33] + packet + described_png()[33:])
    assert found.copyright == pictures.COPYRIGHT  # which contains the other one
    assert [text.text for text in found.title] == [pictures.PRESERVED["title"]]
    assert found.creator == (pictures.PRESERVED["creator"], "José Example")
    assert EmbeddedText(CAPTION, "de") in found.description


@pytest.mark.parametrize(
    "bomb",
    [
        pictures.chunk(b"zTXt", b"Title\0\0" + zlib.compress(b"a" * 1_000_000, 9)),
        pictures.chunk(b"iTXt", b"Title\0\1\0\0\0" + zlib.compress(b"a" * 1_000_000, 9)),
        pictures.chunk(b"tEXt", b"Title\0" + b"a" * (MAX_TEXT_BYTES + 1)),
        pictures.chunk(b"zTXt", b"Title\0\0" + zlib.compress(b"a words")[:-3]),
        pictures.chunk(b"iTXt", b"Title\0"),
        pictures.chunk(b"zTXt", b"Title"),
        pictures.chunk(b"tEXt", b"Title\0\0 \n"),
    ],
)
def test_a_decompression_bomb_and_a_damaged_text_count_as_absent(tmp_path: Path, bomb: bytes) -> None:
    source = pictures.with_png_chunks(pictures.saved(pictures.scene(), "PNG"), bomb)
    assert embedded(tmp_path, source).title == ()
    path = pictures.write(tmp_path, source)
    out = optimize_file(path, probe(path, MAX_PIXELS), never_stop)
    assert out is not None
    assert b"Title" not in out


def test_a_comment_that_a_person_wrote_is_preserved_in_a_gif(tmp_path: Path) -> None:
    source = commented_gif(b"Created with GIMP", CAPTION.encode(), b"COMMENT-PRIVATE")
    assert embedded(tmp_path, source).description == (EmbeddedText(CAPTION),)
    path = pictures.write(tmp_path, source)
    info = probe(path, MAX_PIXELS)
    out = optimize_file(path, info, never_stop)
    assert out is not None
    assert embedded(tmp_path, out).description == (EmbeddedText(CAPTION),)
    assert b"GIMP" not in out
    assert b"PRIVATE" not in out
    assert embedded(tmp_path, to_webp(path, info, never_stop)).description == (EmbeddedText(CAPTION),)


@pytest.mark.parametrize(
    ("comment", "is_caption"),
    [
        ("A red boat on the lake, seen from above.", True),
        ("Красная лодка на озере", True),
        ("قارب أحمر في البحيرة", True),
        ("CREATOR: gd-jpeg v1.0 (using IJG JPEG v62), quality = 90", False),
        ("https://example.org/a page of mine", False),
        ("My garden, GPS N fifty two", False),
        ('{"steps": 20, "sampler": "a b c"}', False),
        ("COMMENT-PRIVATE", False),
        ("a b c d e", False),
        ("many words " * 400, False),
    ],
)
def test_only_words_about_the_picture_are_a_caption(comment: str, *, is_caption: bool) -> None:
    assert reads_as_a_caption(comment) == is_caption


def test_a_comment_in_several_sub_blocks_is_one_text(tmp_path: Path) -> None:
    plain = pictures.animated("GIF", [100, 200, 300])
    source = plain[:-1] + b"\x21\xfe\x0bA red boat \x06at sea\0\x3b"
    assert embedded(tmp_path, source).description == (EmbeddedText("A red boat at sea"),)
