"""No planted secret is in any output, text or file name, and texts and rights that people wrote are preserved.

Each source has every secret that its format can hold. Outputs are searched for the secrets in all text encodings.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from imgproc_local.codecs.alt_texts import texts_to_write, write_alt_texts
from imgproc_local.codecs.container import avif as avif_container
from imgproc_local.codecs.container import png as png_container
from imgproc_local.domain.image import Disclosure, Format, KeepLocation, Kept
from imgproc_local.domain.result import TextSource, Translation
from imgproc_local.vision.describer import Hints
from imgproc_local.vision.facts.describer import describe_from_facts
from tests.codecs import pictures
from tests.codecs.metadata.planted import (
    ALT_TEXT,
    CAPTION,
    CITY,
    COPYRIGHT,
    CREATOR,
    FORMATS,
    NEEDLES,
    TITLE,
    escaped,
    secret,
    source,
)
from tests.codecs.operations import CONVERT, read_blocks, to_webp, whole
from tests.codecs.pictures import never_stop
from tests.support.reading import BY_DEFAULT, optimize_file, private_kinds, probe, read_embedded

MAX_PIXELS = 10**9


def searchable(data: bytes, name: str) -> bytes:
    """The bytes of the file, followed by its compressed and its hexadecimal data, decoded."""
    file_format = Format[name]
    blocks = read_blocks(data, file_format)
    parts = [data, *(block for block in (blocks.exif, blocks.xmp, blocks.iptc, blocks.icc) if block)]
    parts += [text.text.encode() for text in blocks.texts]
    if file_format is Format.PNG:
        for chunk in png_container.chunks(data):
            if chunk.kind in (b"zTXt", b"iTXt"):
                payload = data[chunk.payload : chunk.end]
                for at in range(len(payload)):
                    if payload[at : at + 1] == b"x":
                        stream = zlib.decompressobj()
                        try:
                            parts.append(stream.decompress(payload[at:], 10**6))
                        except zlib.error:
                            continue
    if file_format is Format.AVIF:
        parts += [data[box.body : box.end] for box in avif_container.boxes(data, 0, len(data))]
    if file_format is Format.GIF:
        parts += [text.text.encode() for text in blocks.texts]
    return b"\n".join(parts)


def encodings(needle: str) -> Iterator[bytes]:
    for encoding in ("utf-8", "utf-16-le", "utf-16-be", "latin-1"):
        yield needle.encode(encoding)
    yield needle.encode().hex().encode()
    for shift in range(3):
        # the first and the last Base64 digits depend on the bytes before and after the needle
        digits = base64.b64encode(b"\0" * shift + needle.encode())[4:-4]
        if len(digits) >= 8:  # four digits, as of "12.500456", are in random identifiers by chance
            yield digits


def found_in(haystack: bytes) -> list[str]:
    plain = haystack.lower()
    return [needle for needle in NEEDLES if any(raw.lower() in plain for raw in encodings(needle) if len(raw) > 3)]


def texts_of(folder: Path, data: bytes, disclosure: Disclosure = BY_DEFAULT) -> str:
    """The alt texts and file names that the describer without a model writes, one per line."""
    return "\n".join(f"{each.seo_alt_text}\n{each.seo_filename}" for each in described(folder, data, disclosure))


def described(folder: Path, data: bytes, disclosure: Disclosure = BY_DEFAULT) -> tuple[Translation, ...]:
    path = pictures.write(folder, data, "described")
    info = probe(path, MAX_PIXELS)
    embedded = read_embedded(path, info, disclosure)
    hints = Hints(embedded=embedded, original_filename="mail.one@private.example 61.0101, -1.0101.jpg")
    return tuple(describe_from_facts(("en", "de", "fr", "zh"), hints))


def with_texts(folder: Path, result: bytes, source_name: str) -> bytes:
    """A result into which the texts of its source are written."""
    path = pictures.write(folder, result, "result")
    texts = [
        replace(text, source=TextSource.VISION, needs_text_reason=None)
        for text in described(folder, source(source_name))
    ]
    out = write_alt_texts(path, probe(path, MAX_PIXELS), texts_to_write(texts), never_stop)
    assert all(escaped(text.seo_alt_text).encode() in out for text in texts)
    return out


def test_enough_secrets_are_planted_and_the_search_finds_them() -> None:
    assert len(set(NEEDLES)) == len(NEEDLES) >= 150
    for name in FORMATS:
        assert len(found_in(searchable(source(name), name))) >= 60, name


@pytest.mark.parametrize("name", FORMATS)
def test_no_secret_is_found_in_an_optimized_file(tmp_path: Path, name: str) -> None:
    path = pictures.write(tmp_path, source(name))
    out = optimize_file(path, probe(path, MAX_PIXELS), never_stop)
    assert out is not None
    out = with_texts(tmp_path, out, name)
    path = pictures.write(tmp_path, out)
    assert private_kinds(path, probe(path, MAX_PIXELS)) == ()
    assert found_in(searchable(out, name)) == []
    assert pictures.GPS_RATIONAL not in out
    words = searchable(out, name)
    for preserved in (CREATOR, COPYRIGHT, TITLE, ALT_TEXT, CAPTION, CITY, "from the pier"):
        assert preserved.encode() in words, preserved


@pytest.mark.parametrize("target", ["WEBP", "AVIF"])
@pytest.mark.parametrize("name", ["JPEG", "PNG", "GIF", "WEBP"])
def test_no_secret_is_found_in_a_converted_file(tmp_path: Path, name: str, target: str) -> None:
    path = pictures.write(tmp_path, source(name))
    out = with_texts(tmp_path, CONVERT[target](path, probe(path, MAX_PIXELS), never_stop), name)
    path = pictures.write(tmp_path, out)
    assert private_kinds(path, probe(path, MAX_PIXELS)) == ()
    assert found_in(searchable(out, target)) == []
    assert pictures.GPS_RATIONAL not in out
    for preserved in (CREATOR, COPYRIGHT, TITLE, ALT_TEXT, CAPTION, CITY, "from the pier"):
        assert preserved.encode() in out, preserved


@pytest.mark.parametrize("name", FORMATS)
def test_no_secret_is_found_in_texts_and_file_names(tmp_path: Path, name: str) -> None:
    texts = texts_of(tmp_path, source(name))
    found = found_in(texts.encode())
    # a file name would have the letters and digits of a secret without its punctuation
    letters = "".join(filter(str.isalnum, texts.casefold()))
    found += [
        needle for needle in NEEDLES if len(needle) > 6 and "".join(filter(str.isalnum, needle.casefold())) in letters
    ]
    assert found == []
    assert ALT_TEXT in texts


@pytest.mark.parametrize(
    ("keep_location", "city", "street"),
    [(KeepLocation.NONE, False, False), (KeepLocation.CITY, True, False), (KeepLocation.ALL, True, True)],
)
def test_the_setting_decides_which_place_names_are_preserved(
    tmp_path: Path, keep_location: KeepLocation, city: bool, street: bool
) -> None:
    streets = {secret("Iptc4xmpCoreLocation"), secret("Sublocation"), secret("LocationName"), secret("CiAdrExtadr")}
    path = pictures.write(tmp_path, source("JPEG"))
    info = probe(path, MAX_PIXELS)
    for data, name in (
        (optimize_file(path, info, never_stop, disclosure=Disclosure(keep_location)), "JPEG"),
        (to_webp(path, info, never_stop, disclosure=Disclosure(keep_location)), "WEBP"),
    ):
        assert data is not None
        found = set(found_in(searchable(data, name)))
        assert (streets <= found) is street
        assert (
            not found
            - streets
            - {secret(each) for each in ("CiAdrPcode", "LicensorStreetAddress", "Iptc92")}
            - {secret("LicensorPostalCode")}
        )
        assert (CITY.encode() in data) is city
    embedded = read_embedded(path, info, Disclosure(keep_location))
    assert (embedded.city is not None, embedded.sublocation is not None) == (city, street)


@pytest.mark.parametrize("name", FORMATS)
def test_with_every_setting_that_keeps_fields_only_their_secrets_are_found(tmp_path: Path, name: str) -> None:
    disclosure = Disclosure(kept=frozenset(Kept))
    path = pictures.write(tmp_path, source(name))
    out = whole(optimize_file(path, probe(path, MAX_PIXELS), never_stop, disclosure=disclosure))
    in_exif = set() if name == "GIF" else {secret("A434")}
    assert set(found_in(searchable(out, name))) == {secret("tiffMake"), secret("xmpLabel")} | in_exif
    result = pictures.write(tmp_path, out)
    assert private_kinds(result, probe(result, MAX_PIXELS), disclosure) == ()
