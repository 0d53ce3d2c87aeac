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
"""The romanisation of a syllable's initial consonant, vowel (medial) and final consonant, by their indices in Unicode's
order. `_LIAISON` is for a final consonant before a syllable that begins with a vowel."""
_N, _S, _SILENT, _H = 2, 9, 11, 18
"""The indices of the initials ㄴ, ㅅ, ㅇ and ㅎ."""
_I = 20
"""The index of the vowel ㅣ."""
_FINAL_D, _FINAL_J, _FINAL_T, _FINAL_H = 7, 22, 25, 27
"""The indices of the finals ㄷ, ㅈ, ㅌ and ㅎ."""
_AFTER_FINAL_H = {0: "k", 3: "t", 12: "ch"}
"""The initials ㄱ, ㄷ and ㅈ after a final ㅎ, ㄶ or ㅀ."""
_FINAL_WITHOUT_H = {_FINAL_H: "", 6: "n", 15: "l"}
"""The consonant that remains of a final ㅎ, ㄶ or ㅀ when its h merges with the following initial."""
_BEFORE_NASAL = {"k": "ng", "t": "n", "p": "m"}
"""Finals that become nasal before ㄴ and ㅁ."""


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
    """The romanisation of a final consonant and of the following initial consonant, assimilated to each other."""
    last = _FINALS[final]
    if following is None:
        return last, ""
    index, medial, _ = following
    initial = _INITIALS[index]
    if index == _SILENT:
        if medial == _I and final in (_FINAL_D, _FINAL_T):  # palatalised before i
            return "", "j" if final == _FINAL_D else "ch"
        return _LIAISON[final], ""
    if final in _FINAL_WITHOUT_H:
        if index in _AFTER_FINAL_H:
            return _FINAL_WITHOUT_H[final], _AFTER_FINAL_H[index]
        if index == _S:
            return _FINAL_WITHOUT_H[final], "ss" if final == _FINAL_H else "s"
        last = "n" if index == _N and final == _FINAL_H else _FINAL_WITHOUT_H[final] or last
    if index == _H and final in (_FINAL_D, _FINAL_T) and medial == _I:
        return "", "ch"
    if index == _H and final == _FINAL_J:
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
