"""Writes words of other scripts in ASCII letters. Each part is romanised according to its script and language."""

from __future__ import annotations

import re
import unicodedata

from imgproc_local.domain.romanise.alphabets import alphabetic, ascii_letters
from imgproc_local.domain.romanise.dictionary import THAI, japanese_or_chinese, thai
from imgproc_local.domain.romanise.syllables import HANGUL, INDIC, indic, korean

_LATIN = "a-z\u00c0-\u024f"
"""Lower-case Latin letters."""
_UNREADABLE = re.compile("[bcdfghjklmnpqrstvwxz]{4}")
"""Four consonants in a row, which show that a script was romanised without its vowels."""
_SCRIPT_CHANGE = re.compile(f"(?<=[{_LATIN}])(?=[{HANGUL}{THAI}{INDIC}])|(?<=[{HANGUL}{THAI}{INDIC}])(?=[{_LATIN}])")
"""Where one word ends and the next begins without a space."""


def romanised(text: str, requested: str, text_language: str | None = None) -> str:
    """The words of `text`, which are in lower case and separated by spaces, in ASCII where they can be romanised.

    `text_language` is the language of the text, and `requested` that of the description; see `make_slug`.
    """
    text = japanese_or_chinese(_SCRIPT_CHANGE.sub(" ", text), requested, text_language)
    text = alphabetic(thai(indic(korean(text))), requested, text_language)
    return " ".join(map(_ascii, text.split()))


def _ascii(word: str) -> str:
    """Latin letters without marks, and other letters by anyascii's tables; "" if the result can't be read as a word."""
    plain = "".join(char for char in unicodedata.normalize("NFKD", word) if not "\u0300" <= char <= "\u036f")
    if plain.isascii():
        return plain.lower()
    letters = "".join(char if char.isascii() else ascii_letters(char) for char in plain).lower()
    return letters if re.search(f"[{_LATIN}]", plain) or not _UNREADABLE.search(letters) else ""
