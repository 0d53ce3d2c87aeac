"""Finds the sentences of a text in any language, and shortens texts to whole sentences."""

from __future__ import annotations

import re
from itertools import pairwise

from imgproc_local.domain.alt_text import MAX_ALT_CHARS, PREFERRED_ALT_CHARS
from imgproc_local.vision.text.name_vocabulary import word_set

MIN_SHORTENED_CHARS = 12
"""A text is never shortened to fewer characters, because its first sentence may be an interjection."""

_MARKS = re.compile(r"[.!?…。！？।؟｡]+[”»’\"')\]」』）]*")
_ABBREVIATIONS = word_set("""
dr prof st sr jr mr mrs ms mme mlle rev hon gen capt lt sgt sen gov mt ft ave blvd vs no nr inc ltd corp dept approx
ca bzw ggf inkl geb gest jh jhd mio mrd sog vgl dipl ing hl tel str evtl bspw usw sra dra sta sto avda núm pág dott
sig avv ul św inż mgr tzw np nár ur resp tj čp ул им св гр проф акад тыс млн pl nám ten kl bl fot
""")
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


def shorten(text: str, preferred_chars: int = PREFERRED_ALT_CHARS, max_chars: int = MAX_ALT_CHARS) -> str:
    """`text` if it has at most `preferred_chars`, else `text` truncated after its last sentence within them.

    If no sentence ends there, a text of at most `max_chars` is unchanged, and a longer one is truncated after its first
    sentence or, with an ellipsis, after a word.
    """
    if len(text) <= preferred_chars:
        return text
    ends = [end for end in sentence_ends(text) if MIN_SHORTENED_CHARS <= end <= max_chars]
    preferred = [end for end in ends if end <= preferred_chars]
    if preferred:
        return text[: preferred[-1]]
    if len(text) <= max_chars:
        return text
    if ends:
        return text[: ends[0]]
    cut = text[: max_chars - 1]
    return (cut[: cut.rfind(" ")] if " " in cut[max_chars // 2 :] else cut).rstrip(" ,;:–-、，") + "…"


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
