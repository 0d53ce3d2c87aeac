"""The words, the letters and digits, and the first sentences of texts in any script."""

from __future__ import annotations

import unicodedata

from imgproc_local.domain.alt_text import MAX_ALT_CHARS, PREFERRED_ALT_CHARS, sentence_ends


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


def shorten(text: str, preferred_chars: int = PREFERRED_ALT_CHARS, max_chars: int = MAX_ALT_CHARS) -> str:
    """`text` if it has at most `preferred_chars`, else `text` truncated after its last sentence within them.

    If no sentence ends there, a text of at most `max_chars` is unchanged, and a longer one is truncated after its first
    sentence or, with an ellipsis, after a word.
    """
    if len(text) <= preferred_chars:
        return text
    # a first sentence of fewer characters may be an interjection
    ends = [end for end in sentence_ends(text) if 12 <= end <= max_chars]
    preferred = [end for end in ends if end <= preferred_chars]
    if preferred:
        return text[: preferred[-1]]
    if len(text) <= max_chars:
        return text
    if ends:
        return text[: ends[0]]
    cut = text[: max_chars - 1]
    return (cut[: cut.rfind(" ")] if " " in cut[max_chars // 2 :] else cut).rstrip(" ,;:–-、，") + "…"


def capitalized(text: str, language_code: str) -> str:
    """`text` with a capital at the beginning, by the rules of `language_code` (Turkish İ, Dutch IJ).

    A word with a capital at another place, such as "iPhone", remains unchanged.
    """
    first_word = text.split(" ", 1)[0]
    if first_word != first_word.lower():
        return text
    if language_code == "tr" and text.startswith("i"):
        return "İ" + text[1:]
    if language_code == "nl" and text.startswith("ij"):
        return "IJ" + text[2:]
    return text[:1].upper() + text[1:]
