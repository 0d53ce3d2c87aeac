"""Removes from an answer what surrounds the description, without adding content: labels, quotation marks, openers."""

from __future__ import annotations

import re
import unicodedata

from imgproc_local.vision.llm.lint_rules import rules_of
from imgproc_local.vision.llm.prompt import Answer
from imgproc_local.vision.llm.sentence_end import FULL_STOPS, is_cut_off, is_ended
from imgproc_local.vision.text.tokens import letters_and_digits

_ENCLOSING_PAIRS = ("“”", "„“", "„”", "””", "«»", "»«", "「」", "『』", '""', "‘’", "‚‘", "''", "()", "[]")


def clean_answer(answer: Answer, language: str) -> Answer:
    """`answer` with a cleaned alt text: without mark-up, labels and removable openers, with capital and full stop."""
    text = " ".join(unicodedata.normalize("NFC", answer.alt_text).split()).strip("*#_` ")
    text = _without_enclosing_marks(text)
    rules = (rules_of("en"), rules_of(language))
    # twice: a label may follow a greeting, and an opener may follow a label
    for pattern in [pattern for each in rules for pattern in (each.cut, each.label)] * 2:
        if pattern and (match := pattern.match(text.replace("’", "'"))) and len(text) - match.end() > 3:
            text = _without_enclosing_marks(text[match.end() :].lstrip(" ,:：-–—*"))
    text = _capitalised(text, language)
    if letters_and_digits(text) and not is_ended(text, language) and not is_cut_off(text, language):
        text += FULL_STOPS.get(language, ".")
    return Answer(answer.filename, text)


def _without_enclosing_marks(text: str) -> str:
    for pair in _ENCLOSING_PAIRS:
        if len(text) > 2 and text[0] == pair[0] and text.rstrip(".")[-1:] == pair[1]:
            inside = text.rstrip(".")[1:-1]
            if not any(mark in inside for mark in pair):
                return inside.strip()
    return text


def _capitalised(text: str, language: str) -> str:
    """`text` with a capital at the beginning, except before an inner capital as in iPhone."""
    if re.match(r"[^\W\d_][A-Z]", text):
        return text
    if language == "tr" and text[:1] == "i":
        return "İ" + text[1:]
    if language == "nl" and text[:2] == "ij":
        return "IJ" + text[2:]
    return text[:1].upper() + text[1:]
