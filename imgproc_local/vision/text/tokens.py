"""The words, and the letters and digits, of texts in any script."""

from __future__ import annotations

import unicodedata


def words_of(text: str) -> list[str]:
    """The words of `text` in their original case: sequences of letters with their combining marks."""
    # the middle dot is part of Catalan words
    text = "".join(char if unicodedata.category(char)[0] in "LM" or char in "·" else " " for char in text)
    return text.split()


def casefolded_words(text: str) -> list[str]:
    """The words of `text`, case-folded."""
    return [word.casefold() for word in words_of(text)]


def letters_and_digits(text: str) -> str:
    """The letters and digits of `text` without anything between them, in NFC and case-folded."""
    return "".join(
        char for char in unicodedata.normalize("NFC", text).casefold() if unicodedata.category(char)[0] in "LMN"
    )
