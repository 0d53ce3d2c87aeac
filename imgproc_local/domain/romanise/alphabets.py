"""Latin, Cyrillic, Greek, Georgian and Armenian, by the transliteration systems that each language uses."""

from __future__ import annotations

import re
import unicodedata

from imgproc_local.domain.romanise.letters import romanisation

_UMLAUTS_WITH_E = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "ẞ": "ss"}
_DANO_NORWEGIAN = {"æ": "ae", "ø": "oe", "å": "aa", "ä": "ae", "ö": "oe"}
_LATIN_DIGRAPHS = {
    "de": _UMLAUTS_WITH_E,
    "da": _DANO_NORWEGIAN,
    "nb": _DANO_NORWEGIAN,
    "nn": _DANO_NORWEGIAN,
    "no": _DANO_NORWEGIAN,
}

_RUSSIAN = romanisation(
    "абвгдеёжзийклмнопрстуфхцчшщъыьэюя", "a b v g d e yo zh z i y k l m n o p r s t u f kh ts ch sh shch - y - e yu ya"
)
_SERBIAN = _RUSSIAN | romanisation("жхцчшђјљњћџ", "z h c c s dj j lj nj c dz")
_CYRILLIC = {
    # Source: the system of Russian road signs, simplified: е is always e, ё always yo; soft and hard signs dropped
    "ru": _RUSSIAN,
    # Source: resolution 55 of the Cabinet of Ministers of Ukraine, 2010; initial letters in _ukrainian
    "uk": _RUSSIAN | romanisation("гґиіїєй", "h g y i i ie i"),
    # Source: Bulgarian Transliteration Act, 2009
    "bg": _RUSSIAN | romanisation("хщъь", "h sht a y"),
    # Source: Gaj's Latin alphabet without diacritics, đ as dj
    "sr": _SERBIAN,
    # Source: Macedonian passports
    "mk": _SERBIAN | romanisation("жчшѓќѕџ", "zh ch sh gj kj dz dzh"),
    # Source: the instruction on geographical names of Belarus, 2007, without diacritics; iotated letters in _belarusian
    "be": _RUSSIAN | romanisation("гжійўцчшх", "h z i j u c c s ch"),
    # Source: BGN/PCGN 1979 without diacritics
    "kk": _RUSSIAN | romanisation("әғқңөұүһіё", "a gh q ng o u u h i yo"),
}
_DISTINCTIVE_LETTERS = (
    ("uk", re.compile("[їєґ]")),
    ("be", re.compile("ў")),
    ("mk", re.compile("[ѓќѕ]")),
    ("sr", re.compile("[ђћљњџј]")),
    ("kk", re.compile("[әғқңұһ]")),
    ("ru", re.compile("[ыэё]")),
    ("uk", re.compile("і")),
    ("bg", re.compile("(?<=[бвгджзклмнпрстфхцчш])ъ(?=[бвгджзклмнпрстфхцчшщ])")),
)
"""Letters by which a language in Cyrillic is recognised. The first row that matches decides, so languages of rows above
it may have the same letters."""

# Source: ELOT 743 / ISO 843; letter groups in _greek
_GREEK = romanisation("αβγδεζηθικλμνξοπρσςτυφχψω", "a v g d e z i th i k l m n x o p r s s t y f ch ps o")
# Source: the national system of Georgia, 2002
_GEORGIAN = romanisation(
    "აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ", "a b g d e v z t i k l m n o p zh r s t u p k gh q sh ch ts dz ts ch kh j h"
)
# Source: BGN/PCGN 1981; initial letters in _armenian
_ARMENIAN = romanisation(
    "աբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆ",
    "a b g d e z e y t zh i l kh ts k h dz gh ch m y n sh o ch p j r s v t r ts v p k o f",
)


def latin(text: str, language: str) -> str:
    """Replaces letters with diacritics by the two letters that `language` writes instead: ä by ae in German."""
    return _replace(text, _LATIN_DIGRAPHS.get(language, {}))


def cyrillic(text: str, language: str, requested: str) -> str:
    """Cyrillic in Latin letters.

    If `language` is "" or not written in Cyrillic, the text is read as the language that its letters show; if they show
    none, as `requested` or, if that is not written in Cyrillic, as Russian.
    """
    if not re.search("[\u0400-\u052f]", text):
        return text
    if language not in _CYRILLIC:
        default = requested if requested in _CYRILLIC else "ru"
        language = next((code for code, letters in _DISTINCTIVE_LETTERS if letters.search(text)), default)
    if language == "bg":
        text = re.sub(r"ия\b", "ia", re.sub(r"\bбългария\b", "bulgaria", text))
    elif language == "uk":
        text = _ukrainian(text)
    elif language == "be":
        text = _belarusian(text)
    return _replace(text, _CYRILLIC[language])


def greek(text: str) -> str:
    """Greek in Latin letters."""
    if not re.search("[\u0370-\u03ff\u1f00-\u1fff]", text):
        return text
    plain = unicodedata.normalize("NFD", text)
    plain = plain.replace("ου\u0301", "ού").replace("ου", "ou").replace("ού", "ou")
    # the υ of αυ, ευ and ηυ sounds as v before vowels and voiced consonants, as f elsewhere; with a diaeresis it is
    # a vowel of its own
    pairs = re.compile("([αεη])υ(?!\u0308)(\u0301?)(?=(.?))")
    plain = pairs.sub(lambda m: m[1] + ("v" if m[3] and m[3] in "αεηιουωβγδζλμνρ" else "f"), plain)
    plain = re.sub("(?<=[\u0370-\u03ff])[\u0300-\u036f]+", "", plain)
    plain = re.sub(r"\bμπ", "b", plain)
    for group, letters in (("γγ", "ng"), ("γξ", "nx"), ("γχ", "nch")):
        plain = plain.replace(group, letters)
    return unicodedata.normalize("NFC", _replace(plain, _GREEK))


def caucasian(text: str) -> str:
    """Georgian and Armenian in Latin letters."""
    text = re.sub(r"\bե", "ye", re.sub(r"\bո(?!ւ)", "vo", re.sub(r"\bև", "yev", text)))
    text = text.replace("ու", "u").replace("և", "ev")
    return _replace(text, _GEORGIAN | _ARMENIAN)


def _replace(text: str, letters: dict[str, str]) -> str:
    return "".join(letters.get(char, char) for char in text)


def _ukrainian(text: str) -> str:
    """Romanises зг, and letters whose romanisation at the beginning of a word differs (є is ye there, ie elsewhere)."""
    text = text.replace("зг", "zgh")
    for letter, initial in (("є", "ye"), ("ї", "yi"), ("й", "y"), ("ю", "yu"), ("я", "ya")):
        text = re.sub(rf"\b{letter}", initial, text)
    return text.replace("ю", "iu").replace("я", "ia")


def _belarusian(text: str) -> str:
    """Romanises е, ё, ю and я: with i after consonants, with j elsewhere."""
    for letter, vowel in (("е", "e"), ("ё", "o"), ("ю", "u"), ("я", "a")):
        text = re.sub(f"(?<=[бвгджзклмнпрстфхцчш]){letter}", f"i{vowel}", text)
        text = text.replace(letter, f"j{vowel}")
    return text
