"""Personal data take their sentence, keyword or file name with them, and other numbers cost no words.

The data are planted in captions, keywords, texts in capitals that were read in a picture, file names and notes for a
model, in 30 languages.
"""

from __future__ import annotations

import re
import time
import tomllib
from pathlib import Path

import pytest

from imgproc_local.domain.alt_text import sentences
from imgproc_local.domain.privacy import MAX_TEXT_CHARACTERS, CleanText, Removed, clean_text
from imgproc_local.vision.describer import ReadLine
from imgproc_local.vision.facts.texts import PictureTexts
from imgproc_local.vision.llm.prompt import picture_notes
from imgproc_local.vision.ocr.lines import text_in_picture
from imgproc_local.vision.text.human_words import filename_number, filename_words, human_text

CAPTIONS = tomllib.loads(Path(__file__).with_name("personal_data.toml").read_text(encoding="utf-8"))
INNOCENT = CAPTIONS["innocent"].strip().split("\n")
PLANTED = [line.split(" | ", 1)[1] for lines in CAPTIONS["planted"].values() for line in lines.strip().split("\n")]
PERSONAL = CAPTIONS["personal"].strip().split("\n") + PLANTED
KINDS = {Removed.CONTACT, Removed.IDENTIFIER, Removed.LOCATION, Removed.PERSON}


@pytest.mark.parametrize("caption", PERSONAL)
def test_personal_data_take_their_sentence_with_them(caption: str) -> None:
    found = clean_text(f"A quiet lake at dusk.\n{caption}\nTwo boats lie there")
    remains = re.fullmatch(r"A quiet lake at dusk\.(.*)Two boats lie there", found.text, re.DOTALL)
    assert remains is not None
    assert remains[1].strip() in ("", *(sentence for sentence in sentences(caption) if not has_digit(sentence)))
    assert found.removed & KINDS


@pytest.mark.parametrize("keyword", PLANTED)
def test_a_keyword_with_personal_data_is_removed(keyword: str) -> None:
    assert not any(character.isdigit() for character in clean_text(keyword).text)


def test_text_in_capitals_that_was_read_in_a_picture_is_without_personal_data() -> None:
    found = {text: read_in_picture("SPRING SALE", text.upper(), "OPEN DAILY") for text in PLANTED}
    assert [text for text, read in found.items() if text.upper() in read] == []


def test_a_file_name_with_personal_data_gives_no_words() -> None:
    names = {re.sub(r"\s+", "_", text).replace("/", "-") + ".jpg" for text in PLANTED}
    assert {name: filename_words(name) for name in names if any(map(has_digit, filename_words(name)))} == {}
    for name in ("patient-erika-muster-geb-12-08-1964-mrt.jpg", "contact_john_+49-176-5550198.jpg"):
        assert filename_words(name) == ()
        assert clean_text(name).text == ""
    for name in ("hauptstrasse-12-79098-freiburg.jpg", "passport-c01x00t47.png", "de89-3704-0044-0532-0130-00.pdf"):
        assert filename_words(name) == ()
    assert {name for name in names if filename_number(name)} == set()
    assert filename_number("P1010042.jpg") == "1010042"


def test_a_sentence_or_a_notice_of_rights_with_an_underscore_is_no_name() -> None:
    assert clean_text("By anna_b. Call 0176 5550198. A boat lies there").text == "By anna_b. A boat lies there"
    assert clean_text("© 2026 anna_b, tel 0176 5550198", keep_sentences=True).text == "© 2026 anna_b"


def test_no_note_to_a_model_has_personal_data() -> None:
    for text in PLANTED:
        notes = picture_notes(PictureTexts(), text, f"{text}\nA quiet lake at dusk")
        assert "A quiet lake at dusk" in notes
        assert text not in notes
        assert "Project" not in notes or not any(map(str.isdigit, notes.partition("Project")[2].partition("\n")[0]))


@pytest.mark.parametrize("caption", INNOCENT)
def test_other_numbers_are_not_personal(caption: str) -> None:
    assert clean_text(f"A quiet lake at dusk.\n{caption}\nTwo boats lie there").removed.isdisjoint(KINDS)


@pytest.mark.parametrize("hours", ["Monday 9:00 to 18:00\nTuesday 9:00 to 17:00", "Mo: 9.00 - 18.00\nDi: 9.00 - 17.00"])
def test_opening_hours_are_words_and_settings_are_data(hours: str) -> None:
    assert clean_text(hours) == CleanText(hours)
    assert clean_text("Temperature: 48.13\nPressure: 1013.25") == CleanText("", frozenset((Removed.COMMENT,)))


def test_the_innocent_sentences_that_long_numbers_cost_are_known() -> None:
    """Nothing tells them from the numbers of persons; with the others they are 6 of 841."""
    lost = CAPTIONS["lost"].strip().split("\n")
    assert len(lost) == 6
    assert [text for text in lost if KINDS.isdisjoint(clean_text(text).removed)] == []


def test_few_words_are_lost_where_letters_have_lost_their_case() -> None:
    capitals = [text for text in INNOCENT if not KINDS.isdisjoint(clean_text(f"SALE\n{text.upper()}\nOPEN").removed)]
    names = [text for text in INNOCENT if not KINDS.isdisjoint(clean_text(re.sub(r"\s+", "_", text)).removed)]
    assert len(capitals) <= 0.02 * len(INNOCENT)
    assert len(names) <= 0.025 * len(INNOCENT)


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


@pytest.mark.parametrize("number", ["48177325", "4817732500", "BE4817732", "C48177325", "481773KA", "No. 481773"])
def test_a_long_number_takes_its_sentence_with_it(number: str) -> None:
    assert clean_text(f"A lake. The file {number} lies there") == CleanText("A lake.", frozenset((Removed.IDENTIFIER,)))


@pytest.mark.parametrize(
    "text",
    ["The lake 20240501", "IMG_20240501 at noon", "EAN 4006381333931", "red-fox-48177325.jpg", "481773 visitors"],
)
def test_a_date_barcode_or_shorter_number_is_no_long_number(text: str) -> None:
    assert clean_text(text) == CleanText(text)


def test_inflected_words_and_compounds_say_what_a_number_is() -> None:
    for text in ("Das Patientenblatt 481773", "Hasłem jest lato77", "Telefoninumero 481 773", "Rekisteritunnus KRT-48"):
        assert clean_text(text).text == ""
    assert clean_text("Birthday party on 12.08.2024").text


def test_streets_are_preserved_on_request_and_famous_addresses_without_a_postcode() -> None:
    text = "Our house. It stands in Hauptstraße 12, 79098 Freiburg"
    assert clean_text(text) == CleanText("Our house.", frozenset((Removed.LOCATION,)))
    assert clean_text(text, keep_streets=True) == CleanText(text)
    assert clean_text("221B Baker Street in fog").removed == frozenset()
    assert clean_text("221B Baker Street, London NW1 6XE").text == ""


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
    assert "35" not in clean_text("灯台 北緯35度39分31秒 東経139度44分44秒").text
    assert clean_text("100 m in 9.58 s") == CleanText("100 m in 9.58 s")
    text = "© 2026 Jane Doe, jane＠doe.example, Tel. 0176 5550198"
    assert clean_text(text, keep_sentences=True) == CleanText("© 2026 Jane Doe", frozenset((Removed.CONTACT,)))
    assert clean_text(text).text == ""


def test_no_alt_text_or_file_name_is_made_of_them() -> None:
    text = "Red kitchen with an island. Contact John at +49 176 5550198 or john@kitchen.example"
    assert human_text(text) == "Red kitchen with an island."
    assert filename_words("Kitchen-Tel_0176-5550198.jpg") == ()
    assert filename_words("IMG_20240501_123456 red kitchen.jpg") == ("red", "kitchen")


@pytest.mark.parametrize(
    "part", ["1 ", "A1 ", "Aa ", "1. ", "Aa 1, ", "12 rue ", "市", "geb ", "Str. ", "<", "A-", "1:", "a_1", "@a."]
)
def test_the_time_to_clean_a_text_grows_with_its_length_only(part: str) -> None:
    clean_text("Tel. 1")
    start = time.process_time()
    clean_text(part * (MAX_TEXT_CHARACTERS // len(part)))
    assert time.process_time() - start < 3


def has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def read_in_picture(*lines: str) -> str:
    return text_in_picture([ReadLine(line, 0.99, 6, 0.1, (0, 0, 1, 0.2), 0.3) for line in lines], "graphic").text
