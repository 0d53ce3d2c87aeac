"""The language of a text, unless it is uncertain.

A script that only one supported language uses determines the language. Texts in Latin and Cyrillic letters are scored
by `ngram_table.py`. The languages in Chinese characters, Devanagari and Arabic letters are distinguished by characters
and words that only one of them uses. An unknown language is better than a wrong one: a text of unknown language is
still used, but a text of a wrong language is published as if it were in the requested one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache

from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.romanise.alphabets import language_of_letters
from imgproc_local.domain.romanise.dictionary import languages_of_han
from imgproc_local.vision.languages import capitalized, language_table
from imgproc_local.vision.text.ngram_table import MAX_CHARS, probabilities
from imgproc_local.vision.text.words import letters_by_script, main_script

_MIN_PROBABILITY = 0.8
"""The minimum probability of a language in Latin or Cyrillic script."""
_LIKELY = 0.5
"""The same for a likely language. Others may be published as texts in a wrong language, these are only quoted."""
_MIN_PROBABILITY_OF_RELATED = {
    "da sv": 0.98, "es pt gl": 0.93, "hr sl sr": 0.93, "id ms": 0.93, "nb nn": 0.93, "cs sk": 0.85, "da nb": 0.8,
    "ca es fr it pt": 0.8, "be bg mk ru sr uk": 0.8,
}  # fmt: skip
"""The same where the next probable language is of the same group: whole sentences may be correct in both."""
_MIN_PROBABILITY_WITH_FUNCTION_WORD = 0.6
"""The same if a function word of the language is none of the next probable language."""
_MIN_PROBABILITY_AMONG_NAMES = 0.93
"""The same if names or words of another language occur in the text."""
_MIN_PROBABILITY_OF_NAMES, _LIKELY_NAME = 0.985, 0.85
"""The same two for up to three words with capitals, which are probably a name, such as "Lisboa Portugal"."""
_NAME_PARTICLE = re.compile("d[aeiou]|del|della|dei|degli|delle|d[aoe]s|l[ae]|l[aeo]s|el|l|d|van|von|der|den|ten|ter")
"""A lower-case word inside names, such as "Plaça de Catalunya"."""
_LANGUAGES_OF_NAMES = frozenset(("ca", "es", "fr", "it", "pt", "ro"))
"""Languages whose ordinary words make up names of places that all languages use, such as "Ponte Vecchio"."""
_MIN_WORDS = 2
"""The minimum number of different words. A single word exists in many languages, and may be a name."""
_MIN_SHARE_OF_SCRIPT = 0.8
"""The share of the letters of a text that must be in one script; the others may be in quoted names."""
_CERTAIN, _PROBABLE = 0.99, 0.9
"""A text is certainly in a language that has at least the first probability. It is in another language if the requested
one has less than 1 − `_CERTAIN` and another one more than `_PROBABLE`."""
_PART_WORDS = 5
"""A part of a text is in another language if this many words in a row are."""

_WORD = re.compile(r"[^\W\d_]++(?:['’ʼ·-][^\W\d_]++)*+")

_RELATED = (("da", "nb", "nn"), ("cs", "sk"), ("hr", "sl"))
"""Languages that share the probability of a short text in one of them."""


_SCORED_SCRIPTS = ("latin", "cyrillic")
"""The scripts that `ngram_table.py` knows."""
_SCRIPTS_OF = {
    "ru": ("cyrillic",), "uk": ("cyrillic",), "bg": ("cyrillic",), "el": ("greek",), "he": ("hebrew",),
    "ar": ("arabic",), "hi": ("devanagari",), "th": ("thai",), "ja": ("kana", "han"), "zh": ("han",),
    "ko": ("hangul", "han"),
}  # fmt: skip
"""The scripts of the languages that do not use Latin."""
_LANGUAGE_OF_SCRIPT = {"hangul": "ko", "thai": "th", "greek": "el", "hebrew": "he"}
"""Scripts that only one supported language uses."""

_CHINESE = re.compile("[你她您呢吧啊哪很喝爸哥孩黑奶跑站躺姐]|(?<![目標])的(?![地中])|[了在是].*[了在是]")
"""Characters that Simplified and Traditional Chinese share, but not Japanese. 了, 在 and 是 also occur in Japanese
words, but hardly twice in a text without kana."""
_MARKS: dict[str, tuple[dict[str, str], ...]] = {
    # Source: the main exemplar characters of CLDR 48
    "arabic": (
        {"ur": "[ٹڈڑےں]"},
        {
            "fa": r"[پچژگ]|[کی](?!\w)|(?<!\w)(در|از|با|است)(?!\w)",
            "ar": r"(?<!\w)[وبلفك]?ال\w|(?<!\w)(في|من|على|مع|إلى|عند|أمام)(?!\w)|[ةأإى]",
        },
    ),
    "devanagari": (
        {
            "mr": r"(?<!\S)(आहे|आहेत|आणि|मध्ये|वर|च्या|माझ्?\S{1,2}|आमच्?\S{1,2})(?![^\s,।.])|ळ|(च्या|तील|ांनी|मध्ये)(?![^\s,।.])",
            "ne": r"(?<!\S)(छ|छन्|मा|गर्दै|भएको|मेरो|हाम्रो)(?![^\s,।.])|हरू|ेको(?![^\s,।.])",
        },
        {
            "hi": r"(?<![^\s,])(है|हैं|का|की|के|में|और|पर|से|ने|वाला|वाली|वाले|मेरा|मेरी|मेरे|हमारा|हमारी|हमारे|अपने|साथ)(?![^\s,।])"
            r"|(?<![^\s,])(हुए|हुई|हुआ|रहे|रही|रहा|यह|लिए)(?![^\s,।])|[डढ]\u093c|ियाँ"
        },
    ),
}
"""Words and letters of the languages of a script. The languages of a group before have the marks of those after it."""


def detect_language(text: str, least: float = _MIN_PROBABILITY) -> str | None:
    """The code of the language of `text`; None if it is uncertain. `least` is the minimum probability.

    The code is ISO 639-1, or "zh-hant" for Traditional Chinese. It may be a language that the service does not support.
    """
    counts = letters_by_script(text)
    min_count = max(2, _MIN_SHARE_OF_SCRIPT * sum(counts.values()))
    if counts["kana"] and counts["kana"] + counts["han"] >= min_count:
        return "ja"
    script, count = max(counts.items(), key=lambda item: item[1])
    if count < min_count:
        return None
    if script in _MARKS:
        return _detect_by_marks(text, script)
    if script == "han":
        return _detect_chinese(text)
    return _detect_by_ngrams(text, script, least) if script in _SCORED_SCRIPTS else _LANGUAGE_OF_SCRIPT.get(script)


@lru_cache(maxsize=256)
def likely_language(text: str) -> str | None:
    """The language of `text`, or of a text of uncertain language the most likely one; None if none is likely."""
    return detect_language(text) or detect_language(text, _LIKELY)


def may_be_in(text: str, language_code: str, *, is_likely: bool = False) -> bool:
    """Whether `text` may be in a language, by its letters; a Latin or Cyrillic one only if no other one is likely.

    With `is_likely`, the language must be the likely one of a Latin or Cyrillic text.
    """
    likely, script = likely_language(text), main_script(text)
    if likely or (is_likely and script in _SCORED_SCRIPTS):
        return likely == language_code
    return language_code in languages_of_han(text) if script == "han" else is_readable(text, language_code)


@cache
def function_words(language_code: str) -> frozenset[str]:
    """The articles, prepositions and similar words of a language; empty for languages without a list."""
    return frozenset(language_table(language_code).function_words.split() if language_code in LANGUAGES else ())


def scripts_of(language_code: str) -> tuple[str, ...]:
    """The names of the scripts of `language_code`."""
    return _SCRIPTS_OF.get(language_code, ("latin",))


def is_readable(text: str, language_code: str) -> bool:
    """Whether all letters of `text` are in Latin, which all readers know, or in a script of `language_code`."""
    found = {script for script, count in letters_by_script(text).items() if count}
    return bool(found) and found <= {"latin", *scripts_of(language_code)}


def is_other_language(words: Sequence[str], language: str) -> bool:
    """Whether `words` are clearly not in `language`, by script, characters or n-grams."""
    scripts = scripts_of(language)
    counts: Counter[str] = Counter()
    for word in words:
        for script, count in letters_by_script(word).items():
            # a Chinese character is a syllable or a word, so a Latin word counts as two characters at most
            counts[script] += min(count, 2) if script == "latin" and language in ("ja", "ko", "zh") else count
    in_script = sum(counts[script] for script in scripts)
    own = [word for word in words if any(letters_by_script(word)[script] for script in scripts)]
    # up to half of the letters may be in another script, as in names, if the other words are in the language
    is_mixed = scripts == ("latin",) and in_script < _MIN_SHARE_OF_SCRIPT * counts.total()
    if in_script < 0.5 * counts.total() or (is_mixed and probability_of(language, own) < _PROBABLE):
        return True
    match language:
        case "ja":
            return counts["han"] >= 8 and not counts["kana"]
        case "ko":
            return counts["han"] > counts["hangul"]
        case "zh":
            return counts["kana"] > 2 or detect_language("".join(words)) == "zh-hant"
        case "ar":
            return sum(bool(re.search("[پچژگکیےٹڈں]", word)) for word in words) > 1  # Persian and Urdu letters
        case "hi":
            return detect_language(" ".join(words)) in ("mr", "ne")
    if scripts[0] not in _SCORED_SCRIPTS or len(words) < _MIN_WORDS:
        return False
    found = probabilities(" ".join(words), scripts[0])
    related = (sum(found.get(code, 0) for code in group) for group in _RELATED)
    rival = max(*(found[code] for code in found if code), *related)
    # small models often answer in English, which is recognised sooner
    is_english = language != "en" and found[language] < 0.2 and found.get("en", 0) > 0.5
    return is_english or (found[language] < 1 - _CERTAIN and rival > _PROBABLE) or _has_rival_part(words, language)


def probability_of(language_code: str, words: Sequence[str]) -> float:
    """The probability (0 to 1) that `words` are in a language; 0 if most of their letters are in another script."""
    script = main_script(" ".join(words))
    is_scored = script in _SCORED_SCRIPTS and script in scripts_of(language_code)
    return probabilities(" ".join(words), script)[language_code] if is_scored else 0.0


def is_name(text: str, text_language: str | None, language: str) -> bool:
    """Whether a text belongs to no language, as a name of several words does, and readers of `language` can read it.

    One word may be a name or not, such as "Sunset", and nothing but a dictionary could tell. `text_language` is the one
    that the text seems to be in. Names have it with a probability of at most 0.1: "Golden Sunset" has 0.18, "Lake
    Garda" 0.03.
    """
    words, own = re.findall(r"\w+", text), text_language or ""
    is_like_name = text[-1].isalnum() and all(word == capitalized(word, language) for word in words)
    has_grammar = bool(function_words(own).intersection(map(str.lower, words)))
    is_of_language = likely_language(text) or probability_of(own, words) > 0.1
    return len(words) > 1 and is_like_name and not (has_grammar or is_of_language) and is_readable(text, language)


def _has_rival_part(words: Sequence[str], language: str) -> bool:
    """Whether `_PART_WORDS` words in a row, with function words among them, are in another language."""
    own = function_words(language)
    for start in range(len(words) - _PART_WORDS + 1):
        part = words[start : start + _PART_WORDS]
        # words with capitals may be names, such as "Plaza de la Constitución"
        if sum(word.islower() for word in part) < _PART_WORDS - 1:
            continue
        for rival in LANGUAGES:
            if sum(word in function_words(rival) and word not in own for word in part) > 1:
                found = probabilities(" ".join(part), scripts_of(language)[0])
                if found[language] < 1 - _CERTAIN and found.get(rival, 0) > _PROBABLE:
                    return True
    return False


def _detect_chinese(text: str) -> str | None:
    """The language of a text in Chinese characters without kana."""
    languages = languages_of_han(text)
    if len(languages) > 1:
        return "zh" if _CHINESE.search(text) else None
    return next(iter(languages), None)


def _detect_by_marks(text: str, script: str) -> str | None:
    """The only language of the first group in `_MARKS` of which `text` has marks."""
    for group in _MARKS[script]:
        found = [code for code, mark in group.items() if re.search(mark, text)]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _detect_by_ngrams(text: str, script: str, least: float) -> str | None:
    """The language of a text in Latin or Cyrillic script; `least` is its minimum probability.

    The names in a text, such as "Café", may be in another language: its other words must not suggest another one.
    """
    text = text[:MAX_CHARS]
    words = _WORD.findall(text.lower() if text.isupper() else text)
    distinct = {word: None for word in words if len(word) > 1}
    if len(distinct) < (_MIN_WORDS if least >= _MIN_PROBABILITY else 1):
        return None
    ordinary = _words_outside_names(words)
    content = [word for word in distinct if not _NAME_PARTICLE.fullmatch(word)]
    may_be_name = len(content) <= 3 and not any(map(str.islower, ordinary))
    found = probabilities(" ".join(distinct if may_be_name else words), script)
    language = max(found, key=lambda code: found[code])
    if may_be_name:
        is_likely = least < _MIN_PROBABILITY and found[language] >= _LIKELY_NAME
        is_certain = language not in _LANGUAGES_OF_NAMES and found[language] >= _MIN_PROBABILITY_OF_NAMES
        return language if language and (is_likely or is_certain) else None
    if 0 < len(ordinary) < len(words):
        without_names = probabilities(" ".join(ordinary), script)
        other, probability = max(without_names.items(), key=lambda item: item[1])
        if other != language:
            is_english = other == "en" and probability >= 0.5 and not function_words("en").isdisjoint(ordinary)
            if is_english or (len(ordinary) > 1 and probability >= _MIN_PROBABILITY_AMONG_NAMES):
                return other or None
            if without_names[language] < 0.2 and function_words(language).isdisjoint(ordinary):
                return None
        found = max(found, without_names, key=lambda each: each[language])
    return language if language and found[language] >= _min_probability(language, found, ordinary, least) else None


def _words_outside_names(words: Sequence[str]) -> list[str]:
    """The lower-case words and the first one, without those that belong to a name with capitals."""
    ordinary: list[str] = []
    is_before_name = False
    for index, word in reversed(tuple(enumerate(words))):
        is_name = is_before_name if index == 0 or _NAME_PARTICLE.fullmatch(word) else word[0].isupper()
        is_before_name = word[0].isupper() or is_name
        if not is_name:
            ordinary.insert(0, word)
    return ordinary


def _min_probability(language: str, found: dict[str, float], ordinary: Sequence[str], least: float) -> float:
    """The minimum probability of `language`, the most probable of `found`; `least` if nothing suggests another one."""
    if len(ordinary) < _MIN_WORDS:
        return _MIN_PROBABILITY_AMONG_NAMES
    if language == language_of_letters(" ".join(ordinary).lower()):
        return min(least, _MIN_PROBABILITY_WITH_FUNCTION_WORD)
    rival = max((code for code in found if code != language), key=lambda code: found[code], default="")
    if rival in LANGUAGES:
        words = {word for word in ordinary if len(word) > 1}
        own, others = (words & function_words(code) for code in (language, rival))
        if others - own:
            return _MIN_PROBABILITY_AMONG_NAMES
        if own - others:
            return min(least, _MIN_PROBABILITY_WITH_FUNCTION_WORD)
    related = (share for group, share in _MIN_PROBABILITY_OF_RELATED.items() if {language, rival} <= {*group.split()})
    return next(related, least)


_LANGUAGE_ALIASES = {"no": "nb", "iw": "he", "in": "id"}
"""Macrolanguage and deprecated codes, with the codes of the supported languages. Source: IANA Language Subtag
Registry."""
_TRADITIONAL_CHINESE = frozenset(("hant", "tw", "hk", "mo"))
"""Subtags that mean Traditional Chinese: its script, and the regions that use it."""


def language_of_tag(tag: str | None) -> str | None:
    """The language code of a BCP 47 tag; None for tags that name no language, such as XMP's x-default.

    Traditional Chinese is "zh-hant", because the supported language "zh" is written in simplified characters.
    """
    if not tag or tag.lower().startswith(("x-", "und", "mul", "zxx")):
        return None
    primary, *others = tag.lower().replace("_", "-").split("-")
    if primary == "zh" and _TRADITIONAL_CHINESE.intersection(others) and "hans" not in others:
        return "zh-hant"
    return _LANGUAGE_ALIASES.get(primary, primary)
