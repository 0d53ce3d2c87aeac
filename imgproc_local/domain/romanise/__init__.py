"""The words of a text in ASCII letters and digits. Each part is romanised according to its script and language."""

from __future__ import annotations

import re
import unicodedata

from imgproc_local.domain.romanise.alphabets import alphabetic, ascii_letters
from imgproc_local.domain.romanise.dictionary import THAI, japanese_or_chinese, thai
from imgproc_local.domain.romanise.syllables import HANGUL, INDIC, indic, korean

_APOSTROPHES = "'’ʼ‘`´＇"
_ELIDING = frozenset(("fr", "it", "ca", "pt"))
"""Languages in which an apostrophe separates two words (l'été, d'água). Elsewhere it is part of a word (don't)."""
_INSIDE_WORDS = re.compile("[·‧⋅׳״\u00ad\u200b-\u200d\u2060\ufeff]")
"""Characters that are removed without separating words: the dot of Catalan l·l, Hebrew geresh and gershayim, soft
hyphens, zero-width joiners and non-joiners (Persian)."""
_LATIN = "a-z\u00c0-\u024f"
"""Lower-case Latin letters."""
_UNREADABLE = re.compile("[bcdfghjklmnpqrstvwxz]{4}")
"""Four consonants in a row, which show that a script was romanised without its vowels."""
_SCRIPT_CHANGE = re.compile(f"(?<=[{_LATIN}])(?=[{HANGUL}{THAI}{INDIC}])|(?<=[{HANGUL}{THAI}{INDIC}])(?=[{_LATIN}])")
"""Where one word ends and the next begins without a space."""


def romanised_words(text: str, requested: str, text_language: str | None = None) -> list[str]:
    """The words of `text` in lower-case ASCII letters and digits.

    `text_language` is the language of the text. If it is None, the language is inferred from the script and from
    letters that only one language uses; if several remain possible, `requested`, the language of the description, is
    assumed. Words that can't be romanised are left out.
    """
    language = text_language or requested
    text = unicodedata.normalize("NFC", text[:2000])
    text = re.sub(f"[{_APOSTROPHES}]", " " if language in _ELIDING else "", text)
    text = _INSIDE_WORDS.sub("", text).lower()
    # words are letters, marks and numbers; all other characters, such as symbols and emoji, separate them
    text = "".join(char if unicodedata.category(char)[0] in "LMN" else " " for char in text)
    text = japanese_or_chinese(_SCRIPT_CHANGE.sub(" ", text), requested, text_language)
    text = alphabetic(thai(indic(korean(text))), requested, text_language)
    return [part for word in text.split() for part in re.findall("[a-z0-9]+", _ascii(word))]


def _ascii(word: str) -> str:
    """Latin letters without marks, and other letters by anyascii's tables; "" if the result can't be read as a word."""
    plain = "".join(char for char in unicodedata.normalize("NFKD", word) if not "\u0300" <= char <= "\u036f")
    if plain.isascii():
        return plain.lower()
    letters = "".join(char if char.isascii() else ascii_letters(char) for char in plain).lower()
    return letters if re.search(f"[{_LATIN}]", plain) or not _UNREADABLE.search(letters) else ""
