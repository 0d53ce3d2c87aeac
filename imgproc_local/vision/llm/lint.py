"""Checks by rules whether the answer of a model can be published.

A problem of an alt text is returned as a complaint that completes the sentence "The answer before was refused: …." in
the prompt of the retry. If a problem is uncertain, the answer is accepted.

Source: W3C WAI, WCAG failure F30.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from imgproc_local.domain.alt_text import MAX_ALT_CHARS
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.slug import make_slug
from imgproc_local.vision.llm.lint_language import (
    count_rival_words,
    count_unpronounceable,
    has_mixed_scripts,
    is_nonsense,
    is_other_language,
)
from imgproc_local.vision.llm.lint_remarks import content_problem, remark_problem
from imgproc_local.vision.llm.lint_rules import UNSPACED, rules_of
from imgproc_local.vision.llm.prompt import DRAFT, INSTRUCTIONS, Answer
from imgproc_local.vision.llm.sentence_end import is_cut_off, without_quotations
from imgproc_local.vision.text.filename_words import filename_words
from imgproc_local.vision.text.tokens import casefolded_words, letters_and_digits, words_of

REPEATED_WORDS = 6
_REPEATED_LETTERS = {"zh": 10, "ja": 14, "th": 30}
"""A text repeats itself if a sequence of this many words (letters in languages without spaces) occurs twice, or a
sequence of half this length occurs four times."""
ECHOED_WORDS = 5
"""An answer repeats the prompt if it contains a sequence of this many words of `INSTRUCTIONS` or `DRAFT`."""

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffd\ue000-\uf8ff\ufff0-\uffff]")
_PROMPT_MARKS = re.compile(
    r"(?i)alt_text|\bfilename:|noted by its owner|alternative text in english"
    r"|\bim_(start|end)\b|(start|end)_of_turn|</?\w"
)
_FILE_NAME = re.compile(
    r"(?i)https?:|\bwww\.|\w\.(jpe?g|png|gif|webp|avif|heic|bmp|tiff?|svg)\b|\w_\w"
    r"|\b(img|dsc[fn]?|pxl|mvimg|dji|gopr|dscn|screenshot)[ _-]?\d{3,}"
)

PROMPT_REPEATED = "it repeated words of the prompt"


def alt_text_problem(answer: Answer, language: str, *, original_filename: str = "", notes: str = "") -> str | None:
    """The complaint about the alt text of a cleaned `answer`; None if it can be published.

    `notes` are those in the prompt. Names in them may be in any script and spelling.
    """
    complaints = alt_text_problems(answer.alt_text, language, original_filename=original_filename, notes=notes)
    return next(complaints, None)


def alt_text_problems(text: str, language: str, *, original_filename: str = "", notes: str = "") -> Iterator[str]:
    """The complaints about an alt text, the most important first; see `alt_text_problem`.

    A text that is too long gets only that complaint.
    """
    if len(text) > MAX_ALT_CHARS:
        yield f"it was longer than {MAX_ALT_CHARS} characters"
        return
    unquoted = without_quotations(text, "•")  # no letter, so that the words around a quotation stay apart
    # words with a capital in the notes
    names = frozenset(word.casefold() for word in words_of(notes) if word != word.lower())
    words = [word for word in words_of(unquoted) if word.casefold() not in names]
    name = LANGUAGES[language].name
    if _has_unprintable(text):
        yield "it contained unprintable characters"
    if _PROMPT_MARKS.search(text) or _echoes_prompt(text):
        yield PROMPT_REPEATED
    if is_other := is_other_language(words, language):
        yield f"it was not in {name}"
    checks: tuple[Callable[[], str], ...] = (
        lambda: _length_problem(text, language),
        lambda: _opener_or_closer_problem(text, language),
        lambda: _file_name_problem(text, unquoted, original_filename),
        lambda: remark_problem(text, unquoted, language),
        lambda: content_problem(text, unquoted, language),
    )
    yield from (problem for check in checks if (problem := check()))
    if repeats_itself(unquoted, language):
        yield "it repeated itself"
    if not is_other and is_nonsense(unquoted, words, language):
        yield f"it was no sentence in {name}"
    if is_cut_off(text, language):
        yield "the sentence was cut off"


def filename_problem(filename: str, language: str, *, original_filename: str = "") -> str | None:
    """Why `filename`, words joined by hyphens, is unsuitable; None if it is suitable."""
    slug = make_slug(filename.replace("-", " "), language, language).split("-")
    words = words_of(filename)
    if slug == [""]:
        return "its file name had no words that can be written in Latin letters"
    if len(slug) < 2:
        return "its file name was a single word"
    if not filename_words(filename):
        return "its file name did not describe the picture"
    stem = _stem(original_filename)
    if letters_and_digits(filename) == letters_and_digits(stem) and not filename_words(original_filename):
        return "its file name was the old one"
    if len(set(slug)) * 3 < len(slug) * 2:
        return "its file name repeated itself"
    if (
        _UNPRINTABLE.search(filename)
        or count_unpronounceable(words, language) > 1
        or has_mixed_scripts(words, language)
    ):
        return "its file name was not made of words"
    if language != "en" and count_rival_words([word.lower() for word in words], "en", language) > 1:
        return f"its file name was not in {LANGUAGES[language].name}"
    return None


def _has_unprintable(text: str) -> bool:
    return bool(_UNPRINTABLE.search(text)) or any(unicodedata.category(char) in ("Cn", "Co", "Cs") for char in text)


def _echoes_prompt(text: str) -> bool:
    words, prompt = casefolded_words(text), f" {' '.join(casefolded_words(INSTRUCTIONS + DRAFT))} "
    starts = range(len(words) - ECHOED_WORDS + 1)
    return any(f" {' '.join(words[start : start + ECHOED_WORDS])} " in prompt for start in starts)


def _length_problem(text: str, language: str) -> str:
    letters = sum(char.isalpha() for char in text)
    if letters < 2:
        return "it was empty"
    single = letters < 4 if language in UNSPACED else len(words_of(text)) < 2
    return "it was a single word" if single else ""


def _opener_or_closer_problem(text: str, language: str) -> str:
    text = text.replace("’", "'").lstrip("\"'“”„«»‘‚「『*-•–— ")
    for code in dict.fromkeys((language, "en")):
        rules = rules_of(code)
        if match := rules.opener.match(text) or rules.label.match(text):
            return f'it began with "{match[0].strip().lower()}"'
        if rules.closer and (match := rules.closer.search(text)):
            return f'it ended in "{match[0].strip()}"'
    return ""


def _file_name_problem(text: str, unquoted: str, original_filename: str) -> str:
    stem = letters_and_digits(_stem(original_filename))
    if stem and stem == letters_and_digits(text):
        return "it was the file's name"
    is_generated = re.search(r"\d", stem) and len(stem) > 4 and not filename_words(original_filename)
    if _FILE_NAME.search(unquoted) or (is_generated and stem in letters_and_digits(unquoted)):
        return "it held a file name or an address"
    return "it was a file name" if " " not in text and text.count("-") > 1 and text.isascii() else ""


def repeats_itself(text: str, language: str) -> bool:
    """Whether words, sentences or sequences of characters are repeated more often than in good texts."""
    lower = text.casefold()
    words = casefolded_words(text)
    letters = [char for char in lower if char.isalnum()]
    return (
        _stutters(lower, language)
        or any(first == second == third for first, second, third in zip(words, words[1:], words[2:], strict=False))
        or _repeats_sequence(letters if language in UNSPACED else words, language)
        or (len(words) >= 12 and len(set(words)) < 0.45 * len(words))
        or (len(letters) >= 40 and len(set(pairwise(letters))) < 0.4 * len(letters))
        or _repeats_sentence(lower, language)
    )


def _stutters(lower: str, language: str) -> bool:
    """Whether a sequence of characters with a letter occurs three times in a row, or a letter five times.

    The sequence has at least three characters, in languages without spaces two: elsewhere two may occur three times in
    a row in a word, as in Danish "genererer".
    """
    min_chars = 2 if language in UNSPACED else 3
    sequences = (match[1] for match in re.finditer(rf"(.{{{min_chars},60}}?)\1\1", lower))
    has_letters = any(re.search(r"[^\W\d_]", sequence) for sequence in sequences)
    return has_letters or re.search(r"([^\W\d_])\1{4}", lower) is not None


def _repeats_sequence(units: Sequence[str], language: str) -> bool:
    length = _REPEATED_LETTERS.get(language, REPEATED_WORDS)
    return _max_occurrences(units, length) >= 2 or _max_occurrences(units, length // 2) >= 4


def _max_occurrences(units: Sequence[str], length: int) -> int:
    """The number of occurrences of the most frequent sequence of `length` units."""
    ngrams = Counter(tuple(units[start : start + length]) for start in range(len(units) - length + 1))
    return max(ngrams.values(), default=0)


def _repeats_sentence(lower: str, language: str) -> bool:
    """Whether two sentences of three words or more have at least 80 % of their words in common; see `_units`."""
    sentences = [set(_units(part, language)) for part in re.split(r"[.!?。！？।;]\s*", lower)]
    return any(
        min(len(one), len(other)) > 2 and len(one & other) >= 0.8 * len(one | other)
        for index, one in enumerate(sentences)
        for other in sentences[:index]
    )


def _units(sentence: str, language: str) -> list[str]:
    """The words of a sentence, or pairs of characters in languages without spaces."""
    if language in UNSPACED:
        return [sentence[start : start + 2] for start in range(len(sentence) - 1)]
    return casefolded_words(sentence)


def _stem(filename: str) -> str:
    """The file name without its extensions."""
    return re.sub(r"(\.\w{1,5})+$", "", filename)
