"""Indic scripts from Devanagari to Malayalam, in one table because their blocks in Unicode have the same order."""

from __future__ import annotations

import re
import unicodedata

from imgproc_local.domain.romanise.letters import romanisation

INDIC = "\u0900-\u0d7f"

# Source: Hunterian transliteration for Devanagari, ISO 15919 for the other scripts, both without marks
_CONSONANTS = romanisation(
    "कखगघङचछजझञटठडढणतथदधनऩपफबभमयरऱलळऴवशषसह",
    "k kh g gh n ch chh j jh n t th d dh n t th d dh n n p ph b bh m y r r l l l v sh sh s h",
)
_NUKTA = romanisation("कखगजडढफय", "q kh g z r rh f y")
_VOWELS = romanisation("अआइईउऊऋऌऍऎएऐऑऒओऔ", "a a i i u u ri li e e e ai o o o au")
_SIGNS = romanisation("ािीुूृॄॅॆेैॉॊोौ", "a i i u u ri ri e e e ai o o o au")
_VIRAMA, _NUKTA_SIGN = "\u094d", "\u093c"
_NASALS, _DROPPED = "\u0901\u0902", "\u093c\u094d\u0903\u093d"
_DEVANAGARI, _BENGALI, _TAMIL = 0x0900, 0x0980, 0x0B80
"""The first characters of Unicode blocks, each of `_BLOCK` characters."""
_BLOCK = 0x80
_SILENT_AT_END = frozenset((_DEVANAGARI, _BENGALI, 0x0A00, 0x0A80))
"""The blocks of scripts in which a final inherent vowel is silent: Devanagari, Bengali, Gurmukhi, Gujarati."""
_SILENT_WITHIN = frozenset((_DEVANAGARI, _BENGALI, 0x0A00))
"""The blocks of scripts in which an inherent vowel may also be silent within a word: the same without Gujarati."""
_FINAL_M = frozenset((_TAMIL, 0x0C00, 0x0C80, 0x0D00))
"""The blocks of scripts in which a final anusvara is m: Tamil, Telugu, Kannada, Malayalam."""
_RUN = re.compile(f"[{INDIC}]+")
_OUTSIDE_COMMON_ORDER = {
    # letters without a counterpart at the same place in Devanagari's block: Bengali khanda ta, Assamese ra and va;
    # Gurmukhi tippi and addak; Malayalam chillu letters
    "ৎ": "त्", "ৰ": "र", "ৱ": "व", "ੰ": "ं", "ੱ": "", "ൺ": "न्", "ൻ": "न्", "ർ": "र्", "ൽ": "ल्", "ൾ": "ल्",
}  # fmt: skip


def indic(text: str) -> str:
    """Replaces runs of Indic scripts by their romanisation."""
    return _RUN.sub(lambda run: _word(run[0]), text)


def _word(run: str) -> str:
    block = ord(run[0]) // _BLOCK * _BLOCK
    letters = unicodedata.normalize("NFD", "".join(_OUTSIDE_COMMON_ORDER.get(char, char) for char in run))
    devanagari = "".join(
        char if ord(char) < _DEVANAGARI + _BLOCK else chr(ord(char) % _BLOCK + _DEVANAGARI) for char in letters
    )
    if block == _TAMIL:
        # one Tamil letter is s between vowels, and ch at the beginning of a word, doubled or after a consonant
        devanagari = re.sub("(?<!^)(?<!्)च(?!्)", "स", devanagari)
    return _romanise(devanagari, block)


def _romanise(text: str, block: int) -> str:
    """The romanisation of a word that is written with the letters of Devanagari; `block` is that of its own script.

    Schwa deletion: in some scripts the inherent vowel a is silent at the end of a word, except after a consonant with a
    semivowel (`mitra`), and between VC and CV (V is a vowel, C a consonant).
    """
    text = text.replace("ज्ञ", "ग्य")
    out: list[str] = []
    for index, char in enumerate(text):
        following = text[index + 1 : index + 3]
        if char in _CONSONANTS:
            nukta = following.startswith(_NUKTA_SIGN)
            out.append(_NUKTA.get(char, _CONSONANTS[char]) if nukta else _CONSONANTS[char])
            sign = following[1:2] if nukta else following[:1]
            if sign not in _SIGNS and sign != _VIRAMA:
                out.append("\x00")  # the inherent vowel
        elif char in _VOWELS or char in _SIGNS:
            out.append(_VOWELS.get(char) or _SIGNS[char])
        elif char in _NASALS:
            labial = following[0] in "पफबभम" if following else block in _FINAL_M
            out.append("m" if labial else "ng" if block == _BENGALI and char == "\u0902" else "n")
        elif char not in _DROPPED:
            digit = unicodedata.digit(char, None)
            out.append("" if digit is None else str(digit))
    latin = "".join(out)
    if block in _SILENT_AT_END and re.search("[aeiou\x00].*\x00$", latin) and not re.search("\u094d[यरलव]$", text):
        latin = latin[:-1]
    if block in _SILENT_WITHIN:
        latin = re.sub(
            "(?<=[aeiou\x00])([bcdfghjklmnpqrstvyz]{1,3})\x00(?=(?:[bcdfgjklmnpqrstvyz]h?)[aeiou])", r"\1", latin
        )
    return latin.replace("\x00", "a")
