"""Detects the language of a text, unless it is uncertain.

A script that only one supported language uses determines the language. Otherwise the function words of one language
must clearly outnumber those of all others, so the language of a short text usually remains unknown.
"""

from __future__ import annotations

import re
from functools import cache

_FUNCTION_WORDS = {
    "en": "the of and to in is with for on at by from an a this that are was his her their its",
    "de": "der die das und ist mit von im am auf für den dem ein eine einer eines zu bei nicht vom zur zum über vor",
    "fr": "le la les des du de et un une dans sur avec est en au aux pour par qui sous ce cette d l",
    "es": "el la los las del de y un una en con es por para que al su se está sobre",
    "it": "il lo la gli le di del della dei delle e un una in con è per nel nella sul sulla al che alla dell",
    "pt": "o a os as do da dos das de e um uma em com é no na nos nas por para ao que à",
    "nl": "de het een van en in op met is te voor aan bij naar uit over zijn door een",
    "da": "og i på er en et af med til den det der som ved fra over ikke under",
    "sv": "och i på är en ett av med till den det som vid från för över inte under",
    "nb": "og i på er en et av med til den det som ved fra for over ikke under ei",
    "fi": "ja on ei se että oli kanssa sekä myös hän joka ovat mutta kun tai",
    "pl": "i w na z ze do jest nad pod przy się od po dla oraz nie we o",
    "cs": "a v na s se je u ve ze pod nad při jsou pro do po před z k",
    "sk": "a v na s sa je pri vo zo pod nad sú pre do po pred so z k",
    "sl": "in v na z s je pri pod nad so za se po ob ki do od",
    "hr": "i u na s je su sa za se pri pod od do iz kod ili koji nad",
    "hu": "a az és egy van nem is hogy előtt mellett alatt fölött között",
    "ro": "și în la de cu pe un o din este lângă sub peste pentru al ale lui",
    "tr": "ve bir bu ile için da de olan gibi üzerinde altında önünde çok",
    "et": "ja on ei see kes ning all ees juures koos peal oma kui mis",
    "lv": "un ir ar no uz pie par kas pēc pirms zem virs nav pa",
    "lt": "ir yra su iš ant prie po virš kad apie prieš už bei",
    "ca": "el la els les del de i un una amb en és per al dels a l d que sota",
    "id": "di dan yang dengan dari pada untuk ini itu ke dalam adalah oleh atas",
    "vi": "và của một trên trong là với ở những các cho tại người có",
    "ru": "и в на с не у из под над по за к от для это о при во со",
    "uk": "і в на з у та не із під над по за до від для це біля що й",
    "bg": "и в на с не от под над по за до при е са със във през край",
}
"""Articles, prepositions, conjunctions and similar words of each language in Latin or Cyrillic script."""
_LETTERS = {
    "en": "éèêïöçñ", "de": "äöüß", "fr": "àâæçéèêëîïôœùûüÿ", "es": "áéíóúüñ", "it": "àèéìíòóùú", "pt": "áâãàçéêíóôõúü",
    "nl": "éèëêïöüóáí", "da": "æøåé", "sv": "åäöé", "nb": "æøåéòôê", "fi": "äöåšž", "pl": "ąćęłńóśźż",
    "cs": "áčďéěíňóřšťúůýž",
    "sk": "áäčďéíĺľňóôŕšťúýž", "sl": "čšž", "hr": "čćđšž", "hu": "áéíóöőúüű", "ro": "ăâîșțşţ", "tr": "çğıöşüâîû",
    "et": "äöõüšž", "lv": "āčēģīķļņšūž",
    "lt": "ąčęėįšųūž", "ca": "àçéèíïóòúü·", "id": "é",
    "vi": "àáâãèéêìíòóôõùúýăđĩũơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
    "ru": "абвгдежзийклмнопрстуфхцчшщъыьэюяё", "uk": "абвгдежзийклмнопрстуфхцчшщьюяіїєґ",
    "bg": "абвгдежзийклмнопрстуфхцчшщъьюя",
}  # fmt: skip
"""The letters of each language besides a to z. A text with other letters is not in the language."""

MIN_SCORE = 6
"""The minimum score. Each function word in a text scores one point, and one more at its first occurrence, so three
different words are enough."""

_SCRIPTS = {
    name: re.compile(f"[{ranges}]")
    for name, ranges in {
        "latin": "A-Za-z\u00aa-\u024f\u1e00-\u1eff",
        "greek": "\u0370-\u03ff\u1f00-\u1fff",
        "cyrillic": "\u0400-\u052f",
        "hebrew": "\u0590-\u05ff",
        "arabic": "\u0600-\u06ff",
        "devanagari": "\u0900-\u097f",
        "thai": "\u0e00-\u0e7f",
        "kana": "\u3040-\u30ff",
        "han": "\u3400-\u9fff",
        "hangul": "\uac00-\ud7a3",
    }.items()
}
"""A pattern for one letter of each script."""
_SCRIPTS_OF = {
    "ru": ("cyrillic",), "uk": ("cyrillic",), "bg": ("cyrillic",), "el": ("greek",), "he": ("hebrew",),
    "ar": ("arabic",), "hi": ("devanagari",), "th": ("thai",), "ja": ("kana", "han"), "zh": ("han",),
    "ko": ("hangul", "han"),
}  # fmt: skip
"""The scripts of each language; all others use Latin."""
_LANGUAGE_OF_SCRIPT = {"hangul": "ko", "thai": "th", "greek": "el", "hebrew": "he"}
"""Scripts that only one supported language uses."""
_HINDI_WORDS = frozenset(("है", "हैं", "का", "की", "के", "में", "और", "पर", "को"))


def detect_language(text: str) -> str | None:
    """The ISO 639-1 code of the language of `text`; None if the language is uncertain."""
    letters = "".join(char for char in text if char.isalpha())
    if len(letters) < 2:
        return None
    counts = {name: len(pattern.findall(letters)) for name, pattern in _SCRIPTS.items()}
    if counts["kana"] and counts["kana"] + counts["han"] >= 0.8 * len(letters):
        return "ja"
    script, count = max(counts.items(), key=lambda item: item[1])
    if count < 0.8 * len(letters):
        return None
    match script:
        case "arabic":
            # Persian and Urdu have additional letters; an article or a preposition identifies Arabic
            foreign = re.search("[پچژگکیےٹڈ]", text)
            return "ar" if not foreign and re.search(r"\bال\w|\b(في|من|على)\b", text) else None
        case "devanagari":
            return "hi" if len(_HINDI_WORDS.intersection(text.split())) >= 2 else None
        case "han":
            # a text without kana may be Japanese; these characters are used in Chinese only
            return "zh" if re.search("[这们着过吗么说为个还没]|[的了在是].*[的了在是]", text) else None
        case "cyrillic" | "latin":
            return _detect_by_words(text.lower())
    return _LANGUAGE_OF_SCRIPT[script]


def function_words(language_code: str) -> frozenset[str]:
    """The articles, prepositions and similar words of a language; empty for languages without a list."""
    return _function_words_by_language().get(language_code, frozenset())


def scripts_of(language_code: str) -> tuple[str, ...]:
    """The names of the scripts of `language_code`."""
    return _SCRIPTS_OF.get(language_code, ("latin",))


def letters_by_script(text: str) -> dict[str, int]:
    """The number of letters of `text` in each script; "other" is for scripts that no supported language uses."""
    letters = "".join(char for char in text if char.isalpha())
    counts = {name: len(pattern.findall(letters)) for name, pattern in _SCRIPTS.items()}
    return counts | {"other": len(letters) - sum(counts.values())}


def has_foreign_letters(text: str, language_code: str) -> bool:
    """Whether `text` has a letter that `language_code` does not use; False for languages without a list of letters."""
    used = _LETTERS.get(language_code)
    return used is not None and any(char.isalpha() and not char.isascii() and char not in used for char in text.lower())


def is_readable(text: str, language_code: str) -> bool:
    """Whether all letters of `text` are in Latin, which all readers know, or in a script of `language_code`."""
    scripts = ("latin", *_SCRIPTS_OF.get(language_code, ()))
    letters = [char for char in text if char.isalpha()]
    return bool(letters) and all(any(_SCRIPTS[name].match(char) for name in scripts) for char in letters)


def _detect_by_words(text: str) -> str | None:
    """The language of a lower-case text in Latin or Cyrillic by its function words; None if it is uncertain."""
    letters = {char for char in text if char.isalpha() and not char.isascii()}
    words = re.findall(r"\w+", text)
    scores: list[tuple[int, str]] = []
    for code, listed in _function_words_by_language().items():
        if letters <= set(_LETTERS[code]):
            hits = [word for word in words if word in listed]
            scores.append((len(hits) + len(set(hits)), code))
    scores.sort(reverse=True)
    if not scores:
        return None
    (first, best), second = scores[0], scores[1][0] if len(scores) > 1 else 0
    if len(scores) == 1:
        return best if first else None
    return best if first >= MIN_SCORE and first >= 1.5 * second else None


@cache
def _function_words_by_language() -> dict[str, frozenset[str]]:
    return {code: frozenset(words.split()) for code, words in _FUNCTION_WORDS.items()}
