"""The language of a text is detected if it is certain, and letters are assigned to scripts."""

from __future__ import annotations

import subprocess
import sys
import time
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.vision.text.language import detect_language, is_readable, letters_by_script
from imgproc_local.vision.text.ngram_table import probabilities

CAPTIONS = tomllib.loads(Path(__file__).with_name("captions.toml").read_text(encoding="utf-8"))["caption"]


def test_most_captions_are_recognised_and_hardly_any_is_wrong() -> None:
    detected = [(caption["language"], detect_language(caption["text"])) for caption in CAPTIONS]
    wrong = Counter(pair for pair in detected if pair[1] not in (None, pair[0]))
    # measured: 84 % recognised, one wrong (a Croatian caption taken for Slovenian)
    assert sum(language == found for language, found in detected) >= 0.8 * len(detected)
    assert wrong.total() <= 0.01 * len(detected), wrong


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("A red boat in the harbour at dusk", "en"),
        ("Ein rotes Boot im Hafen bei der alten Brücke", "de"),
        ("Un bateau rouge dans le port au crépuscule", "fr"),
        ("Una barca rossa nel porto della città di sera", "it"),
        ("Um barco vermelho no porto da cidade", "pt"),
        ("Een rode boot in de haven van de stad", "nl"),
        ("En röd båt i hamnen vid den gamla staden", "sv"),
        ("Czerwona łódź w porcie o zmierzchu", "pl"),
        ("Černá kočka na střeše", "cs"),
        ("Червен човен у гавані на заході сонця", "uk"),
        ("東京の夜", "ja"),
        ("红色的船在港口", "zh"),
        ("서울의 밤", "ko"),
        ("ירושלים בלילה", "he"),
        ("سفينة حمراء في الميناء", "ar"),
        ("लाल नाव बंदरगाह में है", "hi"),
        ("เรือสีแดง", "th"),
        ("Κόκκινη βάρκα", "el"),
        ("Red boat", "en"),
        ("東京駅", "ja"),
        ("佐々木さんの家", "ja"),
        ("ﾊﾞﾗの庭", "ja"),
        ("北京的秋天", "zh"),
        ("臺灣夜市", "zh-hant"),
        ("Мамʼяне свято на подвірʼї", "uk"),
        ("قایق قرمز در بندر", "fa"),
        ("गाव आणि नदी", "mr"),
    ],
)
def test_a_certain_language_is_detected(text: str, language: str) -> None:
    assert detect_language(text) == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "Paris",
        "Sunset",
        "Kyoto 2023",
        "Lisboa Portugal",
        "Hotel Restaurant Bar",
        "北京",
        "Ада",
        "En rød båt i havna ved den gamle byen",
        "Die Hard",
        "Le Mans",
        "En passant",
        "La Boca",
        "New York, New York",
    ],
)
def test_the_language_of_short_texts_and_names_is_uncertain(text: str) -> None:
    assert detect_language(text) is None


@pytest.mark.parametrize(
    ("text", "similar"),
    [
        ("Devojčica jede hleb i pije mleko", "hr"),
        ("Деца играат во градината покрај езерото", "bg"),
        ("Die kinders speel in die tuin met 'n hond", "nl"),
        ("Lapsed mängivad suvel aias ja koer jookseb", "fi"),
        ("समुद्रकिनारी खेळणारी मुले आणि त्यांचा कुत्रा", "hi"),
        ("Børnene leger i haven med en hund og en bold", "nb"),
        ("Un chien on the beach avec son ball", "fr"),
        ("臺北的夜市與小吃", "zh"),
        ("国立公園の滝", "zh"),
        ("کودکان در باغ", "ar"),
        ("Дзеці гуляюць у садзе", "ru"),
    ],
)
def test_a_text_is_not_detected_as_a_similar_language(text: str, similar: str) -> None:
    assert detect_language(text) != similar


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("々", "han"),
        ("〆", "han"),
        ("𠮷", "han"),
        ("ﾊﾞﾗ", "kana"),
        ("Ａｂｃ", "latin"),
        ("ﻣﺮﺣﺒﺎ", "arabic"),
        ("ﾡ", "hangul"),
    ],
)
def test_full_width_half_width_and_presentation_forms_count_for_their_script(text: str, script: str) -> None:
    counts = letters_by_script(text)
    assert counts[script] > 0
    assert counts["other"] == 0


def test_latin_is_readable_in_every_language_and_other_scripts_in_their_own() -> None:
    assert all(is_readable("Lisbon", code) for code in LANGUAGES)
    assert {code for code in LANGUAGES if is_readable("Вечер", code)} == {"ru", "uk", "bg"}
    assert {code for code in LANGUAGES if is_readable("夕暮れ", code)} == {"ja"}
    assert not is_readable("123", "en")


def test_modifier_apostrophes_are_not_foreign_letters() -> None:
    assert is_readable("Hawaiʻi", "en")


def test_probabilities_sum_to_one_in_both_scripts() -> None:
    for text, script in (("A red boat", "latin"), ("Красная лодка", "cyrillic"), ("", "latin"), ("123", "cyrillic")):
        assert sum(probabilities(text, script).values()) == pytest.approx(1)


def test_a_long_text_is_not_slower_than_its_beginning() -> None:
    started = time.process_time()
    detect_language("Barn lights over the lake " * 40_000)
    assert time.process_time() - started < 1


def test_the_table_is_not_loaded_without_a_text() -> None:
    code = (
        "import imgproc_local.vision.facts.describer, imgproc_local.vision.text.ngram_table as table\n"
        "assert table._classifiers.cache_info().currsize == 0\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
