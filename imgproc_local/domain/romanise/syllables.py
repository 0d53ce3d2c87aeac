"""Scripts whose letters are syllables: Korean, the Indic scripts from Devanagari to Malayalam, and Japanese kana."""

from __future__ import annotations

import re
import unicodedata

from imgproc_local.domain.romanise.alphabets import Rules, ascii_letters, romanisation, transliterated

HANGUL = "가-힣"
INDIC = "\u0900-\u0d7f"
KANA = "\u3041-\u3096\u30a1-\u30fa\u30fc-\u30fe\u309d\u309e"

# ---- Korean. Source: Revised Romanisation, with the assimilation of consonants between syllables

_HANGUL_RUN = re.compile(f"[{HANGUL}]+")
_HANGUL_LETTERS = {"ᄅ": "r", "ᆨ": "k", "ᆮ": "t", "ᆸ": "p"}
_HANGUL_RULES: Rules = (
    # palatalised before i
    ("ᆮᄋ(?=ᅵ)", "j"), ("ᇀᄋ(?=ᅵ)|[ᆮᇀ]ᄒ(?=ᅵ)|ᆽᄒ", "ch"),
    # a final h merges with the initial after it
    ("ᆭ(?=[ᄀᄃᄌᄉ])", "ᆫᇂ"), ("ᆶ(?=[ᄀᄃᄌᄉ])", "ᆯᇂ"), ("ᇂᄀ", "k"), ("ᇂᄃ", "t"), ("ᇂᄌ", "ch"), ("(?<=[ᆫᆯ])ᇂᄉ", "s"),
    ("ᇂᄉ", "ss"), ("ᇂ(?=ᄂ)", "ᆫ"),
    # a final consonant is spoken with the vowel after it
    ("ᆨᄋ", "ᄀ"), ("ᆮᄋ", "ᄃ"), ("ᆸᄋ", "ᄇ"), ("[ᆯᆶ]ᄋ", "ᄅ"), ("ᆭᄋ", "ᄂ"), ("ᆪᄋ", "ks"), ("ᆹᄋ", "ps"), ("ᇂᄋ", ""),
    # a final that is written with several letters, or pronounced as another
    ("[ᆩᆪᆰᆿ](?!ᄋ)", "ᆨ"), ("[ᆺᆻᆽᆾᇀᇂ](?!ᄋ)", "ᆮ"), ("[ᆹᆵᇁ](?!ᄋ)", "ᆸ"), ("[ᆬᆭ](?!ᄋ)", "ᆫ"), ("[ᆲᆳᆴᆶ](?!ᄋ)", "ᆯ"),
    ("ᆱ(?!ᄋ)", "ᆷ"),
    # before and after r, and before n and m
    ("[ᆫᆯ]ᄅ|ᆯᄂ", "ll"), ("(?<=[ᆨᆮᆸᆷᆼ])ᄅ", "ᄂ"), ("ᆨ(?=[ᄂᄆ])", "ᆼ"), ("ᆮ(?=[ᄂᄆ])", "ᆫ"), ("ᆸ(?=[ᄂᄆ])", "ᆷ"),
)  # fmt: skip
"""How consonants change each other between syllables. A syllable is decomposed into an initial consonant, a vowel and a
final consonant."""


def korean(text: str) -> str:
    """Replaces runs of Hangul by their romanisation."""
    return _HANGUL_RUN.sub(
        lambda run: transliterated(unicodedata.normalize("NFD", run[0]), _HANGUL_LETTERS, _HANGUL_RULES), text
    )


# ---- Indic scripts, in one table because their blocks in Unicode have the same order
# Source: Hunterian transliteration for Devanagari, ISO 15919 for the other scripts, both without marks

_INDIC_LETTERS = romanisation("चछशषऋऌृॄ\u093c\u093d", "ch chh sh sh ri li ri ri - -")
_NUKTA = romanisation("कखगजडढफय", "q kh g z r rh f y")
_CONSONANT, _VOWEL_SIGN_OR_VIRAMA = re.compile("[\u0915-\u0939]"), re.compile("[\u093e-\u094d]")
_NUKTA_SIGN, _NASALS = "\u093c", "\u0901\u0902"
_DEVANAGARI, _BENGALI, _TAMIL = 0x0900, 0x0980, 0x0B80
"""The first characters of Unicode blocks, each of `_BLOCK` characters."""
_BLOCK = 0x80
_SILENT_AT_END = frozenset((_DEVANAGARI, _BENGALI, 0x0A00, 0x0A80))
"""The blocks of scripts in which a final inherent vowel is silent: Devanagari, Bengali, Gurmukhi, Gujarati."""
_SILENT_WITHIN = frozenset((_DEVANAGARI, _BENGALI, 0x0A00))
"""The blocks of scripts in which an inherent vowel may also be silent within a word: the same without Gujarati."""
_FINAL_M = frozenset((_TAMIL, 0x0C00, 0x0C80, 0x0D00))
"""The blocks of scripts in which a final anusvara is m: Tamil, Telugu, Kannada, Malayalam."""

_OUTSIDE_COMMON_ORDER = str.maketrans({
    # letters without a counterpart at the same place in Devanagari's block: Bengali khanda ta, Assamese ra and va;
    # Gurmukhi tippi and addak; Malayalam chillu letters
    "ৎ": "त्", "ৰ": "र", "ৱ": "व", "ੰ": "ं", "ੱ": "", "ൺ": "न्", "ൻ": "न्", "ർ": "र्", "ൽ": "ल्", "ൾ": "ल्",
})  # fmt: skip


def indic(text: str) -> str:
    """Replaces runs of Indic scripts by their romanisation."""
    return re.sub(f"[{INDIC}]+", lambda run: _indic_word(run[0]), text)


def _indic_word(run: str) -> str:
    """The romanisation of a word, with the letters of Devanagari in place of those of its own script."""
    block = ord(run[0]) // _BLOCK * _BLOCK
    letters = unicodedata.normalize("NFD", run.translate(_OUTSIDE_COMMON_ORDER))
    codes = (code if code < _DEVANAGARI + _BLOCK else code % _BLOCK + _DEVANAGARI for code in map(ord, letters))
    word = "".join(map(chr, codes))
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
    latin = transliterated(char, _INDIC_LETTERS)
    if _CONSONANT.match(char):
        has_nukta = following.startswith(_NUKTA_SIGN)
        inherent = "" if _VOWEL_SIGN_OR_VIRAMA.match(following, has_nukta) else "\x00"
        return (_NUKTA.get(char, latin) if has_nukta else latin) + inherent
    if char in _NASALS:
        labial = following[0] in "पफबभम" if following else block in _FINAL_M
        return "m" if labial else "ng" if block == _BENGALI and char == "\u0902" else "n"
    return latin if char.isdigit() or "\u0904" <= char <= "\u094c" else ""


# ---- kana. Source: modified Hepburn romanisation without length marks

_HIRAGANA_TO_KATAKANA = {code: code + 0x60 for code in (*range(0x3041, 0x3097), 0x309D, 0x309E)}
_KATAKANA = {small: ascii_letters(small).upper() for small in "ァィゥェォャュョヮ"} | {"ヶ": "ga", "ッ": "q"}
_CONTRACTIONS: Rules = (
    # シャ is sha, キャ kya, シェ she, イェ ye
    ("(?<=[sc]h)iY|(?<=j)iY", ""), ("iY", "y"), ("(?<=[sc]h)iE|(?<=j)iE", "e"), ("(?<![a-z])iE", "ye"),
    # ファ is fa, フュ fyu, ウィ wi, クァ kwa, ティ ti, トゥ tu
    ("(?<=[fv])u(?=[AIEO])|(?<=ts)u(?=[AIEO])", ""), ("(?<=[fv])uY", "y"), ("(?<![b-df-hj-np-z])u(?=[AIEO])", "w"),
    ("(?<=[kg])u(?=[AO])", "w"), ("(?<=[td])eI", "i"), ("(?<=[td])eY", "y"), ("(?<=[td])oU", "u"),
    # ッ doubles the consonant after it
    ("q+(?=ch)", "t"), ("q+(?=([a-pr-z]))", r"\1"),
)  # fmt: skip
"""How letters are contracted with the small letter after them, which is in capitals."""


def hepburn(kana: str) -> str:
    """The romanisation of hiragana and katakana: ッ doubles the consonant after it, and ー is dropped.

    A final ッ becomes `q`, because it may double the first consonant of the next word: see `without_q`.
    """
    katakana = re.sub("(.)ヽ", r"\1\1", kana.translate(_HIRAGANA_TO_KATAKANA))
    latin = "".join(_KATAKANA.get(letter) or ascii_letters(letter) for letter in re.findall("[ァ-ヺ]", katakana))
    for pattern, replacement in _CONTRACTIONS:
        latin = re.sub(pattern, replacement, latin)
    return re.sub("[^a-z]", "", re.sub("q(?!$)", "", latin.lower()))


def without_q(latin: str) -> str:
    """Replaces the `q` that `hepburn` writes for a final ッ by the consonant after it, if there is one."""
    latin = re.sub("q(?=ch)", "t", latin)
    return re.sub("q(?=([a-z]))", r"\1", latin).replace("q", "")


def without_length(latin: str) -> str:
    """`latin` with long o and u written as one letter, as is usual in Hepburn without macrons."""
    return latin.replace("ou", "o").replace("oo", "o").replace("uu", "u")
