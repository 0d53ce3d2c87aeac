"""Korean: Revised Romanisation, with the assimilation of consonants between syllables."""

from __future__ import annotations

import re

from imgproc_local.domain.romanise.letters import romanisation

HANGUL = "가-힣"
_RUN = re.compile(f"[{HANGUL}]+")

_INITIALS = romanisation(range(19), "g kk n d tt r m b pp s ss - j jj ch k t p h")
_MEDIALS = romanisation(range(21), "a ae ya yae eo e yeo ye o wa wae oe yo u wo we wi yu eu ui i")
_FINALS = romanisation(range(28), "- k k k n n n t l k m l l l p l m p p t t ng t t k t p t")
_LIAISON = romanisation(range(28), "- g kk ks n nj n d r lg lm lb ls lt lp r m b ps s ss ng j ch k t p -")
"""The romanisation of a syllable's initial consonant, vowel and final consonant, by their indices in Unicode's order.
`_LIAISON` is for a final consonant before a syllable that begins with a vowel."""
_SILENT, _H, _I = 11, 18, 20
"""The indices of the initials ㅇ and ㅎ, and of the vowel ㅣ."""
_AFTER_FINAL_H = {0: "k", 3: "t", 12: "ch"}
"""The initials ㄱ, ㄷ and ㅈ after a final ㅎ, ㄶ or ㅀ."""
_FINAL_WITHOUT_H = {27: "", 6: "n", 15: "l"}
_BEFORE_NASAL = {"k": "ng", "t": "n", "p": "m"}


def korean(text: str) -> str:
    """Replaces runs of Hangul by their romanisation."""
    return _RUN.sub(lambda run: _word(run[0]), text)


def _word(run: str) -> str:
    syllables = [
        ((ord(char) - 0xAC00) // 588, (ord(char) - 0xAC00) % 588 // 28, (ord(char) - 0xAC00) % 28) for char in run
    ]
    out: list[str] = []
    initial = _INITIALS[syllables[0][0]]
    for (_, medial, final), following in zip(syllables, [*syllables[1:], None], strict=True):
        last, following_initial = _boundary(final, following)
        out.append(initial + _MEDIALS[medial] + last)
        initial = following_initial
    return "".join(out)


def _boundary(final: int, following: tuple[int, int, int] | None) -> tuple[str, str]:
    """A final consonant and the initial consonant of the syllable after it, as they sound together."""
    last = _FINALS[final]
    if following is None:
        return last, ""
    index, medial, _ = following
    initial = _INITIALS[index]
    if index == _SILENT:
        if medial == _I and final in (7, 25):  # ㄷ and ㅌ are palatalised before i
            return "", "j" if final == 7 else "ch"
        return _LIAISON[final], ""
    if final in _FINAL_WITHOUT_H:
        if index in _AFTER_FINAL_H:
            return _FINAL_WITHOUT_H[final], _AFTER_FINAL_H[index]
        if index == 9:  # ㅅ
            return _FINAL_WITHOUT_H[final], "ss" if final == 27 else "s"
        last = "n" if index == 2 and final == 27 else _FINAL_WITHOUT_H[final] or last
    if index == _H and final in (7, 25) and medial == _I:
        return "", "ch"
    if index == _H and final == 22:
        return "", "ch"
    if initial == "r":
        if last in ("l", "n"):
            return "l", "l"
        if last:
            return _BEFORE_NASAL.get(last, last), "n"
    if initial == "n" and last == "l":
        return "l", "l"
    if initial in ("n", "m"):
        return _BEFORE_NASAL.get(last, last), initial
    return last, initial
