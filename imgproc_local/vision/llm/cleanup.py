"""Cleans the alt text of an answer: removes labels, enclosing marks and openers, adds a missing capital and full stop.

An opener is a beginning such as "Image of". No content is added.
"""

from __future__ import annotations

import re
import unicodedata

from imgproc_local.vision.llm.lint_rules import rules_of
from imgproc_local.vision.llm.prompt import Answer
from imgproc_local.vision.llm.sentence_end import FULL_STOPS, is_cut_off, is_ended
from imgproc_local.vision.text.tokens import letters_and_digits

_ENCLOSING_PAIRS = ("“”", "„“", "„”", "””", "«»", "»«", "「」", "『』", '""', "‘’", "‚‘", "''", "()", "[]")


def clean_answer(answer: Answer, language: str) -> Answer:
    """`answer` with its alt text cleaned. Its file name is unchanged."""
    text = " ".join(unicodedata.normalize("NFC", answer.alt_text).split()).strip("*#_` ")
    text = _without_enclosing_marks(text)
    rules = (rules_of("en"), rules_of(language))
    # twice: a label may follow an opener such as "Sure, here is", and another opener may follow the label
    for pattern in [pattern for each in rules for pattern in (each.removable_opener, each.label)] * 2:
        if pattern and (match := pattern.match(text.replace("’", "'"))) and len(text) - match.end() > 3:
            text = _without_enclosing_marks(text[match.end() :].lstrip(" ,:：-–—*"))
    text = _capitalised(text, language)
    if letters_and_digits(text) and not is_ended(text, language) and not is_cut_off(text, language):
        text += FULL_STOPS.get(language, ".")
    return Answer(answer.filename, text)


def _without_enclosing_marks(text: str) -> str:
    """`text` without one pair of quotation marks or brackets around all of it, and without full stops after them."""
    for pair in _ENCLOSING_PAIRS:
        if len(text) > 2 and text[0] == pair[0] and text.rstrip(".")[-1:] == pair[1]:
            inside = text.rstrip(".")[1:-1]
            if not any(mark in inside for mark in pair):
                return inside.strip()
    return text


def _capitalised(text: str, language: str) -> str:
    """`text` with a capital at the beginning, unless its second letter is already a capital, as in iPhone."""
    if re.match(r"[^\W\d_][A-Z]", text):
        return text
    if language == "tr" and text[:1] == "i":
        return "İ" + text[1:]
    if language == "nl" and text[:2] == "ij":
        return "IJ" + text[2:]
    return text[:1].upper() + text[1:]
