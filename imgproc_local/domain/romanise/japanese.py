"""Japanese: modified Hepburn romanisation without length marks, kanji by the readings of a dictionary."""

from __future__ import annotations

import re
import unicodedata

from msgspec.structs import replace

from imgproc_local.domain.romanise.dictionary import joined, load_dictionary
from imgproc_local.domain.romanise.letters import romanisation

HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff々〆〇"
KANA = "\u3041-\u3096\u30a1-\u30fa\u30fc-\u30fe\u309d\u309e"

_ROWS = {
    "": "アイウエオ", "k": "カキクケコ", "s": "サ_スセソ", "t": "タ__テト", "n": "ナニヌネノ", "h": "ハヒ_ヘホ",
    "m": "マミムメモ", "y": "ヤ_ユ_ヨ", "r": "ラリルレロ", "w": "ワヰ_ヱ_", "g": "ガギグゲゴ", "z": "ザ_ズゼゾ",
    "d": "ダ__デド", "b": "バビブベボ", "p": "パピプペポ",
}  # fmt: skip
_IRREGULAR = {
    "シ": "shi", "チ": "chi", "ツ": "tsu", "フ": "fu", "ジ": "ji", "ヂ": "ji", "ヅ": "zu", "ヲ": "o", "ン": "n",
    "ヴ": "vu", "ヶ": "ga", "ヵ": "ka", "ヴァ": "va", "ヴィ": "vi", "ヴェ": "ve", "ヴォ": "vo", "ファ": "fa",
    "フィ": "fi", "フェ": "fe", "フォ": "fo", "フュ": "fyu", "ティ": "ti", "ディ": "di", "テュ": "tyu",
    "デュ": "dyu", "トゥ": "tu", "ドゥ": "du", "ウィ": "wi", "ウェ": "we", "ウォ": "wo", "シェ": "she",
    "チェ": "che", "ジェ": "je", "ツァ": "tsa", "ツェ": "tse", "ツォ": "tso", "イェ": "ye", "クァ": "kwa",
    "クォ": "kwo", "グァ": "gwa",
}  # fmt: skip
_SMALL = dict(zip("ァィゥェォャュョヮ", "アイウエオヤユヨワ", strict=True))


def _kana_table() -> dict[str, str]:
    table = dict(_IRREGULAR)
    for consonant, row in _ROWS.items():
        table |= {letter: consonant + vowel for vowel, letter in zip("aiueo", row, strict=True) if letter != "_"}
    # contracted sounds: キャ is kya, シャ is sha
    for letter, latin in list(table.items()):
        if latin.endswith("i") and len(letter) == 1:
            stem = latin[:-1] + ("" if latin in ("shi", "chi", "ji") else "y")
            table |= {letter + small: stem + vowel for small, vowel in zip("ャュョ", "auo", strict=True)}
    return table | {small: table[large] for small, large in _SMALL.items()}


_TABLE = _kana_table()
_SYLLABLE = re.compile("|".join(sorted(_TABLE, key=len, reverse=True)))
_HIRAGANA_TO_KATAKANA = {code: code + 0x60 for code in (*range(0x3041, 0x3097), 0x309D, 0x309E)}
_KATAKANA_RUN = re.compile("[\u30a1-\u30fa\u30fc-\u30fe]+")
_COUNTERS = romanisation("年月日時分人名円階", "nen gatsu nichi ji fun nin mei en kai")
"""Counters and their readings after digits. As words, the same characters have other readings."""
_COUNTER = re.compile("(?<=[0-9])[" + "".join(_COUNTERS) + "]")
_RUN = re.compile(f"[{HAN}{KANA}]+")


def hepburn(kana: str) -> str:
    """The romanisation of hiragana and katakana: ッ doubles the consonant after it, and ー is dropped.

    A final ッ becomes `q`, because it may double the first consonant of the next word: see `_without_q`.
    """
    kana = re.sub("(.)ヽ", r"\1\1", kana.translate(_HIRAGANA_TO_KATAKANA))
    latin = _SYLLABLE.sub(lambda match: _TABLE[match[0]], kana)
    latin = re.sub("ッ+(?=ch)", "t", latin)
    latin = re.sub("ッ+(?=([a-z]))", r"\1", latin)
    return re.sub("[^a-z]", "", re.sub("ッ+$", "q", latin))


def without_length(latin: str) -> str:
    """`latin` with long o and u written as one letter, as is usual in Hepburn without macrons."""
    return latin.replace("ou", "o").replace("oo", "o").replace("uu", "u")


def japanese(text: str) -> str:
    """Replaces runs of kana and kanji by their romanised words.

    A run without kanji is romanised as one word, because hiragana alone can't be segmented with certainty. A character
    without a reading is dropped.
    """
    text = _COUNTER.sub(lambda counter: f" {_COUNTERS[counter[0]]} ", unicodedata.normalize("NFKC", text))
    return _RUN.sub(lambda run: f" {_words(run[0])} ", text)


def _words(run: str) -> str:
    if not re.search(f"[{HAN}]", run):
        return _without_q(without_length(hepburn(run)))
    words = load_dictionary("japanese").segment(run, _KATAKANA_RUN)
    words = [word if word.latin else replace(word, latin=hepburn(word.written)) for word in words]
    return _without_q(" ".join(joined(words)))


def _without_q(latin: str) -> str:
    """Replaces the `q` that `hepburn` writes for a final ッ by the consonant after it, if there is one."""
    latin = re.sub("q(?=ch)", "t", latin)
    return re.sub("q(?=([a-z]))", r"\1", latin).replace("q", "")
