"""The probe pictures show their facts, and the vocabulary of every language has words for them."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.vision.grading import probe_words, probes
from imgproc_local.vision.grading.probes import AREAS, PAIRS, PROBES, SIDE_PX, Probe, ProbePair

COLOURS = {name: getattr(probes, name.upper()) for name in ("red", "green", "blue", "yellow", "black")}
BY_NAME = {probe.name: probe for probe in PROBES}
WORDS = set(probe_words.words("en")) - {"ignore"}


def rgb(probe: Probe) -> NDArray[np.int16]:
    """The pixels of the probe picture, H×W×3."""
    picture = probe.draw()
    assert (picture.width_px, picture.height_px) == (SIDE_PX, SIDE_PX)
    return np.frombuffer(picture.rgb, np.uint8).reshape(SIDE_PX, SIDE_PX, 3).astype(np.int16)


def mask_of(probe: Probe, colour: str) -> NDArray[np.bool_]:
    """Which pixels have approximately that colour, H×W."""
    near: NDArray[np.bool_] = np.abs(rgb(probe) - COLOURS[colour]).max(axis=2) < 40
    return near


def centre(probe: Probe, colour: str) -> tuple[float, float]:
    """The mean position (x, y) of all pixels in that colour."""
    ys, xs = np.nonzero(mask_of(probe, colour))
    return float(xs.mean()), float(ys.mean())


def count_areas(mask: NDArray[np.bool_]) -> int:
    """The number of connected areas of more than 50 pixels in `mask`."""
    picture, count = Image.fromarray(mask), 0
    while len(remaining := np.argwhere(np.asarray(picture))):
        y, x = (int(coordinate) for coordinate in remaining[0])
        ImageDraw.floodfill(picture, (x, y), 0)
        count += len(remaining) - np.count_nonzero(picture) > 50
    return count


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_a_probe_is_drawn_identically_each_time_and_differs_from_all_others(probe: Probe) -> None:
    assert probe.draw() == probe.draw()
    assert [other.name for other in PROBES if other.draw() == probe.draw()] == [probe.name]


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_a_probe_shows_exactly_the_colours_of_its_facts(probe: Probe) -> None:
    named = {word for area, word in probe.facts if area == "colours"} & set(COLOURS)
    if named:
        shown = {colour for colour in COLOURS if mask_of(probe, colour).mean() > 0.01}
        assert shown == named


@pytest.mark.parametrize(
    ("name", "colour", "count"),
    [
        ("red circle", "red", 1),
        ("two green triangles", "green", 2),
        ("three yellow stars", "yellow", 3),
        ("five blue squares", "blue", 5),
    ],
)
def test_a_probe_shows_the_number_of_its_facts(name: str, colour: str, count: int) -> None:
    assert count_areas(mask_of(BY_NAME[name], colour)) == count
    numbers = {"two": 2, "three": 3, "five": 5}
    assert [numbers[word] for area, word in BY_NAME[name].facts if area == "counts"] == [count] * (count > 1)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: "/".join(pair.sides))
def test_a_pair_shows_its_objects_in_opposite_positions(pair: ProbePair) -> None:
    axis = 0 if pair.sides == ("left", "right") else 1
    (one, _), (other, _) = pair.things
    first, second = (BY_NAME[name] for name in pair.probes)
    assert centre(first, one)[axis] < centre(first, other)[axis] - 100
    assert centre(second, other)[axis] < centre(second, one)[axis] - 100
    assert first.facts == second.facts


@pytest.mark.parametrize("name", ["sign SALE", "sign ROOM 42"])
def test_printed_words_are_large_and_complete(name: str) -> None:
    white = np.abs(rgb(BY_NAME[name]) - probes.WHITE).max(axis=2) < 40
    rows, columns = np.nonzero(white.any(axis=1))[0], np.nonzero(white.any(axis=0))[0]
    assert columns[-1] - columns[0] > 0.5 * SIDE_PX
    assert rows[-1] - rows[0] > 0.15 * SIDE_PX
    assert count_areas(white) == sum(len(words) for words in BY_NAME[name].quotes)


def test_every_area_has_facts_and_every_fact_is_in_the_vocabulary() -> None:
    assert {area for probe in PROBES for area, _ in probe.facts} | {"words"} == set(AREAS)
    assert {word for probe in PROBES for _, listed in probe.facts for word in listed.split("/")} <= WORDS
    assert {word for pair in PAIRS for thing in pair.things for word in thing} <= WORDS


def test_every_supported_language_has_every_word() -> None:
    assert probe_words.languages() == tuple(LANGUAGES)
    for language in LANGUAGES:
        listed = probe_words.words(language)
        assert set(listed) - {"ignore"} == WORDS, language
        assert all(entry.strip("*. ") for entries in listed.values() for entry in entries), language


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_s_words_are_in_one_script_and_normalised(language: str) -> None:
    text = " ".join(entry for entries in probe_words.words(language).values() for entry in entries)
    scripts = {unicodedata.name(char).split()[0].split("-")[0] for char in text if char.isalpha()}
    assert scripts == {"CJK", "HIRAGANA", "KATAKANA"} if language == "ja" else len(scripts) == 1, scripts
    assert unicodedata.is_normalized("NFC", text.replace("ड़", "").replace("फ़", "").replace("ज़", ""))


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_for_different_facts_have_no_entry_in_common(language: str) -> None:
    listed = probe_words.words(language)
    for group in (("left", "right"), ("above", "below"), ("two", "three", "five"), ("red", "green", "blue", "yellow")):
        for one, other in pairwise(group):
            assert not set(listed[one]) & set(listed[other]), (one, other)


@pytest.mark.parametrize(
    ("text", "word", "language"),
    [
        ("Ein ROTER Kreis", "red", "de"),
        ("Hellrote Fläche", "red", "de"),
        ("Zwei Laubbäume", "tree", "de"),
        ("Un triangle rouge au-dessus d’un rond", "above", "fr"),
        ("KIRMIZI DAİRE, İki yıldız", "two", "tr"),
        ("П’ять синіх квадратів", "five", "uk"),
        ("والدائرة الحمراء", "red", "ar"),
        ("והבית האדום", "house", "he"),
        ("٣ نجوم", "three", "ar"),
        ("३ तारे", "three", "hi"),
        ("３つの星", "three", "ja"),
        ("3 stars", "three", "en"),
        ("星形が3つ", "star", "ja"),
        ("cafe\u0301 et carre\u0301", "square", "fr"),
        ("สามเหลี่ยม", "triangle", "th"),
    ],
)
def test_a_word_is_found_in_every_inflection(text: str, word: str, language: str) -> None:
    assert probe_words.find_word(text, word, language) is not None


@pytest.mark.parametrize(
    ("text", "word", "language"),
    [
        ("Ein Rechteck", "right", "de"),
        ("Ein Dreieck", "three", "de"),
        ("A hundred credits", "red", "en"),
        ("Room 42", "two", "en"),
        ("Círculo sobre fondo blanco", "above", "es"),
        ("un trait vertical", "green", "fr"),
        ("赤い三角", "three", "ja"),
        ("สี่เหลี่ยมสีน้ำเงิน", "water", "th"),
        ("Біля дому", "white", "uk"),
        ("שלושה אדומים", "water", "he"),
        ("왼쪽에 위치한 원", "above", "ko"),
    ],
)
def test_a_word_inside_another_is_not_found(text: str, word: str, language: str) -> None:
    assert probe_words.find_word(text, word, language) is None


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("Schild „SALE“", True),
        ("Sale!", True),
        ("“SALE”라고", True),
        ("「ＳＡＬＥ」と", True),
        ("wholesale", False),
        ("sales", False),
    ],
)
def test_a_quote_must_be_complete_and_may_have_any_case(text: str, quoted: bool) -> None:
    assert probe_words.contains_quote(text, "SALE") is quoted
