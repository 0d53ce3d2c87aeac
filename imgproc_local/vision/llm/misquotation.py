"""Compares what a model quotes with the text that was read in the picture."""

from __future__ import annotations

from imgproc_local.vision.describer import TextInPicture
from imgproc_local.vision.llm.sentence_end import quotations
from imgproc_local.vision.text.tokens import letters_and_digits

MIN_QUOTED_CHARACTERS = 3
"""Shorter quotations are not compared, because OCR seldom reads single letters."""
MAX_WRONG_SHARE = 0.1
"""A quotation may differ in this share of its characters, because OCR may misread some characters of a long line."""
MAX_SHOWN_CHARS = 60
"""A longer quotation is truncated in the complaint, which must fit into `RETRY_TOKENS` of `llama.py`."""


def misquotation(alt_text: str, read_text: TextInPicture | None, notes: str) -> str | None:
    """The complaint about a quotation in `alt_text` that is not in the picture; None if there is none.

    Quotations from `notes`, a part of the prompt, are allowed. Nothing is compared if no text was read, or if there is
    more text in the picture than was read.
    """
    if read_text is None or not read_text.text or read_text.unread_lines:
        return None
    known = [letters_and_digits(text) for text in (read_text.text, notes)]
    for quotation in quotations(alt_text):
        quoted = letters_and_digits(quotation)
        if len(quoted) >= MIN_QUOTED_CHARACTERS and not any(
            _errors(quoted, text) <= MAX_WRONG_SHARE * len(quoted) for text in known
        ):
            shown = quotation if len(quotation) <= MAX_SHOWN_CHARS else f"{quotation[:MAX_SHOWN_CHARS]}…"
            return f"it quoted “{shown}”, which is not in the picture"
    return None


def _errors(wanted: str, text: str) -> int:
    """The edit distance between `wanted` and the most similar part of `text`."""
    if wanted in text:
        return 0
    row = [0] * (len(text) + 1)
    for index, character in enumerate(wanted, 1):
        previous, row[0] = row[0], index
        for column, found in enumerate(text, 1):
            substituted = previous + (character != found)
            previous, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, substituted)
    return min(row)
