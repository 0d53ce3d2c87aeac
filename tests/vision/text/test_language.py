"""The language of a text is detected if it is certain, and letters are assigned to scripts."""

from __future__ import annotations

import time
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.vision.text.language import detect_language, is_readable
from imgproc_local.vision.text.words import letters_by_script

TABLES = tomllib.loads(Path(__file__).with_name("captions.toml").read_text(encoding="utf-8"))
CAPTIONS = TABLES["caption"]


def test_most_captions_are_recognised_and_hardly_any_is_wrong() -> None:
    detected = [(caption["language"], detect_language(caption["text"])) for caption in CAPTIONS]
    wrong = Counter(pair for pair in detected if pair[1] not in (None, pair[0]))
    # measured: 86 % recognised, one wrong (a Croatian caption taken for Slovenian)
    assert sum(language == found for language, found in detected) >= 0.8 * len(detected)
    assert wrong.total() <= 0.01 * len(detected), wrong


def outcomes(table: str) -> Counter[str]:
    """How many captions of a table are right, wrong (taken for another supported language) and of unknown language."""
    found = [(language, detect_language(text), text) for language, texts in TABLES[table].items() for text in texts]
    wrong = [row for row in found if row[1] != row[0] and row[1] in LANGUAGES]
    return Counter(right=sum(row[0] == row[1] for row in found), wrong=len(wrong), all=len(found))


def test_most_short_captions_in_all_languages_are_recognised() -> None:
    short = outcomes("short")  # measured: 241 of 288 are right, none is wrong
    assert list(TABLES["short"]) == list(LANGUAGES)
    assert (short["all"], short["right"] >= 235, short["wrong"]) == (288, True, 0)


def test_foreign_names_do_not_decide_the_language_of_a_caption() -> None:
    found = outcomes("with_foreign_names")  # measured: 67 of 90 are right
    assert found["right"] >= 64
    # two in which other words of another language occur, too
    assert found["wrong"] <= 2
    english = TABLES["with_foreign_names"]["en"]
    assert sum(detect_language(text) == "en" for text in english) >= 0.75 * len(english)


def test_captions_in_other_languages_and_names_are_not_taken_for_a_supported_language() -> None:
    assert outcomes("unsupported")["wrong"] == 0
    # "Neues Rathaus" is a name, and a correct German caption
    assert outcomes("names")["wrong"] == 1


DETECTED = """
en A red boat in the harbour at dusk
en Market in Nuevo León|en RED BOAT IN THE RAIN|zh 奶奶在揉面|hi खाली कुर्सियाँ|de Boote bei Ebbe
en Sunset over the pier|de Verschneite Hütten am Waldrand|it Tramonto su Roma|ru Котёнок на подоконнике
nb En rød båt i havna ved den gamle byen|en Red boat|ja 東京の夜|ja 東京駅|ja 佐々木さんの家|ja ﾊﾞﾗの庭|zh 红色的船在港口
zh 北京的秋天|zh-hant 臺灣夜市|ko 서울의 밤|he ירושלים בלילה|ar سفينة حمراء في الميناء|fa قایق قرمز در بندر
hi लाल नाव बंदरगाह में है|mr गाव आणि नदी|th เรือสีแดง|el Κόκκινη βάρκα|uk Мамʼяне свято на подвірʼї
"""
UNCERTAIN = """
1|Paris|Sunset|Plaça Reial|Museo del Prado|Cyklister på en bro i regn|Chef Günter Müller in Köln
Kyoto 2023|Lisboa Portugal|Hotel Restaurant Bar|北京|Ада|Die Hard
Le Mans|En passant|La Boca|New York, New York
"""
NOT_SIMILAR = """
hr Devojčica jede hleb i pije mleko|bg Деца играат во градината покрај езерото|ar کودکان در باغ|zh 国立公園の滝
nl Die kinders speel in die tuin met 'n hond|fi Lapsed mängivad suvel aias ja koer jookseb|zh 臺北的夜市與小吃
hi समुद्रकिनारी खेळणारी मुले आणि त्यांचा कुत्रा|nb Børnene leger i haven med en hund og en bold
fr Un chien on the beach avec son ball|ru Дзеці гуляюць у садзе
"""


def rows(table: str) -> list[str]:
    return table.strip().replace("\n", "|").split("|")


@pytest.mark.parametrize("row", rows(DETECTED))
def test_a_certain_language_is_detected(row: str) -> None:
    language, text = row.split(" ", 1)
    assert detect_language(text) == language


@pytest.mark.parametrize("text", ["", *rows(UNCERTAIN)])
def test_the_language_of_short_texts_and_names_is_uncertain(text: str) -> None:
    assert detect_language(text) is None


@pytest.mark.parametrize("row", rows(NOT_SIMILAR))
def test_a_text_is_not_detected_as_a_similar_language(row: str) -> None:
    similar, text = row.split(" ", 1)
    assert detect_language(text) != similar


def test_full_width_half_width_and_presentation_forms_count_for_their_script() -> None:
    for row in ("han 々", "han 〆", "han 𠮷", "kana ﾊﾞﾗ", "latin Ａｂｃ", "arabic ﻣﺮﺣﺒﺎ", "hangul ﾡ"):
        script, text = row.split()
        counts = letters_by_script(text)
        assert counts[script] > 0, row
        assert counts["other"] == 0, row


def test_latin_is_readable_in_every_language_and_other_scripts_in_their_own() -> None:
    assert all(is_readable("Lisbon", code) for code in LANGUAGES)
    assert {code for code in LANGUAGES if is_readable("Вечер", code)} == {"ru", "uk", "bg"}
    assert {code for code in LANGUAGES if is_readable("夕暮れ", code)} == {"ja"}
    assert not is_readable("123", "en")
    assert is_readable("Hawaiʻi", "en")  # the okina has no script


def test_a_long_text_is_not_slower_than_its_beginning() -> None:
    started = time.process_time()
    detect_language("Barn lights over the lake " * 40_000)
    assert time.process_time() - started < 1
