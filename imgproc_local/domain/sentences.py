"""Finds the sentences of a text in any language."""

from __future__ import annotations

import re
from itertools import pairwise

_MARKS = re.compile(r"[.!?…。！？।؟｡]+[”»’\"')\]」』）]*")
_ABBREVIATED_WORDS = """
dr prof st sr jr mr mrs ms mme mlle rev hon gen capt lt sgt sen gov mt ft ave blvd vs no nr inc ltd corp dept approx
ca bzw ggf inkl geb gest jh jhd mio mrd sog vgl dipl ing hl tel str evtl bspw usw sra dra sta sto avda núm pág dott
sig avv ul św inż mgr tzw np nár ur resp tj čp ул им св гр проф акад тыс млн pl nám ten kl bl fot
"""
_ABBREVIATIONS = frozenset(_ABBREVIATED_WORDS.split())
"""Words that end in a full stop inside a sentence, in lower case. Words that are also common without one are left out:
Spanish "mar", French "est"."""


def sentence_ends(text: str) -> list[int]:
    """The index in `text` after each sentence. A fragment at the end, without a closing mark, is not counted."""
    return [match.end() for match in _MARKS.finditer(text) if _ends_sentence(text, match)]


def sentences(text: str) -> list[str]:
    """The sentences of `text` in order, without spaces around them; the last one may be a fragment."""
    ends = [0, *sentence_ends(text), len(text)]
    parts = [text[start:end].strip() for start, end in pairwise(ends)]
    return [part for part in parts if part]


def _ends_sentence(text: str, mark: re.Match[str]) -> bool:
    """Whether `mark` ends a sentence of `text`, not an abbreviation, an initial or a number."""
    following = text[mark.end() : mark.end() + 2]
    if mark[0][0] in "。！？।؟｡":
        return True
    # without a space after the mark, only a capital begins a sentence: some programs remove the spaces
    if following and not following[0].isspace() and not (following[0].isalpha() and not following[0].islower()):
        return False
    if following[1:].islower() and following[0].isspace():
        return False
    if not mark[0].startswith(".") or not following:
        return True
    before = text[max(0, mark.start() - 20) : mark.start()]
    word = before.rsplit(None, 1)[-1].lstrip("(“„«\"'") if before.strip() else ""
    is_initial = len(word) == 1 and word.isalpha()
    is_ordinal = word.isdigit() and len(word) <= 2
    return not (is_initial or is_ordinal or "." in word or word.lower() in _ABBREVIATIONS)
