"""What a text claims: its quotations, numbers, names and foreign words, and whether another text has them."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.vision.languages import language_table, straight
from imgproc_local.vision.llm.prompt import DRAFT_LANGUAGE
from imgproc_local.vision.text.language import detect_language, function_words, is_readable, scripts_of
from imgproc_local.vision.text.words import casefolded_words, letters_and_digits, letters_by_script, words_of

# ---- quotations

QUOTED = re.compile(
    r"“[^“”]*[“”]|„[^„“”]*[“”]|”[^“”]*[“”]|«[^«»]*»|»[^«»]*«|「[^「」]*」|『[^『』]*』|《[^《》]*》|(?<!\w)\"[^\"]*\""
    r"|‘[^‘’]*’|‚[^‚‘’]*[‘’]|(?<!\w)'[^']+'(?!\w)|(?<!\w)’[^’]+’(?!\w)"
)


def missing_quotation(text: str, *known: str) -> str:
    """The first quotation in `text` that none of the `known` texts has, in quotation marks; "" if there is none.

    One character in ten may differ, because OCR may misread some.
    """
    letters = [letters_and_digits(each) for each in known]
    for quotation in (quoted[1:-1] for quoted in QUOTED.findall(text)):
        quoted = letters_and_digits(quotation)
        if len(quoted) > 2 and not any(_errors(quoted, each) <= 0.1 * len(quoted) for each in letters):
            # a complaint must fit into `_SPARE_TOKENS` of `llama.py`
            return f"“{quotation.strip()}”" if len(quotation) <= 60 else f"“{quotation[:60]}…”"
    return ""


def _errors(wanted: str, text: str) -> int:
    """The edit distance between `wanted` and the most similar part of `text`."""
    row = [0] * (len(text) + 1)
    for index, character in enumerate(wanted, 1):
        previous, row[0] = row[0], index
        for column, found in enumerate(text, 1):
            substituted = previous + (character != found)
            previous, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, substituted)
    return min(row)


# ---- foreign words


def foreign_word(text: str, language: str, known: str) -> str | None:
    """The complaint about the first word in `text` in letters of another script than those of `language`, or in small
    Latin ones in a language with another script, that is not in `known`.
    """
    scripts, known_words = set(scripts_of(language)), casefolded_words(known)
    for word in words_of(text):
        found = {script for script, count in letters_by_script(word).items() if count}
        is_foreign = found - scripts - {"latin"} or (found == {"latin"} - scripts and word.islower() and len(word) > 3)
        if is_foreign and word.casefold() not in known_words:
            return f"it contained “{word[:60]}”, which is not in {LANGUAGES[language].name}"
    return None


# ---- numbers

_ROMAN = dict(enumerate(("XIII", "XIV", "XV", "XVI", "XVII", "XVIII", "XIX", "XX", "XXI"), 13))


def _lost_number(draft: str, translation: str, language: str) -> str:
    """A number of `draft` that its translation into `language` does not have, or "".

    Numbers up to twelve may be words, unless there is another one instead; centuries may have Roman numerals, and large
    numbers are written in units of 10,000 in Chinese, Japanese and Korean.
    """
    text = "".join(str(unicodedata.decimal(char, char)) for char in translation)
    # separators of thousands, decimals, hours and minutes differ between languages
    digits = re.sub(r"(?<=\d)\D{1,3}(?=\d)", "", text)
    has_other = not set(re.findall(r"\d+", text)) <= set(re.findall(r"\d+", draft))
    numbers: list[str] = re.findall(r"\d+(?:[.,:]\d+)*", draft)
    for number in numbers:
        value = int(re.sub(r"\D", "", number))
        is_large = value >= 10_000 and language in ("ja", "ko", "zh")
        is_kept = str(value) in digits or is_large or _ROMAN.get(value, "•") in text
        if not is_kept and (value > 12 or has_other):
            return number
    return ""


# ---- names


def _names_in(text: str) -> list[str]:
    """The names in `text`: words in a row with capitals, without words such as "Christmas" and "German". A single word
    at the beginning of a sentence is none, because it has a capital anyway.
    """
    common, phrases = _no_names()
    names: list[str] = []
    name: list[str] = []
    previous = ":"
    for token in [*phrases.sub("•", straight(text)).split(), ""]:
        # the full stop of "Dr." ends no sentence
        is_start = previous[-1:] in ".!?:" and not re.fullmatch(r"[A-Z][a-z]{0,2}\.", previous)
        words = [word for word in words_of(token) if _has_capital(word, is_start) and not _forms(word) & common]
        name += words
        if name and (not words or token[-1] in ".,;:!?)"):
            names.append(" ".join(name))
            name = []
        previous = token
    return names


def _has_capital(word: str, is_start: bool) -> bool:
    """Whether `word` has a capital, at the beginning of a sentence a further one. Single letters are no words."""
    return len(word) > 1 and any(map(str.isupper, word[1:] if is_start else word))


def _forms(word: str) -> set[str]:
    """`word`, case-folded, and its singular."""
    return {word.casefold(), word.casefold().removesuffix("s")}


@cache
def _no_names() -> tuple[frozenset[str], re.Pattern[str]]:
    """English words, and phrases, that have a capital, but name nobody and nothing in particular."""
    judgement = language_table(DRAFT_LANGUAGE).judgement
    assert judgement
    words = frozenset((*judgement.capitals.split(), *judgement.peoples.split()))
    return words | function_words(DRAFT_LANGUAGE), re.compile(rf"\b({'|'.join(judgement.capital_phrases)})\b")


def unknown_name(text: str, known: str) -> str | None:
    """The complaint about the first name in `text`, in English, that is not in `known`.

    Sights count: to a reader, a wrong name is worse than none. A map or a flag shows of which country it is.
    """
    known = _base_letters(known)
    words = {*casefolded_words(known), *(_countries() if _MAP_OR_FLAG.search(text) else ())}
    letters = letters_and_digits(known)
    for name in _names_in(text):
        for word in words_of(_base_letters(name)):
            # words of signs may be read without the spaces between them
            if not _forms(word) & words and not (len(word) > 4 and word.casefold() in letters):
                return f"it named “{name[:60]}”, which is neither noted nor read"
    return None


_MAP_OR_FLAG = re.compile(r"\b(map|flag|globe|atlas)s?\b", re.IGNORECASE)


@cache
def _countries() -> frozenset[str]:
    """The words of the English names of countries and continents."""
    from babel import Locale

    return frozenset(casefolded_words(" ".join(Locale(DRAFT_LANGUAGE).territories.values())))


def _lost_name(draft: str, translation: str, language: str) -> str:
    """A name of `draft` that its translation into `language` does not have, as written, inflected or in another
    spelling, or "".

    The names of places differ between languages, so any other name may stand for it. In German, where all nouns have
    capitals, nothing is known of a single word; nor is it in scripts without capitals.
    """
    if scripts_of(language)[0] not in ("latin", "cyrillic", "greek"):
        return ""
    names, text = _names_in(draft), _base_letters(translation)
    has_fewer = len(_names_in(translation)) < len(names)
    for name in names:
        stems = (_base_letters(word)[: max(3, len(word) // 3)] for word in name.split())
        is_kept = any(re.search(rf"\b{stem}", text) for stem in stems)
        if not is_kept and (" " in name if language == "de" else has_fewer):
            return name
    return ""


def _base_letters(text: str) -> str:
    """`text` in lower case, without the marks of its letters."""
    return "".join(char for char in unicodedata.normalize("NFD", text.lower()) if not unicodedata.combining(char))


# ---- translations

_LETTERS = {"han": 2.8, "kana": 2.2, "hangul": 2.3, "hebrew": 1.25, "arabic": 1.2}
"""The number of Latin letters that say about as much as one letter of a script."""


def _length(text: str) -> float:
    """The number of characters of `text` if it were in Latin letters."""
    counts = letters_by_script(text)
    return len(text) + sum((letters - 1) * counts[script] for script, letters in _LETTERS.items())


def infidelity(draft: str, translation: str, language: str, titles: str = "") -> str | None:
    """What a translation of `draft` into `language` lost, left untranslated or added: a complaint, or None.

    Quotations stay as they are, except for those that are in `titles`, and those of a person's text in a script that
    readers of `language` don't know, such as a Japanese name.
    """
    source = detect_language(draft)
    if len(words_of(draft)) > 3 and letters_and_digits(translation) == letters_and_digits(draft):
        return "it was not translated"
    if number := _lost_number(draft, translation, language):
        return f"it lost or changed the number {number}"
    quoted = [each for each in QUOTED.findall(draft) if source == DRAFT_LANGUAGE or is_readable(each, language)]
    if quotation := missing_quotation(" ".join(quoted), translation, titles):
        return f"it lost or translated the quotation {quotation}"
    # German has capitals in all nouns, Greek in months
    name = _lost_name(QUOTED.sub("•", draft), QUOTED.sub("•", translation), language)
    if name and source not in (None, "de", "el"):
        return f"it lost the name “{name[:60]}”"
    if not 0.6 * _length(draft) < _length(translation) < 1.5 * _length(draft) + 5:
        return "it was much longer or shorter than the text to translate"
    return None
