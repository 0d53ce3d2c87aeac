"""Private data is removed and rights and alt text are preserved for any kind, size and spelling of metadata.

The pictures are small and of low quality, so that encoding them again saves nothing.
"""

from __future__ import annotations

import random
import struct
import zlib
from functools import cache
from pathlib import Path

import pytest

from imgproc_local.codecs.metadata import xmp, xmp_fields
from imgproc_local.domain.image import Disclosure, Format, KeepLocation, NamePeople
from tests.codecs import pictures
from tests.codecs.operations import read_blocks
from tests.codecs.pictures import never_stop
from tests.support.reading import optimize_file, probe, read_embedded

MAX_PIXELS = 10**9
MAX_RECORD_BYTES = 1000
"""The largest record of these pictures: the packet, the same words in EXIF and IPTC, and new items of an AVIF."""
COPYRIGHT, CREATOR, ALT_TEXT = "(c) A", "Ada Example", 'A "red" boat & <two> birds'
POSITION = "5,31.2057N"
EXIF_SECRETS = {
    "gps": pictures.GPS_RATIONAL,
    "serial number": b"SERIAL-EXIF-4711",
    "maker note": b"MAKERNOTE-PRIVATE",
    "thumbnail": b"THUMBNAIL-EXIF-PRIVATE",
}
SECRETS = (*EXIF_SECRETS.values(), POSITION.encode(), b"SERIAL-IPTC", b"SERIAL-TEXT", b"SERIAL-COMMENT")
KINDS = ("jpeg", "png", "apng", "webp", "animated webp", "avif", "animated avif", "gif", "animated gif")
RDF, META = "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "adobe:ns:meta/"
NAMESPACES = {
    "dc": "http://purl.org/dc/elements/1.1/",
    "photoshop": "http://ns.adobe.com/photoshop/1.0/",
    "exif": "http://ns.adobe.com/exif/1.0/",
    "Iptc4xmpCore": "http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/",
}


@cache
def plain(kind: str) -> bytes:
    if kind.startswith("animated") or kind == "apng":
        options = {"quality": 5} if kind != "animated gif" and kind != "apng" else {}
        file_format = kind.removeprefix("animated ").upper()
        return pictures.animated("PNG" if kind == "apng" else file_format, [100, 200, 300], **options)
    options = {"quality": 5} if kind in ("jpeg", "webp", "avif") else {}
    return pictures.saved(pictures.graphic(64, 48), kind.upper(), **options)


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def packet(chance: random.Random, *, private: bool, rights: bool, utf_8: bool) -> bytes:
    """An XMP packet in one of the notations that programs write, most often a compact one."""
    short = chance.random() < 0.6
    prefixes = {name: name[0].lower() if short else name for name in NAMESPACES}
    rdf = chance.choice(("rdf", "r")) if short else "rdf"
    attributes, elements = "", ""

    def add(namespace: str, name: str, value: str) -> None:
        nonlocal attributes, elements
        tag = f"{prefixes[namespace]}:{name}"
        if chance.random() < 0.7:
            attributes += f' {tag}="{escaped(value)}"'
        else:
            elements += f"<{tag}>{escaped(value)}</{tag}>"

    if private:
        add("exif", "GPSLatitude", POSITION)
    if rights:
        add("dc", "rights", COPYRIGHT)
        add("Iptc4xmpCore", "AltTextAccessibility", ALT_TEXT)
        tag = f"{prefixes['dc']}:creator"
        elements += f"<{tag}><{rdf}:Seq><{rdf}:li>{CREATOR}</{rdf}:li></{rdf}:Seq></{tag}>"
    for name in ("Credit", "Headline", "City"):
        if chance.random() < 0.5:
            add("photoshop", name, "x" * chance.randint(1, 9))
    if chance.random() < 0.5:
        tag, words = f"{prefixes['dc']}:subject", chance.randint(1, 5)
        items = "".join(f"<{rdf}:li>{chance.choice('abc') * 2}{number}</{rdf}:li>" for number in range(words))
        elements += f"<{tag}><{rdf}:Bag>{items}</{rdf}:Bag></{tag}>"
    used = [name for name in NAMESPACES if f"{prefixes[name]}:" in attributes + elements]
    declared = "".join(f' xmlns:{prefixes[name]}="{NAMESPACES[name]}"' for name in used)
    about = chance.choice(("", f' {rdf}:about=""'))
    inner = f"<{rdf}:Description{about}{declared}{attributes}>{elements}</{rdf}:Description>"
    text = f'<{rdf}:RDF xmlns:{rdf}="{RDF}">{inner}</{rdf}:RDF>'
    if chance.random() < 0.5:
        text = f'<x:xmpmeta xmlns:x="{META}">{text}</x:xmpmeta>'
    if chance.random() < 0.3:
        text = f'<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>{text}<?xpacket end="w"?>'
    return text.encode("utf-16" if not utf_8 and chance.random() < 0.1 else "utf-8")


def datasets(chance: random.Random) -> bytes:
    """IIM datasets, one of them private, in UTF-8 or Windows-1252. The encoding is often not declared."""
    values = {65: b"SERIAL-IPTC", 80: CREATOR.encode(), 116: COPYRIGHT.encode(), 105: b"Caf\xe9"}
    marked = b"\x1c\x01\x5a\0\x03\x1b%G" if chance.random() < 0.3 else b""
    return marked + b"".join(struct.pack(">BBBH", 0x1C, 2, number, len(raw)) + raw for number, raw in values.items())


def raw_profile(name: str, block: bytes, *, level: int = 9) -> bytes:
    text = f"\n{name}\n{len(block):8}\n{block.hex()}\n".encode()
    return pictures.chunk(b"zTXt", f"Raw profile type {name}".encode() + b"\0\0" + zlib.compress(text, level))


def generated(kind: str, seed: int) -> bytes:
    """A picture with at least one private field, and with copyright, creator and alt text in one of its blocks."""
    chance = random.Random(f"{kind} {seed}")
    fields = {0x8298: COPYRIGHT.encode(), 0x013B: CREATOR.encode()} if chance.random() < 0.7 else {}
    private = chance.sample(sorted(EXIF_SECRETS), chance.randint(1, 2))
    # Pillow would rewrite the orientation of an AVIF, and with it the whole EXIF block
    orientation = 1 if "avif" in kind else chance.choice((1, 1, 3, 6))
    exif = pictures.compact_tiff(fields, orientation, {name: EXIF_SECRETS[name] for name in private})
    has_exif = chance.random() < 0.6 and "gif" not in kind
    private_words = chance.random() < 0.6 or not has_exif
    words = packet(chance, private=private_words, rights=chance.random() < 0.8, utf_8="gif" in kind)
    has_xmp = chance.random() < 0.7 or not has_exif
    source = plain(kind)
    if kind == "jpeg":
        blocks = pictures.segment(0xE1, b"Exif\0\0" + exif) if has_exif else b""
        blocks += pictures.segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + words) if has_xmp else b""
        if chance.random() < 0.5:
            run = datasets(chance)
            resource = b"8BIM\x04\x04\0\0" + struct.pack(">I", len(run)) + run + b"\0" * (len(run) % 2)
            blocks += pictures.segment(0xED, b"Photoshop 3.0\0" + resource)
        return source[:2] + blocks + source[2:]
    if kind in ("png", "apng"):
        blocks = b""
        if has_exif:
            raw = chance.random() < 0.3
            blocks += raw_profile("exif", b"Exif\0\0" + exif) if raw else pictures.chunk(b"eXIf", exif)
        if has_xmp:
            compression, text = chance.choice(((b"\0\0", words), (b"\1\0", zlib.compress(words, 9))))
            blocks += pictures.chunk(b"iTXt", b"XML:com.adobe.xmp\0" + compression + b"\0\0" + text)
        if chance.random() < 0.4:
            blocks += raw_profile("iptc", datasets(chance))
        if chance.random() < 0.5:
            blocks += pictures.chunk(b"tEXt", b"Copyright\0" + COPYRIGHT.encode())
            blocks += pictures.chunk(b"zTXt", b"Author\0\0" + zlib.compress(CREATOR.encode(), 9))
            blocks += pictures.chunk(b"tEXt", b"Source\0SERIAL-TEXT")
        return pictures.with_png_chunks(source, blocks)
    if "gif" in kind:
        comment = b"\x21\xfe\x0eSERIAL-COMMENT\0" if chance.random() < 0.5 else b""
        trailer = b"\x01" + bytes(range(255, -1, -1)) + b"\0"
        return source[:-1] + comment + b"\x21\xff\x0bXMP DataXMP" + words + trailer + b"\x3b"
    return with_riff_or_items(kind, exif if has_exif else None, words if has_xmp else None)


def with_riff_or_items(kind: str, exif: bytes | None, words: bytes | None) -> bytes:
    blocks = {name: block for name, block in (("exif", exif), ("xmp", words)) if block}
    file_format = kind.removeprefix("animated ").upper()
    if kind.startswith("animated"):
        return pictures.animated(file_format, [100, 200, 300], quality=5, **blocks)
    return pictures.saved(pictures.graphic(64, 48), file_format, quality=5, **blocks)


def everything_in(data: bytes, file_format: Format) -> bytes:
    """The bytes of the file, followed by its texts that are compressed or in another encoding."""
    blocks = read_blocks(data, file_format)
    more = [block for block in (blocks.exif, blocks.xmp, blocks.iptc) if block]
    more += [text.text.encode() for text in blocks.texts]
    return b"\n".join([data, *more, *(block.replace(b"\0", b"") for block in more)])


@pytest.mark.parametrize("kind", KINDS)
def test_private_data_is_removed_and_rights_are_preserved_in_any_mix_of_metadata(tmp_path: Path, kind: str) -> None:
    for seed in range(20):
        source = generated(kind, seed)
        path = pictures.write(tmp_path, source)
        info = probe(path, MAX_PIXELS)
        before = read_embedded(path, info)
        assert any(secret in everything_in(source, info.format) for secret in SECRETS), seed
        out = optimize_file(path, info, never_stop)
        assert out is not None, seed
        assert len(out) < len(source) + MAX_RECORD_BYTES
        assert [secret for secret in SECRETS if secret in everything_in(out, info.format)] == [], seed
        path = pictures.write(tmp_path, out, "out")
        info_after = probe(path, MAX_PIXELS)
        after = read_embedded(path, info_after)
        assert (after.copyright, after.creator, after.alt_text) == (before.copyright, before.creator, before.alt_text)
        assert (after.headline, after.keywords, after.city) == (before.headline, before.keywords, before.city), seed
        assert (info_after.frames, info_after.display_size_px) == (info.frames, info.display_size_px)
        # optimizing the result again finds nothing to remove
        assert optimize_file(path, info_after, never_stop) is None, seed


def test_a_packet_is_read_back_equal() -> None:
    words = xmp.parse(pictures.xmp_packet()).properties
    elements = xmp_fields.published(words, lambda name: str, Disclosure(KeepLocation.ALL, NamePeople.ALL))[0]
    again = xmp.parse(xmp.write(elements)).properties
    for name in words:
        assert xmp.alternatives(again, name) == ([] if xmp_fields.rank(name) is None else xmp.alternatives(words, name))
    odd = "tab\t, line\n, quotes \"' and <&> \x01end"
    for element in (xmp.simple_property(xmp.PHOTOSHOP + "Headline", odd), xmp.array(xmp.DC + "subject", "Bag", [odd])):
        found = xmp.texts(xmp.parse(xmp.write([element])).properties, element.tag)
        assert found == [odd.replace("\x01", "")]
