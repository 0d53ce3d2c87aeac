"""Descriptions from the texts that people wrote about a picture. The cases are in `person_words.toml`."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.domain.image import EmbeddedMetadata, EmbeddedText, Format, ImageInfo, Pixels
from imgproc_local.domain.result import Translation
from imgproc_local.vision.describer import Hints
from imgproc_local.vision.facts.describer import FactsDescriber
from imgproc_local.vision.facts.pixels import pixel_facts

GREEN = Pixels(40, 50, bytes([30, 90, 40]) * 2000)
INFO = ImageInfo(Format.JPEG, 40, 50)
TEXT_FIELDS = ("alt_text", "extended_description", "description", "headline", "title", "keywords", "event")
OTHER_FIELDS = ("persons", "sublocation", "city", "province", "country", "created", "camera")


def describe(case: dict[str, Any], languages: list[str]) -> dict[str, Translation]:
    fields: dict[str, Any] = {}
    for name in TEXT_FIELDS:
        pairs = [entry.partition("|") for entry in case.get(name, ())]
        fields[name] = tuple(EmbeddedText(text, None if tag in ("", "x-default") else tag) for tag, _, text in pairs)
    fields |= {name: case[name] for name in OTHER_FIELDS if name in case}
    fields["persons"] = tuple(fields.get("persons", ()))
    embedded = EmbeddedMetadata(**fields)
    name = case.get("file", "IMG_0001.jpg")
    facts = pixel_facts(GREEN, INFO, embedded, name)
    hints = Hints(INFO, embedded, name, project_name=case.get("project", "API Uploads"), facts=facts)
    describer = FactsDescriber(today=lambda: date(2024, 5, 1))
    return {entry.language_code: entry for entry in describer.describe(GREEN, languages, hints, lambda: None)}


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
    translation = describe(picture, languages)[code]
    alt, name = translation.seo_alt_text, translation.seo_filename
    assert alt == wanted.get("alt", alt)
    assert name == wanted.get("name", name)
    assert translation.source.value == wanted.get("source", translation.source.value)
    assert name.startswith(wanted.get("name_begins", ""))
    assert all(text in alt for text in wanted.get("alt_has", ())), alt
    assert all(text in name for text in wanted.get("name_has", ())), name
    assert not any(text.lower() in alt.lower() for text in wanted.get("alt_lacks", ())), alt
    assert not any(text in name for text in wanted.get("name_lacks", ())), name
    assert 1 <= len(alt) <= 250
