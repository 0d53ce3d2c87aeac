"""Grades a model: it describes the probe pictures as it would describe any other, and its alt texts are searched for
what is in them.

It is asked with the service's own prompt and grammar, without any notes, and once: a text that the lint refuses names
nothing here, where the service would ask a second time. A text whose words are those of another language names
nothing either. Each area counts the same: a language's share is the mean over `AREAS` of the facts named there. What
the letters stand for is in `vision/grade.py`.

Words are looked for, not understood: "no red circle" would count. So a grade compares models and languages on one
machine; it is no promise for photographs, which are harder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from imgproc_local.domain.image import Pixels
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.vision.grading.probe_words import find, languages, named, quotes
from imgproc_local.vision.grading.probes import AREAS, PAIRS, POSITIONS, PROBES, WORDS, Pair, Probe
from imgproc_local.vision.llm.lint import alt_text_problem, clean_answer
from imgproc_local.vision.llm.prompt import language_prompt, parse_answer, shared_prompt
from imgproc_local.vision.text.embedded_text import PictureTexts

LANGUAGES_AT_ONCE = 10
"""As many as one request may ask for."""
FOREIGN_WORDS = 2
"""A text that has so many more words of another language than of its own is in that language."""
OWN_WORDS_SHARE = 0.9
"""Texts that together have fewer of their own words than this share of another language's are in that language: even
Danish texts have only 84 % of their words in common with Norwegian, and no others more than 60 %."""

CheckStop = Callable[[], None]
Report = Callable[[int, int], None]
"""Takes notice of the texts written and those there will be."""


class Writer(Protocol):
    """What of `Llama` is used."""

    def read(self, image: Pixels, shared: str, tails: Sequence[str], check_stop: CheckStop) -> None: ...

    def write(self, tails: Sequence[str], check_stop: CheckStop) -> list[str]: ...


class Text(Struct, frozen=True):
    """What was written of one probe; `refused` says why it counts for nothing, "" where it counts."""

    probe: str
    alt_text: str
    refused: str
    missed: tuple[str, ...]


class Result(Struct, frozen=True):
    """One language: `share` and those of `areas` are of the facts that were named, from 0 to 1."""

    language: str
    share: float
    areas: dict[str, float]
    texts: tuple[Text, ...]


def check(writer: Writer, asked: Sequence[str], report: Report, check_stop: CheckStop) -> list[Result]:
    """Lets the model describe every probe in the languages `asked`, and grades it, in their order.

    Raises: ModelUnusable; what `check_stop` raised.
    """
    shared = shared_prompt(PictureTexts(), "")
    groups = [asked[start : start + LANGUAGES_AT_ONCE] for start in range(0, len(asked), LANGUAGES_AT_ONCE)]
    # the picture is read once for all groups, with room for the one that needs most
    longest = sorted((language_prompt(language) for language in asked), key=len)[-LANGUAGES_AT_ONCE:]
    written: dict[str, dict[str, str]] = {language: {} for language in asked}
    done, total = 0, len(PROBES) * len(asked)
    for probe in PROBES:
        writer.read(probe.draw(), shared, longest, check_stop)
        for group in groups:
            answers = writer.write([language_prompt(language) for language in group], check_stop)
            for language, answer in zip(group, answers, strict=True):
                written[language][probe.name] = answer
            done += len(group)
            report(done, total)
    return [grade(language, written[language], shared) for language in asked]


def grade(language: str, written: Mapping[str, str], shared: str = "") -> Result:
    """What the answers are worth that a model wrote in `language` to the probes, by their names."""
    read = [_read(written[probe.name], language, shared) for probe in PROBES]
    spoken = _spoken([alt_text for alt_text, _ in read], language)
    hits: dict[str, list[bool]] = {area: [] for area in AREAS}
    texts, counted = [], {}
    for probe, (alt_text, complaint), spoken_in in zip(PROBES, read, spoken, strict=True):
        refused = complaint or (f"its words are {LANGUAGES[spoken_in].name}" if spoken_in != language else "")
        counted[probe.name] = "" if refused else alt_text
        found = _facts(probe, counted[probe.name], language)
        for area, _, hit in found:
            hits[area].append(hit)
        missed = tuple(fact for _, fact, hit in found if not hit)
        texts.append(Text(probe.name, alt_text, refused, missed))
    hits[POSITIONS] += [_told_apart(pair, counted, language) for pair in PAIRS]
    areas = {area: sum(found) / len(found) for area, found in hits.items()}
    return Result(language, sum(areas.values()) / len(areas), areas, tuple(texts))


def languages_in_claim(claim: str) -> tuple[str, ...]:
    """The languages that a model's card names ("English, German"); all of them where it names none ("many")."""
    claimed = tuple(language.code for language in LANGUAGES.values() if language.name.lower() in claim.lower())
    return claimed or tuple(LANGUAGES)


def _read(answer: str, language: str, shared: str) -> tuple[str, str]:
    """The alt text and why the lint refuses it, "" where it does not."""
    raw = parse_answer(answer)
    if raw is None:
        return "", "it broke off"
    tidy = clean_answer(raw, language)
    return tidy.alt_text, alt_text_problem(tidy, language, noted=shared) or ""


def _spoken(alt_texts: Sequence[str], language: str) -> list[str]:
    """The language that each text is in by its words: `language`, unless another one has clearly more of them."""
    counts = [{code: named(text, code) for code in languages()} for text in alt_texts]
    totals = {code: sum(count[code] for count in counts) for code in languages()}
    most = max(totals, key=lambda code: totals[code])
    if totals[language] < OWN_WORDS_SHARE * totals[most]:
        return [most] * len(alt_texts)
    spoken = []
    for count in counts:
        best = max(count, key=lambda code: count[code])
        spoken.append(best if count[best] >= count[language] + FOREIGN_WORDS else language)
    return spoken


def _facts(probe: Probe, alt_text: str, language: str) -> list[tuple[str, str, bool]]:
    """Each fact: its area, what should be named, whether it is."""
    seen = [
        (area, word, any(find(alt_text, one, language) is not None for one in word.split("/")))
        for area, word in probe.named
    ]
    return seen + [(WORDS, words, quotes(alt_text, words)) for words in probe.quoted]


def _told_apart(pair: Pair, alt_texts: Mapping[str, str], language: str) -> bool:
    """Whether the two texts tell which thing is where.

    "A left of B" of one and "B left of A" of the other do, and so do "A left of B" and "A right of B". But the same
    text twice does not, and "A left of B" beside "B right of A" says the same. So exactly one must change, the order of
    the things or the side; in which order a language puts them need not be known.
    """
    orders, sides = [], []
    for probe in pair.probes:
        text = alt_texts[probe]
        first, second = (_first(text, thing, language) for thing in pair.things)
        one, other = (_first(text, (side,), language) for side in pair.sides)
        if first is None or second is None or (one is None and other is None):
            return False
        orders.append(first < second)
        sides.append(other is None or (one is not None and one < other))
    return (orders[0] != orders[1]) != (sides[0] != sides[1])


def _first(text: str, words: Sequence[str], language: str) -> int | None:
    places = [place for word in words if (place := find(text, word, language)) is not None]
    return min(places, default=None)
