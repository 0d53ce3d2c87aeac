"""A file says who wrote its alt texts and long descriptions, in a way that a later edit by a person revokes."""

from __future__ import annotations

from pathlib import Path

import pytest

from imgproc_local.codecs.alt_texts import texts_to_write
from imgproc_local.codecs.metadata import text_sources, xmp
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.domain.image import EmbeddedMetadata, EmbeddedText, Format
from imgproc_local.domain.result import TextSource, Translation
from tests.codecs import pictures
from tests.codecs.metadata.test_alt_texts import packet, stored_packet, texts_in, with_packet, written
from tests.codecs.metadata.test_privacy import KINDS, plain
from tests.codecs.operations import to_webp
from tests.codecs.pictures import never_stop
from tests.support.reading import optimize_file, private_kinds, probe, read_embedded

MAX_PIXELS = 10**9
BOAT, BOOT, SHIP = "A red boat on a lake", "Ein rotes Boot auf einem See", "A blue ship in a harbour"
LONG, LANG = "A boat of wood lies at a jetty.", "Ein Boot aus Holz liegt an einem Steg."
TEXTS = [
    Translation("en", "boat", BOAT, TextSource.VISION, None, LONG, "gemma-4-e4b"),
    Translation("de", "boot", BOOT, TextSource.PERSON, None, LANG),
    Translation("fr", "bateau", "« Boat » : image.", TextSource.FACTS),
]


def words(folder: Path, data: bytes) -> EmbeddedMetadata:
    path = pictures.write(folder, data, "read")
    return read_embedded(path, probe(path, MAX_PIXELS))


def read(folder: Path, data: bytes) -> tuple[tuple[EmbeddedText, ...], tuple[EmbeddedText, ...]]:
    """The alt texts of persons and those of a model."""
    embedded = words(folder, data)
    return embedded.alt_text, embedded.model_alt_text


def authors(data: bytes, name: str = xmp.ALT_TEXT) -> dict[str, str]:
    """Who wrote each text of a file, as `SOURCE MODEL`."""
    found = text_sources.authors(xmp.parse(stored_packet(data)).properties, name)
    return {text: f"{author.source} {author.model}".strip() for text, author in found.items()}


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
    assert authors(optimized) == {BOAT: "vision gemma-4-e4b", BOOT: "person"}
    assert authors(optimized, xmp.EXTENDED_DESCRIPTION) == {LONG: "vision gemma-4-e4b", LANG: "person"}
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
    assert authors(data) == {SHIP: "vision", BOOT: "person"}
    confirmed = [Translation("en", "ship", SHIP, TextSource.PERSON)]
    data = written(tmp_path, data, texts_to_write(confirmed))
    assert read(tmp_path, data) == ((EmbeddedText(SHIP, "en"), EmbeddedText(BOOT, "de")), ())
    assert authors(data) == {SHIP: "person", BOOT: "person"}


def test_an_edit_by_another_program_makes_a_text_that_of_a_person(tmp_path: Path) -> None:
    data = written(tmp_path, plain("jpeg"), texts_to_write(TEXTS))
    packet = stored_packet(data).replace(f'"en">{BOAT}'.encode(), f'"en">{SHIP}'.encode())
    with_xmp = FORMATS[Format.JPEG].with_xmp
    assert with_xmp is not None
    people, model = read(tmp_path, with_xmp(data, packet))
    assert EmbeddedText(SHIP, "en") in people
    assert EmbeddedText(SHIP, "en") not in model


def test_a_long_description_is_read_as_what_it_is(tmp_path: Path) -> None:
    found = words(tmp_path, written(tmp_path, plain("jpeg"), texts_to_write(TEXTS)))
    assert found.extended_description == (EmbeddedText(LANG, "de"),)
    assert found.model_extended_description == (EmbeddedText(LONG, "en"),)


LONG_DESCRIPTIONS = [
    # source of the alt text, model, and who wrote the long description
    (TextSource.VISION, "m", "vision m"), (TextSource.EMBEDDED, "m", "vision m"), (TextSource.PERSON, "m", "vision m"),
    (TextSource.EMBEDDED, "", "embedded"), (TextSource.FACTS, "", "embedded"), (TextSource.PERSON, "", "person"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "model", "expected"), LONG_DESCRIPTIONS)
def test_a_long_description_is_the_models_where_a_model_is_named(
    tmp_path: Path, source: TextSource, model: str, expected: str
) -> None:
    data = written(tmp_path, plain("png"), texts_to_write([Translation("en", "boat", BOAT, source, None, LONG, model)]))
    assert authors(data, xmp.EXTENDED_DESCRIPTION) == {LONG: expected}


def test_what_a_file_says_of_a_text_remains_if_the_text_is_written_again(tmp_path: Path) -> None:
    data = written(tmp_path, plain("jpeg"), texts_to_write(TEXTS))
    # without a model, the text is that of the file, and its model is not known
    again = [Translation("en", "boat", BOAT, TextSource.VISION), Translation("de", "boot", BOOT, TextSource.EMBEDDED)]
    assert written(tmp_path, data, texts_to_write(again)) == data
    # a text without a mark is a person's: nothing is added beside it
    own = f"<rdf:Alt><rdf:li xml:lang='en'>{BOAT}</rdf:li></rdf:Alt>"
    unmarked = with_packet(packet(f"<Iptc4xmpCore:AltTextAccessibility>{own}</Iptc4xmpCore:AltTextAccessibility>"))
    assert authors(written(tmp_path, unmarked, texts_to_write([again[0]]))) == {}


MARKS = [
    ("vision {sum}", "vision"), ("vision {sum} ollama:gemma3:4b", "vision ollama:gemma3:4b"),
    ("vision {sum} lmstudio:google/gemma-3-4b", "vision lmstudio:google/gemma-3-4b"),
    ("person {sum}", "person"), ("embedded {sum}", "embedded"), ("facts {sum}", None), ("{sum}", None),
    ("vision 0123456789abcdef", None), ("Vision {sum}", None), ("vision {sum} two words", None),
    ("vision {sum} " + "m" * 101, None), ("vision", None), (" ", None),
]  # fmt: skip


@pytest.mark.parametrize(("mark", "author"), MARKS)
def test_only_a_mark_that_fits_makes_a_text_a_models(tmp_path: Path, mark: str, author: str | None) -> None:
    [(_, fitting)] = text_sources.marks([("en", BOAT)], {BOAT: text_sources.Author(TextSource.VISION)})
    mark = mark.replace("{sum}", fitting.removeprefix("vision "))
    texts = (("Iptc4xmpCore:AltTextAccessibility", BOAT), ("i:AltTextSource", mark))
    inner = "".join(
        f"<{name}><rdf:Alt><rdf:li xml:lang='en'>{text}</rdf:li></rdf:Alt></{name}>" for name, text in texts
    )
    source = with_packet(packet(inner, ' xmlns:i="urn:x-imgproc-local:xmp:"'))
    by_model = (author or "").startswith("vision")
    assert read(tmp_path, source)[by_model] == (EmbeddedText(BOAT, "en"),)
    assert read(tmp_path, source)[not by_model] == ()
    # a result has only marks that fit
    path = pictures.write(tmp_path, source)
    result = to_webp(path, probe(path, MAX_PIXELS), never_stop)
    assert authors(result) == ({BOAT: author} if author else {})
    assert (b"AltTextSource" in result) is (author is not None)


def test_a_text_of_a_model_stays_one_if_private_words_are_removed_from_it(tmp_path: Path) -> None:
    private = f"{BOAT}. Write to someone@example.com for more."
    data = written(tmp_path, plain("jpeg"), texts_to_write([Translation("en", "boat", private, TextSource.VISION)]))
    people, [model] = read(tmp_path, data)
    assert (people, model.text.rstrip(".")) == ((), BOAT)


def test_nothing_says_that_the_picture_itself_is_generated(tmp_path: Path) -> None:
    stored = stored_packet(written(tmp_path, plain("jpeg"), texts_to_write(TEXTS)))
    for name in (
        "AISystemUsed",
        "AISystemVersionUsed",
        "AIPromptInformation",
        "AIPromptWriterName",
        "DigitalSourceType",
    ):
        assert name.encode() not in stored


def test_a_mark_is_no_private_data_even_if_its_digits_are_those_of_a_card(tmp_path: Path) -> None:
    text = "A boat with number 70691"
    data = written(tmp_path, plain("png"), texts_to_write([Translation("en", "boat", text, TextSource.VISION)]))
    assert b"vision 4108770691838032" in stored_packet(data)
    assert words(tmp_path, data).model_alt_text == (EmbeddedText(text, "en"),)
    path = pictures.write(tmp_path, data)
    assert private_kinds(path, probe(path, MAX_PIXELS)) == ()
