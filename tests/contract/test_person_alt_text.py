"""A person's own alt text, written by exiftool without a language: it is in the texts and survives in every output."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from imgproc_local.domain.image import EmbeddedText
from tests.codecs.pictures import segment
from tests.faults.floods import international_text, jpeg_with, language_alternative, packet, png_with
from tests.support.reading import probe, read_embedded
from tests.support.service import Running

SHORT = "Zwei Boote & ein „Reiher“ 🐦"
LONG = "Ein Reiher steht auf dem Steg und wartet. " * 7 + "Er fliegt."
MAX_PIXELS = 1_000_000


def picture(file_format: str, text: str) -> bytes:
    """A picture with `text` as its alt text, as `exiftool -XMP-iptcCore:AltTextAccessibility=TEXT` writes it."""
    namespace = ' xmlns:core="http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/"'
    xmp = packet(language_alternative("core:AltTextAccessibility", escape(text)), namespace)
    if file_format == "jpeg":
        return jpeg_with(segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + xmp))
    return png_with(international_text(b"XML:com.adobe.xmp", xmp))


def alt_texts(data: bytes, folder: Path) -> tuple[EmbeddedText, ...]:
    path = folder / "output"
    path.write_bytes(data)
    return read_embedded(path, probe(path, MAX_PIXELS)).alt_text


@pytest.mark.parametrize(
    ("file_format", "target", "text"), [("jpeg", "webp", SHORT), ("png", "avif", SHORT), ("png", "webp", LONG)]
)
def test_an_alt_text_without_language_is_used_and_survives(
    service: Running, tmp_path: Path, file_format: str, target: str, text: str
) -> None:
    image = service.process(
        "process", picture(file_format, text), f"a.{file_format}", languages="de,en", format=target
    )["image"]
    german, english = image["translations"]
    assert german["source"] == "embedded"
    # English has only a quotation in German
    assert [text["needs_text"] for text in image["translations"]] == [False, True]
    assert text.startswith(german["seo_alt_text"])
    assert german["seo_alt_text"] == text or 200 < len(german["seo_alt_text"]) <= 250
    assert english["source"] == "facts"
    assert text[:20] in english["seo_alt_text"]
    for output in ("optimized", "converted"):
        data = service.client.get(f"/images/{image['id']}/{output}").content
        assert alt_texts(data, tmp_path) == (EmbeddedText(text),), output


@pytest.mark.parametrize(
    ("text", "languages", "own"),
    [
        ("Empty Chairs", "de,en", "en"),
        ("Market in Nuevo León", "es,en", "en"),
        ("Novalis", "de,en", "de"),
        ("Kominík čistí komín vedle řeky", "sk,cs,pl", "cs"),
        ("雪山飞瀑", "ja,zh", "zh"),
        ("Чапля", "de,uk,ru", "uk"),
        ("Vélo Rouillé", "en,de", ""),
    ],
)
def test_an_alt_text_without_language_is_that_of_the_likely_requested_language(
    service: Running, text: str, languages: str, own: str
) -> None:
    """`own` is the language that it is published in; "" if the first one keeps it and needs another text."""
    image = service.process("analyze", picture("png", text), "a.png", languages=languages)["image"]
    done = [each["language_code"] for each in image["translations"] if not each["needs_text"]]
    embedded = [each["language_code"] for each in image["translations"] if each["source"] == "embedded"]
    assert (done, embedded) == ([own] if own else [], [own or languages.partition(",")[0]])
    assert all(text in each["seo_alt_text"] for each in image["translations"])
