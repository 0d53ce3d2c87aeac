"""A sentence with an e-mail address or a personal number is left out, and other numbers cost no words."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from imgproc_local.domain.privacy import CleanText, Removed, clean_text
from imgproc_local.vision.text.human_words import filename_words, human_text

CAPTIONS = tomllib.loads(Path(__file__).with_name("numbers.toml").read_text(encoding="utf-8"))
PERSONAL = {Removed.CONTACT, Removed.IDENTIFIER}


@pytest.mark.parametrize("caption", CAPTIONS["personal"].strip().split("\n"))
def test_a_personal_number_takes_its_sentence_with_it(caption: str) -> None:
    found = clean_text(f"A quiet lake at dusk.\n{caption}\nTwo boats lie there")
    assert found.text.startswith("A quiet lake at dusk.")
    assert found.text.endswith("Two boats lie there")
    assert not any(character.isdigit() for character in found.text)
    assert found.removed & PERSONAL


@pytest.mark.parametrize("caption", CAPTIONS["innocent"].strip().split("\n"))
def test_other_numbers_are_not_personal(caption: str) -> None:
    assert clean_text(f"A quiet lake at dusk.\n{caption}\nTwo boats lie there").removed.isdisjoint(PERSONAL)


@pytest.mark.parametrize(
    "address",
    ["jane@example.com", "jane＠example．com", "jane @ example.com", "jane at example.com", "jane at example dot com"],
)
def test_an_email_address_takes_its_sentence_with_it(address: str) -> None:
    expected = CleanText("A quiet lake.", frozenset((Removed.CONTACT,)))
    assert clean_text(f"A quiet lake. Write to {address} or come by.") == expected
    assert clean_text(f"Write to {address} or come by") == CleanText("", frozenset((Removed.CONTACT,)))
    for text in ("More photos at example.com", "Sunset at St.Pauli", "A router at 192.168.0.1"):
        assert clean_text(text) == CleanText(text)


@pytest.mark.parametrize(
    ("text", "remaining"),
    [
        ("Call John at 0176 5550198. Sgt. Pepper came at 5 p.m. in 1967.", "Sgt. Pepper came at 5 p.m. in 1967."),
        ("红船。电话：010-65139876。夜晚！", "红船。夜晚！"),
        ("नाव पर लोग। फोन 98765 40123। रात।", "नाव पर लोग। रात।"),
        ("قارب؟ هاتف 0501239876؟ ليل", "قارب؟ ليل"),
        ("Boat for sale\nTel.\n0351 4567890\nin the harbour", "Boat for sale\n\nin the harbour"),
        ("<p>Boat for sale</p><p>Tel. <b>0351 4567890</b></p>", "<p>Boat for sale</p><p></p>"),
        ("Two calls: 0176 5550198 / 0176 5550199. A boat", "A boat"),
    ],
)  # fmt: skip
def test_sentences_end_as_in_their_script(text: str, remaining: str) -> None:
    assert clean_text(text) == CleanText(remaining, frozenset((Removed.CONTACT,)))


def test_a_position_takes_only_itself_away_and_a_notice_of_rights_still_names_the_owner() -> None:
    found = clean_text("Sunset at lat 48.1371 lon 11.5754 behind the church")
    assert found == CleanText("Sunset at behind the church", frozenset((Removed.GPS,)))
    text = "© 2026 Jane Doe, jane＠doe.example, Tel. 0176 5550198"
    assert clean_text(text, keep_sentences=True) == CleanText("© 2026 Jane Doe", frozenset((Removed.CONTACT,)))
    assert clean_text(text).text == ""


def test_no_alt_text_or_file_name_is_made_of_them() -> None:
    text = "Red kitchen with an island. Contact John at +49 176 5550198 or john@kitchen.example"
    assert human_text(text) == "Red kitchen with an island."
    assert filename_words("Kitchen-Tel_0176-5550198.jpg") == ()
    assert filename_words("IMG_20240501_123456 red kitchen.jpg") == ("red", "kitchen")
