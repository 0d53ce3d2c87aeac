"""Remarks on an alt text for the person who edits it, by the rules that the answers of models are checked with.

They are advice: a person may store a text in spite of them.
"""

from __future__ import annotations

from imgproc_local.domain.alt_text import MAX_ALT_CHARS, PREFERRED_ALT_CHARS
from imgproc_local.vision.llm.lint import PROMPT_REPEATED, alt_text_problems

_PRESENT_TENSE = {
    "addressed": "addresses",
    "began": "begins",
    "contained": "contains",
    "described": "describes",
    "ended": "ends",
    "guessed": "guesses",
    "held": "holds",
    "referred": "refers",
    "repeated": "repeats",
    "said": "says",
    "was": "is",
}
"""The present tense of the verbs in complaints. Complaints are in the past tense, for the prompt of a retry."""


def remarks_on(text: str, language: str, original_filename: str = "") -> list[str]:
    """Remarks in English on a text in `language`, the most important first; none if there is nothing to criticise."""
    if not text:
        return ["It is empty: a person has to write it."]
    if len(text) > MAX_ALT_CHARS:
        return [f"It has {len(text)} characters; at most {MAX_ALT_CHARS} can be stored."]
    complaints = alt_text_problems(text, language, original_filename=original_filename)
    # a person has no prompt to repeat
    remarks = [_sentence(complaint) for complaint in complaints if complaint != PROMPT_REPEATED]
    if len(text) > PREFERRED_ALT_CHARS:
        remarks.append(f"It has {len(text)} characters; texts of up to {PREFERRED_ALT_CHARS} are easier to listen to.")
    return remarks


def _sentence(complaint: str) -> str:
    """A complaint such as 'it began with "a photo of"' as a sentence in the present tense."""
    words = [_PRESENT_TENSE.get(word, word) for word in complaint.split(" ", 3)[:3]]
    rest = complaint.split(" ", 3)[3:]
    sentence = " ".join([*words, *rest])
    return f"{sentence[0].upper()}{sentence[1:]}."
