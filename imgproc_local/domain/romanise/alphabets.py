"""Alphabets: Latin, Cyrillic, Greek, Georgian, Armenian, Arabic and Hebrew, by the system of each language.

Letters that no table names are romanised by anyascii.

Arabic, Persian and Hebrew write few vowels. Their names of places and frequent words are looked up in tables. Every
other word is romanised letter by letter, mostly without vowels.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

from anyascii import anyascii

_ARABIC, _HEBREW = "\u0620-\u0652\u0670-\u06d3\u06fa-\u06ff\u0750-\u077f", "\u05d0-\u05ea\u05b0-\u05c7"
_ARABIC_RUN, _HEBREW_RUN = (re.compile(rf"[{letters}]+(?:\s+[{letters}]+)*") for letters in (_ARABIC, _HEBREW))
_CYRILLIC_RUN = re.compile("[\u0300-\u036f\u0400-\u052f]+")
_GREEK_RUN = re.compile("[\u0300-\u036f\u0370-\u03ff\u1f00-\u1fff]+")


Rules = tuple[tuple[str, str], ...]
"""Regular expressions for letters that are romanised by their neighbours, with their replacements, in order."""


def romanisation(letters: Iterable[str], latin: str) -> dict[str, str]:
    """A map from each letter to its romanisation. `latin` lists these in order, separated by spaces; `-` means ""."""
    return dict(zip(letters, latin.replace("-", "").split(" "), strict=True))


def transliterated(text: str, letters: Mapping[str, str], rules: Rules = ()) -> str:
    """`text` in Latin letters: by the `rules`, then by the table `letters`, then by anyascii."""
    for pattern, replacement in rules:
        text = re.sub(pattern, replacement, text)
    return "".join(letters[char] if char in letters else ascii_letters(char) for char in text)


@cache
def ascii_letters(char: str) -> str:
    """The letters and digits that anyascii has for a character of any script, in lower case."""
    return re.sub("[^a-z0-9]", "", anyascii(char).lower())


_DANO_NORWEGIAN = str.maketrans({"æ": "ae", "ø": "oe", "å": "aa", "ä": "ae", "ö": "oe"})
_LATIN_DIGRAPHS = dict.fromkeys(("da", "nb", "nn", "no"), _DANO_NORWEGIAN) | {
    "de": str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "ẞ": "ss"})
}

_FOREIGN = re.compile("[^\x00-\x7fäöüßæøåàâçèéêëîôû]")
"""Letters that occur neither in German, Danish and Norwegian nor in their words from French."""

_SERBIAN = romanisation("ёжхцчшђјљњћџ", "yo z h c c s dj j lj nj c dz")
_CYRILLIC = {
    # Source: the system of Russian road signs, simplified: е is always e, ё always yo; soft and hard signs dropped
    "ru": {"ё": "yo"},
    # Source: resolution 55 of the Cabinet of Ministers of Ukraine, 2010
    "uk": romanisation("ёгийюя", "yo h y i iu ia"),
    # Source: Bulgarian Transliteration Act, 2009
    "bg": romanisation("ёхщъь", "yo h sht a y"),
    # Source: Gaj's Latin alphabet without diacritics, đ as dj
    "sr": _SERBIAN,
    # Source: Macedonian passports
    "mk": _SERBIAN | romanisation("жчшѓќѕџ", "zh ch sh gj kj dz dzh"),
    # Source: the instruction on geographical names of Belarus, 2007, without diacritics
    "be": romanisation("гежийцчшхёюя", "h je z i j c c s ch jo ju ja"),
    # Source: BGN/PCGN 1979 without diacritics
    "kk": {"ё": "yo"},
}
_IOTATED_IN_BELARUSIAN = "(?<=[бвгджзклмнпрстфхцчш])"
_CYRILLIC_RULES: dict[str, Rules] = {
    "bg": ((r"\bбългария\b", "bulgaria"), (r"ия\b", "ia")),
    "uk": (("зг", "zgh"), (r"\bє", "ye"), (r"\bї", "yi"), (r"\bй", "y"), (r"\bю", "yu"), (r"\bя", "ya")),
    "be": tuple((_IOTATED_IN_BELARUSIAN + letter, f"i{vowel}") for letter, vowel in zip("еёюя", "eoua", strict=True)),
}
_DISTINCTIVE_LETTERS = {
    "[їєґ]": "uk", "ў": "be", "[ѓќѕ]": "mk", "[ђћљњџј]": "sr", "[әғқңұһ]": "kk", "[ыэё]": "ru", "і": "uk",
    "(?<=[бвгджзклмнпрстфхцчш])ъ(?=[бвгджзклмнпрстфхцчшщ])": "bg",
}  # fmt: skip
"""Letters by which a language in Cyrillic is recognised. The first that occurs decides, so languages before it may
have the same letters."""

# Source: ELOT 743 / ISO 843
_GREEK_RULES: Rules = (
    ("ου\u0301?", "ou"),
    # the υ of αυ, ευ and ηυ sounds as v before vowels and voiced consonants, as f elsewhere; with a diaeresis it is a
    # vowel of its own
    ("(?<=[αεη])υ(?!\u0308)\u0301?(?=[αεηιουωβγδζλμνρ])", "v"),
    ("(?<=[αεη])υ(?!\u0308)\u0301?", "f"),
    ("(?<=[\u0370-\u03ff])[\u0300-\u036f]+", ""),
    (r"\bμπ", "b"),
    ("γγ", "ng"),
    ("γξ", "nx"),
    ("γχ", "nch"),
)
_CAUCASIAN = {"ռ": "r", "ւ": "v"}
"""Source: the national system of Georgia, 2002; BGN/PCGN 1981 for Armenian."""
_CAUCASIAN_RULES: Rules = ((r"\bև", "yev"), (r"\bո(?!ւ)", "vo"), (r"\bե", "ye"), ("ու", "u"))

_ARABIC_LETTERS = romanisation("اظعأإٱة", "a z a a i a a")
_LETTERS = {
    # Source: UNGEGN's system without diacritics
    "ar": _ARABIC_LETTERS,
    # Source: BGN/PCGN without diacritics
    "fa": _ARABIC_LETTERS | romanisation("ثذضقوة", "s z z gh v e"),
    # Source: the simplified transcription of the Academy of the Hebrew Language
    "he": romanisation("אחכךעצץש", "a ch ch ch a tz tz sh"),
}
_ARABIC_RULES: Rules = (
    (r"^ال(?=\w\w)", "al"),
    # between consonants, the semivowels waw and yeh stand for the long vowels u and i
    (r"(?<=[^\W\dاويی])و(?=[^\Wاويی]|\b)", "u"),
    (r"(?<=[^\W\dاويی])[يی](?=[^\Wاويی]|\b)", "i"),
)
_RULES: dict[str, Rules] = {
    "ar": _ARABIC_RULES,
    "fa": (*_ARABIC_RULES, ("ه$", "e")),
    "he": (
        (r"^ו(?=\w)", "v"), (r"(?<=\w)וו(?=\w)", "v"), (r"(?<=\w)ו", "o"), (r"(?<=\w)יי?", "i"), ("^פ", "p"),
        ("^כ", "k"), ("^ב", "b"), ("ה$", "a"),
    ),
}  # fmt: skip
_AFFIXES = {
    "ar": "وال+ wa_al+|بال+ bi_al+|لل+ li_al+|ال+ al+|و+ wa_+|ب+ bi_+|ل+ li_+",
    "fa": "+های +haye|+ها +ha|+ی +i",
    "he": "וה+ ve_ha+|שב+ she_be_+|ה+ ha+|ב+ be_+|ל+ le_+|מ+ mi_+|ו+ ve_+",
}
"""Articles, particles and endings that are written as one word with the word at +, and their romanisation, where _ is a
space. They are separated only if the rest of the word is in the table."""
_ADVERB = re.compile("(.{2,})(?:\u064b\u0627|\u0627\u064b)")
"""An Arabic word with the ending -an of adverbs: fathatan with alef, in either order."""


def alphabetic(text: str, requested: str, text_language: str | None) -> str:
    """`text` with the words of all alphabets in Latin letters: see `romanised_words`."""
    text = _cyrillic(text, requested, text_language)
    text = _GREEK_RUN.sub(lambda run: transliterated(unicodedata.normalize("NFD", run[0]), {}, _GREEK_RULES), text)
    text = re.sub(
        "[\u0531-\u058f\u10a0-\u10ff]+", lambda run: transliterated(run[0], _CAUCASIAN, _CAUCASIAN_RULES), text
    )
    # text in Arabic letters of an unknown language is read as Persian if it has letters that Arabic lacks
    persian = text_language == "fa" or (text_language != "ar" and re.search("[پچژگکیھہۀےٹڈڑں]", text))
    text = _ARABIC_RUN.sub(lambda run: _vowelless(run[0], "fa" if persian else "ar"), text)
    text = _HEBREW_RUN.sub(lambda run: _vowelless(run[0], "he"), text)
    # ä is ae in German, but not in a word with letters that German lacks
    digraphs = _LATIN_DIGRAPHS.get(text_language or requested, {})
    words = (word if _FOREIGN.search(word) else word.translate(digraphs) for word in text.split(" "))
    return " ".join(words) if digraphs else text


def language_of_letters(text: str) -> str | None:
    """The language that the Cyrillic letters of `text` show; None if they show none."""
    return next((code for letters, code in _DISTINCTIVE_LETTERS.items() if re.search(letters, text)), None)


def _cyrillic(text: str, requested: str, language: str | None) -> str:
    """Cyrillic in Latin letters.

    If `language` is not written in Cyrillic, the text is read as the language that its letters show; if they show none,
    as `requested` or, if that is not written in Cyrillic, as Russian.
    """
    if language not in _CYRILLIC:
        language = language_of_letters(text) or (requested if requested in _CYRILLIC else "ru")
    letters, rules = _CYRILLIC[language], _CYRILLIC_RULES.get(language, ())
    return _CYRILLIC_RUN.sub(lambda run: transliterated(run[0], letters, rules), text)


def _vowelless(text: str, language: str) -> str:
    """Words of Arabic, Persian or Hebrew in Latin letters. A name has at most four words."""
    words, out = text.split(), []
    position = 0
    while position < len(words):
        ends = range(min(len(words), position + 4), position, -1)
        found = ((end, _lookup(" ".join(words[position:end]), language)) for end in ends)
        end, name = next((pair for pair in found if pair[1]), (position + 1, ""))
        out.append(name or _letter_by_letter(words[position], language))
        position = end
    return " ".join(out)


@cache
def _table(language: str) -> dict[str, str]:
    """The romanisation of words and names by their normalised form. A name may have several words."""
    table: dict[str, str] = {}
    for kind in ("words", "names"):
        for line in (files(__package__) / "data" / f"{kind}-{language}.txt").read_text("utf-8").splitlines():
            written, latin = line.split("\t")
            table.setdefault(_normalised(written), latin)
    return table


def _normalised(text: str) -> str:
    """`text` without vowel marks, and with one letter for the variants of each, such as ا for أ."""
    text = re.sub("[\u0591-\u05bd\u05bf-\u05c7\u064b-\u0652\u0670ـ'׳״\"\u200c]", "", text)
    return text.translate(str.maketrans("أإآٱىيك", "ااااییک"))


def _lookup(written: str, language: str) -> str:
    """The romanisation of a word or name in the table, also with a prefix, a suffix or an adverb's ending; else ""."""
    table, adverb = _table(language), _ADVERB.fullmatch(written)
    for stem, ending in ((written, ""), (adverb[1] if adverb else "", "an")):
        plain = _normalised(stem)
        if plain in table:
            return table[plain] + ending
        for affix in _AFFIXES[language].split("|"):
            form, latin = affix.split()
            before, after = form.split("+")
            word = plain.removeprefix(before).removesuffix(after)
            if len(form) - 1 + len(word) == len(plain) and len(word) > 1 and word in table:
                return latin.replace("_", " ").replace("+", table[word]) + ending
    return ""


def _letter_by_letter(word: str, language: str) -> str:
    """`word` romanised letter by letter, with the vowels that are written."""
    plain = re.sub("[\u05b0-\u05c7\u064b-\u0652\u0670ـ]", "", word)
    return transliterated(plain, _LETTERS[language], _RULES[language]).replace("aa", "a")
