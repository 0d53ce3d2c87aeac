"""A file says which of its alt texts a vision model wrote, in a way that a later edit by a person revokes."""

from __future__ import annotations

from pathlib import Path

import pytest

from imgproc_local.codecs.alt_texts import texts_to_write
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.domain.image import EmbeddedText, Format
from imgproc_local.domain.result import TextSource, Translation
from tests.codecs import pictures
from tests.codecs.metadata.test_alt_texts import stored_packet, texts_in, written
from tests.codecs.metadata.test_privacy import KINDS, plain
from tests.codecs.operations import to_webp
from tests.codecs.pictures import never_stop
from tests.support.reading import optimize_file, private_kinds, probe, read_embedded

MAX_PIXELS = 10**9
BOAT, BOOT, SHIP = "A red boat on a lake", "Ein rotes Boot auf einem See", "A blue ship in a harbour"
TEXTS = [
    Translation("en", "boat", BOAT, TextSource.VISION),
    Translation("de", "boot", BOOT, TextSource.PERSON),
    Translation("fr", "bateau", "« Boat » : image.", TextSource.FACTS),
]


def read(folder: Path, data: bytes) -> tuple[tuple[EmbeddedText, ...], tuple[EmbeddedText, ...]]:
    """The alt texts of persons and those of a model."""
    path = pictures.write(folder, data, "read")
    embedded = read_embedded(path, probe(path, MAX_PIXELS))
    return embedded.alt_text, embedded.model_alt_text


@pytest.mark.parametrize("kind", KINDS)
def test_the_source_of_a_text_survives_cleaning_in_every_format(tmp_path: Path, kind: str) -> None:
    expected = ((EmbeddedText(BOOT, "de"),), (EmbeddedText(BOAT, "en"),))
    gps = pictures.segment(0xE1, b"Exif\0\0" + pictures.compact_tiff({}, 1, {"gps": pictures.GPS_RATIONAL}))
    source = plain(kind) if kind != "jpeg" else plain(kind)[:2] + gps + plain(kind)[2:]
    data = written(tmp_path, source, texts_to_write(TEXTS))
    assert read(tmp_path, data) == expected
    path = pictures.write(tmp_path, data)
    optimized = optimize_file(path, probe(path, MAX_PIXELS), never_stop) or data
    assert read(tmp_path, optimized) == expected
    path = pictures.write(tmp_path, optimized)
    assert private_kinds(path, probe(path, MAX_PIXELS)) == ()
    assert optimize_file(path, probe(path, MAX_PIXELS), never_stop) is None
    if kind in ("jpeg", "png"):
        assert read(tmp_path, to_webp(path, probe(path, MAX_PIXELS), never_stop)) == expected


def test_a_model_replaces_its_own_text_and_not_that_of_a_person(tmp_path: Path) -> None:
    data = written(tmp_path, plain("jpeg"), texts_to_write(TEXTS))
    anew = [
        Translation("en", "ship", SHIP, TextSource.VISION),
        Translation("de", "schiff", "Schiff", TextSource.VISION),
    ]
    data = written(tmp_path, data, texts_to_write(anew))
    assert texts_in(stored_packet(data)) == {"x-default": SHIP, "en": SHIP, "de": BOOT}
    assert read(tmp_path, data) == ((EmbeddedText(BOOT, "de"),), (EmbeddedText(SHIP, "en"),))
    confirmed = [Translation("en", "ship", SHIP, TextSource.PERSON)]
    data = written(tmp_path, data, texts_to_write(confirmed))
    assert read(tmp_path, data) == ((EmbeddedText(SHIP, "en"), EmbeddedText(BOOT, "de")), ())


def test_an_edit_by_another_program_makes_a_text_that_of_a_person(tmp_path: Path) -> None:
    data = written(tmp_path, plain("jpeg"), texts_to_write(TEXTS))
    packet = stored_packet(data).replace(f'"en">{BOAT}'.encode(), f'"en">{SHIP}'.encode())
    with_xmp = FORMATS[Format.JPEG].with_xmp
    assert with_xmp is not None
    people, model = read(tmp_path, with_xmp(data, packet))
    assert EmbeddedText(SHIP, "en") in people
    assert EmbeddedText(SHIP, "en") not in model
