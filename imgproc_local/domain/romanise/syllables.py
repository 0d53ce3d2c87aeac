"""Scripts whose letters are syllables: Korean, the Indic scripts from Devanagari to Malayalam, and Japanese kana."""

from __future__ import annotations

import re
import unicodedata

from imgproc_local.domain.romanise.alphabets import romanisation

HANGUL = "가-힣"
INDIC = "\u0900-\u0d7f"
KANA = "\u3041-\u3096\u30a1-\u30fa\u30fc-\u30fe\u309d\u309e"

# ---- Korean. Source: Revised Romanisation, with the assimilation of consonants between syllables

_HANGUL_RUN = re.compile(f"[{HANGUL}]+")
_INITIALS = [chr(code) for code in range(0x1100, 0x1113)]
_MEDIALS = [chr(code) for code in range(0x1161, 0x1176)]
_FINALS = [chr(code) for code in range(0x11A8, 0x11C3)]
"""The letters of a decomposed syllable: its initial consonant, vowel (medial) and final consonant."""
_LIAISON = romanisation(_FINALS, "g kk ks n nj n d r lg lm lb ls lt lp r m b ps s ss ng j ch k t p -")
"""The romanisation of a final consonant before a syllable that begins with a vowel."""
_HANGUL_LATIN = (
    romanisation(_INITIALS, "g kk n d tt r m b pp s ss - j jj ch k t p h")
    | romanisation(_MEDIALS, "a ae ya yae eo e yeo ye o wa wae oe yo u wo we wi yu eu ui i")
    | romanisation(_FINALS, "k k k n n n t l k m l l l p l m p p t t ng t t k t p t")
)
_ASSIMILATION = (
    # palatalised before i
    ("ᆮᄋ(?=ᅵ)", "j"), ("ᇀᄋ(?=ᅵ)|[ᆮᇀ]ᄒ(?=ᅵ)|ᆽᄒ", "ch"),
    # a final h merges with the initial after it
    ("ᆭ(?=[ᄀᄃᄌᄉ])", "ᆫᇂ"), ("ᆶ(?=[ᄀᄃᄌᄉ])", "ᆯᇂ"), ("ᇂᄀ", "k"), ("ᇂᄃ", "t"), ("ᇂᄌ", "ch"), ("(?<=[ᆫᆯ])ᇂᄉ", "s"),
    ("ᇂᄉ", "ss"), ("ᇂ(?=ᄂ)", "ᆫ"),
    # a final that is written with several letters, or pronounced as another
    ("[ᆨᆩᆪᆰᆿ](?!ᄋ)", "ᆨ"), ("[ᆮᆺᆻᆽᆾᇀᇂ](?!ᄋ)", "ᆮ"), ("[ᆸᆹᆵᇁ](?!ᄋ)", "ᆸ"), ("[ᆬᆭ](?!ᄋ)", "ᆫ"),
    ("[ᆲᆳᆴᆶ](?!ᄋ)", "ᆯ"), ("ᆱ(?!ᄋ)", "ᆷ"),
    # before and after r, and before n and m
    ("[ᆫᆯ]ᄅ|ᆯᄂ", "ll"), ("(?<=[ᆨᆮᆸᆷᆼ])ᄅ", "ᄂ"), ("ᆨ(?=[ᄂᄆ])", "ᆼ"), ("ᆮ(?=[ᄂᄆ])", "ᆫ"), ("ᆸ(?=[ᄂᄆ])", "ᆷ"),
)  # fmt: skip
"""Regular expressions for consonants that change each other, with what replaces them, in order."""


def korean(text: str) -> str:
    """Replaces runs of Hangul by their romanisation."""
    return _HANGUL_RUN.sub(lambda run: _hangul(run[0]), text)


def _hangul(run: str) -> str:
    letters = unicodedata.normalize("NFD", run)
    for pattern, replacement in _ASSIMILATION:
        letters = re.sub(pattern, replacement, letters)
    letters = re.sub("([ᆨ-ᇂ])ᄋ", lambda final: _LIAISON[final[1]], letters)
    return "".join(_HANGUL_LATIN.get(letter, letter) for letter in letters)


# ---- Indic scripts, in one table because their blocks in Unicode have the same order
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
_INDIC_RUN = re.compile(f"[{INDIC}]+")
_OUTSIDE_COMMON_ORDER = str.maketrans({
    # letters without a counterpart at the same place in Devanagari's block: Bengali khanda ta, Assamese ra and va;
    # Gurmukhi tippi and addak; Malayalam chillu letters
    "ৎ": "त्", "ৰ": "र", "ৱ": "व", "ੰ": "ं", "ੱ": "", "ൺ": "न्", "ൻ": "न्", "ർ": "र्", "ൽ": "ल्", "ൾ": "ल्",
})  # fmt: skip


def indic(text: str) -> str:
    """Replaces runs of Indic scripts by their romanisation."""
    return _INDIC_RUN.sub(lambda run: _indic_word(run[0]), text)


def _indic_word(run: str) -> str:
    """The romanisation of a word, with the letters of Devanagari in place of those of its own script."""
    block = ord(run[0]) // _BLOCK * _BLOCK
    letters = unicodedata.normalize("NFD", run.translate(_OUTSIDE_COMMON_ORDER))
    word = "".join(
        char if ord(char) < _DEVANAGARI + _BLOCK else chr(ord(char) % _BLOCK + _DEVANAGARI) for char in letters
    )
    if block == _TAMIL:
        # one Tamil letter is s between vowels, and ch at the beginning of a word, doubled or after a consonant
        word = re.sub("(?<!^)(?<!्)च(?!्)", "स", word)
    word = word.replace("ज्ञ", "ग्य")
    latin = "".join(_indic_letter(char, word[index + 1 : index + 3], block) for index, char in enumerate(word))
    # schwa deletion: the inherent vowel a is silent at the end of a word, except after a consonant with a semivowel
    # (mitra), and between VC and CV (V is a vowel, C a consonant)
    if block in _SILENT_AT_END and re.search("[aeiou\x00].*\x00$", latin) and not re.search("\u094d[यरलव]$", word):
        latin = latin[:-1]
    if block in _SILENT_WITHIN:
        latin = re.sub(
            "(?<=[aeiou\x00])([bcdfghjklmnpqrstvyz]{1,3})\x00(?=(?:[bcdfgjklmnpqrstvyz]h?)[aeiou])", r"\1", latin
        )
    return latin.replace("\x00", "a")


def _indic_letter(char: str, following: str, block: int) -> str:
    """The romanisation of one letter of Devanagari. An inherent vowel, which may be silent, is written as U+0000."""
    if char in _CONSONANTS:
        has_nukta = following.startswith(_NUKTA_SIGN)
        sign = following[1:2] if has_nukta else following[:1]
        inherent = "" if sign in _SIGNS or sign == _VIRAMA else "\x00"
        consonant = _NUKTA.get(char, _CONSONANTS[char]) if has_nukta else _CONSONANTS[char]
        return consonant + inherent
    if char in _VOWELS or char in _SIGNS:
        return _VOWELS.get(char) or _SIGNS[char]
    if char in _NASALS:
        labial = following[0] in "पफबभम" if following else block in _FINAL_M
        return "m" if labial else "ng" if block == _BENGALI and char == "\u0902" else "n"
    digit = unicodedata.digit(char, None)
    return "" if char in _DROPPED or digit is None else str(digit)


# ---- kana. Source: modified Hepburn romanisation without length marks

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


_KANA_LATIN = _kana_table()
_KANA_SYLLABLE = re.compile("|".join(sorted(_KANA_LATIN, key=len, reverse=True)))
_HIRAGANA_TO_KATAKANA = {code: code + 0x60 for code in (*range(0x3041, 0x3097), 0x309D, 0x309E)}


def hepburn(kana: str) -> str:
    """The romanisation of hiragana and katakana: ッ doubles the consonant after it, and ー is dropped.

    A final ッ becomes `q`, because it may double the first consonant of the next word: see `without_q`.
    """
    kana = re.sub("(.)ヽ", r"\1\1", kana.translate(_HIRAGANA_TO_KATAKANA))
    latin = _KANA_SYLLABLE.sub(lambda match: _KANA_LATIN[match[0]], kana)
    latin = re.sub("ッ+(?=ch)", "t", latin)
    latin = re.sub("ッ+(?=([a-z]))", r"\1", latin)
    return re.sub("[^a-z]", "", re.sub("ッ+$", "q", latin))


def without_q(latin: str) -> str:
    """Replaces the `q` that `hepburn` writes for a final ッ by the consonant after it, if there is one."""
    latin = re.sub("q(?=ch)", "t", latin)
    return re.sub("q(?=([a-z]))", r"\1", latin).replace("q", "")


def without_length(latin: str) -> str:
    """`latin` with long o and u written as one letter, as is usual in Hepburn without macrons."""
    return latin.replace("ou", "o").replace("oo", "o").replace("uu", "u")
