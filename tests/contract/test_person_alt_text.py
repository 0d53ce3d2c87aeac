"""A person's own alt text, written by exiftool without a language: it is in the texts and survives in every output."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from PIL import Image

from imgproc_local.domain.image import EmbeddedText
from tests.codecs.pictures import chunk, saved, segment, with_png_chunks
from tests.support.reading import probe, read_embedded
from tests.support.service import Running

SHORT = "Zwei Boote & ein „Reiher“ 🐦"
LONG = "Ein Reiher steht auf dem Steg und wartet. " * 7 + "Er fliegt."
MAX_PIXELS = 1_000_000


def packet(text: str) -> bytes:
    """What `exiftool -XMP-iptcCore:AltTextAccessibility=TEXT` writes."""
    return f"""<?xpacket begin='\ufeff' id='W5M0MpCehiHzreSzNTczkc9d'?>
<x:xmpmeta xmlns:x='adobe:ns:meta/' x:xmptk='Image::ExifTool 12.76'>
<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'>

 <rdf:Description rdf:about=''
  xmlns:Iptc4xmpCore='http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/'>
  <Iptc4xmpCore:AltTextAccessibility>
   <rdf:Alt>
    <rdf:li xml:lang='x-default'>{escape(text)}</rdf:li>
   </rdf:Alt>
  </Iptc4xmpCore:AltTextAccessibility>
 </rdf:Description>
</rdf:RDF>
</x:xmpmeta>
<?xpacket end='w'?>""".encode()


def gradient() -> Image.Image:
    return Image.merge("RGB", (Image.linear_gradient("L").resize((96, 64)),) * 3)


def picture(file_format: str, text: str) -> bytes:
    """A picture with `text` as its alt text."""
    if file_format == "jpeg":
        plain = saved(gradient(), "JPEG", quality=95)
        return plain[:2] + segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + packet(text)) + plain[2:]
    return with_png_chunks(saved(gradient(), "PNG"), chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + packet(text)))


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
    assert [text["needs_text"] for text in image["translations"]] == [False, False]
    assert text.startswith(german["seo_alt_text"])
    assert german["seo_alt_text"] == text or 200 < len(german["seo_alt_text"]) <= 250
    assert english["source"] == "facts"
    assert text[:20] in english["seo_alt_text"]
    for output in ("optimized", "converted"):
        data = service.client.get(f"/images/{image['id']}/{output}").content
        assert alt_texts(data, tmp_path) == (EmbeddedText(text),), output
