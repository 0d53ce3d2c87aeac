"""What grades a model: a good writer gets everything in every language, and nothing is got by accident."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from imgproc_local.domain.errors import ModelUnusable, StageCancelled
from imgproc_local.domain.image import Pixels
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.vision.grading.check import LANGUAGES_AT_ONCE, Result, check, grade, languages_in_claim
from imgproc_local.vision.grading.grade import format_grade
from imgproc_local.vision.grading.probes import AREAS, PROBES
from imgproc_local.vision.llm.llama import Llama
from imgproc_local.vision.llm.prompt import language_prompt
from tests.support import tiny

GOOD = {
    language: dict(zip((probe.name for probe in PROBES), text.strip().splitlines(), strict=True))
    for language, text in tomllib.loads(
        Path(__file__).with_name("probe_texts.toml").read_text(encoding="utf-8")
    ).items()
}
"""By language and probe, what a good model would write."""
FAMILIES = (
    "en de nl",
    "da sv nb",
    "fr es it pt ca ro",
    "pl cs sk sl hr",
    "bg uk ru",
    "fi et",
    "lv lt",
    "ja zh ko",
    "ar he",
)
"""Languages that are taken for one another; English is what models fall back to."""


def go_on() -> None:
    """Nothing asks to stop."""


def unseen(_done: int, _total: int) -> None:
    """Stands where progress would be told."""


def answer(alt_text: str) -> str:
    return json.dumps({"filename": "words-of-a-name", "alt_text": alt_text}, ensure_ascii=False)


def graded(language: str, texts: dict[str, str]) -> Result:
    return grade(language, {probe: answer(text) for probe, text in texts.items()})


def changed(language: str, **texts: str) -> Result:
    """The grade of good texts of which some are others; probes by their names with underscores."""
    return graded(language, GOOD[language] | {name.replace("_", " "): text for name, text in texts.items()})


class Writer:
    """Writes good texts, or what `write_one` gives for a probe and a language, and remembers what it was asked."""

    def __init__(self, write_one: Callable[[str, str], str] | None = None) -> None:
        self._write_one = write_one or (lambda probe, language: answer(GOOD[language][probe]))
        self._languages = {language_prompt(code): code for code in LANGUAGES}
        self._probes = {probe.draw().rgb: probe.name for probe in PROBES}
        self.read_tails: list[list[str]] = []
        self.groups: list[tuple[str, list[str]]] = []
        self.shared: set[str] = set()

    def read(self, image: Pixels, shared: str, tails: Sequence[str], check_stop: Callable[[], None]) -> None:
        check_stop()
        self._probe = self._probes[image.rgb]
        self.shared.add(shared)
        self.read_tails.append(list(tails))

    def write(self, tails: Sequence[str], check_stop: Callable[[], None]) -> list[str]:
        check_stop()
        asked = [self._languages[tail] for tail in tails]
        self.groups.append((self._probe, asked))
        return [self._write_one(self._probe, language) for language in asked]


def test_there_are_good_texts_in_every_language() -> None:
    assert sorted(GOOD) == sorted(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_good_writer_gets_everything(language: str) -> None:
    result = graded(language, GOOD[language])
    assert [text for text in result.texts if text.refused or text.missed] == []
    assert result.share == 1


@pytest.mark.parametrize("language", LANGUAGES)
def test_good_texts_in_english_or_a_related_language_get_nothing(language: str) -> None:
    others = {"en"}.union(*(family.split() for family in FAMILIES if language in family.split())) - {language}
    shares = {other: graded(language, GOOD[other]).share for other in others}
    assert shares == dict.fromkeys(others, 0)


def test_one_text_in_another_language_names_nothing_and_the_others_still_count() -> None:
    result = changed("de", three_yellow_stars=GOOD["en"]["three yellow stars"])
    [refused] = [text for text in result.texts if text.refused]
    assert (refused.probe, refused.missed) == ("three yellow stars", ("yellow", "star", "three"))
    assert 0.8 < result.share < 1


def test_a_short_text_that_the_lint_can_not_place_is_known_by_its_words() -> None:
    result = changed("pl", sign_SALE=GOOD["sl"]["sign SALE"])
    assert [text.refused for text in result.texts if text.refused] == ["its words are Slovenian"]
    assert result.areas["words"] == pytest.approx(2 / 3)


def test_a_refused_text_names_nothing() -> None:
    looping = graded("en", {probe: " ".join([text] * 4) for probe, text in GOOD["en"].items()})
    cut = grade("en", {probe: answer(text)[:-2] for probe, text in GOOD["en"].items()})
    for result in (cut, looping):
        assert all(text.refused for text in result.texts)
        assert result.share == 0


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_same_words_for_both_of_a_pair_tell_no_direction(language: str) -> None:
    pairs = {
        "square left of star": "star left of square",
        "triangle above circle": "circle above triangle",
    }
    texts = {probe: GOOD[language][pairs.get(probe, probe)] for probe in GOOD[language]}
    result = graded(language, texts)
    assert result.areas == dict.fromkeys(AREAS, 1.0) | {"positions": 4 / 6}


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ("A blue square left of a yellow star.", "A yellow star left of a blue square.", True),
        ("A blue square left of a yellow star.", "A blue square right of a yellow star.", True),
        ("Left: a blue square. Right: a yellow star.", "Left: a yellow star. Right: a blue square.", True),
        ("A blue square on the left, a yellow star on the right.", "A blue square right, a yellow star left.", True),
        ("A blue square left of a yellow star.", "A yellow star right of a blue square.", False),
        ("A blue square left of a yellow star.", "A blue square and a yellow star.", False),
        ("A blue square left of a yellow star.", "A star on the left.", False),
    ],
)
def test_a_pair_is_told_apart_by_the_order_or_by_the_side(first: str, second: str, told: bool) -> None:
    result = changed("en", square_left_of_star=first, star_left_of_square=second)
    named = sum(any(side in text.lower() for side in ("left", "right")) for text in (first, second))
    assert result.areas["positions"] == pytest.approx((2 + named + 1 + told) / 6)


def test_each_area_counts_the_same() -> None:
    result = changed("en", sign_SALE="A red sign.", sign_ROOM_42="A blue door sign.")
    assert result.areas["words"] == 0
    assert result.share == pytest.approx(0.8)


def test_each_picture_is_read_once_and_written_about_in_groups_of_ten() -> None:
    writer, told = Writer(), []
    results = check(writer, tuple(LANGUAGES), lambda done, total: told.append((done, total)), go_on)
    assert [(result.language, result.share) for result in results] == [(code, 1.0) for code in LANGUAGES]
    assert len(writer.read_tails) == len(PROBES)
    assert all(len(tails) == LANGUAGES_AT_ONCE for tails in writer.read_tails)
    assert {len(asked) for _, asked in writer.groups} == {10, 6}
    assert told[-1] == (len(PROBES) * len(LANGUAGES),) * 2
    assert told == sorted(told)


def test_the_model_is_told_nothing_of_what_it_sees() -> None:
    writer = Writer()
    check(writer, ("en",), unseen, go_on)
    [shared] = writer.shared
    assert "Noted by its owner" not in shared
    assert not [probe for probe in PROBES if probe.name in shared]


def test_a_language_asked_alone_gets_the_same_grade_as_among_others() -> None:
    def writes(probe: str, language: str) -> str:
        return answer(GOOD[language][probe] if probe != "house" else "…")

    among = check(Writer(writes), ("en", "de", "ja"), unseen, go_on)
    assert [check(Writer(writes), (code,), unseen, go_on)[0] for code in ("en", "de", "ja")] == among


def test_a_stop_is_heeded_and_a_failing_model_is_no_grade() -> None:
    def stop() -> None:
        raise StageCancelled("stopped")

    with pytest.raises(StageCancelled):
        check(Writer(), ("en",), unseen, stop)

    def fails(_probe: str, _language: str) -> str:
        raise ModelUnusable("it failed on this picture")

    with pytest.raises(ModelUnusable):
        check(Writer(fails), ("en",), unseen, go_on)


@pytest.mark.parametrize(
    ("claim", "languages"),
    [
        ("English", ("en",)),
        ("German and English", ("en", "de")),
        ("many", tuple(LANGUAGES)),
        ("140 and more", tuple(LANGUAGES)),
        ("", tuple(LANGUAGES)),
    ],
)
def test_the_languages_that_a_card_names_are_those_checked(claim: str, languages: tuple[str, ...]) -> None:
    assert languages_in_claim(claim) == languages


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1, "A 100 %"),
        (0.85, "A 85 %"),
        (0.8499, "A 85 %"),
        (0.844, "B 84 %"),
        (0.5, "C 50 %"),
        (0.4, "D 40 %"),
        (0, "D 0 %"),
    ],
)
def test_a_grade_is_a_letter_and_the_share(share: float, text: str) -> None:
    assert format_grade(share) == text


def test_the_tiny_model_knows_its_shapes_and_nothing_else() -> None:
    """Through the real llama.cpp: it was trained on two coloured shapes, beside or above each other."""
    llama = Llama(tiny.tiny_model())
    try:
        results = {result.language: result for result in check(llama, ("en", "de", "es"), unseen, go_on)}
    finally:
        llama.close()
    for language in ("en", "de"):
        areas = results[language].areas
        assert min(areas["colours"], areas["positions"]) > 0.8, results[language]
        assert max(areas["counts"], areas["words"], areas["scenes"]) < 0.5, results[language]
    assert results["es"].share == 0, "it never learned Spanish"
