"""Grades a model: it describes the probe pictures like any others, and its alt texts are searched for their content.

The prompt and the grammar are those of the service, without notes of an owner. Each answer is generated once: one that
the lint rejects counts as empty, where the service would ask again. A text whose words are those of another language
counts as empty, too. All areas have the same weight: a language's share is the mean over `AREAS` of the share of facts
that were named. `grade.py` translates shares into letters.

Words are searched, not understood: "no red circle" would count. So a grade compares models and languages on one
machine; it does not predict the quality on photographs, which are harder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from imgproc_local.domain.image import Pixels
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.vision.grading.probe_words import contains_quote, count_words, find_word, languages
from imgproc_local.vision.grading.probes import AREAS, PAIRS, POSITIONS, PROBES, WORDS, Probe, ProbePair
from imgproc_local.vision.llm.cleanup import clean_answer
from imgproc_local.vision.llm.lint import alt_text_problem
from imgproc_local.vision.llm.prompt import language_prompt, parse_answer, shared_prompt
from imgproc_local.vision.text.embedded_text import PictureTexts

LANGUAGES_PER_BATCH = 10
"""The most that one request may ask for."""
FOREIGN_WORDS_MARGIN = 2
"""A single text is in another language if it has this many more words of it than of the requested one."""
MIN_OWN_WORDS_SHARE = 0.9
"""All texts are in another language if together they have less than this share of its number of words in the requested
one. Even Danish texts have only 84 % of their words in common with Norwegian, and no other pair more than 60 %."""

CheckStop = Callable[[], None]
Progress = Callable[[int, int], None]
"""Called with the number of texts written and the total."""


class ModelUnderTest(Protocol):
    """The methods of `Llama` that a check uses."""

    def prefill(self, image: Pixels, shared_prompt: str, suffixes: Sequence[str], check_stop: CheckStop) -> None: ...

    def generate(self, suffixes: Sequence[str], check_stop: CheckStop) -> list[str]: ...


class ProbeText(Struct, frozen=True):
    """The alt text of one probe. `refused` is why it counts as empty, "" if it counts; `missed` are facts not named."""

    probe: str
    alt_text: str
    refused: str
    missed: tuple[str, ...]


class LanguageResult(Struct, frozen=True):
    """The result of one language. `share`, and those of `areas`, are shares of facts that were named, from 0 to 1."""

    language: str
    share: float
    areas: dict[str, float]
    texts: tuple[ProbeText, ...]


def check_model(
    model: ModelUnderTest, requested: Sequence[str], progress: Progress, check_stop: CheckStop
) -> list[LanguageResult]:
    """Let the model describe every probe in the `requested` languages; the results in their order.

    Raises: ModelUnusable; what `check_stop` raises.
    """
    shared = shared_prompt(PictureTexts(), "")
    batches = [
        requested[start : start + LANGUAGES_PER_BATCH] for start in range(0, len(requested), LANGUAGES_PER_BATCH)
    ]
    # the picture is processed once for all batches, with a context for the one with the longest prompts
    longest = sorted((language_prompt(language) for language in requested), key=len)[-LANGUAGES_PER_BATCH:]
    answers: dict[str, dict[str, str]] = {language: {} for language in requested}
    done, total = 0, len(PROBES) * len(requested)
    for probe in PROBES:
        model.prefill(probe.draw(), shared, longest, check_stop)
        for batch in batches:
            generated = model.generate([language_prompt(language) for language in batch], check_stop)
            for language, answer in zip(batch, generated, strict=True):
                answers[language][probe.name] = answer
            done += len(batch)
            progress(done, total)
    return [grade_language(language, answers[language], shared) for language in requested]


def grade_language(language: str, answers: Mapping[str, str], shared: str = "") -> LanguageResult:
    """The result of the generated `answers` in `language`, by the names of their probes."""
    parsed = [_parse(answers[probe.name], language, shared) for probe in PROBES]
    detected = _detect_languages([alt_text for alt_text, _ in parsed], language)
    hits: dict[str, list[bool]] = {area: [] for area in AREAS}
    texts, counted = [], {}
    for probe, (alt_text, complaint), actual in zip(PROBES, parsed, detected, strict=True):
        refused = complaint or (f"its words are {LANGUAGES[actual].name}" if actual != language else "")
        counted[probe.name] = "" if refused else alt_text
        facts = _facts(probe, counted[probe.name], language)
        for area, _, is_named in facts:
            hits[area].append(is_named)
        missed = tuple(fact for _, fact, is_named in facts if not is_named)
        texts.append(ProbeText(probe.name, alt_text, refused, missed))
    hits[POSITIONS] += [_distinguishes(pair, counted, language) for pair in PAIRS]
    areas = {area: sum(found) / len(found) for area, found in hits.items()}
    return LanguageResult(language, sum(areas.values()) / len(areas), areas, tuple(texts))


def languages_in_claim(claim: str) -> tuple[str, ...]:
    """The supported languages that a model's card names ("English, German"); all if it names none ("many")."""
    named = tuple(language.code for language in LANGUAGES.values() if language.name.lower() in claim.lower())
    return named or tuple(LANGUAGES)


def _parse(answer: str, language: str, shared: str) -> tuple[str, str]:
    """The alt text and the complaint of the lint, "" if it accepts the text."""
    parsed = parse_answer(answer)
    if parsed is None:
        return "", "it broke off"
    cleaned = clean_answer(parsed, language)
    return cleaned.alt_text, alt_text_problem(cleaned, language, prompt=shared) or ""


def _detect_languages(alt_texts: Sequence[str], language: str) -> list[str]:
    """The language of each text by its words: `language`, unless another one has clearly more of them."""
    counts = [{code: count_words(text, code) for code in languages()} for text in alt_texts]
    totals = {code: sum(count[code] for count in counts) for code in languages()}
    most = max(totals, key=lambda code: totals[code])
    if totals[language] < MIN_OWN_WORDS_SHARE * totals[most]:
        return [most] * len(alt_texts)
    detected = []
    for count in counts:
        best = max(count, key=lambda code: count[code])
        detected.append(best if count[best] >= count[language] + FOREIGN_WORDS_MARGIN else language)
    return detected


def _facts(probe: Probe, alt_text: str, language: str) -> list[tuple[str, str, bool]]:
    """Each fact of the probe: its area, its words, and whether the text names it."""
    named = [
        (area, words, any(find_word(alt_text, word, language) is not None for word in words.split("/")))
        for area, words in probe.facts
    ]
    return named + [(WORDS, quote, contains_quote(alt_text, quote)) for quote in probe.quotes]


def _distinguishes(pair: ProbePair, alt_texts: Mapping[str, str], language: str) -> bool:
    """Whether the two texts say which thing is where.

    "A left of B" and "B left of A" do, as do "A left of B" and "A right of B". The same text twice does not, nor do
    "A left of B" and "B right of A", which mean the same. So exactly one of the two must change, the order of the
    things or the side; the word order that a language uses does not matter.
    """
    orders, sides = [], []
    for probe in pair.probes:
        text = alt_texts[probe]
        first, second = (_first_position(text, thing, language) for thing in pair.things)
        side, other_side = (_first_position(text, (word,), language) for word in pair.sides)
        if first is None or second is None or (side is None and other_side is None):
            return False
        orders.append(first < second)
        sides.append(other_side is None or (side is not None and side < other_side))
    return (orders[0] != orders[1]) != (sides[0] != sides[1])


def _first_position(text: str, words: Sequence[str], language: str) -> int | None:
    positions = [at for word in words if (at := find_word(text, word, language)) is not None]
    return min(positions, default=None)
