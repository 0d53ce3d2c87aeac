"""Measures how well a model describes the probe pictures (`probes.py`): which of their facts its alt texts name.

The prompt and the grammar are those of the service, without notes of an owner. Each answer is generated once. An answer
that the lint rejects counts as empty, although the service would generate another one; so does a text in another
language. In each of `AREAS`, the model gets the share of facts that its texts name. The share of a language is the
mean over all areas. `grade.py` converts shares to letters.

The search does not understand a text: "no red circle" names a red circle. So a grade compares models and languages on
one machine, and does not predict the quality on photographs, which are harder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from imgproc_local.domain.image import Pixels
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.plan import MAX_LANGUAGES
from imgproc_local.domain.stop import CheckStop
from imgproc_local.vision.grading.probe_words import contains_quote, count_words, find_word, languages
from imgproc_local.vision.grading.probes import AREAS, PAIRS, POSITIONS, PROBES, WORDS, Probe, ProbePair
from imgproc_local.vision.llm.cleanup import clean_answer
from imgproc_local.vision.llm.lint import alt_text_problem
from imgproc_local.vision.llm.prompt import DRAFT_LANGUAGE, NO_NOTES, draft_note, language_prompt, parse_answer

LANGUAGES_PER_BATCH = MAX_LANGUAGES
"""As in the service, which generates the texts of one request together."""
FOREIGN_WORDS_MARGIN = 2
"""A text counts as written in another language if it has at least this many more words of that language than of the
requested one."""
MIN_OWN_WORDS_RATIO = 0.9
"""All texts together count as written in another language if the number of their words of the requested language,
divided by the number of their words of the other, is less than this. In good Danish texts, the ratio of Norwegian to
Danish words is 0.84; for all other pairs of languages it is at most 0.6."""

Progress = Callable[[int, int], None]
"""A function that is called with the number of texts generated so far and the total number."""


class ModelUnderTest(Protocol):
    """The methods of `Llama` that a check uses."""

    def prefill(self, image: Pixels, notes: str, suffixes: Sequence[str], check_stop: CheckStop) -> None: ...

    def generate(self, suffixes: Sequence[str], check_stop: CheckStop) -> list[str]: ...


class ProbeText(Struct, frozen=True):
    """The alt text of one probe.

    `rejection` is the reason why the text counts as empty, or ""; `missed` are the facts that it does not name.
    """

    probe: str
    alt_text: str
    rejection: str
    missed: tuple[str, ...]


class LanguageResult(Struct, frozen=True):
    """The result of one language. `areas` are the shares of facts named (0 to 1) by area, `share` is their mean."""

    language: str
    share: float
    areas: dict[str, float]
    texts: tuple[ProbeText, ...]


def check_model(
    model: ModelUnderTest, requested: Sequence[str], progress: Progress, check_stop: CheckStop
) -> list[LanguageResult]:
    """Let the model describe every probe in the `requested` languages. Returns one result per language, in their order.

    Raises: ModelUnusable; what `check_stop` raises.
    """
    batches = [
        requested[start : start + LANGUAGES_PER_BATCH] for start in range(0, len(requested), LANGUAGES_PER_BATCH)
    ]
    # a picture is processed once for all batches, in a context that is large enough for any of them
    longest = sorted((language_prompt(language) for language in requested), key=len)[-LANGUAGES_PER_BATCH:]
    answers: dict[str, dict[str, str]] = {language: {} for language in requested}
    done, total = 0, len(PROBES) * len(requested)
    for probe in PROBES:
        model.prefill(probe.draw(), NO_NOTES, longest, check_stop)
        # as in the service: English first; if the lint accepts this text, it is translated into the other languages
        [english] = model.generate([language_prompt(DRAFT_LANGUAGE)], check_stop)
        draft, problem = _parse(english, DRAFT_LANGUAGE)
        note = "" if problem else draft_note(draft)
        for batch in batches:
            others = [language for language in batch if language != DRAFT_LANGUAGE]
            generated = model.generate([note + language_prompt(language) for language in others], check_stop)
            written = {DRAFT_LANGUAGE: english} | dict(zip(others, generated, strict=True))
            for language in batch:
                answers[language][probe.name] = written[language]
            done += len(batch)
            progress(done, total)
    return [grade_language(language, answers[language]) for language in requested]


def grade_language(language: str, answers: Mapping[str, str]) -> LanguageResult:
    """The result of one language. `answers` are the generated answers by the names of the probes."""
    parsed = [_parse(answers[probe.name], language) for probe in PROBES]
    detected = _detect_languages([alt_text for alt_text, _ in parsed], language)
    hits: dict[str, list[bool]] = {area: [] for area in AREAS}
    texts, counted = [], {}
    for probe, (alt_text, problem), actual in zip(PROBES, parsed, detected, strict=True):
        rejection = problem or (f"its words are {LANGUAGES[actual].name}" if actual != language else "")
        counted[probe.name] = "" if rejection else alt_text
        facts = _facts(probe, counted[probe.name], language)
        for area, _, is_named in facts:
            hits[area].append(is_named)
        missed = tuple(fact for _, fact, is_named in facts if not is_named)
        texts.append(ProbeText(probe.name, alt_text, rejection, missed))
    hits[POSITIONS] += [_distinguishes(pair, counted, language) for pair in PAIRS]
    areas = {area: sum(named) / len(named) for area, named in hits.items()}
    return LanguageResult(language, sum(areas.values()) / len(areas), areas, tuple(texts))


def languages_in_claim(claim: str) -> tuple[str, ...]:
    """The codes of the languages named in `claim`, the languages of a model's card; all codes if it names none."""
    claim = claim.lower()
    named = tuple(known.code for known in LANGUAGES.values() if known.name_without_region.lower() in claim)
    return named or tuple(LANGUAGES)


def _parse(answer: str, language: str) -> tuple[str, str]:
    """The cleaned alt text, and why it is rejected: "" if it is not."""
    parsed = parse_answer(answer)
    if parsed is None:
        return "", "it broke off"
    cleaned = clean_answer(parsed, language)
    return cleaned.alt_text, alt_text_problem(cleaned, language) or ""


def _detect_languages(alt_texts: Sequence[str], language: str) -> list[str]:
    """The language of each text: `language`, unless it or all texts together have clearly more words of another."""
    counts = [{code: count_words(text, code) for code in languages()} for text in alt_texts]
    totals = {code: sum(count[code] for count in counts) for code in languages()}
    most = max(totals, key=lambda code: totals[code])
    if totals[language] < MIN_OWN_WORDS_RATIO * totals[most]:
        return [most] * len(alt_texts)
    detected = []
    for count in counts:
        best = max(count, key=lambda code: count[code])
        detected.append(best if count[best] >= count[language] + FOREIGN_WORDS_MARGIN else language)
    return detected


def _facts(probe: Probe, alt_text: str, language: str) -> list[tuple[str, str, bool]]:
    """Each fact of the probe: its area, its words, and whether `alt_text` names it."""
    named = [
        (area, words, any(find_word(alt_text, word, language) is not None for word in words.split("/")))
        for area, words in probe.facts
    ]
    return named + [(WORDS, quote, contains_quote(alt_text, quote)) for quote in probe.quotes]


def _distinguishes(pair: ProbePair, alt_texts: Mapping[str, str], language: str) -> bool:
    """Whether the texts of the two probes of `pair` state different positions.

    "A left of B" and "B left of A" do, and so do "A left of B" and "A right of B". The same text twice does not, and
    neither do "A left of B" and "B right of A", which mean the same. So exactly one of two things must differ between
    the texts: the order of the two objects, or the side. This holds for any word order.
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
    """The position of the first of `words` in `text`; None if there is none."""
    positions = [position for word in words if (position := find_word(text, word, language)) is not None]
    return min(positions, default=None)
