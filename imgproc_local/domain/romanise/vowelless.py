"""Arabic, Persian and Hebrew, which write few vowels.

Names of places and frequent words are looked up in tables. Every other word is romanised letter by letter, and dropped
if the result can't be pronounced, such as `brj`.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from imgproc_local.domain.romanise.letters import romanisation

ARABIC = "\u0620-\u0652\u0670-\u06d3\u06fa-\u06ff\u0750-\u077f"
HEBREW = "\u05d0-\u05ea\u05b0-\u05c7"

_ARABIC_LETTERS = romanisation(
    "ابتثجحخدذرزسشصضطظعغفقكلمنهويأإآٱءؤئةىپچژگ",
    "a b t th j h kh d dh r z s sh s d t z a gh f q k l m n h w y a i a a - u i a a p ch zh g",
)
_LETTERS = {
    # Source: UNGEGN's system without diacritics
    "ar": _ARABIC_LETTERS,
    # Source: BGN/PCGN without diacritics
    "fa": _ARABIC_LETTERS | romanisation("ثذضظقوة", "s z z z gh v e"),
    # Source: the simplified transcription of the Academy of the Hebrew Language
    "he": romanisation("אבגדהוזחטיכךלמםנןסעפףצץקרשת", "a v g d h v z ch t y ch ch l m m n n s a f f tz tz k r sh t"),
}
_PREFIXES = {
    "ar": (("وال", "wa al"), ("بال", "bi al"), ("لل", "li al"), ("ال", "al"), ("و", "wa "), ("ب", "bi "), ("ل", "li ")),
    "fa": (),
    "he": (("וה", "ve ha"), ("שב", "she be "), ("ה", "ha"), ("ב", "be "), ("ל", "le "), ("מ", "mi "), ("ו", "ve ")),
}
"""Articles and particles that are written as one word with the next word, and their romanisation. They are separated
only if the rest of the word is in the table."""
_SUFFIXES = {"fa": (("های", "haye"), ("ها", "ha"), ("ی", "i")), "ar": (), "he": ()}
"""Plural and indefinite endings of Persian, which are joined to the romanised word."""
_ADVERB = re.compile("(.{2,})(?:\u064b\u0627|\u0627\u064b)")
"""An Arabic word with the ending -an of adverbs: fathatan with alef, in either order."""
_MAX_NAME_WORDS = 4
_PRONOUNCEABLE = re.compile(
    "(?:(?:[bcdfghjklmnpqrstvwxyz]|sh|ch|kh|gh|th|dh|zh|tz)?[aeiou])+(?:[bdfghjklmnpqrstvwz]|sh|ch|kh|gh|tz)?"
)
"""A word whose syllables have a vowel and at most one consonant before it; one more consonant may end it."""


def arabic_script(text: str, language: str) -> str:
    """Arabic or Persian in Latin letters.

    If `language` is neither `ar` nor `fa`, the text is read as Persian if it has letters that Arabic lacks.
    """
    if language not in ("ar", "fa"):
        language = "fa" if re.search("[پچژگکیھہۀےٹڈڑں]", text) else "ar"
    return _words(text, language)


def hebrew(text: str) -> str:
    """Hebrew in Latin letters."""
    return _words(text, "he")


@cache
def _table(language: str) -> dict[str, str]:
    """The romanisation of words and names by their normalised form. A name may have several words."""
    table: dict[str, str] = {}
    for kind in ("words", "names"):
        content = (files(__package__) / "data" / f"{kind}-{language}.txt").read_text("utf-8")
        for line in content.splitlines():
            written, latin = line.split("\t")
            table.setdefault(_normalised(written), latin)
    return table


def _normalised(text: str) -> str:
    """`text` without vowel marks, and with one letter for the variants of each, such as ا for أ."""
    text = re.sub("[\u0591-\u05bd\u05bf-\u05c7\u064b-\u0652\u0670ـ'׳״\"]", "", text)
    return text.translate(str.maketrans("أإآٱىيك", "ااااییک")).replace("\u200c", "")


def _words(text: str, language: str) -> str:
    """The romanised words of `text`; "" if more than half of them would be dropped."""
    words = text.split()
    table = _table(language)
    out: list[str] = []
    dropped = position = 0
    while position < len(words):
        for end in range(min(len(words), position + _MAX_NAME_WORDS), position + 1, -1):
            name = _lookup(" ".join(words[position:end]), language, table)
            if name:
                out.append(name)
                position = end
                break
        else:
            word = words[position]
            latin = _lookup(word, language, table) or _letter_by_letter(word, language)
            out.append(latin)
            dropped += not latin
            position += 1
    return " ".join(filter(None, out)) if dropped * 2 <= len(words) else ""


def _lookup(word: str, language: str, table: dict[str, str]) -> str:
    """The romanisation of a word or name in the table, also of an adverb that is made of it; else ""."""
    latin = _lookup_base(word, language, table)
    adverb = None if latin else _ADVERB.fullmatch(word)
    stem = _lookup_base(adverb[1], language, table) if adverb else ""
    return stem + "an" if stem else latin


def _lookup_base(word: str, language: str, table: dict[str, str]) -> str:
    """The romanisation of a word or name in the table, also with a prefix or a suffix of the language; else ""."""
    plain = _normalised(word)
    if plain in table:
        return table[plain]
    for prefix, latin in _PREFIXES[language]:
        rest = plain.removeprefix(prefix)
        if rest != plain and len(rest) > 1 and rest in table:
            return latin + table[rest]
    for suffix, latin in _SUFFIXES[language]:
        rest = plain.removesuffix(suffix)
        if rest != plain and rest in table:
            return table[rest] + latin
    return ""


def _letter_by_letter(word: str, language: str) -> str:
    """`word` romanised letter by letter if the result can be pronounced or has no letters; else ""."""
    plain = re.sub("[\u05b0-\u05c7\u064b-\u0652\u0670ـ]", "", word)
    if language == "he":
        plain = re.sub(r"^ו(?=\w)", "v", plain)
        plain = re.sub(r"(?<=\w)וו(?=\w)", "v", plain)
        plain = re.sub(r"(?<=\w)ו", "o", plain)
        plain = re.sub(r"(?<=\w)יי?", "i", plain)
        plain = re.sub(r"^ב", "b", re.sub(r"^כ", "k", re.sub(r"^פ", "p", plain)))
        plain = re.sub("ה$", "a", plain)
    else:
        plain = plain.replace("ی", "ي").replace("ک", "ك")
        plain = re.sub(r"^ال(?=\w\w)", "al", plain)
        # between consonants, the semivowels waw and yeh stand for the long vowels u and i
        plain = re.sub(r"(?<=[^\W\dاوي])و(?=[^\Wاوي]|\b)", "u", plain)
        plain = re.sub(r"(?<=[^\W\dاوي])ي(?=[^\Wاوي]|\b)", "i", plain)
        if language == "fa":
            plain = re.sub("ه$", "e", plain)
    latin = "".join(_LETTERS[language].get(char, char) for char in plain).replace("aa", "a")
    is_number = not re.search("[^\x00-\x7f]|[a-z]", latin)
    return latin if is_number or _PRONOUNCEABLE.fullmatch(latin) else ""
