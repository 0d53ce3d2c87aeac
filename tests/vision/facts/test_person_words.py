"""Descriptions without a model, from the texts of people and from an image of text. Most cases are in the TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.domain.image import EmbeddedMetadata, EmbeddedText, Format, ImageInfo, Pixels
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.result import Translation
from imgproc_local.vision.describer import NO_TEXT, Hints, TextInPicture
from imgproc_local.vision.facts.describer import describe_from_facts
from imgproc_local.vision.facts.pixels import pixel_facts

GREEN = Pixels(40, 50, bytes([30, 90, 40]) * 2000)
INFO = ImageInfo(Format.JPEG, 40, 50)
TEXT_FIELDS = ("alt_text", "extended_description", "description", "headline", "title", "keywords", "event")
OTHER_FIELDS = ("persons", "sublocation", "city", "province", "country", "created", "camera", "creator", "copyright")


def describe(
    case: dict[str, Any], languages: Iterable[str], text_in_picture: TextInPicture = NO_TEXT
) -> dict[str, Translation]:
    fields: dict[str, Any] = {name: case[name] for name in OTHER_FIELDS if name in case}
    for name in TEXT_FIELDS:
        pairs = [entry.partition("|") for entry in case.get(name, ())]
        fields[name] = tuple(EmbeddedText(text, None if tag in ("", "x-default") else tag) for tag, _, text in pairs)
    embedded = EmbeddedMetadata(**fields)
    name = case.get("file", "IMG_0001.jpg")
    facts = pixel_facts(GREEN, INFO, embedded, name)
    project = case.get("project", "API Uploads")
    hints = Hints(embedded, name, project, facts, text_in_picture=text_in_picture)
    described = describe_from_facts(tuple(languages), hints, today=lambda: date(2024, 5, 1))
    return {entry.language_code: entry for entry in described}


def read_cases(path: Path) -> list[Any]:
    """One parameter set per expectation: the case, the requested languages, one of them, and its expected values."""
    parameters = []
    for case in tomllib.loads(path.read_text(encoding="utf-8"))["case"]:
        expected = {code: case.pop(code) for code in list(case) if isinstance(case[code], dict)}
        languages = case["languages"].split() if "languages" in case else list(expected)
        rows = [(case, languages, code, wanted) for code, wanted in expected.items()]
        for text in case.get("dropped", ()):
            rows.append(({"description": [f"en|{text}"]}, ["en"], "en", {"source": "pixels"}))
        for text, alt in [*((text, text) for text in case.get("unchanged", ())), *case.get("cleaned", ())]:
            rows.append(({"description": [f"en|{text}"]}, ["en"], "en", {"alt": alt, "source": "embedded"}))
        for name, beginning in case.get("file_names", ()):
            # a name of fewer than three words is extended by the kind of picture
            exact = beginning.count("-") >= 2
            wanted = {"name": beginning} if exact else {"name_begins": beginning + "-picture"}
            rows.append(({"file": name}, ["en"], "en", wanted))
        for code, name, beginning in case.get("file_names_in", ()):
            rows.append(({"file": name}, [code], code, {"name_begins": beginning}))
        for code, name, alt in case.get("file_captions", ()):
            wanted = {"alt": alt, "source": "facts"} if alt else {"source": "pixels"}
            rows.append(({"file": name}, [code], code, wanted))
        for code, text, name in case.get("names_of_captions", ()):
            rows.append(({"description": [f"{code}|{text}"]}, [code], code, {"name_begins": name}))
        for name in case.get("machine_names", ()):
            rows.append(({"file": name}, ["en"], "en", {"name_begins": "picture"}))
        parameters += [pytest.param(*row, id=f"{case['about'][:60]}-{row[2]}-{n}") for n, row in enumerate(rows)]
    return parameters


@pytest.mark.parametrize(
    ("picture", "languages", "code", "wanted"), read_cases(Path(__file__).with_name("person_words.toml"))
)
def test_a_description_uses_the_texts_of_persons(
    picture: dict[str, Any], languages: list[str], code: str, wanted: dict[str, Any]
) -> None:
    text_in_picture = TextInPicture(
        picture.get("text_in_picture", ""), picture.get("unread_lines", 0), "text_in_picture" in picture
    )
    translation = describe(picture, languages, text_in_picture)[code]
    alt, name = translation.seo_alt_text, translation.seo_filename
    assert alt == wanted.get("alt", alt)
    assert name == wanted.get("name", name)
    assert translation.source.value == wanted.get("source", translation.source.value)
    assert (translation.needs_text_reason or "") == wanted.get("reason", translation.needs_text_reason or "")
    assert name.startswith(wanted.get("name_begins", ""))
    assert all(text in alt for text in wanted.get("alt_has", ())), alt
    assert all(text in name for text in wanted.get("name_has", ())), name
    assert not any(text.lower() in alt.lower() for text in wanted.get("alt_lacks", ())), alt
    assert not any(text in name for text in wanted.get("name_lacks", ())), name
    assert 1 <= len(alt) <= 250


def test_alt_texts_precede_captions_headlines_and_titles() -> None:
    case = {
        field: [f"en|The {field}"] for field in ("alt_text", "extended_description", "description", "headline", "title")
    }
    while case:
        assert describe(case, ["en"])["en"].seo_alt_text == next(iter(case.values()))[0].removeprefix("en|")
        case.pop(next(iter(case)))


def test_names_are_copied_into_every_language() -> None:
    case = {"persons": ("Ada Lovelace",), "event": ["|Great Exhibition"], "sublocation": "Hyde Park", "city": "London"}
    for translation in describe(case | {"country": "England"}, LANGUAGES).values():
        for name in ("Ada Lovelace", "Great Exhibition", "Hyde Park", "London", "England"):
            assert name in translation.seo_alt_text
        assert translation.seo_filename == "ada-lovelace-great-exhibition-hyde-park-london-england"


def test_a_picture_without_texts_gets_a_file_name_in_every_language() -> None:
    for translation in describe({}, LANGUAGES).values():
        assert 2 <= len(translation.seo_filename.split("-")) <= 8
        assert translation.source == "pixels"


POSTER = TextInPicture("Summer Jazz Night: live music by the lake and at the pier", is_image_of_text=True)
CHINESE = TextInPicture("湖边现场演出", is_image_of_text=True)
HOTEL = TextInPicture("Hotel Metropol", is_image_of_text=True)
"""The language of a name is unknown, and only its script is checked."""


@pytest.mark.parametrize(
    ("text_in_picture", "language", "slug"),
    [
        (POSTER, "en", "summer-jazz-night-live-music-"),
        (HOTEL, "de", "hotel-metropol-"),
        (CHINESE, "zh", "hubian-xianchang-yanchu"),
        (POSTER, "de", None),
        (CHINESE, "en", None),
        (CHINESE, "ru", None),
    ],
)
def test_text_of_an_image_of_text_is_its_alt_text_in_this_language_and_quoted_in_others(
    text_in_picture: TextInPicture, language: str, slug: str | None
) -> None:
    translation = describe({}, [language], text_in_picture)[language]
    assert (translation.source, translation.needs_text) == ("facts", slug is None)
    assert text_in_picture.text in translation.seo_alt_text
    assert (translation.seo_alt_text == text_in_picture.text) == (slug is not None)
    assert translation.seo_filename.startswith(slug or "")


def test_a_long_text_in_the_picture_is_shortened_and_a_title_precedes_it() -> None:
    long = TextInPicture("Summer jazz by the lake and music " * 30, is_image_of_text=True)
    assert all(len(text.seo_alt_text) <= 250 for text in describe({}, ["en", "de"], long).values())
    assert "Festival poster" in describe({"title": ["|Festival poster"]}, ["de"], POSTER)["de"].seo_alt_text


def test_a_page_and_a_screenshot_of_text_are_quoted_as_what_they_are() -> None:
    page = TextInPicture("The committee met in the town hall on Monday. " * 8, is_image_of_text=True)
    alt = describe({}, ["en"], page)["en"].seo_alt_text
    assert alt.startswith("“The committee met in the town hall on Monday")
    assert alt.endswith("”: picture.")
    alt = describe({"file": "Screenshot (1).png"}, ["en"], HOTEL)["en"].seo_alt_text
    assert alt == "“Hotel Metropol”: screenshot."
    assert describe({"file": "Screenshot (1).png"}, ["en"], HOTEL)["en"].needs_text_reason == "other_language"


def test_text_in_a_picture_that_shows_more_than_text_is_not_its_alt_text() -> None:
    for text_in_picture in (TextInPicture(), TextInPicture("STOP")):
        assert describe({}, ["en"], text_in_picture) == describe({}, ["en"])
    unread = describe({}, ["en"], TextInPicture(unread_lines=3))["en"]
    assert (unread.source, unread.needs_text_reason) == ("pixels", "unread_text")
