"""Grading a model: good texts get the full share in every language, and wrong texts get none by accident."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from imgproc_local.domain.errors import ModelUnusable, StageCancelled
from imgproc_local.domain.image import Pixels
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.stop import CheckStop
from imgproc_local.vision.grading.check import (
    LANGUAGES_PER_BATCH,
    LanguageResult,
    check_model,
    grade_language,
    languages_in_claim,
)
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
"""Alt texts as a good model writes them, by language and probe."""
RELATED_LANGUAGES = (
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
"""Groups of languages that a model may confuse. It may also answer in English."""


def never_stop() -> None:
    """A check_stop that never raises."""


def ignore_progress(_done: int, _total: int) -> None:
    """A progress callback that does nothing."""


def answer(alt_text: str) -> str:
    """The JSON of an answer."""
    return json.dumps({"filename": "words-of-a-name", "alt_text": alt_text}, ensure_ascii=False)


def graded(language: str, texts: dict[str, str]) -> LanguageResult:
    """The result for `texts` by the names of their probes."""
    return grade_language(language, {probe: answer(text) for probe, text in texts.items()})


def graded_with(language: str, **texts: str) -> LanguageResult:
    """The result for the good texts, some of them replaced: underscores in names of probes stand for spaces."""
    return graded(language, GOOD[language] | {name.replace("_", " "): text for name, text in texts.items()})


class FakeModel:
    """A model that answers with good texts, or with `write_one(probe, language)`.

    It records the suffixes of each `prefill`, the probe and languages of each `generate`, and the shared prompts.
    """

    def __init__(self, write_one: Callable[[str, str], str] | None = None) -> None:
        self._write_one = write_one or (lambda probe, language: answer(GOOD[language][probe]))
        self._languages = {language_prompt(code): code for code in LANGUAGES}
        self.drafts: set[str] = set()
        self._probes = {probe.draw().rgb: probe.name for probe in PROBES}
        self.prefilled: list[list[str]] = []
        self.groups: list[tuple[str, list[str]]] = []
        self.notes: set[str] = set()

    def prefill(self, image: Pixels, notes: str, suffixes: Sequence[str], check_stop: CheckStop) -> None:
        check_stop()
        self._probe = self._probes[image.rgb]
        self.notes.add(notes)
        self.prefilled.append(list(suffixes))

    def generate(self, suffixes: Sequence[str], check_stop: CheckStop) -> list[str]:
        check_stop()
        requested = [self._languages[suffix.splitlines()[-1]] for suffix in suffixes]
        self.drafts.update("\n".join(suffix.splitlines()[:-1]) for suffix in suffixes)
        self.groups.append((self._probe, requested))
        return [self._write_one(self._probe, language) for language in requested]


def test_there_are_good_texts_in_every_language() -> None:
    assert sorted(GOOD) == sorted(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_good_texts_get_the_full_share(language: str) -> None:
    result = graded(language, GOOD[language])
    assert [text for text in result.texts if text.rejection or text.missed] == []
    assert result.share == 1


@pytest.mark.parametrize("language", LANGUAGES)
def test_good_texts_in_a_related_language_or_english_get_nothing(language: str) -> None:
    others = {"en"}.union(*(group.split() for group in RELATED_LANGUAGES if language in group.split())) - {language}
    shares = {other: graded(language, GOOD[other]).share for other in others}
    assert shares == dict.fromkeys(others, 0)


def test_a_single_text_in_another_language_counts_as_empty() -> None:
    result = graded_with("de", three_yellow_stars=GOOD["en"]["three yellow stars"])
    [rejected] = [text for text in result.texts if text.rejection]
    assert (rejected.probe, rejected.missed) == ("three yellow stars", ("yellow", "star", "three"))
    assert 0.8 < result.share < 1


def test_the_language_of_a_short_text_is_detected() -> None:
    result = graded_with("pl", sign_SALE=GOOD["sl"]["sign SALE"])
    assert [text.rejection for text in result.texts if text.rejection] == ["it was not in Polish"]
    assert result.areas["words"] == pytest.approx(2 / 3)


def test_a_text_that_the_lint_rejects_counts_as_empty() -> None:
    repetitive = graded("en", {probe: " ".join([text] * 4) for probe, text in GOOD["en"].items()})
    incomplete = grade_language("en", {probe: answer(text)[:-2] for probe, text in GOOD["en"].items()})
    for result in (incomplete, repetitive):
        assert all(text.rejection for text in result.texts)
        assert result.share == 0


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_same_text_for_both_probes_of_a_pair_does_not_distinguish_them(language: str) -> None:
    pairs = {
        "square left of star": "star left of square",
        "triangle above circle": "circle above triangle",
    }
    texts = {probe: GOOD[language][pairs.get(probe, probe)] for probe in GOOD[language]}
    result = graded(language, texts)
    assert result.areas == dict.fromkeys(AREAS, 1.0) | {"positions": 4 / 6}


@pytest.mark.parametrize(
    ("first", "second", "distinguished"),
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
def test_a_pair_is_distinguished_by_the_order_or_by_the_side(first: str, second: str, distinguished: bool) -> None:
    result = graded_with("en", square_left_of_star=first, star_left_of_square=second)
    named = sum(any(side in text.lower() for side in ("left", "right")) for text in (first, second))
    assert result.areas["positions"] == pytest.approx((2 + named + 1 + distinguished) / 6)


def test_all_areas_have_the_same_weight() -> None:
    result = graded_with("en", sign_SALE="A red sign.", sign_ROOM_42="A blue door sign.")
    assert result.areas["words"] == 0
    assert result.share == pytest.approx(0.8)


def test_each_picture_is_processed_once_and_described_in_batches_of_ten() -> None:
    model, progress = FakeModel(), []
    results = check_model(model, tuple(LANGUAGES), lambda done, total: progress.append((done, total)), never_stop)
    assert [(result.language, result.share) for result in results] == [(code, 1.0) for code in LANGUAGES]
    assert len(model.prefilled) == len(PROBES)
    assert all(len(suffixes) == LANGUAGES_PER_BATCH for suffixes in model.prefilled)
    assert {len(requested) for _, requested in model.groups} == {1, 9, 10, 6}
    assert progress[-1] == (len(PROBES) * len(LANGUAGES),) * 2
    assert progress == sorted(progress)


def test_an_accepted_english_text_is_in_the_prompt_of_the_other_languages() -> None:
    model = FakeModel(lambda probe, language: answer(GOOD[language][probe] if probe != "house" else "…"))
    check_model(model, ("de",), ignore_progress, never_stop)
    assert [requested for _, requested in model.groups[:2]] == [["en"], ["de"]]
    drafts = [text for text in GOOD["en"].values() if any(text in draft for draft in model.drafts)]
    assert drafts == [text for probe, text in GOOD["en"].items() if probe != "house"]
    assert "" in model.drafts


def test_the_prompt_does_not_reveal_the_content() -> None:
    model = FakeModel()
    check_model(model, ("en",), ignore_progress, never_stop)
    [shared] = model.notes
    assert "Noted by its owner" not in shared
    assert not [probe for probe in PROBES if probe.name in shared]


def test_a_language_gets_the_same_share_alone_and_among_others() -> None:
    def writes(probe: str, language: str) -> str:
        return answer(GOOD[language][probe] if probe != "house" else "…")

    among = check_model(FakeModel(writes), ("en", "de", "ja"), ignore_progress, never_stop)
    assert [
        check_model(FakeModel(writes), (code,), ignore_progress, never_stop)[0] for code in ("en", "de", "ja")
    ] == among


def test_a_stop_or_a_failing_model_ends_the_check() -> None:
    def stop() -> None:
        raise StageCancelled("stopped")

    with pytest.raises(StageCancelled):
        check_model(FakeModel(), ("en",), ignore_progress, stop)

    def fails(_probe: str, _language: str) -> str:
        raise ModelUnusable("it failed on this picture")

    with pytest.raises(ModelUnusable):
        check_model(FakeModel(fails), ("en",), ignore_progress, never_stop)


@pytest.mark.parametrize(
    ("claim", "languages"),
    [
        ("English", ("en",)),
        ("German and English", ("en", "de")),
        ("Portuguese", ("pt",)),
        ("many", tuple(LANGUAGES)),
        ("140 and more", tuple(LANGUAGES)),
        ("", tuple(LANGUAGES)),
    ],
)
def test_the_languages_in_the_claim_of_a_card_are_recognised(claim: str, languages: tuple[str, ...]) -> None:
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
def test_a_grade_is_a_letter_and_a_percentage(share: float, text: str) -> None:
    assert format_grade(share) == text


def test_the_tiny_model_knows_its_shapes_and_nothing_else() -> None:
    """Through the real llama.cpp: it was trained on two coloured shapes, beside or above each other."""
    llama = Llama(tiny.tiny_model())
    try:
        results = {
            result.language: result for result in check_model(llama, ("en", "de", "es"), ignore_progress, never_stop)
        }
    finally:
        llama.close()
    for language in ("en", "de"):
        areas = results[language].areas
        assert min(areas["colours"], areas["positions"]) > 0.8, results[language]
        assert max(areas["counts"], areas["words"], areas["scenes"]) < 0.5, results[language]
    assert results["es"].share == 0, "the tiny model was not trained on Spanish"
